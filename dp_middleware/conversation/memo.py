"""What a session released, by event: drawn once, then answered from the memo."""

from __future__ import annotations

import hmac
import json
import math
import sqlite3
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any, Literal, Protocol

from dp_middleware import _forks, _validate
from dp_middleware.conversation.names import Digests, EventKeys
from dp_middleware.conversation.releaser import Released, Releaser, from_json, to_json
from dp_middleware.errors import EventRefused
from dp_middleware.sanitizers.spans import Detector

WhenFull = Literal["forget", "refuse"]

WAIT = 60.0  # seconds for another process that is just releasing
_LOCKS = 1024


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What was released for an event.

    Attributes:
        digest: Keyed digest of the raw text and its role; empty for a remote answer, which is
            public, and for a mark.
        created: Seconds since the epoch.
        released: Public: the release, as JSON; empty for a mark.
    """

    digest: bytes = field(repr=False)
    created: float
    released: str = field(repr=False)


class Entries:
    """Entries of one process, while nobody else can change them; those of a file are a subclass."""

    def __init__(self) -> None:
        self._entries: dict[bytes, Entry] = {}

    @contextmanager
    def exclusive(self, wait: float = WAIT) -> Iterator[Entries]:
        """The entries, at once: the session's lock keeps others out."""
        yield self

    def get(self, event: bytes) -> Entry | None:
        """Returns the entry of an event, however old."""
        return self._entries.get(event)

    def put(self, event: bytes, entry: Entry) -> None:
        """Sets an event's entry; it is then the newest."""
        self._entries.pop(event, None)
        self._entries[event] = entry

    def forget(self, before: float, unused: float) -> None:
        """Drops entries created before a time, and what is sealed of conversations unused since."""
        while self._entries and next(iter(self._entries.values())).created < before:
            self.forget_oldest()

    def forget_oldest(self) -> None:
        """Drops one entry."""
        del self._entries[next(iter(self._entries))]

    def __len__(self) -> int:
        return len(self._entries)

    def sealed(self, conversation: bytes, behind: int) -> list[tuple[int, bytes]]:
        """Returns numbers and data of what was sealed for a conversation, behind a number."""
        return []

    def seal(self, conversation: bytes, data: bytes, created: float) -> int:
        """Keeps encrypted data as long as its conversation is used; returns its number."""
        return 0

    def use(self, conversation: bytes, now: float) -> None:
        """Keeps what was sealed for a conversation from now on."""


class Store(Protocol):
    """Entries, and how one is alone with them."""

    def exclusive(self, wait: float = WAIT) -> AbstractContextManager[Entries]:
        """Keeps others out; waits so many seconds for another process."""


_Access = Callable[[], AbstractContextManager[Entries]]


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How many entries are kept, and how long; see :class:`Session`."""

    capacity: int
    expires: float
    when_full: WhenFull
    clock: Callable[[], float]

    def __post_init__(self) -> None:
        _validate.at_least(2, capacity=self.capacity)
        _validate.one_of(("forget", "refuse"), when_full=self.when_full)
        if self.expires != math.inf:
            _validate.positive(expires=self.expires)

    def current(self, entries: Entries, event: bytes) -> Entry | None:
        """The entry of an event, unless it expired."""
        entry = entries.get(event)
        fresh = entry is not None and entry.created >= self.clock() - self.expires
        return entry if fresh else None

    def store(self, entries: Entries, event: bytes, digest: bytes, released: str) -> None:
        """Set an event's entry."""
        self.make_room(entries, event)
        entries.put(event, Entry(digest=digest, created=self.clock(), released=released))

    def make_room(self, entries: Entries, *events: bytes) -> None:
        """Make room for entries of these events: before a charge, so a full memo costs nothing.

        What is sealed lives twice as long after a release: an answer to it is noted while the
        release lives, and then lives as long itself, with values that the sealed data restore.

        Raises:
            EventRefused: It is full.
        """
        now = self.clock()
        entries.forget(now - self.expires, now - 2 * self.expires)
        while len(entries) + sum(entries.get(e) is None for e in events) > self.capacity:
            if self.when_full == "refuse":
                raise EventRefused(
                    f"expected room in the memo, got {len(entries)} entries; raise capacity= or "
                    'use when_full="forget", which charges forgotten events again'
                )
            entries.forget_oldest()


class ReleaseMemo:
    """What was released for private events, and remote answers; shared by all epsilons."""

    def __init__(self, memo: Store, limits: Limits, digests: Digests) -> None:
        self._memo, self._limits, self._digests = memo, limits, digests
        self._left: deque[tuple[bytes, str]] = deque()  # by note_left, not stored yet
        self.after_fork()
        _forks.renew(self)

    def after_fork(self) -> None:
        """A forked child begins with locks that no thread holds."""
        self._lock = Lock()
        self._events = [Lock() for _ in range(_LOCKS)]  # each for some of the events

    def release(
        self, event: EventKeys, role: str, text: str, releaser: Releaser, scope: Detector | None
    ) -> Released:
        """From the memo, or drawn; a detector runs outside of the lock, and may use the session.

        Raises:
            EventRefused: The event was noted as a remote answer, or the memo is full.
            DPMiddlewareError: As :meth:`Sanitizer.release`.
        """
        digest = self._digests.of("text", event.released, role, text)
        with self.exclusive() as entries:
            known = self._replay(entries, event, role, digest, releaser)
        if known is not None:
            return known
        draft = releaser.read(text, scope)
        with self._alone(event.note, releaser) as access:  # another thread may have been faster
            with access() as entries:
                known = self._replay(entries, event, role, digest, releaser)
            return known or self._release_anew(access, event, digest, draft, releaser)

    def release_once(self, text: str, releaser: Releaser, scope: Detector | None) -> Released:
        """Drawn, and not kept.

        Raises:
            DPMiddlewareError: As :meth:`Sanitizer.release`.
        """
        draft = releaser.read(text, scope)
        if not releaser.remembers:
            return _drawn(releaser, draft)
        now = self._limits.clock()
        with self.exclusive() as entries, releaser.kept_in(entries, now):
            return _drawn(releaser, draft)

    def answers(self, notes: Sequence[bytes | None]) -> list[str | None]:
        """The remote answer of each note; ``None`` where there is none."""
        with self.exclusive() as entries:
            known = [None if n is None else self._limits.current(entries, n) for n in notes]
        return [None if entry is None else str(json.loads(entry.released)) for entry in known]

    def knows(self, event: bytes) -> bool:
        """Whether there is an entry with this key."""
        with self.exclusive() as entries:
            return self._limits.current(entries, event) is not None

    def note(self, note: bytes, text: str, private: bytes | None) -> None:
        """Store a remote answer.

        Args:
            note: Its key.
            text: Public.
            private: The key of the mark that its event is a private one, if it has an id.

        Raises:
            EventRefused: The event was released as a private one, or the memo is full.
        """
        with self._of_event(note), self.exclusive() as entries:
            if private is not None and self._limits.current(entries, private) is not None:
                raise EventRefused("expected a new event to note, got one released as private")
            self._limits.store(entries, note, b"", json.dumps(text))

    def adopt(self, rows: Iterable[tuple[bytes, bytes, str, bytes | None]]) -> None:
        """Stores entries that another memo had, where this one has none.

        Args:
            rows: Key, digest and release of each, and the key of the mark of a private event.
        """
        for key, digest, released, private in rows:
            with self.exclusive() as entries:
                if self._limits.current(entries, key) is None:
                    self._limits.store(entries, key, digest, released)
                    if private is not None:
                        self._limits.store(entries, private, b"", "")

    def note_all(self, rows: Iterable[tuple[bytes, str]], left: bool = False) -> None:
        """Stores remote answers by keys that no private event has.

        Raises:
            EventRefused: The memo is full.
        """
        if left:
            for note, text in rows:
                self.note_left(note, text)
            return
        with self.exclusive() as entries:
            for note, text in rows:
                self._limits.store(entries, note, b"", json.dumps(text))

    def note_left(self, note: bytes, text: str) -> None:
        """Store a remote answer, now or before whatever is done next here.

        Never waits: garbage collection may call it anywhere, also where this thread has the lock,
        or another lock that the one with this lock waits for.
        """
        self._left.append((note, text))
        if self._lock.acquire(blocking=False):
            try:
                with suppress(sqlite3.Error):  # another process is just releasing
                    self._store_left(wait=0.0)
            finally:
                self._lock.release()

    def __repr__(self) -> str:
        return "memo in memory" if isinstance(self._memo, Entries) else "memo in file"

    @contextmanager
    def exclusive(self) -> Iterator[Entries]:
        """The entries, with what was left noted; what goes wrong later does not undo that."""
        with self._lock:
            self._store_left(WAIT)
            with self._memo.exclusive() as entries:
                yield entries

    def _of_event(self, note: bytes) -> Lock:
        return self._events[int.from_bytes(note[:4]) % _LOCKS]

    @contextmanager
    def _alone(self, note: bytes, releaser: Releaser) -> Iterator[_Access]:
        """While nobody else releases or notes an event: how the entries are had.

        In memory an event's charge, which waits for the disk, holds up no other event. In a file,
        where a full memo refuses and where releases depend on each other, all wait.
        """
        forgets = self._limits.when_full == "forget" and isinstance(self._memo, Entries)
        with self._of_event(note):
            if forgets and not releaser.remembers:
                yield self.exclusive
            else:
                with self.exclusive() as entries:
                    yield lambda: nullcontext(entries)

    def _store_left(self, wait: float) -> None:
        if not self._left:
            return
        with self._memo.exclusive(wait) as entries:
            while self._left:
                note, text = self._left.popleft()
                with suppress(EventRefused):  # a full memo: it is refused when it is sent again
                    self._limits.store(entries, note, b"", json.dumps(text))

    def _replay(
        self, entries: Entries, event: EventKeys, role: str, digest: bytes, releaser: Releaser
    ) -> Released | None:
        if self._limits.current(entries, event.note) is not None:
            raise EventRefused(f"expected role assistant for a noted event, got {role}")
        known = self._limits.current(entries, event.released)
        if known is None or not hmac.compare_digest(known.digest, digest):
            return None
        return from_json(known.released, releaser)

    def _release_anew(
        self, access: _Access, event: EventKeys, digest: bytes, draft: Any, releaser: Releaser
    ) -> Released:
        """Charge, draw, store; the mark last, so that it is not forgotten before the release."""
        with access() as entries:
            known = self._limits.current(entries, event.released)
            self._limits.make_room(entries, event.released, event.private)
            kept = releaser.kept_in(entries, self._limits.clock())
        with kept:
            released = _drawn(releaser, replace(draft, edited=known is not None))
        with access() as entries:
            self._limits.store(entries, event.released, digest, to_json(released))
            self._limits.store(entries, event.private, b"", "")
        return released


def _drawn(releaser: Releaser, draft: Any) -> Released:
    ((release, drawn),) = releaser.release_drafts([draft])
    return Released(release, drawn.used)
