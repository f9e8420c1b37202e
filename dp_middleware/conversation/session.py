"""Conversations: what goes out for a request, and what is known of its answer."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal, NoReturn, Self

from dp_middleware import _validate
from dp_middleware.conversation.events import Events
from dp_middleware.conversation.memo import Entries, ReleaseMemo
from dp_middleware.conversation.memo_file import FileMemo
from dp_middleware.conversation.messages import ONCE as ONCE, AnyItem, by_role, checked
from dp_middleware.conversation.notebook import Digests, Unknown
from dp_middleware.errors import NotPrepared, ParameterError
from dp_middleware.privacy.releases import Release
from dp_middleware.sanitizers.sanitizer import Sanitizer
from dp_middleware.sanitizers.spans import Detector

MONTH = 30 * 24 * 3600.0  # seconds
_SAME = 1e-9  # nats
_TWINS = 32  # sessions at other epsilons that are kept: calibrating them is slow


class Session(Events):
    """Releases the messages of conversations: one release and one charge per event.

    An event is a message of a transcript, known by its id. Seen again with the same text and role,
    it is answered from the memo and costs nothing. With another text it is a new release, and
    *that* it changed is public. Under a new id an old text is a new release: looked up by content,
    equal outputs would reveal equal inputs.

    What a remote model answered is public: after :meth:`note_remote` its event is answered with
    just that, whatever the transcript shows in its place. An assistant's message that is no known
    remote answer is refused: one private token may have changed all of it, perturbed or not.

    Safe for threads; a memo in a file is for processes too. A crash may waste a charge, but never
    a release escapes the ledger: charge, draw, store, return.

    Args:
        sanitizer: Charges and draws.
        memo: An SQLite file, not the ledger's, that keeps releases over restarts, and with them
            what a scope declared public, but no raw private text; default: memory.
        key: 32 bytes or more that key the digests of ids and raw texts; needed with a memo file
            and never written: keep it elsewhere. Default: a fresh one.
        capacity: Largest number of entries, of which the oldest is dropped; a private event
            counts as two.
        expires: Seconds after which an entry is dropped; ``inf`` for never. A dropped event that
            is seen again is a new release and a new charge.
        clock: Seconds since the epoch.
        subjects: ``"many"`` lets the config of a LangChain call name its subject, who is charged:
            then it must not come from users; :meth:`for_subject` needs no such leave.
        scope: Finds the private spans of a private message; a function, or one per role, without
            which a role is released whole. **What it declares public goes out as it is**.

    Raises:
        ParameterError: A parameter out of range, a memo in the ledger's file, or one that was
            written with another key.
    """

    def __init__(
        self,
        sanitizer: Sanitizer,
        *,
        memo: str | os.PathLike[str] | None = None,
        key: bytes | None = None,
        capacity: int = 100_000,
        expires: float = MONTH,
        clock: Callable[[], float] = time.time,
        scope: Detector | Mapping[str, Detector] | None = None,
        subjects: Literal["one", "many"] = "one",
    ) -> None:
        if type(self) is Session and not isinstance(sanitizer, Sanitizer):
            raise ParameterError(
                f"expected a dp.Sanitizer, got {type(sanitizer).__name__}; pseudonyms have a "
                "session of their own: pseudonyms.session()"
            )
        _validate.one_of(("one", "many"), subjects=subjects)
        if memo is not None and key is None:
            raise ParameterError("expected key= with a memo file, 32 bytes kept in another place")
        self.sanitizer, self.subjects = sanitizer, subjects
        self.scopes: Mapping[str, Detector] = by_role(scope)
        self._digests = digests = Digests(key)
        self._memo = ReleaseMemo(
            Entries() if memo is None else FileMemo(memo, digests.of, sanitizer.ledger),
            capacity=capacity,
            expires=expires,
            clock=clock,
        )
        self._warned = set[str]()  # tools that are called with pseudonyms
        self._begin()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.sanitizer!r}, {self._memo!r})"

    def __getstate__(self) -> NoReturn:
        raise TypeError("expected a session to stay in its process: it holds a key; make another")

    def restore(self, text: str, *, conversation: str = "") -> str:
        """Returns what the user is shown of a remote answer: here just that; see Pseudonyms."""
        return text

    def release(self, event_id: str, role: str, text: str, *, conversation: str = "") -> Release:
        """Returns what goes out for a message.

        Args:
            event_id: The same whenever the message is sent again in its conversation.
            role: ``"user"``, ``"system"``, ``"tool"``; ``"assistant"``: the remote model's.
            text: Private, as is every text but a noted one.
            conversation: Its name, needed where two conversations may have equal ids.

        Raises:
            EventRefused: An assistant's text that was not noted; a noted event's other role.
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
                ``{"role": "user", "content": text}``, of which other keys are never sent. One
                without an id, or with ``None``, is known by the transcript up to and with it, which
                must start at the conversation's beginning: a change makes all messages from there
                on new ones. :data:`ONCE` is for texts as of :meth:`release_once`.
            conversation: Its name; under one name equal beginnings without ids have one release.
            unknown: What happens to an assistant's text that was not noted: ``"refuse"``;
                ``"pass"`` **declares it public**, and it goes out as it is; or a function from such
                a text to whether it passes.

        Raises:
            EventRefused: As :meth:`release`, before anything is charged.
            DPMiddlewareError: As :meth:`release`; what was released before stays in the memo.
        """
        within = self._conversation(conversation)
        admitted = self._notebook(within).admit(list(map(checked, items)), unknown)
        return [event.release for event in self._released(admitted, within)]

    def release_once(self, role: str, text: str, *, conversation: str = "") -> Release:
        """Releases as :meth:`release`, a text that never comes again, or else is charged again."""
        return self.release_many([(ONCE, role, text)], conversation=conversation)[0]

    async def arelease(self, event_id: str, role: str, text: str, **options: Any) -> Release:
        """Does as :meth:`release`, without blocking the event loop."""
        return await asyncio.to_thread(self.release, event_id, role, text, **options)

    def note_remote(self, event_id: str | None, text: str, *, conversation: str = "") -> None:
        """Tells the session what the remote model answered; it may then go out again.

        Args:
            event_id: That of the answer in the transcript, by which alone it is known. ``None``: it
                is known by its words, or by what :meth:`restore` makes of them. Then any
                assistant's message without an id that says just this goes out, also an extracted
                one: where both may say "yes", give ids.
            text: The remote model's own words: ``Answer.remote_text``, never ``Answer.text``.
            conversation: As for :meth:`release`.

        Raises:
            EventRefused: The event was released as a private one.
        """
        checked((event_id, "assistant", text))
        notebook = self._notebook(self._conversation(conversation))
        if event_id is not None:
            notebook.note_id(event_id, text)
        else:
            notebook.note_words((text, self.restore(text, conversation=conversation)), text)

    def digest(self, *parts: str) -> str:
        """Returns 64 keyed hexadecimal digits by which this subject's texts are known again."""
        return self._digests.of("mark", self.sanitizer.subject or "", *parts).hex()

    def restore_stream(self, pieces: Iterable[str], *, conversation: str = "") -> Iterator[str]:
        """Does as :meth:`restore`, for an answer in pieces."""
        return iter(pieces)

    def restore_value(self, value: Any, *, conversation: str = "") -> Any:
        """Does as :meth:`restore`, for all strings of nested dicts, lists and tuples."""
        return value

    def at(self, epsilon: float) -> Self:
        """Returns the same session at another epsilon; see :meth:`Sanitizer.at`.

        Memo, key, scope, limits, ledger and noted answers are shared. A private event is another
        one here: a new release and a new charge, worth together the sum of both epsilons. An
        epsilon that is asked for again finds its releases. Safe for threads.

        Args:
            epsilon: Nats per token occurrence, public; one just below may be certified. At its own
                this session is returned.

        Raises:
            CannotCalibrate: The mechanism cannot reach this epsilon.
        """
        _validate.positive(epsilon=epsilon)
        first = self._first
        for session in (self, first):
            if abs(session.sanitizer.certificate.epsilon - epsilon) <= _SAME:
                return session
        twin = first._at.pop(epsilon, None)
        if twin is None:  # two that are made at once share all
            sanitizer, own = first.sanitizer.at(epsilon), first.sanitizer.certificate
            same = sanitizer.certificate.mechanism == own.mechanism
            twin = first if same else first._with(sanitizer)
        first._at[epsilon] = twin
        for old in list(first._at)[:-_TWINS]:
            first._at.pop(old, None)
        return twin

    def prepared_at(self, epsilon: float) -> Self:
        """Does as :meth:`at`, for an epsilon that a call asks for: refused if it takes a search.

        Prepared is what :meth:`at` gave before, what the cache folder or the package has, and
        whatever takes no time.
        """
        own = self._first.sanitizer.certificate.epsilon
        known = {own, self.sanitizer.certificate.epsilon, *self._first._at}
        if epsilon in known or abs(own - epsilon) <= _SAME or self.sanitizer.is_prepared(epsilon):
            return self.at(epsilon)
        raise NotPrepared(
            f"expected an epsilon that is prepared, got {epsilon:g}; this session has "
            f"{', '.join(f'{nats:g}' for nats in sorted(known))}: prepare others when the server "
            f"starts, by session.at({epsilon:g}) or `dp-middleware prepare --epsilon {epsilon:g}`"
        )

    def for_subject(self, subject: str) -> Self:
        """Returns the same session in the name of another subject, whose budget is charged.

        Its public name is told by who is logged in, never by what a user sends. Memo, key, scope
        and limits are shared, events and noted answers are not. Safe for threads.
        """
        sanitizer = self.sanitizer.for_subject(subject)
        return self if subject == self.sanitizer.subject else self._with(sanitizer)._begin()


def session_of(releaser: object) -> Session:
    """The session of an adapter: the one that it is made with, or a new one of what releases."""
    if isinstance(releaser, Session):
        return releaser
    if isinstance(releaser, Sanitizer):
        return Session(releaser)
    make: Any = getattr(releaser, "session", None)  # of pseudonyms
    if callable(make) and isinstance(own := make(), Session):
        return own
    raise ParameterError(f"expected a dp.Session or a dp.Sanitizer, got {type(releaser).__name__}")
