"""Connections to a ledger's database, as durable as it can be, and its tables."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from dp_middleware.errors import MissingExtra, ParameterError
from dp_middleware.privacy.ledger.rows import metadata, releases, settings

Mode = Literal["read", "write"]

_PATIENCE = 60  # seconds until a transaction that waits for another one gives up
_PAUSE = 0.01
_SQLITE_APPEND_ONLY = """CREATE TRIGGER {table}_{event} BEFORE {event} ON {table}
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END"""
_POSTGRESQL_APPEND_ONLY = (
    """CREATE FUNCTION dp_append_only() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'the ledger is append-only'; END $$""",
    *(
        f"""CREATE TRIGGER dp_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {table}
FOR EACH STATEMENT EXECUTE FUNCTION dp_append_only()"""
        for table in (releases.name, settings.name)
    ),
)


def resolved(url: str) -> sa.URL:
    """The URL, with an absolute path to its file: the working folder may change.

    Raises:
        ParameterError: Another kind of database, or one in memory, which is not durable.
    """
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


def new_engine(url: sa.URL) -> sa.Engine:
    """One connection to write, one to read, at first use; never shows parameters: subjects.

    Raises:
        MissingExtra: There is no driver.
    """
    common: dict[str, Any] = {"pool_size": 2, "max_overflow": 0, "hide_parameters": True}
    if url.get_backend_name() == "sqlite":
        arguments = {"timeout": _PATIENCE, "check_same_thread": False}
        engine = sa.create_engine(url, connect_args=arguments, paramstyle="named", **common)
        sa.event.listen(engine, "connect", _prepare_sqlite)
        sa.event.listen(engine, "begin", _begin_sqlite)
        return engine
    try:
        engine = sa.create_engine(
            url, pool_pre_ping=True, isolation_level="READ COMMITTED", **common
        )
    except ImportError:
        raise MissingExtra("psycopg", "postgresql") from None
    sa.event.listen(engine, "connect", _prepare_postgresql)
    return engine


@contextmanager
def transaction(engine: sa.Engine, mode: Mode) -> Iterator[sa.Connection]:
    """A connection in a transaction; waits for another process's.

    After an error the connection is closed: it may still be in the transaction.
    """
    with _begun(engine, mode) as connection:
        try:
            yield connection
        except BaseException:
            connection.invalidate()
            raise


def _begun(engine: sa.Engine, mode: Mode) -> sa.Connection:
    deadline = time.monotonic() + _PATIENCE
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


def _prepare_sqlite(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # transactions begin where we say so
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA fullfsync=ON")


def _begin_sqlite(connection: sa.Connection) -> None:
    writes = connection.get_execution_options().get("dp_ledger") == "write"
    driver: Any = connection.connection
    driver.execute("BEGIN IMMEDIATE" if writes else "BEGIN")


def _prepare_postgresql(connection: Any, _record: object) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SHOW synchronous_commit")
        if cursor.fetchone()[0] == "off":
            cursor.execute("SET synchronous_commit = on")
        cursor.execute(f"SET lock_timeout = '{_PATIENCE}s'")
        cursor.execute(f"SET idle_in_transaction_session_timeout = '{_PATIENCE}s'")
    connection.commit()


def create(connection: sa.Connection, values: dict[str, str]) -> None:
    """Make the tables, which refuse changes, and keep the settings, unless they are there."""
    if sa.inspect(connection).has_table(settings.name):
        return
    metadata.create_all(connection)
    if connection.dialect.name == "postgresql":
        for statement in _POSTGRESQL_APPEND_ONLY:
            connection.exec_driver_sql(statement)
    else:
        for table in (releases.name, settings.name):
            for event in ("UPDATE", "DELETE"):
                connection.exec_driver_sql(_SQLITE_APPEND_ONLY.format(table=table, event=event))
    rows = [{"name": name, "value": value} for name, value in values.items()]
    connection.execute(sa.insert(settings), rows)
