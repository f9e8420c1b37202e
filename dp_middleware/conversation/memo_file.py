"""A memo in an SQLite file."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from dp_middleware.conversation.memo import WAIT, Entries, Entry
from dp_middleware.errors import ParameterError

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
CREATE TABLE IF NOT EXISTS conversations (conversation BLOB PRIMARY KEY, used REAL NOT NULL);
CREATE INDEX IF NOT EXISTS conversations_used ON conversations (used);
INSERT OR IGNORE INTO conversations SELECT conversation, max(created) FROM sealed GROUP BY 1;
CREATE TABLE IF NOT EXISTS counts (entries INTEGER NOT NULL);
DELETE FROM counts;
INSERT INTO counts SELECT count(*) FROM memo;
"""


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
        self._drop("event = ?", event)
        command = "INSERT INTO memo(event, digest, created, released) VALUES (?,?,?,?)"
        values = (event, entry.digest, entry.created, entry.released)
        self._connection.execute(command, values)
        self._connection.execute("UPDATE counts SET entries = entries + 1")

    def forget(self, before: float, unused: float) -> None:
        self._drop("created < ?", before)
        those = "SELECT conversation FROM conversations WHERE used < ?"
        self._connection.execute(f"DELETE FROM sealed WHERE conversation IN ({those})", (unused,))
        self._connection.execute("DELETE FROM conversations WHERE used < ?", (unused,))

    def forget_oldest(self) -> None:
        self._drop("number = (SELECT min(number) FROM memo)")

    def __len__(self) -> int:
        return int(self._connection.execute("SELECT entries FROM counts").fetchone()[0])

    def _drop(self, which: str, *values: bytes | float) -> None:
        dropped = self._connection.execute(f"DELETE FROM memo WHERE {which}", values).rowcount
        if dropped:
            self._connection.execute("UPDATE counts SET entries = entries - ?", (dropped,))

    def sealed(self, conversation: bytes, behind: int) -> list[tuple[int, bytes]]:
        query = "SELECT number, data FROM sealed WHERE conversation = ? AND number > ?"
        rows = self._connection.execute(query + " ORDER BY number", (conversation, behind))
        return [(int(number), bytes(data)) for number, data in rows]

    def seal(self, conversation: bytes, data: bytes, created: float) -> int:
        command = "INSERT INTO sealed(conversation, created, data) VALUES (?,?,?)"
        return int(self._connection.execute(command, (conversation, created, data)).lastrowid or 0)

    def use(self, conversation: bytes, now: float) -> None:
        command = "INSERT INTO conversations VALUES (?,?) ON CONFLICT DO UPDATE SET used = ?"
        self._connection.execute(command, (conversation, now, now))
