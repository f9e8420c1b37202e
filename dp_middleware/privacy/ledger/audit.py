"""Recomputes a privacy ledger from its rows: chains, sums, budgets."""

from __future__ import annotations

import hashlib
from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, get_args

import sqlalchemy as sa

from dp_middleware.errors import LedgerError
from dp_middleware.privacy.ledger.book import LEDGERS_OWN, Rules, all_rows, subjects
from dp_middleware.privacy.ledger.rows import (
    NOTHING,
    PER_NAT,
    PURE,
    UNLIMITED,
    Event,
    Row,
)


@dataclass(frozen=True, kw_only=True)
class Audit:
    """A ledger that is intact, in numbers.

    Attributes:
        subjects: Number of subjects.
        charges: Number of releases that were charged.
        replays: Number of releases sent again.
        epsilon: Sum of all pure charges, 1e-12 nats.
        head: A digest of the whole ledger. Rows can be replaced together with all digests after
            them; a head that was noted elsewhere shows that.
    """

    subjects: int
    charges: int
    replays: int
    epsilon: int
    head: str

    @property
    def spent(self) -> float:
        """Nats, over all subjects."""
        return self.epsilon / PER_NAT

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self)


def audit(connection: sa.Connection, rules: Rules) -> Audit:
    """Check everything.

    Raises:
        LedgerError: Which row of which subject, by number, and what is wrong.
    """
    if connection.dialect.name == "sqlite":
        verdict = connection.exec_driver_sql("PRAGMA integrity_check").scalar()
        if verdict != "ok":
            raise LedgerError("expected an intact SQLite file, got a damaged one; restore a copy")
    names, head, trails = subjects(connection), hashlib.sha256(), []
    for place, subject in enumerate(names, start=1):
        trail = _Trail(rules=rules, name=f"subject {place} of {len(names)}")
        trail.follow(all_rows(connection, subject))
        head.update(trail.digest.encode())
        trails.append(trail)
    return Audit(
        subjects=len(trails),
        charges=sum(len(trail.charges) for trail in trails),
        replays=sum(trail.replays for trail in trails),
        epsilon=sum(trail.epsilon for trail in trails),
        head=head.hexdigest(),
    )


class _Trail:
    """The rows of one subject, walked from the first."""

    def __init__(self, *, rules: Rules, name: str) -> None:
        self.rules = rules
        self.name = name
        self.charges: set[str] = set()
        self.replays = 0
        self.epsilon = 0
        self.digest = ""
        self._before: Row | None = None
        self._totals: defaultdict[str, int] = defaultdict(int)
        self._counted: defaultdict[str, deque[tuple[int, int]]] = defaultdict(deque)
        self._in_window: defaultdict[str, int] = defaultdict(int)

    def follow(self, rows: Iterable[Row]) -> None:
        """Walk to the end, checking every row."""
        for row in rows:
            wrong = self._wrong_link(row) or self._wrong_event(row) or self._wrong_sum(row)
            if wrong:
                raise LedgerError(
                    f"expected an intact ledger, got {wrong} at row {row.number} of {self.name}"
                )
            self._before, self.digest = row, row.digest

    def _wrong_link(self, row: Row) -> str | None:
        before = self._before
        if row.number != (before.number + 1 if before else 1):
            return "a missing row"
        if row.digest != row.linked(before):
            return "an altered row"
        return "a time out of order" if before and row.time < before.time else None

    def _wrong_event(self, row: Row) -> str | None:
        before = self._before
        own, infinite = (before.budget, before.infinite_by) if before else (LEDGERS_OWN, "")
        if row.event not in get_args(Event):
            return "an event that cannot be"
        if row.event == "budget":
            is_possible = own in (LEDGERS_OWN, row.budget) and not row.amount
        elif row.event == "replay":
            self.replays += 1
            is_possible = row.replay_of in self.charges and not row.amount and row.budget == own
        else:
            self.charges.add(row.release)
            is_possible = row.budget == own
            infinite = infinite or (row.release if row.kind == "infinite" else "")
        if not is_possible:
            return "an event that cannot be"
        return None if row.infinite_by == infinite else "a wrong infinite release"

    def _wrong_sum(self, row: Row) -> str | None:
        used = {"pure": row.metric + row.slack, "metric": row.epsilon, "infinite": row.amount}
        expected = {"pure": PURE, "infinite": NOTHING}.get(row.kind, row.scale)
        if row.event != "budget" and row.scale != expected:
            return "a charge on the wrong scale"
        if row.amount < 0 or used.get(row.kind, 1):
            return "a charge in the wrong column"
        self._totals[row.scale] = min(self._totals[row.scale] + row.amount, UNLIMITED)
        self.epsilon += row.epsilon
        if row.total != self._totals[row.scale]:
            return "a wrong sum"
        limit, counted = self._limit(row), self._counts(row)
        if row.event == "charge" and counted > limit != UNLIMITED:
            return "an exceeded budget"
        return None

    def _limit(self, row: Row) -> int:
        limit = self.rules.limit(row.scale, row.budget)
        refused = row.infinite_by and row.kind != "metric" and limit != UNLIMITED
        return -1 if refused else limit

    def _counts(self, row: Row) -> int:
        """What counts against the budget just after this row."""
        counted = self._counted[row.scale]
        counted.append((row.time, row.amount))
        self._in_window[row.scale] += row.amount
        while self.rules.window and counted[0][0] <= row.time - self.rules.window:
            self._in_window[row.scale] -= counted.popleft()[1]
        return self._in_window[row.scale]
