"""Events of conversations: each is released once, however often its transcript is sent."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dp_middleware.conversation.memo import ReleaseMemo
from dp_middleware.conversation.messages import ONCE, AnyItem, checked
from dp_middleware.conversation.notebook import Admitted, Digests, Notebook, Origin, Unknown
from dp_middleware.conversation.releaser import Released, Releaser
from dp_middleware.conversation.twins import Twins
from dp_middleware.errors import EventRefused, ParameterError
from dp_middleware.privacy import Certificate, PureDP
from dp_middleware.privacy.releases import Release, write_releases
from dp_middleware.sanitizers.spans import PART, Detector, parts_of_message

_ASSUMPTIONS: dict[Origin, str] = {
    "remote-answer": "written by the remote model, which saw released texts only",
    "declared-public": "declared public by the caller; nothing was checked",
}


class Events(Twins):
    """What releases events, and answers those from its memo that it knows."""

    restores: bool = False
    """Whether what the user is shown of a remote answer differs from it."""
    _memo: ReleaseMemo
    _digests: Digests
    _scopes: Mapping[str, Detector]

    @property
    def scopes(self) -> Mapping[str, Detector]:
        """What is private in a message, by role; a role without one is released whole."""
        return self._scopes

    def restore(self, text: str, *, conversation: str = "") -> str:
        """Returns what the user is shown of a remote answer: here just that.

        A session with pseudonyms puts the originals in their place; see :class:`Pseudonyms`.
        """
        return text

    def release(self, event_id: str, role: str, text: str, *, conversation: str = "") -> Release:
        """Returns what goes out for a message.

        Args:
            event_id: Identifies the message in its conversation; the same whenever it is sent
                again.
            role: ``"user"``, ``"system"``, ``"tool"``: private; ``"assistant"``: from the remote
                model.
            text: Private, as is every text but a noted one.
            conversation: Its name, needed where two conversations may have equal ids: one message
                would be taken for an edited version of the other.

        Raises:
            EventRefused: An assistant's text that was not noted, a noted event with another
                role, or a full memo.
            BudgetExhausted: From the ledger; nothing was drawn.
            DPMiddlewareError: As :meth:`Sanitizer.release`.
        """
        if not event_id:
            raise ParameterError("expected an event id; use release_many for a transcript without")
        return self.release_many([(event_id, role, text)], conversation=conversation)[0]

    def release_many(
        self, items: Iterable[AnyItem], *, conversation: str = "", unknown: Unknown = "refuse"
    ) -> list[Release]:
        """Returns what goes out for a transcript, message by message.

        Args:
            items: ``(event_id, role, text)`` each, or messages as chat clients keep them, such as
                ``{"role": "user", "content": text}``, of which other keys are never sent. Instead
                of ``None`` for an id, or none at all, stands a keyed digest of the transcript up to
                and with the message: then the transcript must start at the conversation's
                beginning, and a change makes all messages from there on new ones. :data:`ONCE` is
                for texts as of :meth:`release_once`.
            conversation: Its name; two without ids that begin with the same texts under the same
                name begin with the same releases.
            unknown: What happens to an assistant's text that was not noted: ``"refuse"``, or
                ``"pass"``, which **declares it public**: it goes out as it is, certified as such;
                or a function from such a text to whether it passes.

        Raises:
            EventRefused: As :meth:`release`, before anything is charged.
            DPMiddlewareError: As :meth:`release`. What was released before an error stays in the
                memo.
        """
        within = self._conversation(conversation)
        admitted = self._notebook(within).admit(items, unknown)
        return [event.release for event in self._released(admitted, within)]

    def release_once(self, role: str, text: str, *, conversation: str = "") -> Release:
        """Returns what goes out for a text that will never come again; kept in no memo.

        Args:
            role: A private one, ``"user"``, ``"system"`` or ``"tool"``; says which scope.
            text: Private. Whenever it comes again, it is a new release and a new charge.
            conversation: Its name, which matters to a session with pseudonyms.

        Raises:
            EventRefused: An assistant's text.
            BudgetExhausted: From the ledger; nothing was drawn.
            DPMiddlewareError: As :meth:`Sanitizer.release`.
        """
        checked((ONCE, role, text))
        if role == "assistant":
            raise EventRefused("expected a private role for a text without an event, got assistant")
        releaser = self._releaser(self._conversation(conversation))
        return self._memo.release_once(text, releaser, self._scopes.get(role)).release

    def check(self, items: Iterable[AnyItem], *, conversation: str = "") -> None:
        """Raises EventRefused where :meth:`release_many` would; charges nothing."""
        self._notebook(self._conversation(conversation)).admit(items, "refuse")

    async def arelease(self, event_id: str, role: str, text: str, **options: Any) -> Release:
        """Does as :meth:`release`, without blocking the event loop."""
        return await asyncio.to_thread(self.release, event_id, role, text, **options)

    async def arelease_many(self, items: Iterable[AnyItem], **options: Any) -> list[Release]:
        """Does as :meth:`release_many`, without blocking the event loop."""
        return await asyncio.to_thread(self.release_many, items, **options)

    async def arelease_once(self, role: str, text: str, **options: Any) -> Release:
        """Does as :meth:`release_once`, without blocking the event loop."""
        return await asyncio.to_thread(self.release_once, role, text, **options)

    def note_remote(
        self,
        event_id: str | None,
        text: str,
        *,
        conversation: str = "",
        transcript: Iterable[AnyItem] | None = None,
    ) -> None:
        """Tells the session what the remote model answered; it may then go out again.

        Args:
            event_id: The id that the answer will have in the transcript, by which alone it is
                known. ``None``: it has none and is known by its public text, or by what
                :meth:`restore` makes of that. Then any assistant's message without an id that has
                just these words goes out, also one that was extracted locally: where both may say
                "yes", give ids or ``transcript``.
            text: The remote model's own words: ``Answer.remote_text``, never ``Answer.text``.
            conversation: As for :meth:`release`.
            transcript: Private, as of :meth:`release_many`: the messages up to and with the one
                that stands for this answer, such as an extracted one, and that has no id. It is
                then known by its place behind these messages.

        Raises:
            EventRefused: The event was released as a private one, or the memo is full.
            ParameterError: A transcript that does not end with an assistant's message without id.
        """
        checked((event_id, "assistant", text))
        notebook = self._notebook(self._conversation(conversation))
        if transcript is not None:
            notebook.note_place(transcript, text)
        elif event_id is not None:
            notebook.note_id(event_id, text)
        else:
            notebook.note_words((text, self.restore(text, conversation=conversation)), text)

    def digest(self, *parts: str) -> str:
        """Returns a mark by which texts are known again, for what is kept outside of the memo.

        It is keyed: without the session's key it tells nothing, and another process has the same
        only with the same ``key=``, another subject never.

        Args:
            parts: Private or public; their lengths count.

        Returns:
            64 hexadecimal digits.
        """
        return self._digests.of("mark", self.sanitizer.subject or "", *parts).hex()

    def _released(self, admitted: Sequence[Admitted], within: bytes) -> list[Released]:
        """What goes out for the messages; another mechanism makes every event a new one."""
        settings, releaser = self._settings(), self._releaser(within)
        released = [self._release(message, settings, releaser) for message in admitted]
        write_releases(
            [(m.public is None, r.release) for m, r in zip(admitted, released, strict=True)]
        )
        return released

    def _settings(self) -> str:
        own = self.sanitizer.certificate
        return f"{own.mechanism}/{own.space}/{own.adjacency.fingerprint}"

    def _release(self, message: Admitted, settings: str, releaser: Releaser) -> Released:
        event_id, role, text, _ = message.event
        if message.public is not None and not (
            self.restores and message.public[1] == "declared-public"  # with originals, maybe
        ):
            return Released(_public(*message.public, self.sanitizer))
        scope = self._scopes.get(role)
        if PART in text and scope is None and not self.restores:
            if self.sanitizer.certificate.unit in ("text", "sentence"):
                text = text.replace(PART, "\n")
            else:
                scope = parts_of_message
        if event_id is ONCE:
            return self._memo.release_once(text, releaser, scope)
        event = self._digests.event(message.name, settings)
        digest = self._digests.of("text", event.released, role, message.event.text)
        return self._memo.release(event, digest, text, releaser, scope)

    def _releaser(self, within: bytes) -> Releaser:
        """Returns what releases the texts of a conversation."""
        return self.sanitizer

    def _conversation(self, name: str) -> bytes:
        return self._digests.of("conversation", self.sanitizer.subject or "", name)

    def _notebook(self, within: bytes) -> Notebook:
        return Notebook(memo=self._memo, digests=self._digests, within=within)


def _public(text: str, origin: Origin, releaser: Releaser) -> Release:
    """What goes out as it is: of the private texts at most a function of what was released."""
    tokens, own = releaser.count(text), releaser.certificate
    certificate = Certificate(
        guarantee=PureDP(epsilon=0.0),
        adjacency=own.adjacency,
        method="proof",
        assumptions=(_ASSUMPTIONS[origin],),
        claimed=0.0,
        epsilon=0.0,
        mechanism=origin,
        space=own.space,
    )
    return Release(text=text, certificate=certificate, tokens_total=tokens, tokens_verbatim=tokens)
