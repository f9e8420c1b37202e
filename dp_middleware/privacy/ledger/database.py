"""The database under a privacy ledger: durable transactions, one writer per subject at a time.

SQLite: a write-ahead log, synchronised at every commit, and one writer at a time. PostgreSQL: an
advisory lock on the subject until the commit. One connection per process, shared by its threads
and closed before a fork.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from threading import RLock
from typing import Any, Literal, TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from dp_middleware.errors import LedgerError, ParameterError
from dp_middleware.privacy.ledger import statements
from dp_middleware.privacy.ledger.engine import PATIENCE, create, new_engine
from dp_middleware.privacy.ledger.memory import Memory
from dp_middleware.privacy.ledger.rows import settings

T = TypeVar("T")

_PAUSE = 0.01


class Database:
    """Transactions on the database of one ledger.

    Args:
        url: An SQLAlchemy URL of a SQLite file or of a PostgreSQL database.

    Raises:
        ParameterError: Another kind of database, or one in memory, which is not durable.
    """

    def __init__(self, url: str) -> None:
        self._url = _resolved(url)
        self._open()

    def _open(self) -> None:
        self._engine: sa.Engine | None = None
        self._lock = RLock()
        self._pinned: tuple[str, object] | None = None
        self._memory = Memory()
        _databases.add(self)

    def __getstate__(self) -> dict[str, Any]:
        return {"_url": self._url}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._open()

    @property
    def kind(self) -> str:
        """``"sqlite"`` or ``"postgresql"``."""
        return self._url.get_backend_name()

    @property
    def file(self) -> Path | None:
        """Of a SQLite database; ``None`` for another."""
        return Path(str(self._url.database)) if self.kind == "sqlite" else None

    @property
    def exists(self) -> bool:
        """Whether a ledger was created here; creates nothing."""
        if self.file is not None and not self.file.is_file():
            return False
        return self.read(lambda connection: sa.inspect(connection).has_table(settings.name))

    def pin(self, ledger: str) -> None:
        """From now on refuse to work unless this ledger, in this very file, is there.

        Args:
            ledger: Its random name, as its settings have it.

        Raises:
            LedgerError: It lacks a row that this process has seen.
        """
        self._pinned = ledger, self._place
        self._memory = Memory(ledger, self.file)
        self.read(lambda _: None)

    def create(self, values: dict[str, str]) -> None:
        """Make the tables and keep the settings, unless another process was faster."""
        if self.kind == "sqlite":
            path = Path(str(self._url.database))
            if not path.parent.is_dir():
                raise ParameterError("expected a ledger in an existing folder; create the folder")
            path.touch(mode=0o600)
        self.write("", lambda connection: create(connection, values))

    def write(self, subject: str, work: Callable[[sa.Connection], T]) -> T:
        """Do ``work`` alone on this subject's rows; durable on return, undone on any error."""
        return self._transact("write", work, subject)

    def read(self, work: Callable[[sa.Connection], T], subject: str = "") -> T:
        """Do ``work`` on one state of the whole ledger; ``subject``: whose rows count, if one's."""
        return self._transact("read", work, subject)

    def close(self) -> None:
        """Close the connection; the next transaction opens another."""
        with self._lock:
            if self._engine is not None:
                self._engine.dispose()

    def _transact(
        self, mode: Literal["read", "write"], work: Callable[[sa.Connection], T], subject: str
    ) -> T:
        with self._lock:
            self._check_place()  # to connect would create a file
            if self._engine is None:
                self._engine = new_engine(self._url)
                weakref.finalize(self, self._engine.dispose)
            try:
                return self._committed(mode, work, subject, self._engine)
            except (SQLAlchemyError, self._engine.dialect.loaded_dbapi.Error) as error:
                failure = type(getattr(error, "orig", None) or error).__name__
        raise LedgerError(  # out of the handler: a driver's own error may quote a row
            f"expected a working {self.kind} ledger, got {failure}; nothing may be released, and "
            "a charge that was under way may be recorded all the same"
        )

    def _committed(
        self,
        mode: Literal["read", "write"],
        work: Callable[[sa.Connection], T],
        subject: str,
        engine: sa.Engine,
    ) -> T:
        known = self._memory.known(subject)
        with self._begun(mode, engine) as connection:
            if mode == "write" and self.kind == "postgresql":
                lock = sa.func.pg_advisory_xact_lock(_lock_number(subject))
                connection.execute(sa.select(lock))
            if self._pinned is not None and statements.name(connection) != self._pinned[0]:
                raise _replaced()
            seen = self._memory.seen(connection, subject, known)
            done = work(connection)
            if mode == "write":  # a new row must not stand in for a known one that is missing
                seen = self._memory.seen(connection, subject, seen)
            connection.commit()
            self._memory.keep(subject, seen)
            self._check_place()
            return done

    @property
    def _place(self) -> tuple[int, int] | None:
        """Device and number of the file; ``None`` if there is none.

        Raises:
            LedgerError: The file has several names: SQLite would keep a log for each.
        """
        try:
            status = None if self.file is None else self.file.stat()
        except OSError:
            status = None
        if status is not None and status.st_nlink > 1:
            raise LedgerError(
                "expected a ledger file with one name, got one with several (hard links), which "
                "would overdraw each other; keep one of them"
            )
        return None if status is None else (status.st_dev, status.st_ino)

    def _check_place(self) -> None:
        place = self._place
        if self._pinned is not None and place != self._pinned[1]:
            raise _replaced()

    def _begun(self, mode: Literal["read", "write"], engine: sa.Engine) -> sa.Connection:
        """A connection in a transaction; waits for another process's."""
        deadline = time.monotonic() + PATIENCE
        while True:
            connection = None
            try:
                connection = engine.connect().execution_options(dp_ledger=mode)
                connection.begin()
                return connection
            except (OperationalError, sqlite3.OperationalError) as error:
                if connection is not None:
                    connection.close()
                if "database is locked" not in str(error) or time.monotonic() > deadline:
                    raise
            time.sleep(_PAUSE)


def _replaced() -> LedgerError:
    return LedgerError(
        "expected the ledger that was opened, got none or another one in its place; nothing may be "
        "released; put it back, or make a new PrivacyLedger"
    )


def _resolved(url: str) -> sa.URL:
    """The URL, with an absolute path to its file: the working folder may change."""
    try:
        parsed = sa.make_url(url)
    except SQLAlchemyError:
        parsed = None
    if parsed is None or parsed.get_backend_name() not in ("sqlite", "postgresql"):
        raise ParameterError(
            "expected url= of the form sqlite:///FILE or postgresql+psycopg://HOST/NAME"
        )
    if parsed.get_backend_name() == "postgresql":
        return parsed
    if parsed.database in (None, "", ":memory:") or str(parsed.database).startswith("file:"):
        raise ParameterError("expected a ledger in a file, sqlite:///FILE; memory is not durable")
    if parsed.query or parsed.get_driver_name() != "pysqlite":
        raise ParameterError("expected sqlite:///FILE without a driver and options")
    return parsed.set(database=str(Path(str(parsed.database)).absolute()))


def _lock_number(subject: str) -> int:
    """64 bits; two subjects with one number wait for each other, no more."""
    digest = hashlib.sha256(f"dp-middleware ledger {subject}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


_databases: weakref.WeakSet[Database] = weakref.WeakSet()
_forking = RLock()
_held: list[Database] = []


def _before_fork() -> None:
    """No connection and no held lock crosses a fork: both would be shared with the child."""
    _forking.acquire()
    for database in list(_databases):
        database._lock.acquire()
        _held.append(database)
        database.close()


def _after_fork() -> None:
    while _held:
        _held.pop()._lock.release()
    _forking.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork
    )
