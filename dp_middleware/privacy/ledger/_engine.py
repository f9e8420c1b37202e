"""Connections to a ledger's database, as durable as it can be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from dp_middleware.errors import ParameterError, needs, withheld

PATIENCE = 60  # seconds until a transaction that waits for another one gives up


def resolved(url: str | sa.URL) -> sa.URL:
    """The URL, with an absolute path to its file: the working folder may change."""
    expected = "expected url= of the form sqlite:///FILE or postgresql+psycopg://HOST/NAME"
    with withheld(expected, SQLAlchemyError):
        parsed = sa.make_url(url)
    if parsed.get_backend_name() == "postgresql":
        return parsed
    if parsed.get_backend_name() != "sqlite":
        raise ParameterError(expected)
    if parsed.database in (None, "", ":memory:") or str(parsed.database).startswith("file:"):
        raise ParameterError("expected a ledger in a file, sqlite:///FILE; memory is not durable")
    if parsed.query or parsed.get_driver_name() != "pysqlite":
        raise ParameterError("expected sqlite:///FILE without a driver and options")
    return parsed.set(database=str(Path(str(parsed.database)).absolute()))


def new_engine(url: sa.URL) -> sa.Engine:
    """One connection to write, one to read, at first use; never shows parameters: subjects."""
    common: dict[str, Any] = {"pool_size": 2, "max_overflow": 0, "hide_parameters": True}
    if url.get_backend_name() == "sqlite":
        arguments = {"timeout": PATIENCE, "check_same_thread": False}
        engine = sa.create_engine(url, connect_args=arguments, **common)
        sa.event.listen(engine, "connect", _prepare_sqlite)
        return engine
    common |= {"pool_pre_ping": True, "isolation_level": "READ COMMITTED"}
    with needs("postgresql"):
        engine = sa.create_engine(url, **common)
    sa.event.listen(engine, "connect", _prepare_postgresql)
    return engine


def _prepare_sqlite(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # transactions begin where we say so
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA fullfsync=ON")


def _prepare_postgresql(connection: Any, _record: object) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SHOW synchronous_commit")
        if cursor.fetchone()[0] == "off":
            cursor.execute("SET synchronous_commit = on")
        cursor.execute(f"SET lock_timeout = '{PATIENCE}s'")
        cursor.execute(f"SET idle_in_transaction_session_timeout = '{PATIENCE}s'")
    connection.commit()
