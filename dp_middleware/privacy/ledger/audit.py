"""Reads a whole privacy ledger, and recomputes it from its rows: numbers, sums, budgets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import sqlalchemy as sa

from dp_middleware.errors import BudgetExhausted, LedgerError
from dp_middleware.privacy.ledger.book import OF_SUBJECT, Terms, check_fits
from dp_middleware.privacy.ledger.rows import PER_NAT, UNLIMITED, LedgerRow, releases


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
