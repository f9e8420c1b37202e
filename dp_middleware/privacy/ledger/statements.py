"""The statements of a charge, built once and passed straight to the driver.

SQLAlchemy would take longer to run them than the database itself.
"""

from __future__ import annotations

from contextlib import closing
from functools import lru_cache
from typing import Any

import sqlalchemy as sa

from dp_middleware.privacy.ledger.rows import COLUMNS, SHOWN, Row, releases, settings

Statement = sa.Select[Any] | sa.Insert

_NAME = sa.select(settings.c.value).where(settings.c.name == sa.bindparam("name"))
_INSERT = sa.insert(releases)
_FIRST = (
    sa.select(*SHOWN)
    .where(releases.c.subject == sa.bindparam("subject"))
    .limit(sa.literal_column("1"))
    .offset(sa.literal_column("0"))  # else SQLAlchemy adds a parameter of its own
)
_NEWEST_FIRST = (releases.c.time.desc(), releases.c.number.desc())

LAST = _FIRST.order_by(releases.c.number.desc())
LAST_OF_SCALE = _FIRST.where(releases.c.scale == sa.bindparam("scale")).order_by(*_NEWEST_FIRST)
LAST_UNTIL = LAST_OF_SCALE.where(releases.c.time <= sa.bindparam("until"))


def first_row(connection: sa.Connection, query: sa.Select[Any], **values: Any) -> Row | None:
    """The first row of a query of this module.

    Args:
        connection: In a transaction.
        query: One of the constants above.
        values: Of its parameters.
    """
    row = _fetch(connection, query, values)
    return None if row is None else Row(**dict(zip(COLUMNS, row, strict=True)))


def name(connection: sa.Connection) -> str | None:
    """The random name of the ledger."""
    row = _fetch(connection, _NAME, {"name": "ledger"})
    return None if row is None else str(row[0])


def _fetch(connection: sa.Connection, query: sa.Select[Any], values: dict[str, Any]) -> Any:
    with closing(connection.connection.cursor()) as cursor:
        cursor.execute(_sql(query, connection.dialect), values)
        return cursor.fetchone()


def insert(connection: sa.Connection, row: Row) -> None:
    """Add a row."""
    with closing(connection.connection.cursor()) as cursor:
        cursor.execute(_sql(_INSERT, connection.dialect), {**row.to_dict(), "digest": ""})


@lru_cache(maxsize=64)
def _sql(statement: Statement, dialect: sa.Dialect) -> str:
    """With parameters by name, in the driver's own style."""
    return str(statement.compile(dialect=dialect))
