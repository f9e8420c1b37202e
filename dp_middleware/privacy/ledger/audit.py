"""Reads the accounts of a privacy ledger, and recomputes it from its rows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import sqlalchemy as sa

from dp_middleware.errors import BudgetExhausted, LedgerError
from dp_middleware.privacy.ledger.book import (
    OF_SUBJECT,
    check_fits,
    last_row,
    nats_of,
    remaining,
)
from dp_middleware.privacy.ledger.rows import (
    PER_NAT,
    PURE,
    UNLIMITED,
    LedgerRow,
    Terms,
    releases,
)


@dataclass(frozen=True, kw_only=True)
class Audit:
    """A ledger that is intact, in numbers.

    Attributes:
        subjects: Number of subjects.
        charges: Number of releases that were charged.
        epsilon: Sum of all pure charges, 1e-12 nats.
    """

    subjects: int
    charges: int
    epsilon: int

    @property
    def spent(self) -> float:
        """Nats, over all subjects."""
        return self.epsilon / PER_NAT

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class Account:
    """One subject's standing.

    Attributes:
        spent: Nats over all time; ``inf`` after a release without a finite guarantee.
        remaining: Nats that may be charged now; 0 after a release without a finite guarantee.
        metric: Nats per unit of distance over all time, by distance and space. Never in ``spent``.
        events: Number of rows.
        infinite_by: The first release without a finite guarantee, or ``None``.
    """

    spent: float
    remaining: float
    metric: dict[str, float]
    events: int
    infinite_by: str | None


def account(connection: sa.Connection, terms: Terms, subject: str, now: int) -> Account:
    """A subject's standing at a time."""
    last, pure = last_row(connection, subject), last_row(connection, subject, PURE)
    infinite_by = last.infinite_by if last else ""
    return Account(
        spent=math.inf if infinite_by else nats_of(pure.total if pure else 0),
        remaining=remaining(connection, terms, subject, now, last),
        metric=_metric_totals(connection, subject),
        events=last.number if last else 0,
        infinite_by=infinite_by or None,
    )


def _metric_totals(connection: sa.Connection, subject: str) -> dict[str, float]:
    query = (
        sa.select(releases.c.scale, sa.func.max(releases.c.total))
        .where(releases.c.subject == subject, releases.c.kind == "metric")
        .group_by(releases.c.scale)
        .order_by(releases.c.scale)
    )
    return {scale: nats_of(total) for scale, total in connection.execute(query)}


def subjects(connection: sa.Connection) -> list[str]:
    """Every subject with a row, sorted."""
    return sorted(connection.scalars(sa.select(releases.c.subject).distinct()).all())


def all_rows(connection: sa.Connection, subject: str) -> Iterator[LedgerRow]:
    """The rows of a subject, in order."""
    query = OF_SUBJECT.order_by(releases.c.number)
    for columns in connection.execute(query, {"subject": subject}).mappings():
        yield LedgerRow(**columns)


def audit(connection: sa.Connection, terms: Terms) -> Audit:
    """Check everything.

    Raises:
        LedgerError: Which row of which subject, by number, and what is wrong.
    """
    if connection.dialect.name == "sqlite":
        verdict = connection.exec_driver_sql("PRAGMA integrity_check").scalar()
        if verdict != "ok":
            raise LedgerError("expected an intact SQLite file, got a damaged one; restore a copy")
    names, charges, epsilon = subjects(connection), 0, 0
    for place, subject in enumerate(names, start=1):
        totals: Counter[str] = Counter()
        for number, row in enumerate(all_rows(connection, subject), start=1):
            totals[row.scale] = min(totals[row.scale] + row.amount, UNLIMITED)
            wrong = _wrong(connection, terms, row, number, totals[row.scale])
            if wrong is not None:
                raise LedgerError(
                    f"expected an intact ledger, got {wrong} at row {row.number} of subject "
                    f"{place} of {len(names)}"
                )
            charges += row.event == "charge"
            epsilon += row.epsilon
    return Audit(subjects=len(names), charges=charges, epsilon=epsilon)


def _wrong(
    connection: sa.Connection, terms: Terms, row: LedgerRow, number: int, total: int
) -> str | None:
    if row.number != number:
        return "a missing row"
    if min(row.epsilon, row.metric, row.slack) < 0 or (row.event != "charge" and row.amount):
        return "a charge that cannot be"
    if row.total != total:
        return "a wrong sum"
    try:
        if row.event == "charge":
            check_fits(connection, terms, row)
    except BudgetExhausted:
        return "an exceeded budget"
    return None
