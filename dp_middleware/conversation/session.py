"""Conversations: every message is released once, however often its transcript is sent."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, NoReturn, Self

from dp_middleware import _validate
from dp_middleware.conversation.boundary import guarded
from dp_middleware.conversation.exchange import Exchange, Restorers, Tools, checked_tools
from dp_middleware.conversation.memo import Entries, Limits, ReleaseMemo, WhenFull
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
from dp_middleware.conversation.notebook import Notebook
from dp_middleware.conversation.releaser import Released, Releaser, public
from dp_middleware.conversation.saved import Saved, load, save
from dp_middleware.conversation.transcript import (
    Admitted,
    Unknown,
    admit,
    name_of_last_answer,
)
from dp_middleware.errors import EventRefused, NotPrepared, ParameterError
from dp_middleware.privacy.releases import Release, shared_receipts, write_releases
from dp_middleware.sanitizers.sanitizer import Sanitizer
from dp_middleware.sanitizers.spans import PART, Detector, parts_of_message

MONTH = 30 * 24 * 3600.0
"""Seconds."""

_SAME = 1e-9  # nats
_TWINS = 32  # sessions at other epsilons that are kept: calibrating them is slow

Place = tuple[str | None, str | None, str]
"""Of a transcript: its conversation's name, a reference, and whose it is."""


class Session:
    """Releases the messages of conversations: one release and one charge per event.

    An event is a message of a transcript, known by its id. Seen again with the same text and role,
    it is answered from the memo and costs nothing. With another text it is a new release, and
    *that* it changed is public. Under a new id an old text is a new release: looked up by content,
    equal outputs would reveal equal inputs.

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

    sanitizer: Sanitizer
    restores: bool = False
    """Whether what the user is shown of a remote answer differs from it."""
    _first: Self
    _at: dict[float, Self]

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
        entries = Entries() if memo is None else FileMemo(memo, digests.of, sanitizer.ledger)
        self._memo = ReleaseMemo(entries, limits, digests)
        self._warned = set[str]()  # tools that are called with pseudonyms
        self._begin()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.sanitizer!r}, {self._memo!r})"

    def __getstate__(self) -> NoReturn:
        raise TypeError("expected a session to stay in its process: it holds a key; make another")

    @property
    def scopes(self) -> Mapping[str, Detector]:
        """What is private in a message, by role; a role without one is released whole."""
        return self._scopes

    # releases ------------------------------------------------------------------------------------

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
        admitted = admit(self._memo, self._digests, within, items, unknown)
        return [entry.release for entry in self._released(admitted, within)]

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
        """Raises where :meth:`release_many` would refuse a transcript; charges nothing.

        Raises:
            EventRefused: As there.
        """
        admit(self._memo, self._digests, self._conversation(conversation), items, "refuse")

    async def arelease(
        self, event_id: str, role: str, text: str, *, conversation: str = ""
    ) -> Release:
        """Does as :meth:`release`, without blocking the event loop."""
        return await asyncio.to_thread(
            self.release, event_id, role, text, conversation=conversation
        )

    async def arelease_many(self, items: Iterable[AnyItem], **options: Any) -> list[Release]:
        """Does as :meth:`release_many`, without blocking the event loop."""
        return await asyncio.to_thread(self.release_many, items, **options)

    async def arelease_once(self, role: str, text: str, *, conversation: str = "") -> Release:
        """Does as :meth:`release_once`, without blocking the event loop."""
        return await asyncio.to_thread(self.release_once, role, text, conversation=conversation)

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

    def _conversation(self, name: str) -> bytes:
        return self._digests.of("conversation", self.sanitizer.subject or "", name)

    # requests and their answers ------------------------------------------------------------------

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
        place = (conversation or None, after, whose)
        return guarded(
            self._exchange, transcript, place, unknown, checked_tools(tools), saved, quoted
        )

    def exchanges(
        self,
        transcripts: Sequence[Sequence[Message]],
        *,
        conversation: str | None = None,
        unknown: Unknown = "refuse",
        tools: Tools = (),
    ) -> list[Exchange]:
        """Does as :meth:`exchange` for several transcripts, all of which are looked at first."""
        place = (conversation or None, None, "")
        if len(transcripts) > 1:
            for transcript in transcripts:
                guarded(self._admit, events_of(transcript), place, unknown)
        options: Any = {"conversation": conversation, "unknown": unknown, "tools": tools}
        return [self.exchange(transcript, **options) for transcript in transcripts]

    async def aexchange(self, transcript: Sequence[Message], **options: Any) -> Exchange:
        """Does as :meth:`exchange`, without blocking the event loop."""
        return await asyncio.to_thread(self.exchange, transcript, **options)

    def _exchange(
        self,
        transcript: Sequence[Message],
        place: Place,
        unknown: Unknown,
        tools: Tools,
        saved: Mapping[str, Saved] | None,
        quoted: Iterable[str],
    ) -> Exchange:
        events = events_of(transcript)
        notebook, session, admitted = self._admit(events, place, unknown, saved)
        with shared_receipts() as receipt:
            released = session._released(admitted, notebook.within)
        restorers, used = session._way_back(notebook, admitted, released, quoted)
        texts = (entry.release.text for entry in released)
        return Exchange(
            sent=tuple(m if m.public else _copy(m, next(texts)) for m in transcript),
            releases=tuple(entry.release for entry in released),
            receipt=receipt,
            conversation=notebook.name,
            _events=tuple(events),
            _notebook=notebook,
            _restorers=restorers,
            _tools=tools,
            _warned=self._warned,
            _used=used,
            saved={}
            if saved is None
            else save(self._digests, admitted, released, self._settings()),
        )

    def _admit(
        self,
        events: Sequence[Event],
        place: Place,
        unknown: Unknown,
        saved: Mapping[str, Saved] | None = None,
    ) -> tuple[Notebook, Self, list[Admitted]]:
        """Admits a transcript to its conversation, which belongs to a session.

        A conversation without a name has the answers that were noted by hand without one.

        Raises:
            EventRefused: One of the messages cannot be released.
        """
        (name, after, whose), session = place, self
        notebook = Notebook(
            memo=self._memo,
            digests=self._digests,
            whose=f"{self.sanitizer.subject or ''}\x1f{whose}",
            named=name is not None,
        )
        used = frozenset[str]()
        if after is not None:
            name, used = notebook.kept(after)
        elif name is None and all(event.id is ONCE or event.aside for event in events):
            name, session = "", self.alone()
        elif name is None:
            name = notebook.begun(events, self._conversation)
        within = session._conversation(name)
        notebook = replace(notebook, name=name, within=within, used=used)
        if saved is not None:
            settings = self._settings()
            rows = load(self._digests, within, events, saved, settings, restores=self.restores)
            self._memo.adopt(rows)
        by_hand = None if notebook.named else partial(session._conversation, "")
        admitted = admit(self._memo, self._digests, within, events, unknown, by_hand)
        return notebook, session, admitted

    def _way_back(
        self,
        notebook: Notebook,
        admitted: Sequence[Admitted],
        released: Sequence[Released],
        quoted: Iterable[str],
    ) -> tuple[Restorers | None, tuple[str, ...]]:
        """What restores an answer, and the pseudonyms that stand for values of this transcript."""
        return None, tuple(notebook.used)

    def restore(self, text: str, *, conversation: str = "") -> str:
        """Returns what the user is shown of a remote answer: here just that.

        A session with pseudonyms puts the originals in their place; see :class:`Pseudonyms`.
        """
        return text

    def restore_stream(self, pieces: Iterable[str], *, conversation: str = "") -> Iterator[str]:
        """Does as :meth:`restore`, for an answer in pieces."""
        return iter(pieces)

    def restore_value(self, value: Any, *, conversation: str = "") -> Any:
        """Does as :meth:`restore`, for all strings of nested dicts, lists and tuples."""
        return value

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
        within = self._conversation(conversation)
        if transcript is not None:
            name = name_of_last_answer(self._digests, within, transcript)
        elif event_id is not None:
            name = self._digests.of_id(within, event_id)
        else:
            for words in dict.fromkeys((text, self.restore(text, conversation=conversation))):
                self._memo.note(self._digests.answer(within, words), text, None)
            return
        self._memo.note(self._digests.note(name), text, self._digests.private(name))

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

    # sessions that share its memo, key, scope and limits -----------------------------------------

    def at(self, epsilon: float) -> Self:
        """Returns the same session at another epsilon; see :meth:`Sanitizer.at`.

        Memo, key, scope, limits, ledger and noted answers are shared. A private event, known by
        its id *and* the mechanism, is another one here: a new release and a new charge, and both
        releases together are worth the sum of their epsilons. Safe for threads. An epsilon that
        is asked for again finds its releases.

        Args:
            epsilon: Nats per token occurrence, a public number.

        Returns:
            This session or the one it came from, if it has this epsilon or the same calibrated
            mechanism; a certified epsilon may be just below.

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

        Prepared is what :meth:`at` gave before, what the cache folder has, from another process or
        ``dp-middleware prepare``, what comes with the package, and whatever takes no time.

        Raises:
            NotPrepared: None of these.
            CannotCalibrate: As :meth:`at`.
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

        Memo, key, scope and limits are shared, events and noted answers are not: conversations of
        different subjects never have a release in common, whatever their names. Safe for threads.

        Args:
            subject: A public name, told by who is logged in, never by what a user sends.

        Raises:
            ParameterError: No name.
        """
        sanitizer = self.sanitizer.for_subject(subject)
        if subject == self.sanitizer.subject:
            return self
        return self._with(sanitizer)._begin()

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
