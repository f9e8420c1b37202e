"""A memo in an SQLite file."""

from __future__ import annotations

import copy
import json
import os
import sqlite3
import struct
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from dp_middleware.conversation.memo import WAIT, Entries, Entry, Released
from dp_middleware.errors import ParameterError

_TABLES = """
CREATE TABLE checks (value BLOB NOT NULL);
CREATE TABLE memo (
    number INTEGER PRIMARY KEY AUTOINCREMENT, event BLOB NOT NULL UNIQUE, digest BLOB NOT NULL,
    created REAL NOT NULL, released TEXT NOT NULL, mark BLOB NOT NULL
);
CREATE INDEX memo_created ON memo (created);
CREATE TABLE sealed (
    number INTEGER PRIMARY KEY AUTOINCREMENT, conversation BLOB NOT NULL, created REAL NOT NULL,
    data BLOB NOT NULL
);
CREATE INDEX sealed_conversation ON sealed (conversation, created);
CREATE TABLE conversations (
    conversation BLOB PRIMARY KEY, used REAL NOT NULL, kept INTEGER NOT NULL, mark BLOB NOT NULL
);
CREATE INDEX conversations_used ON conversations (used);
CREATE TABLE counts (entries INTEGER NOT NULL);
INSERT INTO counts VALUES (0);
"""
_VERSION = "2"
_CHANGED = (
    "expected a memo as it was written with this key, got one with a row that was changed, moved "
    "or taken out; take a copy of the file"
)

Digest = Callable[..., bytes]  # keyed digest of parts, each with its length


class FileMemo(Entries):
    """Entries in an SQLite file, for one key, shared by threads and processes of one machine.

    A row that was changed or moved is refused, and so is a conversation that lacks a row, or a file
    of another key. Not noticed: that an old copy of the file took its place. The ledger's file must
    be another: they would wait for each other's transactions.
    """

    _connection: sqlite3.Connection  # of those that :meth:`exclusive` gives

    def __init__(self, path: str | os.PathLike[str], digest: Digest, ledger: object) -> None:
        self._path, self._digest = Path(path), digest
        charged = getattr(ledger, "file", None)
        if isinstance(charged, Path) and charged.resolve() == self._path.resolve():
            raise ParameterError("expected memo= in a file of its own, got the ledger's")
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        check = digest("check", _VERSION)
        with self.exclusive() as rows:
            run = rows._connection.execute
            if run("SELECT 1 FROM sqlite_master WHERE name = 'checks'").fetchone() is None:
                for statement in _TABLES.split(";"):
                    run(statement)
                run("INSERT INTO checks VALUES (?)", (check,))
            if run("SELECT value FROM checks").fetchall() != [(check,)]:
                raise ParameterError(
                    "expected the key that the memo was written with, got another, or a memo of an "
                    "older version; with a new memo every event is released and charged again"
                )

    @contextmanager
    def exclusive(self, wait: float = WAIT) -> Iterator[FileMemo]:
        """Gives entries by a connection of their own; at the end changes are durable, or undone."""
        with closing(sqlite3.connect(self._path, timeout=wait, isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("BEGIN IMMEDIATE")
            rows = copy.copy(self)
            rows._connection = connection
            try:
                yield rows
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")

    def get(self, event: bytes) -> Entry | None:
        """Returns the entry of an event."""
        query = "SELECT digest, created, released, mark FROM memo WHERE event = ?"
        row = self._connection.execute(query, (event,)).fetchone()
        if row is None:
            return None
        digest, created, released, mark = row
        if self._mark(event, digest, created, released) != mark:
            raise ParameterError(_CHANGED)
        return Entry(digest, created, json.loads(released) if released else None)

    def put(self, event: bytes, entry: Entry) -> None:
        """Sets an event's entry; it is then the newest."""
        self._drop("event = ?", event)
        digest, created, content = entry
        if isinstance(content, Released):
            spelled = content.to_json()
        else:
            spelled = "" if content is None else json.dumps(content)
        values = event, digest, created, spelled, self._mark(event, digest, created, spelled)
        command = "INSERT INTO memo(event, digest, created, released, mark) VALUES (?,?,?,?,?)"
        self._connection.execute(command, values)
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
        (rows,) = self._connection.execute(count, (conversation,)).fetchone()
        if rows != self._kept(conversation):
            raise ParameterError(_CHANGED)
        query = "SELECT number, data FROM sealed WHERE conversation = ? AND number > ?"
        found = self._connection.execute(query + " ORDER BY number", (conversation, behind))
        return found.fetchall()

    def _kept(self, conversation: bytes) -> int:
        query = "SELECT kept, mark FROM conversations WHERE conversation = ?"
        row = self._connection.execute(query, (conversation,)).fetchone()
        if row is None:
            return 0
        if row[1] != self._digest("kept", conversation, str(row[0])):
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
