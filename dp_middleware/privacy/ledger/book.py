"""What may be appended to a privacy ledger: the row that follows another, or a refusal."""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Self

import sqlalchemy as sa

from dp_middleware import _validate
from dp_middleware.errors import BudgetExhausted, ParameterError
from dp_middleware.privacy.ledger.rows import (
    LAST_UNTIL,
    NOTHING,
    PURE,
    SHOWN,
    UNLIMITED,
    Cost,
    Row,
    budget_of,
    first_row,
    insert,
    last_row,
    nats_of,
    releases,
    settings,
)

MICROSECONDS = 10**6
LEDGERS_OWN = -1  # a row's budget where the subject has none of its own
_FORMAT = "2"  # 1 kept subjects as they were spelt


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The terms of a ledger, stored in it.

    Attributes:
        budget: 1e-12 nats per subject and window.
        metric_budget: 1e-12 nats per unit of distance, per subject, distance, space and window.
        window: Microseconds; 0: for ever.
    """

    budget: int
    metric_budget: int
    window: int

    @classmethod
    def of(cls, budget: float, window: float | None, metric_budget: float | None) -> Self:
        """From what users give; no metric budget: as many nats as the budget has."""
        if window is not None:
            _validate.positive(window=window)
        pure = budget_of(budget=budget)
        return cls(
            budget=pure,
            metric_budget=pure if metric_budget is None else budget_of(metric_budget=metric_budget),
            window=0 if window is None else math.ceil(window * MICROSECONDS),
        )

    @classmethod
    def stored(cls, values: dict[str, str]) -> Self | None:
        """From a ledger's settings, or ``None`` if they are of another format."""
        if values.get("format") != _FORMAT:
            return None
        return cls(**{name: int(values[name]) for name in cls.__dataclass_fields__})

    @property
    def settings(self) -> dict[str, str]:
        """What a ledger stores."""
        return {"format": _FORMAT, **{name: str(value) for name, value in asdict(self).items()}}

    def limit(self, scale: str, own: int) -> int:
        """How much may be charged on a scale within a window; ``own``: see :class:`Row`."""
        budget = self.budget if own == LEDGERS_OWN else own
        if scale == PURE:
            return budget
        if scale == NOTHING:
            return UNLIMITED if budget == UNLIMITED else 0
        return self.metric_budget

    def __str__(self) -> str:
        window = f"{self.window / MICROSECONDS:g} s" if self.window else "None"
        budget, metric = nats_of(self.budget), nats_of(self.metric_budget)
        return f"budget={budget}, window={window}, metric_budget={metric}"


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """What was recorded, durable when it is handed out.

    Attributes:
        release_id: Name of the release in the ledger.
        number: Which event of its subject.
        epsilon: What was added to ``spent``, nats; 0 for a metric guarantee.
        remaining: Nats that could be charged just after it, as :attr:`Account.remaining`.
    """

    release_id: str
    number: int
    epsilon: float
    remaining: float


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


def all_rows(connection: sa.Connection, subject: str) -> Iterator[Row]:
    """In order."""
    query = sa.select(*SHOWN).where(releases.c.subject == subject).order_by(releases.c.number)
    for columns in connection.execute(query).mappings():
        yield Row(**columns)


def subjects(connection: sa.Connection) -> list[str]:
    """Every subject with a row, sorted."""
    return sorted(connection.scalars(sa.select(releases.c.subject).distinct()).all())


def account(connection: sa.Connection, rules: Rules, subject: str, now: int) -> Account:
    """A subject's standing at a time."""
    last, pure = last_row(connection, subject), last_row(connection, subject, PURE)
    if last is None:
        left = nats_of(rules.budget)
        return Account(spent=0.0, remaining=left, metric={}, events=0, infinite_by=None)
    return Account(
        spent=math.inf if last.infinite_by else nats_of(pure.total if pure else 0),
        remaining=remaining(connection, rules, last, pure, now),
        metric=_metric_totals(connection, subject),
        events=last.number,
        infinite_by=last.infinite_by or None,
    )


def remaining(
    connection: sa.Connection, rules: Rules, last: Row, pure: Row | None, now: int
) -> float:
    """Nats that may be charged at a time, after the subject's last row and last pure one."""
    if last.infinite_by:
        return 0.0
    limit = rules.limit(PURE, last.budget)
    counted = in_window(connection, rules, pure, max(now, last.time)) if pure else 0
    return nats_of(limit if limit == UNLIMITED else max(0, limit - counted))


def stored_settings(connection: sa.Connection) -> dict[str, str]:
    """The terms and the name of a ledger, by name."""
    rows = connection.execute(sa.select(settings.c.name, settings.c.value))
    return {row.name: row.value for row in rows}


def append(
    connection: sa.Connection, rules: Rules, subject: str, cost: Cost, now: int, **event: Any
) -> Row:
    """Add the row of an event; the caller holds the subject's lock.

    Raises:
        BudgetExhausted: It does not fit.
        ParameterError: A second budget of the subject's own.
    """
    before, name = last_row(connection, subject), secrets.token_hex(16)
    own = before.budget if before else LEDGERS_OWN
    is_on_scale = before is None or before.scale == cost.scale
    on_scale = before if is_on_scale else last_row(connection, subject, cost.scale)
    infinite_by = name if cost.kind == "infinite" and event["event"] == "charge" else ""
    row = Row(
        subject=subject,
        number=before.number + 1 if before else 1,
        release=name,
        time=max(now, before.time) if before else now,
        total=min((on_scale.total if on_scale else 0) + cost.amount, UNLIMITED),
        infinite_by=(before.infinite_by if before else "") or infinite_by,
        **{"budget": own, **vars(cost), **event},
    )
    if row.event == "budget" and own not in (LEDGERS_OWN, row.budget):
        raise ParameterError(
            f"expected the subject's own budget as stored, {nats_of(own)}, "
            f"got budget={nats_of(row.budget)}; a budget is set once"
        )
    if row.event == "charge":
        check_fits(connection, rules, row)
    insert(connection, row)
    return row


def in_window(connection: sa.Connection, rules: Rules, row: Row, at: int) -> int:
    """The part of ``row.total`` that still counts against the budget at a time."""
    if not rules.window:
        return row.total
    mine = {"subject": row.subject, "scale": row.scale}
    until = at - rules.window
    expired = first_row(connection, LAST_UNTIL, **mine, until=until)
    return row.total - (expired.total if expired else 0)


def _metric_totals(connection: sa.Connection, subject: str) -> dict[str, float]:
    query = (
        sa.select(releases.c.scale, sa.func.max(releases.c.total))
        .where(releases.c.subject == subject, releases.c.kind == "metric")
        .group_by(releases.c.scale)
        .order_by(releases.c.scale)
    )
    return {scale: nats_of(total) for scale, total in connection.execute(query)}


def check_fits(connection: sa.Connection, rules: Rules, row: Row) -> None:
    """Refuse a charge that the budget has no room for.

    Raises:
        BudgetExhausted: It has not.
    """
    counted = in_window(connection, rules, row, row.time)
    limit = rules.limit(row.scale, row.budget)
    if row.kind == "infinite":
        if limit != UNLIMITED:
            raise BudgetExhausted(
                "expected a finite loss under a finite budget, got a certificate that guarantees "
                "nothing; nothing was recorded; see budget=math.inf"
            )
    elif row.kind == "pure" and row.infinite_by and limit != UNLIMITED:
        raise BudgetExhausted(
            f"release {row.infinite_by} guarantees nothing and has used up any finite budget"
        )
    elif limit != UNLIMITED and (counted > limit or row.total >= UNLIMITED):
        left = nats_of(max(0, limit - counted + row.amount))
        per = " per unit of distance" if row.kind == "metric" else ""
        within = f" per {rules.window / MICROSECONDS:g} s" if rules.window else ""
        raise BudgetExhausted(
            f"expected a charge of at most {left:.12g} nats{per}, what is left of the budget of "
            f"{nats_of(limit):.12g}{within}; got {nats_of(row.amount):.12g}; nothing was recorded"
        )
