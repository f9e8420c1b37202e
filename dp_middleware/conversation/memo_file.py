"""A memo in an SQLite file."""

from __future__ import annotations

import json
import os
import sqlite3
import struct
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from dp_middleware.conversation.memo import WAIT, Entries, Entry
from dp_middleware.conversation.releaser import to_json
from dp_middleware.errors import ParameterError

_TABLES = """
CREATE TABLE IF NOT EXISTS checks (value BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS memo (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    event BLOB NOT NULL UNIQUE,
    digest BLOB NOT NULL,
    created REAL NOT NULL,
    released TEXT NOT NULL,
    mark BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS memo_created ON memo (created);
CREATE TABLE IF NOT EXISTS sealed (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    conversation BLOB NOT NULL,
    created REAL NOT NULL,
    data BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS sealed_conversation ON sealed (conversation, created);
CREATE TABLE IF NOT EXISTS conversations (
    conversation BLOB PRIMARY KEY,
    used REAL NOT NULL,
    kept INTEGER NOT NULL,
    mark BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS conversations_used ON conversations (used);
CREATE TABLE IF NOT EXISTS counts (entries INTEGER NOT NULL);
"""
_COUNT = """
DELETE FROM counts;
INSERT INTO counts SELECT count(*) FROM memo;
"""
_VERSION = "2"
_CHANGED = (
    "expected a memo as it was written with this key, got one with a row that was changed, moved "
    "or taken out; take a copy of the file"
)

Digest = Callable[..., bytes]
"""Keyed digest of parts, each with its length."""


class FileMemo:
    """Entries in an SQLite file, shared by threads and processes of one machine.

    A row that was changed, or moved to another place, is refused, and so is a conversation that
    lacks a row. Not noticed: that an old copy of the file took its place.

    Args:
        path: The file; made if it is not there, readable by its owner only.
        digest: Keyed: the file is for one key, and each row has the mark of its contents.
        ledger: Its file must be another: they would wait for each other's transactions.

    Raises:
        ParameterError: It is the ledger's file, or was written with another key.
    """

    def __init__(self, path: str | os.PathLike[str], digest: Digest, ledger: object) -> None:
        self._path, self._digest = Path(path), digest
        charged = getattr(ledger, "file", None)
        if isinstance(charged, Path) and charged.resolve() == self._path.resolve():
            raise ParameterError("expected memo= in a file of its own, got the ledger's")
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        check = digest("check", _VERSION)
        with self.exclusive() as rows:
            written = rows.check(check)
        if written != check:
            raise ParameterError(
                "expected the key that the memo was written with, got another, or a memo of an "
                "older version; with a new memo every event is released and charged again"
            )

    @contextmanager
    def exclusive(self, wait: float = WAIT) -> Iterator[MemoRows]:
        """Gives the entries; changes are durable when this ends, and undone if it fails.

        Each use has a connection of its own: none is shared by threads or after a fork.

        Args:
            wait: Seconds for another process that is just releasing.
        """
        with closing(sqlite3.connect(self._path, timeout=wait, isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield MemoRows(connection, self._digest)
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")


class MemoRows(Entries):
    """Entries of a file, in one transaction, and what is sealed there for conversations."""

    def __init__(self, connection: sqlite3.Connection, digest: Digest) -> None:
        self._connection, self._digest = connection, digest

    def check(self, value: bytes) -> bytes:
        """Returns what the file was written with, if that is this value; a new one is made."""
        tables = "SELECT count(*) FROM sqlite_master WHERE name = 'checks'"
        if not self._connection.execute(tables).fetchone()[0]:
            for statement in _TABLES.split(";"):
                self._connection.execute(statement)
            self._connection.execute("INSERT INTO checks VALUES (?)", (value,))
        row = self._connection.execute("SELECT value FROM checks").fetchone()
        if row is None or bytes(row[0]) != value:
            return b""
        for statement in _COUNT.split(";"):
            self._connection.execute(statement)
        return value

    def get(self, event: bytes) -> Entry | None:
        """Returns the entry of an event."""
        query = "SELECT digest, created, released, mark FROM memo WHERE event = ?"
        row = self._connection.execute(query, (event,)).fetchone()
        if row is None:
            return None
        digest, created, released, mark = row
        if self._mark(event, digest, created, released) != mark:
            raise ParameterError(_CHANGED)
        content = json.loads(released) if released else None
        return Entry(digest=digest, created=created, content=content)

    def put(self, event: bytes, entry: Entry) -> None:
        """Sets an event's entry; it is then the newest."""
        self._drop("event = ?", event)
        command = "INSERT INTO memo(event, digest, created, released, mark) VALUES (?,?,?,?,?)"
        values = entry.digest, entry.created, to_json(entry.content)
        self._connection.execute(command, (event, *values, self._mark(event, *values)))
        self._connection.execute("UPDATE counts SET entries = entries + 1")

    def _mark(self, event: bytes, digest: bytes, created: float, released: str) -> bytes:
        return self._digest("row", event, digest, struct.pack("<d", created), released)

    def forget(self, before: float, unused: float) -> None:
        """Drops old entries, and what is sealed of unused conversations."""
        self._drop("created < ?", before)
        those = "SELECT conversation FROM conversations WHERE used < ?"
        self._connection.execute(f"DELETE FROM sealed WHERE conversation IN ({those})", (unused,))
        self._connection.execute("DELETE FROM conversations WHERE used < ?", (unused,))

    def forget_oldest(self) -> None:
        """Drops one entry."""
        self._drop("number = (SELECT min(number) FROM memo)")

    def __len__(self) -> int:
        return int(self._connection.execute("SELECT entries FROM counts").fetchone()[0])

    def _drop(self, which: str, *values: bytes | float) -> None:
        dropped = self._connection.execute(f"DELETE FROM memo WHERE {which}", values).rowcount
        if dropped:
            self._connection.execute("UPDATE counts SET entries = entries - ?", (dropped,))

    def sealed(self, conversation: bytes, behind: int) -> list[tuple[int, bytes]]:
        """Returns numbers and data of what was sealed for a conversation, behind a number."""
        count = "SELECT count(*) FROM sealed WHERE conversation = ?"
        if self._connection.execute(count, (conversation,)).fetchone()[0] != self._kept(
            conversation
        ):
            raise ParameterError(_CHANGED)
        query = "SELECT number, data FROM sealed WHERE conversation = ? AND number > ?"
        rows = self._connection.execute(query + " ORDER BY number", (conversation, behind))
        return [(int(number), bytes(data)) for number, data in rows]

    def _kept(self, conversation: bytes) -> int:
        query = "SELECT kept, mark FROM conversations WHERE conversation = ?"
        row = self._connection.execute(query, (conversation,)).fetchone()
        if row is None:
            return 0
        if bytes(row[1]) != self._digest("kept", conversation, str(row[0])):
            raise ParameterError(_CHANGED)
        return int(row[0])

    def seal(self, conversation: bytes, data: bytes, created: float) -> int:
        """Keeps encrypted data as long as its conversation is used; returns its number."""
        kept = self._kept(conversation) + 1
        command = "UPDATE conversations SET kept = ?, mark = ? WHERE conversation = ?"
        mark = self._digest("kept", conversation, str(kept))
        self._connection.execute(command, (kept, mark, conversation))
        command = "INSERT INTO sealed(conversation, created, data) VALUES (?,?,?)"
        return int(self._connection.execute(command, (conversation, created, data)).lastrowid or 0)

    def use(self, conversation: bytes, now: float) -> None:
        """Keeps what was sealed for a conversation from now on."""
        mark = self._digest("kept", conversation, "0")
        command = "INSERT INTO conversations VALUES (?,?,0,?) ON CONFLICT DO UPDATE SET used = ?"
        self._connection.execute(command, (conversation, now, mark, now))
