"""Conversations: what goes out for a request, and what is known of its answer."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, NoReturn, Self

from dp_middleware import _validate
from dp_middleware.conversation.events import Events
from dp_middleware.conversation.exchange import Exchange, Restorers, Tools, checked_tools
from dp_middleware.conversation.memo import Entries, ReleaseMemo, WhenFull
from dp_middleware.conversation.memo_file import FileMemo
from dp_middleware.conversation.messages import (
    ONCE as ONCE,
    Event,
    Message,
    by_role,
    events_of,
)
from dp_middleware.conversation.notebook import Admitted, Digests, Notebook, Unknown
from dp_middleware.conversation.releaser import Released
from dp_middleware.conversation.saved import Saved, load, save
from dp_middleware.errors import ParameterError, guarded, without_text
from dp_middleware.privacy.releases import shared_receipts
from dp_middleware.sanitizers.sanitizer import Sanitizer
from dp_middleware.sanitizers.spans import Detector

MONTH = 30 * 24 * 3600.0
"""Seconds."""

Place = tuple[str | None, str | None, str]
"""Of a transcript: its conversation's name, a reference, and whose it is."""


class Session(Events):
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
        if memo is not None and key is None:
            raise ParameterError("expected key= with a memo file, 32 bytes kept in another place")
        self.sanitizer, self.subjects = sanitizer, subjects
        self._scopes = by_role(scope)
        self._digests = digests = Digests(key)
        self._memo = ReleaseMemo(
            Entries() if memo is None else FileMemo(memo, digests.of, sanitizer.ledger),
            capacity=capacity,
            expires=expires,
            when_full=when_full,
            clock=clock,
        )
        self._warned = set[str]()  # tools that are called with pseudonyms
        self._begin()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.sanitizer!r}, {self._memo!r})"

    def __getstate__(self) -> NoReturn:
        raise TypeError("expected a session to stay in its process: it holds a key; make another")

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
        tools = checked_tools(tools)
        try:
            return self._exchange(transcript, place, unknown, tools, saved, quoted)
        except Exception as error:
            failure = without_text(error)
        raise failure.with_traceback(None)

    async def aexchange(self, transcript: Sequence[Message], **options: Any) -> Exchange:
        """Does as :meth:`exchange`, without blocking the event loop."""
        return await asyncio.to_thread(self.exchange, transcript, **options)

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
        for transcript in transcripts if len(transcripts) > 1 else ():
            guarded(self._admit, events_of(transcript), place, unknown)
        options: Any = {"conversation": conversation, "unknown": unknown, "tools": tools}
        return [self.exchange(transcript, **options) for transcript in transcripts]

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
        texts = (event.release.text for event in released)
        rows = () if saved is None else (admitted, released)
        return Exchange(
            sent=tuple(m if m.public else _copy(m, next(texts)) for m in transcript),
            releases=tuple(event.release for event in released),
            receipt=receipt,
            conversation=notebook.name,
            _events=tuple(events),
            _notebook=notebook,
            _restorers=restorers,
            _tools=tools,
            _warned=self._warned,
            _used=used,
            saved=save(self._digests, *rows, self._settings()) if rows else {},
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
        if saved is not None:
            settings = self._settings()
            self._memo.adopt(load(notebook, events, saved, settings, restores=self.restores))
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

    # answers -------------------------------------------------------------------------------------

    def restore_stream(self, pieces: Iterable[str], *, conversation: str = "") -> Iterator[str]:
        """Does as :meth:`restore`, for an answer in pieces."""
        return iter(pieces)

    def restore_value(self, value: Any, *, conversation: str = "") -> Any:
        """Does as :meth:`restore`, for all strings of nested dicts, lists and tuples."""
        return value


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
