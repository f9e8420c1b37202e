"""Requests of conversations: each event is released once, however often its transcript is sent."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any, Self

from dp_middleware.conversation.exchange import Exchange, Restorers, Tools
from dp_middleware.conversation.memo import Released, ReleaseMemo, Releaser
from dp_middleware.conversation.messages import ONCE, Event, Message
from dp_middleware.conversation.notebook import Admitted, Digests, Notebook, Origin, Unknown
from dp_middleware.errors import ParameterError, without_text
from dp_middleware.privacy import Certificate, PureDP
from dp_middleware.privacy.releases import Release, shared_receipts, write_releases
from dp_middleware.sanitizers.sanitizer import Sanitizer
from dp_middleware.sanitizers.spans import PART, Detector, parts_of_message

# of a transcript: its conversation's name, a reference, and whose it is
Place = tuple[str | None, str | None, str]
_ASSUMPTIONS: dict[Origin, str] = {
    "remote-answer": "written by the remote model, which saw released texts only",
    "declared-public": "declared public by the caller; nothing was checked",
}


class Events:
    """What releases the events of transcripts, and answers those from its memo that it knows."""

    sanitizer: Sanitizer
    restores: bool = False  # whether what the user is shown of a remote answer differs from it
    _first: Self
    _at: dict[float, Self]
    _memo: ReleaseMemo
    _digests: Digests
    scopes: Mapping[str, Detector]  # what is private in a message, by role; else all is
    _warned: set[str]  # tools that are called with pseudonyms

    def exchange(
        self,
        transcript: Sequence[Message],
        *,
        conversation: str | None = None,
        unknown: Unknown = "refuse",
        tools: Tools = (),
        after: str | None = None,
        whose: str = "",
        quoted: Iterable[str] = (),
    ) -> Exchange:
        """Releases a transcript, and prepares the way back of its answer; for adapters.

        Without a name a transcript goes on in the conversation that began as it begins, or whose
        answers stand in it; messages that never come again are a conversation of their own.

        Args:
            transcript: Private: all messages from the beginning, and what stands aside of them.
            conversation: Its public name, if it has one.
            unknown: As of :meth:`release_many`.
            tools: Tools that are called with the originals of pseudonyms, or ``"all"``.
            after: The reference of the exchange that this one goes on from, as it was kept.
            whose: Public: callers that differ in it go on in no conversation of each other.
            quoted: Public: passages that were released in this conversation before.
        """
        place, names = (conversation or None, after, whose), checked_tools(tools)
        try:  # as `guarded` does, in fewer files
            events = [message.event for message in transcript if not message.public]
            notebook, session, admitted = self._admit(events, place, unknown)
            with shared_receipts() as receipt:
                released = session._released(admitted, notebook.within)
            restorers, used = session._way_back(notebook, admitted, released, quoted)
            texts = (event.release.text for event in released)
            return Exchange(
                sent=tuple(m if m.public else m.released(next(texts)) for m in transcript),
                releases=tuple(event.release for event in released),
                receipt=receipt,
                conversation=notebook.name,
                _events=tuple(events),
                _notebook=notebook,
                _restorers=restorers,
                _tools=names,
                _warned=self._warned,
                _used=used,
            )
        except Exception as error:
            failure = without_text(error)
        raise failure.with_traceback(None)

    async def aexchange(self, transcript: Sequence[Message], **options: Any) -> Exchange:
        """Does as :meth:`exchange`, without blocking the event loop."""
        return await asyncio.to_thread(self.exchange, transcript, **options)

    def _admit(
        self, events: Sequence[Event], place: Place, unknown: Unknown
    ) -> tuple[Notebook, Self, list[Admitted]]:
        """Admits a transcript to its conversation, which belongs to a session, or raises."""
        (name, after, whose), session = place, self
        whose = f"{self.sanitizer.subject or ''}\x1f{whose}"
        named, used = name is not None, frozenset[str]()
        notebook = replace(self._notebook(b""), whose=whose, named=named)
        if after is not None:
            name, used = notebook.kept(after)
        elif name is None and all(event.id is ONCE or event.aside for event in events):
            name, session = "", self.alone()
        elif name is None:
            name = notebook.begun(events, self._conversation)
        within = session._conversation(name)
        notebook = replace(notebook, name=name, within=within, used=used)
        by_hand = None if named else partial(session._conversation, "")
        return notebook, session, notebook.admit(events, unknown, by_hand)

    def _way_back(
        self,
        notebook: Notebook,
        admitted: Sequence[Admitted],
        released: Sequence[Released],
        quoted: Iterable[str],
    ) -> tuple[Restorers | None, tuple[str, ...]]:
        """What restores an answer, and the pseudonyms that stand for values of this transcript."""
        return None, tuple(notebook.used)

    def _released(self, admitted: Sequence[Admitted], within: bytes) -> list[Released]:
        """What goes out for the messages; another mechanism makes every event a new one."""
        releaser, settings = self._releaser(within), cache(self._settings)
        released = [self._release(message, settings, releaser) for message in admitted]
        write_releases(
            [(m.public is None, r.release) for m, r in zip(admitted, released, strict=True)]
        )
        return released

    def _settings(self) -> str:
        own = self.sanitizer.certificate
        return f"{own.mechanism}/{own.space}/{own.adjacency.fingerprint}"

    def _release(
        self, message: Admitted, settings: Callable[[], str], releaser: Releaser
    ) -> Released:
        (event_id, role, text, _), public = message.event, message.public
        if public and not (self.restores and public[1] == "declared-public"):  # it has originals
            return Released(_public(*public, releaser))
        scope = self.scopes.get(role)
        if PART in text and scope is None and not self.restores:
            if self.sanitizer.certificate.unit in ("text", "sentence"):
                text = text.replace(PART, "\n")
            else:
                scope = parts_of_message
        if event_id is ONCE:
            return self._memo.release_once(text, releaser, scope)
        event = self._digests.event(message.name, settings())
        digest = self._digests.of("text", event.released, role, message.event.text)
        return self._memo.release(event, digest, text, releaser, scope)

    def _releaser(self, within: bytes) -> Releaser:
        """Returns what releases the texts of a conversation."""
        return self.sanitizer

    def _conversation(self, name: str) -> bytes:
        """The keyed name of a conversation, as long as what is known of it is there."""
        return self._digests.of("conversation", self.sanitizer.subject or "", name)

    def _notebook(self, within: bytes) -> Notebook:
        return Notebook(memo=self._memo, digests=self._digests, within=within)

    def alone(self) -> Self:
        """Returns the same session for texts of no conversation, whose pseudonyms nobody keeps."""
        return self

    def _begin(self) -> Self:
        """The first session of its subject, from which those at other epsilons are made."""
        self._first, self._at = self, {}  # the latest last
        return self

    def _with(self, sanitizer: Sanitizer) -> Self:
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__, sanitizer=sanitizer)
        return twin


def _public(text: str, origin: Origin, releaser: Releaser) -> Release:
    """What goes out as it is: of the private texts at most a function of what was released."""
    tokens = releaser.count(text)
    certificate = Certificate(
        guarantee=PureDP(epsilon=0.0),
        adjacency=releaser.certificate.adjacency,
        method="proof",
        assumptions=(_ASSUMPTIONS[origin],),
        claimed=0.0,
        epsilon=0.0,
        mechanism=origin,
        space=releaser.certificate.space,
    )
    return Release(text=text, certificate=certificate, tokens_total=tokens, tokens_verbatim=tokens)


def checked_tools(tools: Any) -> Tools:
    """Returns the names of tools; raises ParameterError for one text, or no texts."""
    return "all" if tools == "all" else frozenset(public_texts(tools, "tools"))


def with_outputs(tools: Tools, names: Iterable[str]) -> Tools:
    """Adds forms of answers, which are no tools but shown, to those that get originals."""
    return "all" if tools == "all" else {*tools, *names}


def public_texts(texts: Collection[str], name: str) -> tuple[str, ...]:
    """Returns texts that are public; raises ParameterError for one text, or no texts."""
    if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
        raise ParameterError(f"expected {name}=['...'], a collection of texts")
    return tuple(texts)


def checked_epsilon(value: object, name: str = "epsilon") -> float:
    """Returns an epsilon in nats, or raises ParameterError; an int may be too large for a float."""
    is_flag = isinstance(value, bool)
    if not is_flag and isinstance(value, int | float) and 0 < value <= sys.float_info.max:
        return float(value)
    shown = value if isinstance(value, float | bool) else type(value).__name__
    raise ParameterError(f"expected {name} > 0 and finite, got {shown}")
