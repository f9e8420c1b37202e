"""What a session released, by event: drawn once, then answered from the memo."""

from __future__ import annotations

import hmac
import math
import sqlite3
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any, Protocol

from dp_middleware import _forks, _validate
from dp_middleware.conversation.releaser import EventKeys, Released, Releaser, from_data
from dp_middleware.errors import EventRefused
from dp_middleware.sanitizers.spans import Detector

WAIT = 60.0  # seconds for another process that is just releasing
_LOCKS = 1024

Content = Released | Mapping[str, Any] | str | None
"""A release, maybe as data; a remote answer; or a mark."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What was released for an event.

    Attributes:
        digest: Keyed digest of the raw text and its role; empty for a remote answer, which is
            public, and for a mark.
        created: Seconds since the epoch.
        content: Public.
    """

    digest: bytes = field(repr=False)
    created: float
    content: Content = field(repr=False)


class Entries:
    """Entries of one process, while nobody else can change them; those of a file are a subclass."""

    def __init__(self) -> None:
        self._entries: dict[bytes, Entry] = {}

    @contextmanager
    def exclusive(self, wait: float = WAIT) -> Iterator[Entries]:
        """Gives the entries, at once: the session's lock keeps others out."""
        yield self

    def get(self, event: bytes) -> Entry | None:
        """Returns the entry of an event."""
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


class Store(Protocol):
    """Entries, and how one is alone with them."""

    def exclusive(self, wait: float = WAIT) -> AbstractContextManager[Entries]:
        """Keeps others out; waits so many seconds for another process."""


Row = tuple[bytes, bytes, Content]
"""Key, digest and content of an entry."""


class ReleaseMemo:
    """What was released for private events, and remote answers; shared by all epsilons."""

    def __init__(
        self,
        memo: Store,
        *,
        capacity: int,
        expires: float,
        clock: Callable[[], float],
    ) -> None:
        _validate.at_least(2, capacity=capacity)
        if expires != math.inf:
            _validate.positive(expires=expires)
        self._memo, self._capacity, self._expires = memo, capacity, expires
        self._clock = clock
        self._left: deque[tuple[bytes, str]] = deque()  # by note_left, not stored yet
        self.after_fork()
        _forks.renewed[id(self)] = self

    def after_fork(self) -> None:
        """Makes locks that no thread holds, for a forked child."""
        self._lock = Lock()
        self._events = [Lock() for _ in range(_LOCKS)]  # each for some of the events

    def __repr__(self) -> str:
        return "memo in memory" if isinstance(self._memo, Entries) else "memo in file"

    def release(
        self,
        event: EventKeys,
        digest: bytes,
        text: str,
        releaser: Releaser,
        scope: Detector | None,
    ) -> Released:
        """Returns a release from the memo, or draws it: charge, draw, store.

        A detector runs outside of the lock, and may use the session.

        Raises:
            EventRefused: The event was noted as a remote answer.
            DPMiddlewareError: As :meth:`Sanitizer.release`.
        """
        with self.exclusive() as entries:
            known, _ = _known(entries, event, digest, releaser)
        if known is not None:
            return known
        draft = releaser.read(text, scope)
        with self._alone(event.note, releaser) as access:
            with access() as entries:  # another thread may have been faster
                known, is_edited = _known(entries, event, digest, releaser)
                if known is not None:
                    return known
                kept = releaser.kept_in(entries, self._clock())
            with kept:
                released = _drawn(releaser, replace(draft, edited=is_edited))
            with access() as entries:  # the mark last: it is not forgotten before the release
                rows = (event.released, digest, released), (event.private, b"", None)
                self._store(entries, *rows)
            return released

    def release_once(self, text: str, releaser: Releaser, scope: Detector | None) -> Released:
        """Draws a release that is not kept.

        Raises:
            DPMiddlewareError: As :meth:`Sanitizer.release`.
        """
        draft = releaser.read(text, scope)
        with self.kept(releaser) if releaser.remembers else nullcontext():
            return _drawn(releaser, draft)

    @contextmanager
    def kept(self, releaser: Releaser) -> Iterator[None]:
        """Keeps what a releaser remembers, while nobody else releases."""
        with self.exclusive() as entries, releaser.kept_in(entries, self._clock()):
            yield

    def answers(self, notes: Sequence[bytes | None]) -> list[str | None]:
        """Returns the remote answer of each note; ``None`` where there is none."""
        with self.exclusive() as entries:
            known = [None if note is None else entries.get(note) for note in notes]
        return [None if entry is None else str(entry.content) for entry in known]

    def knows(self, event: bytes) -> bool:
        """Tells whether there is an entry with this key."""
        with self.exclusive() as entries:
            return entries.get(event) is not None

    def note(self, *rows: tuple[bytes, str], private: bytes | None = None) -> None:
        """Stores remote answers.

        Args:
            rows: Key and public text of each.
            private: The key of the mark that the first one's event is a private one.

        Raises:
            EventRefused: The event was released as a private one.
        """
        with self._of_event(rows[0][0]), self.exclusive() as entries:
            if private is not None and entries.get(private) is not None:
                raise EventRefused("expected a new event to note, got one released as private")
            self._store(entries, *((key, b"", text) for key, text in rows))

    def note_left(self, note: bytes, text: str) -> None:
        """Stores a remote answer, now or before whatever is done next here.

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

    def _store_left(self, wait: float) -> None:
        if not self._left:
            return
        with self._opened(wait) as entries:
            while self._left:
                note, text = self._left.popleft()
                self._store(entries, (note, b"", text))

    @contextmanager
    def exclusive(self) -> Iterator[Entries]:
        """Gives the entries, with what was left noted; what goes wrong later does not undo that."""
        with self._lock:
            self._store_left(WAIT)
            with self._opened(WAIT) as entries:
                yield entries

    @contextmanager
    def _opened(self, wait: float) -> Iterator[Entries]:
        """The entries that have not expired; what is sealed lives twice as long, for answers."""
        now = self._clock()
        with self._memo.exclusive(wait) as entries:
            entries.forget(now - self._expires, now - 2 * self._expires)
            yield entries

    def _of_event(self, note: bytes) -> Lock:
        return self._events[int.from_bytes(note[:4]) % _LOCKS]

    @contextmanager
    def _alone(
        self, note: bytes, releaser: Releaser
    ) -> Iterator[Callable[[], AbstractContextManager[Entries]]]:
        """While nobody else releases or notes an event: how the entries are had.

        In memory an event's charge, which waits for the disk, holds up no other event. In a file,
        and where releases depend on each other, all wait.
        """
        is_free = isinstance(self._memo, Entries) and not releaser.remembers
        with self._of_event(note):
            if is_free:
                yield self.exclusive
            else:
                with self.exclusive() as entries:
                    yield lambda: nullcontext(entries)

    def _store(self, entries: Entries, *rows: Row) -> None:
        for key, digest, content in rows:
            entries.put(key, Entry(digest=digest, created=self._clock(), content=content))
        while len(entries) > self._capacity:
            entries.forget_oldest()


def _known(
    entries: Entries, event: EventKeys, digest: bytes, releaser: Releaser
) -> tuple[Released | None, bool]:
    """Returns what was released for an event, and whether that was for another text."""
    if entries.get(event.note) is not None:
        raise EventRefused("expected role assistant for a noted event, got a private role")
    entry = entries.get(event.released)
    if entry is None or not hmac.compare_digest(entry.digest, digest):
        return None, entry is not None
    known: Any = entry.content
    return known if isinstance(known, Released) else from_data(known, releaser), False


def _drawn(releaser: Releaser, draft: Any) -> Released:
    ((release, drawn),) = releaser.release_drafts([draft])
    return Released(release, drawn.used)
