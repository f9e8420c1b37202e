"""Conversations: every message is released once, however often its transcript is sent."""

from __future__ import annotations

import asyncio
import hmac
import json
import math
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Literal, NoReturn

from dp_middleware import _positions, _validate
from dp_middleware._digests import Digests, Item, checked
from dp_middleware._memo import Entry, FileMemo, MemoryMemo, Table
from dp_middleware._plan import Token
from dp_middleware._positions import Positions
from dp_middleware.errors import EventRefused, ParameterError
from dp_middleware.privacy import Certificate, PureDP
from dp_middleware.sanitizers import Release, Sanitizer

WhenFull = Literal["forget", "refuse"]

MONTH = 30 * 24 * 3600.0
"""Seconds."""

_PLAIN = ("text", "tokens_total", "tokens_verbatim")


class Session:
    """Releases the messages of conversations: one release and one charge per event.

    An event is a message of a transcript, known by its id. Seen again with the same text, it is
    answered from the memo and costs nothing; with another text it is a new release, drawn and
    charged for at the positions that changed, and *that* they changed is public. Under an id
    that is new, an old text is a new release: nothing is looked up by content, as equal outputs
    would reveal equal inputs.

    What a remote model answered is public; after :meth:`note_remote` its event is answered with
    just that, whatever the transcript shows in its place, as an answer that was extracted
    locally holds what no mechanism has protected. An assistant's message that is not known as a
    remote answer is refused: even perturbed it would not have the guarantee, since one private
    token may have changed all of it.

    Safe for threads; a memo in a file is for processes too, and a charge may be lost to a crash
    there but never a release to the ledger: charge, draw, store, return.

    Args:
        sanitizer: Charges and draws.
        memo: An SQLite file that keeps released texts (never raw ones) over restarts; default:
            memory. Not the ledger's file. A text edited after a restart is drawn for as a whole:
            what tells its old tokens is kept in memory only.
        key: 32 bytes or more, needed with a memo file and never written: keep it elsewhere. It
            keys the digests of ids and raw texts. Default: a fresh one.
        capacity: Largest number of entries; a noted answer counts as two.
        expires: Seconds after which an entry is dropped; ``inf`` for never. A dropped event that
            is seen again is a new release and a new charge.
        when_full: ``"forget"`` drops the oldest entry, ``"refuse"`` raises.
        clock: Seconds since the epoch.

    Raises:
        ParameterError: A parameter out of range, or a memo that was written with another key.
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
    ) -> None:
        _validate.at_least(2, capacity=capacity)
        _validate.one_of(("forget", "refuse"), when_full=when_full)
        if expires != math.inf:
            _validate.positive(expires=expires)
        if memo is not None and key is None:
            raise ParameterError("expected key= with a memo file, 32 bytes kept in another place")
        self.sanitizer = sanitizer
        self._digests = Digests(key)
        self._capacity, self._expires, self._when_full = capacity, expires, when_full
        self._clock = clock
        self._lock = Lock()
        self._positions: OrderedDict[bytes, Positions] = OrderedDict()
        self._memo: MemoryMemo | FileMemo = MemoryMemo()
        if memo is not None:
            self._memo = FileMemo(Path(memo), self._digests.of("check"))

    def __repr__(self) -> str:
        kind = "file" if isinstance(self._memo, FileMemo) else "memory"
        return f"Session({self.sanitizer!r}, memo in {kind})"

    def __getstate__(self) -> NoReturn:
        raise TypeError("expected a session to stay in its process: it holds a key; make another")

    def release(self, event_id: str, role: str, text: str, *, conversation: str = "") -> Release:
        """What goes out for a message.

        Args:
            event_id: Identifies the message in its conversation; the same whenever it is sent
                again.
            role: ``"user"``, ``"system"``, ``"tool"``: private; ``"assistant"``: from the remote
                model.
            text: Private, as is every text but a noted one.
            conversation: Needed where ids of two conversations might be equal: one message would
                be taken for an edited version of the other.

        Raises:
            EventRefused: An assistant's text that was not noted, a noted event with another
                role, or a full memo.
            BudgetExhausted: From the ledger; nothing was drawn.
            DPMiddlewareError: As :meth:`Sanitizer.release`.
        """
        if not event_id:
            raise ParameterError("expected an event id; use release_many for a transcript without")
        return self.release_many([(event_id, role, text)], conversation=conversation)[0]

    def release_many(self, items: Iterable[Item], *, conversation: str = "") -> list[Release]:
        """What goes out for a transcript, message by message.

        Args:
            items: ``(event_id, role, text)`` each. An ``event_id`` of ``None`` is replaced by a
                keyed digest of the transcript up to and with the message: then the transcript
                must start at the conversation's beginning, and a change makes all messages from
                there on new ones.
            conversation: Its name; two without ids that begin with the same texts under the same
                name begin with the same releases.

        Raises:
            As :meth:`release`. What was released before an error stays in the memo.
        """
        transcript = [checked(item) for item in items]
        given = [event_id for event_id, _, _ in transcript if event_id is not None]
        if len(set(given)) < len(given):
            raise ParameterError("expected distinct event ids in a transcript, got repeated ones")
        within = self._conversation(conversation)
        names = self._digests.names(within, transcript)
        return [
            self._once(name, self._note_of(within, text), role, text)
            for name, (_, role, text) in zip(names, transcript, strict=True)
        ]

    async def arelease(
        self, event_id: str, role: str, text: str, *, conversation: str = ""
    ) -> Release:
        """As :meth:`release`, without blocking the event loop."""
        return await asyncio.to_thread(
            self.release, event_id, role, text, conversation=conversation
        )

    async def arelease_many(
        self, items: Iterable[Item], *, conversation: str = ""
    ) -> list[Release]:
        """As :meth:`release_many`, without blocking the event loop."""
        return await asyncio.to_thread(self.release_many, items, conversation=conversation)

    def note_remote(self, event_id: str | None, text: str, *, conversation: str = "") -> None:
        """Tell the session what the remote model answered; it may then go out again.

        Args:
            event_id: The id that the answer will have in the transcript; ``None``: it is known
                by its text alone, which is public.
            text: The remote model's own words: ``Answer.remote_text``, never ``Answer.text``.
            conversation: As for :meth:`release`.

        Raises:
            EventRefused: The event was released as a private one, or the memo is full.
        """
        checked((event_id, "assistant", text))
        within = self._conversation(conversation)
        names = [] if event_id is None else [self._digests.of_id(within, event_id)]
        events = [self._event(name) for name in names]
        with self._lock, self._memo.exclusive() as table:
            if any(self._current(table, event) is not None for event in events):
                raise EventRefused("expected a new event to note, got one released as private")
            for note in [*map(self._note, names), self._note_of(within, text)]:
                self._store(table, note, b"", json.dumps(text))

    def _once(self, name: bytes, answer: bytes, role: str, text: str) -> Release:
        event = self._event(name)
        digest = self._digests.of("text", event, text)
        with self._lock, self._memo.exclusive() as table:
            noted = self._current(table, self._note(name))
            if role == "assistant":
                return self._noted(noted or self._current(table, answer))
            if noted is not None:
                raise EventRefused(f"expected role assistant for a noted event, got {role}")
            known = self._current(table, event)
            if known is not None and hmac.compare_digest(known.digest, digest):
                return self._replayed(known)
            self._make_room(table, event)
            release = self._drawn(event, digest, text, known)
            self._store(table, event, digest, _to_json(release))
            return release

    def _drawn(self, event: bytes, digest: bytes, text: str, known: Entry | None) -> Release:
        earlier = self._positions.get(event)
        if known is None or (earlier is not None and earlier.digest != known.digest):
            earlier = None  # forgotten, or edited by another process since

        def mark(token: Token) -> bytes:
            return self._digests.of("token", event, str(token.id), repr(token.kept))

        release, now = _positions.release(self.sanitizer, text, digest, mark, earlier)
        self._positions[event] = now
        self._positions.move_to_end(event)
        if len(self._positions) > self._capacity:
            self._positions.popitem(last=False)
        return release

    def _noted(self, entry: Entry | None) -> Release:
        """A remote answer: a function of what was released before."""
        if entry is None:
            raise EventRefused(
                "expected an assistant's message known from note_remote, got another; it may hold "
                "private text and is not sent"
            )
        text: str = json.loads(entry.released)
        tokens = len(self.sanitizer.space.vocabulary.tokenizer.pieces(text))
        certificate = Certificate(
            guarantee=PureDP(epsilon=0.0),
            adjacency=self.sanitizer.certificate.adjacency,
            method="proof",
            assumptions=("written by the remote model, which saw released texts only",),
            claimed=0.0,
            epsilon=0.0,
            mechanism="remote-answer",
            space=self.sanitizer.space.fingerprint,
        )
        return Release(
            text=text, certificate=certificate, tokens_total=tokens, tokens_verbatim=tokens
        )

    def _replayed(self, entry: Entry) -> Release:
        data = json.loads(entry.released)
        adjacency = self.sanitizer.certificate.adjacency
        return Release(
            **{**data, "certificate": Certificate.from_dict(data["certificate"], adjacency)}
        )

    def _current(self, table: Table, event: bytes) -> Entry | None:
        entry = table.get(event)
        fresh = entry is not None and entry.created >= self._clock() - self._expires
        return entry if fresh else None

    def _store(self, table: Table, event: bytes, digest: bytes, released: str) -> None:
        self._make_room(table, event)
        table.put(event, Entry(digest=digest, created=self._clock(), released=released))

    def _make_room(self, table: Table, event: bytes) -> None:
        """Before a charge, so that a full memo costs nothing."""
        table.forget(self._clock() - self._expires)
        while len(table) >= self._capacity and table.get(event) is None:
            if self._when_full == "refuse":
                raise EventRefused(
                    f"expected room in the memo, got {len(table)} entries; raise capacity= or use "
                    'when_full="forget", which charges forgotten events again'
                )
            table.forget_oldest()

    @cached_property
    def _settings(self) -> str:
        """Another mechanism or space makes every event a new one."""
        adjacency = self.sanitizer.certificate.adjacency.fingerprint
        return (
            f"{self.sanitizer.mechanism.fingerprint}/{self.sanitizer.space.fingerprint}/{adjacency}"
        )

    def _event(self, name: bytes) -> bytes:
        return self._digests.of("event", self._settings, name)

    def _note(self, name: bytes) -> bytes:
        return self._digests.of("note", name)

    def _note_of(self, conversation: bytes, text: str) -> bytes:
        """By content: a remote answer is public."""
        return self._digests.of("answer", conversation, text)

    def _conversation(self, name: str) -> bytes:
        return self._digests.of("conversation", self.sanitizer.subject or "", name)


def _to_json(release: Release) -> str:
    data = {name: getattr(release, name) for name in _PLAIN}
    return json.dumps({**data, "certificate": release.certificate.to_dict()})
