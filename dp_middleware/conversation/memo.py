"""What a session released, by event: drawn once, then answered from the memo."""

from __future__ import annotations

import hmac
import json
import math
import sqlite3
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from threading import Lock
from typing import Any, NamedTuple, Protocol

from dp_middleware import _forks, _validate
from dp_middleware.errors import EventRefused
from dp_middleware.privacy import Certificate
from dp_middleware.privacy.releases import Release
from dp_middleware.sanitizers.spans import Detector, Scope

WAIT = 60.0  # seconds for another process that is just releasing
_LOCKS = 1024


class Releaser(Protocol):
    """A sanitizer, or the pseudonyms of one conversation."""

    @property
    def certificate(self) -> Certificate:
        """The guarantee of every release."""

    @property
    def remembers(self) -> bool:
        """Whether a release depends on those before, and is made while nobody else makes one."""

    def count(self, text: str) -> int:
        """Counts the tokens of a public text."""

    def read(self, text: str, scope: Scope | None = None) -> Any:
        """Returns a draft of a private text."""

    def release_drafts(self, drafts: Sequence[Any]) -> list[tuple[Release, Any]]:
        """Charges, draws and writes."""

    def kept_in(self, entries: Any, now: float) -> AbstractContextManager[object]:
        """Reads what it remembers from these entries while it releases, and keeps it there."""


class EventKeys(NamedTuple):
    """The keys of a message in the memo: keyed digests of its name."""

    released: bytes  # what one mechanism released for it
    private: bytes  # the mark that it was released as a private one, by whatever mechanism
    note: bytes  # the note that it is a remote answer


class Released(NamedTuple):
    """What went out for an event, public, and the pseudonyms in it."""

    release: Release
    used: tuple[str, ...] = ()

    def to_json(self) -> str:
        """Spells what a memo keeps, without the adjacency."""
        data = {**vars(self.release), "certificate": self.release.certificate.to_dict()}
        return json.dumps({**data, "used": self.used} if self.used else data)

    @classmethod
    def of_data(cls, data: Mapping[str, Any], releaser: Releaser) -> Released:
        """Reads a release; its adjacency is that of the releaser, which made it."""
        fields = dict(data)
        used, adjacency = fields.pop("used", ()), releaser.certificate.adjacency
        fields["certificate"] = Certificate.from_dict(fields["certificate"], adjacency)
        return cls(Release(**fields), tuple(used))


# a release, maybe as data; a remote answer; or a mark
Content = Released | Mapping[str, Any] | str | None


class Entry(NamedTuple):
    """What was released for an event, public."""

    digest: bytes  # keyed, of the raw text and its role; empty for a remote answer and a mark
    created: float  # seconds since the epoch
    content: Content


class Entries:
    """Entries of one process, while nobody else can change them; those of a file are a subclass."""

    def __init__(self) -> None:
        self._entries: dict[bytes, Entry] = {}

    @contextmanager
    def exclusive(self, wait: float = WAIT) -> Iterator[Entries]:
        """Gives the entries; waits so many seconds for other processes, threads are kept out."""
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


class ReleaseMemo:
    """What was released for private events, and remote answers; shared by all epsilons."""

    def __init__(
        self, memo: Entries, *, capacity: int, expires: float, clock: Callable[[], float]
    ) -> None:
        _validate.at_least(2, capacity=capacity)
        if expires != math.inf:
            _validate.positive(expires=expires)
        self._memo, self._capacity, self._expires = memo, capacity, expires
        self._clock, self._is_in_memory = clock, type(memo) is Entries
        self._left: deque[tuple[bytes, str]] = deque()  # by note_left, not stored yet
        self.after_fork()
        _forks.renewed[id(self)] = self

    def after_fork(self) -> None:
        """Makes locks that no thread holds, for a forked child."""
        self._lock = Lock()
        self._events = [Lock() for _ in range(_LOCKS)]  # each for some of the events

    def __repr__(self) -> str:
        return "memo in memory" if self._is_in_memory else "memo in file"

    def release(
        self, event: EventKeys, digest: bytes, text: str, releaser: Releaser, scope: Detector | None
    ) -> Released:
        """Returns a release from the memo, or draws and stores it; EventRefused: it was noted."""
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
        """Draws a release that is not kept; raises as :meth:`Sanitizer.release`."""
        draft = releaser.read(text, scope)
        with self.kept(releaser) if releaser.remembers else nullcontext():
            return _drawn(releaser, draft)

    @contextmanager
    def kept(self, releaser: Releaser) -> Iterator[None]:
        """Keeps what a releaser remembers, while nobody else releases."""
        with self.exclusive() as entries, releaser.kept_in(entries, self._clock()):
            yield

    def answers(self, notes: Sequence[bytes | None]) -> list[str | None]:
        """Returns the remote answer of each note; some text for a mark, ``None`` for nothing."""
        with self.exclusive() as entries:
            known = [None if note is None else entries.get(note) for note in notes]
        return [None if entry is None else str(entry.content) for entry in known]

    def note(
        self, *rows: tuple[bytes, str], private: bytes | None = None, left: bool = False
    ) -> None:
        """Stores remote answers by keys; EventRefused: the first one's event is marked private."""
        if left:
            self.note_left(*rows)
            return
        with self._of_event(rows[0][0]), self.exclusive() as entries:
            if private is not None and entries.get(private) is not None:
                raise EventRefused("expected a new event to note, got one released as private")
            self._store(entries, *((key, b"", text) for key, text in rows))

    def note_left(self, *rows: tuple[bytes, str]) -> None:
        """Stores remote answers, now or before whatever is done next here.

        Never waits: garbage collection may call it where this thread, or one that waits for it, has
        the lock.
        """
        self._left.extend(rows)
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
        """While nobody else releases or notes an event: how the entries are had."""
        with self._of_event(note):
            if self._is_in_memory and not releaser.remembers:
                yield self.exclusive
            else:
                with self.exclusive() as entries:
                    yield lambda: nullcontext(entries)

    def _store(self, entries: Entries, *rows: tuple[bytes, bytes, Content]) -> None:
        for key, digest, content in rows:
            entries.put(key, Entry(digest, self._clock(), content))
        while len(entries) > self._capacity:
            entries.forget_oldest()


def _known(
    entries: Entries, event: EventKeys, digest: bytes, releaser: Releaser
) -> tuple[Released | None, bool]:
    """What was released for an event, and whether that was for another text."""
    if entries.get(event.note) is not None:
        raise EventRefused("expected role assistant for a noted event, got a private role")
    entry = entries.get(event.released)
    if entry is None or not hmac.compare_digest(entry.digest, digest):
        return None, entry is not None
    known: Any = entry.content
    return known if isinstance(known, Released) else Released.of_data(known, releaser), False


def _drawn(releaser: Releaser, draft: Any) -> Released:
    ((release, drawn),) = releaser.release_drafts([draft])
    return Released(release, drawn.used)
