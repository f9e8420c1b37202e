"""Where a session keeps what it released: what all memos have, and the one in memory."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from dp_middleware import _validate
from dp_middleware.errors import EventRefused

WhenFull = Literal["forget", "refuse"]

WAIT = 60.0  # seconds for another process that is just releasing


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


class Entries(ABC):
    """Entries by keyed digest of their event, while nobody else can change them."""

    @abstractmethod
    def get(self, event: bytes) -> Entry | None:
        """The entry of an event, however old."""

    @abstractmethod
    def put(self, event: bytes, entry: Entry) -> None:
        """Set an event's entry; it is then the newest."""

    @abstractmethod
    def forget(self, before: float, unused: float) -> None:
        """Drop what is old.

        Args:
            before: Entries created earlier are dropped.
            unused: Of conversations last used earlier, what was sealed is dropped.
        """

    @abstractmethod
    def forget_oldest(self) -> None:
        """Drop one entry."""

    @abstractmethod
    def __len__(self) -> int: ...

    def sealed(self, conversation: bytes, behind: int) -> list[tuple[int, bytes]]:
        """Numbers and data of what was sealed for a conversation, behind a number."""
        return []

    def seal(self, conversation: bytes, data: bytes, created: float) -> int:
        """Keep encrypted data as long as its conversation is used; its number."""
        return 0

    def use(self, conversation: bytes, now: float) -> None:
        """What was sealed for a conversation is kept from now on."""
        return


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How many entries are kept, and how long.

    Attributes:
        capacity: Largest number of entries.
        expires: Seconds after which an entry is dropped; ``inf`` for never.
        when_full: ``"forget"`` drops the oldest entry, ``"refuse"`` raises.
        clock: Seconds since the epoch.

    Raises:
        ParameterError: One of them is out of range.
    """

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


class MemoryMemo(Entries):
    """Entries of one process. The session's lock keeps others out."""

    def __init__(self) -> None:
        self._entries: dict[bytes, Entry] = {}

    @contextmanager
    def exclusive(self, wait: float = WAIT) -> Iterator[Entries]:
        """The entries, at once."""
        yield self

    def get(self, event: bytes) -> Entry | None:
        """The entry of an event, however old."""
        return self._entries.get(event)

    def put(self, event: bytes, entry: Entry) -> None:
        """Set an event's entry; it is then the newest."""
        self._entries.pop(event, None)
        self._entries[event] = entry

    def forget(self, before: float, unused: float) -> None:
        """Drop all entries created earlier."""
        while self._entries and next(iter(self._entries.values())).created < before:
            self.forget_oldest()

    def forget_oldest(self) -> None:
        """Drop one entry."""
        del self._entries[next(iter(self._entries))]

    def __len__(self) -> int:
        return len(self._entries)
