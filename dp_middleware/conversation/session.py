"""Conversations: every message is released once, however often its transcript is sent."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Literal, Self

from dp_middleware import _validate
from dp_middleware.conversation.answers import Answers
from dp_middleware.conversation.boundary import guarded
from dp_middleware.conversation.events import Released, ReleaseMemo, public
from dp_middleware.conversation.exchange import Exchange, Restorers, Tools, checked_tools
from dp_middleware.conversation.memo import Limits, MemoryMemo, WhenFull
from dp_middleware.conversation.memo_file import FileMemo
from dp_middleware.conversation.messages import Message, events_of
from dp_middleware.conversation.names import (
    ONCE as ONCE,
    AnyItem,
    Digests,
    Event,
    Item as Item,
    by_role,
    checked,
)
from dp_middleware.conversation.notebook import Notebook, kept, pointer
from dp_middleware.conversation.releaser import Releaser
from dp_middleware.conversation.saved import Saved, load, save
from dp_middleware.conversation.transcript import Admitted, Unknown, admit, opening
from dp_middleware.conversation.twins import Twins
from dp_middleware.errors import EventRefused, ParameterError
from dp_middleware.privacy.receipts import shared_receipts, write_releases
from dp_middleware.privacy.releases import Release
from dp_middleware.sanitizers.sanitizer import Sanitizer
from dp_middleware.sanitizers.spans import PART, Detector, parts_of_message

MONTH = 30 * 24 * 3600.0
"""Seconds."""


class Session(Answers, Twins):
    """Releases the messages of conversations: one release and one charge per event.

    An event is a message of a transcript, known by its id. Seen again with the same text and
    role, it is answered from the memo and costs nothing. With another text it is drawn and charged
    for anew, and *that* it changed is public. Under a new id an old
    text is a new release: looked up by content, equal outputs would reveal equal inputs.

    What a remote model answered is public: after :meth:`note_remote` its event is answered with
    just that, whatever the transcript shows in its place, as no mechanism has protected an answer
    that was extracted locally. An assistant's message that is no known remote answer is refused:
    even perturbed it would have no guarantee, since one private token may have changed all of it.

    Safe for threads; a memo in a file is for processes too. A crash may waste a charge, but never
    a release escapes the ledger: charge, draw, store, return.

    Args:
        sanitizer: Charges and draws.
        memo: An SQLite file, not the ledger's, that keeps releases over restarts, and with them
            what a scope declared public, but no raw private text; default: memory.
        key: 32 bytes or more that key the digests of ids and raw texts; needed with a memo file
            and never written: keep it elsewhere. Default: a fresh one.
        capacity: Largest number of entries; a private event counts as two.
        expires: Seconds after which an entry is dropped; ``inf`` for never. A dropped event that
            is seen again is a new release and a new charge.
        when_full: ``"forget"`` drops the oldest entry, ``"refuse"`` raises.
        clock: Seconds since the epoch.
        subjects: ``"many"`` lets the config of a LangChain call name its subject, who is charged:
            then it must not come from users; :meth:`for_subject` needs no such leave.
        scope: What is private in a private message: a function that finds its spans, or one per
            role; a role without one is released whole, and so is everything by default.
            **What it declares public goes out as it is**. A message in the memo is answered
            from there, whatever the scope.

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
        when_full: WhenFull = "forget",
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
        self.subjects = subjects
        limits = Limits(capacity=capacity, expires=expires, when_full=when_full, clock=clock)
        self._scopes = by_role(scope)
        if memo is not None and key is None:
            raise ParameterError("expected key= with a memo file, 32 bytes kept in another place")
        self.sanitizer = sanitizer
        self._digests = digests = Digests(key)
        entries: MemoryMemo | FileMemo = MemoryMemo()
        if memo is not None:
            entries = FileMemo(memo, digests.of, sanitizer.ledger)
        self._memo = ReleaseMemo(entries, limits, digests)
        self._warned = set[str]()  # tools that are called with pseudonyms
        self._begin()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.sanitizer!r}, {self._memo!r})"

    @property
    def scopes(self) -> Mapping[str, Detector]:
        """What is private in a message, by role; a role without one is released whole."""
        return self._scopes

    def release(self, event_id: str, role: str, text: str, *, conversation: str = "") -> Release:
        """What goes out for a message.

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
        """What goes out for a transcript, message by message.

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
        admitted = admit(self._memo, self._digests, within, items, unknown)
        released = [each.release for each in self._released(admitted, within)]
        write_releases([(m.public is None, r) for m, r in zip(admitted, released, strict=True)])
        return released

    def exchange(
        self,
        transcript: Sequence[Message],
        *,
        conversation: str | None = None,
        unknown: Unknown = "refuse",
        tools: Tools = (),
        after: str | None = None,
        whose: str = "",
        saved: Mapping[str, Saved] | None = None,
        quoted: Iterable[str] = (),
    ) -> Exchange:
        """Releases a transcript, and prepares the way back of its answer; for adapters.

        Without a name a transcript goes on in the conversation that began as it begins, or whose
        answers stand in it; messages that never come again are a conversation of their own.

        Args:
            transcript: Private: all messages from the conversation's beginning, and what stands
                aside of them.
            conversation: Its public name, if it has one.
            unknown: As of :meth:`release_many`.
            tools: Which tools are called with the originals of pseudonyms: their names, or
                ``"all"``.
            after: The reference of the exchange that this one goes on from, in its conversation,
                where the transcript does not repeat it; see :meth:`Exchange.keep`.
            whose: Public: callers that differ in it go on in no conversation of each other.
            saved: What earlier exchanges had as their :attr:`Exchange.saved`, maybe in another
                process with the same key: it is sent again.
            quoted: Public: what was released in this conversation before and stands in the request,
                as passages that were retrieved do.

        Raises:
            EventRefused: As :meth:`release_many`, or for another reference; before anything is
                charged.
            DPMiddlewareError: The release failed; nothing may be sent. Holds no text.
        """
        whose = f"{self.sanitizer.subject or ''}\x1f{whose}"
        place = (conversation or None, after, whose)
        named = checked_tools(tools)
        return guarded(self._exchange, transcript, place, unknown, named, saved, quoted)

    def exchanges(
        self,
        transcripts: Sequence[Sequence[Message]],
        *,
        conversation: str | None = None,
        unknown: Unknown = "refuse",
        tools: Tools = (),
    ) -> list[Exchange]:
        """As :meth:`exchange`, for several transcripts, all of which are looked at first."""
        options: Any = {"conversation": conversation, "unknown": unknown}
        if len(transcripts) > 1:
            for transcript in transcripts:
                guarded(self._require, events_of(transcript), conversation or None, unknown)
        return [self.exchange(each, tools=tools, **options) for each in transcripts]

    async def aexchange(self, transcript: Sequence[Message], **options: Any) -> Exchange:
        """As :meth:`exchange`, without blocking the event loop."""
        return await asyncio.to_thread(self.exchange, transcript, **options)

    def _exchange(
        self,
        transcript: Sequence[Message],
        place: tuple[str | None, str | None, str],
        unknown: Unknown,
        tools: Tools,
        saved: Mapping[str, Saved] | None,
        quoted: Iterable[str],
    ) -> Exchange:
        events, (conversation, after, whose) = events_of(transcript), place
        used, session = set[str](), self
        if after is not None:
            name, before = kept(self._memo, self._digests, whose, after)
            used |= before
        elif conversation is None:
            name, session = self._found(events, whose)
        else:
            name = conversation
        within, by_hand = session._conversation(name), session._by_hand(conversation)
        if saved is not None:
            rows = load(
                self._digests, within, events, saved, self._settings, restores=self.restores
            )
            self._memo.adopt(rows)
        admitted = admit(self._memo, self._digests, within, events, unknown, by_hand)
        with shared_receipts() as receipt:
            released = session._released(admitted, within)
            write_releases(
                [(m.public is None, r.release) for m, r in zip(admitted, released, strict=True)]
            )
        texts = (each.release.text for each in released)
        sent = tuple(m if m.public else _copy(m, next(texts)) for m in transcript)
        notebook = Notebook(
            memo=self._memo,
            digests=self._digests,
            within=within,
            name=name,
            named=conversation is not None,
            whose=whose,
        )
        used.update(session._used(within, admitted, released, quoted))
        told = [  # by the user: what a tool has found names no host
            text
            for event, each in zip(events, released, strict=True)
            if event.role in ("user", "system")
            for text in (event.text, each.release.text)
        ]
        restorers = session._restorers(within, used, told)
        return Exchange(
            sent=sent,
            releases=tuple(each.release for each in released),
            receipt=receipt,
            conversation=name,
            _events=tuple(events),
            _notebook=notebook,
            _restorers=restorers,
            _tools=tools,
            _warned=self._warned,
            _used=tuple(used),
            saved={} if saved is None else save(self._digests, admitted, released, self._settings),
        )

    def _require(self, events: Sequence[Event], conversation: str | None, unknown: Unknown) -> None:
        """Raises where a transcript would be refused."""
        whose = f"{self.sanitizer.subject or ''}\x1f"
        name = conversation or self._found(events, whose)[0]
        within, by_hand = self._conversation(name), self._by_hand(conversation)
        admit(self._memo, self._digests, within, events, unknown, by_hand)

    def _by_hand(self, conversation: str | None) -> bytes | None:
        """Where answers were noted without a conversation's name, for those that have none."""
        return self._conversation("") if conversation is None else None

    def _found(self, events: Sequence[Event], whose: str) -> tuple[str, Self]:
        """The name of a conversation without one, and the session that has its pseudonyms."""
        if all(event.id is ONCE or event.aside for event in events):
            return "", self.alone()
        digests = self._digests
        begun = f"opening {digests.of('opening', whose, *opening(events)).hex()}"
        answers = [event.text for event in events if event.role == "assistant"]
        if answers:
            first = digests.names(self._conversation(begun), events)[0]
            if not self._memo.knows(digests.private(first)):
                pointers = [pointer(digests, whose, words) for words in reversed(answers)]
                led = (led for led in self._memo.answers(pointers) if led is not None)
                begun = next(led, begun)
        return begun, self

    def _released(self, admitted: Sequence[Admitted], within: bytes) -> list[Released]:
        """What goes out for the messages; another mechanism makes every event a new one."""
        settings, releaser = self._settings, self._releaser(within)
        return [self._release(message, settings, releaser) for message in admitted]

    @property
    def _settings(self) -> str:
        own = self.sanitizer.certificate
        return f"{own.mechanism}/{own.space}/{own.adjacency.fingerprint}"

    def _used(
        self,
        within: bytes,
        admitted: Sequence[Admitted],
        released: Sequence[Released],
        quoted: Iterable[str],
    ) -> Iterable[str]:
        """Pseudonyms that stand for values of this very transcript."""
        return ()

    def _restorers(
        self, within: bytes, used: Collection[str], told: Iterable[str]
    ) -> Restorers | None:
        """What makes restorers of these pseudonyms."""
        return None

    def check(self, items: Iterable[AnyItem], *, conversation: str = "") -> None:
        """Raise where :meth:`release_many` would refuse a transcript; charges nothing.

        Raises:
            EventRefused: As there.
        """
        admit(self._memo, self._digests, self._conversation(conversation), items, "refuse")

    def _release(self, message: Admitted, settings: str, releaser: Releaser) -> Released:
        event_id, role, text, _ = message.event
        if message.public is not None:
            return Released(public(*message.public, self.sanitizer))
        scope = self._scopes.get(role)
        if PART in text and scope is None and not self.restores:
            if self.sanitizer.certificate.unit == "text":
                text = text.replace(PART, "\n")
            else:
                scope = parts_of_message
        if event_id is ONCE:
            return self._memo.release_once(text, releaser, scope)
        event = self._digests.event(message.name, settings)
        return self._memo.release(event, role, text, releaser, scope)

    def _releaser(self, within: bytes) -> Releaser:
        """Returns what releases the texts of a conversation."""
        return self.sanitizer

    def release_once(self, role: str, text: str, *, conversation: str = "") -> Release:
        """What goes out for a text that will never come again; kept in no memo.

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

    async def arelease(
        self, event_id: str, role: str, text: str, *, conversation: str = ""
    ) -> Release:
        """As :meth:`release`, without blocking the event loop."""
        return await asyncio.to_thread(
            self.release, event_id, role, text, conversation=conversation
        )

    async def arelease_many(
        self, items: Iterable[AnyItem], *, conversation: str = "", unknown: Unknown = "refuse"
    ) -> list[Release]:
        """As :meth:`release_many`, without blocking the event loop."""
        return await asyncio.to_thread(
            self.release_many, items, conversation=conversation, unknown=unknown
        )

    async def arelease_once(self, role: str, text: str, *, conversation: str = "") -> Release:
        """As :meth:`release_once`, without blocking the event loop."""
        return await asyncio.to_thread(self.release_once, role, text, conversation=conversation)


def _copy(message: Message, text: str) -> Message:
    try:
        return message.released(text)
    except ValueError:
        copy = None
    if copy is None:
        raise ParameterError("expected an assistant's message that can be released, got another")
    return copy


def session_of(releaser: object) -> Session:
    """The session of an adapter: the one that it is made with, or a new one of a sanitizer.

    Pseudonyms make their own.

    Raises:
        ParameterError: Neither of the two.
    """
    if isinstance(releaser, Session):
        return releaser
    if isinstance(releaser, Sanitizer):
        return Session(releaser)
    make: Any = getattr(releaser, "session", None)
    if callable(make) and isinstance(own := make(), Session):
        return own
    raise ParameterError(f"expected a dp.Session or a dp.Sanitizer, got {type(releaser).__name__}")
