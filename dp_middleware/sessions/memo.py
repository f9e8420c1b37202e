"""Where a session keeps what it released: in memory, or in an SQLite file."""

from __future__ import annotations

import math
import os
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from dp_middleware import _validate
from dp_middleware.errors import EventRefused, ParameterError

WhenFull = Literal["forget", "refuse"]

WAIT = 60.0  # seconds for another process that is just releasing

_TABLES = """
CREATE TABLE IF NOT EXISTS checks (value BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS memo (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    event BLOB NOT NULL UNIQUE,
    digest BLOB NOT NULL,
    created REAL NOT NULL,
    released TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS memo_created ON memo (created);
CREATE TABLE IF NOT EXISTS sealed (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    conversation BLOB NOT NULL,
    created REAL NOT NULL,
    data BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS sealed_conversation ON sealed (conversation, created);
"""


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
    def forget(self, before: float) -> None:
        """Drop all entries created earlier."""

    @abstractmethod
    def forget_oldest(self) -> None:
        """Drop one entry."""

    @abstractmethod
    def __len__(self) -> int: ...

    def sealed(self, conversation: bytes, behind: int) -> list[tuple[int, bytes]]:
        """Numbers and data of what was sealed for a conversation, behind a number."""
        return []

    def seal(self, conversation: bytes, data: bytes, created: float) -> int:
        """Keep encrypted data as long as the conversation has some that is not older."""
        return 0


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

        Raises:
            EventRefused: It is full.
        """
        entries.forget(self.clock() - self.expires)
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

    def forget(self, before: float) -> None:
        """Drop all entries created earlier."""
        while self._entries and next(iter(self._entries.values())).created < before:
            self.forget_oldest()

    def forget_oldest(self) -> None:
        """Drop one entry."""
        del self._entries[next(iter(self._entries))]

    def __len__(self) -> int:
        return len(self._entries)


class FileMemo:
    """Entries in an SQLite file, shared by threads and processes of one machine.

    Args:
        path: The file; made if it is not there, readable by its owner only.
        check: Keyed digest of a constant: the file is for one key.
        ledger: Its file must be another: they would wait for each other's transactions.

    Raises:
        ParameterError: It is the ledger's file, or was written with another key.
    """

    def __init__(self, path: str | os.PathLike[str], check: bytes, ledger: object) -> None:
        self._path = Path(path)
        charged = getattr(ledger, "file", None)
        if isinstance(charged, Path) and charged.resolve() == self._path.resolve():
            raise ParameterError("expected memo= in a file of its own, got the ledger's")
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        with self.exclusive() as rows:
            written = rows.check(check)
        if written != check:
            raise ParameterError(
                "expected the key that the memo was written with, got another; with a new memo "
                "every event is released and charged again"
            )

    @contextmanager
    def exclusive(self, wait: float = WAIT) -> Iterator[_Rows]:
        """The entries; changes are durable when this ends, and undone if it fails.

        Each use has a connection of its own: none is shared by threads or after a fork.

        Args:
            wait: Seconds for another process that is just releasing.
        """
        with closing(sqlite3.connect(self._path, timeout=wait, isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield _Rows(connection)
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")


class _Rows(Entries):
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def check(self, value: bytes) -> bytes:
        for statement in _TABLES.split(";"):
            self._connection.execute(statement)
        row = self._connection.execute("SELECT value FROM checks").fetchone()
        if row is None:
            self._connection.execute("INSERT INTO checks VALUES (?)", (value,))
        return value if row is None else bytes(row[0])

    def get(self, event: bytes) -> Entry | None:
        query = "SELECT digest, created, released FROM memo WHERE event = ?"
        row = self._connection.execute(query, (event,)).fetchone()
        return None if row is None else Entry(digest=row[0], created=row[1], released=row[2])

    def put(self, event: bytes, entry: Entry) -> None:
        command = "INSERT OR REPLACE INTO memo(event, digest, created, released) VALUES (?,?,?,?)"
        values = (event, entry.digest, entry.created, entry.released)
        self._connection.execute(command, values)

    def forget(self, before: float) -> None:
        self._connection.execute("DELETE FROM memo WHERE created < ?", (before,))
        latest = "SELECT max(created) FROM sealed AS s WHERE s.conversation = sealed.conversation"
        self._connection.execute(f"DELETE FROM sealed WHERE ({latest}) < ?", (before,))

    def forget_oldest(self) -> None:
        self._connection.execute("DELETE FROM memo WHERE number = (SELECT min(number) FROM memo)")

    def __len__(self) -> int:
        return int(self._connection.execute("SELECT count(*) FROM memo").fetchone()[0])

    def sealed(self, conversation: bytes, behind: int) -> list[tuple[int, bytes]]:
        query = "SELECT number, data FROM sealed WHERE conversation = ? AND number > ?"
        rows = self._connection.execute(query + " ORDER BY number", (conversation, behind))
        return [(int(number), bytes(data)) for number, data in rows]

    def seal(self, conversation: bytes, data: bytes, created: float) -> int:
        command = "INSERT INTO sealed(conversation, created, data) VALUES (?,?,?)"
        return int(self._connection.execute(command, (conversation, created, data)).lastrowid or 0)
