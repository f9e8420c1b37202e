"""Rows of a privacy ledger: what a charge costs, what a row says, and the tables of both kinds.

A row is a subject's whole state after an event, so the last row is all that a charge needs.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, fields
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal, Self

import sqlalchemy as sa

from dp_middleware import _validate
from dp_middleware.errors import IncompatibleGuarantees, ParameterError
from dp_middleware.privacy.certificate import Certificate
from dp_middleware.privacy.guarantee import ApproxDP, MetricDP, NoGuarantee

PER_NAT = 10**12
UNLIMITED = 2**62  # also where counting ends, 4.6 million nats; the sum of two fits 64 bits
MICROSECONDS = 10**6
LEDGERS_OWN = -1  # a row's budget where the subject has none of its own
PURE, NOTHING, OVERRIDE = "nats", "infinite", "budget"

Event = Literal["charge", "replay", "budget"]
Unit = Literal["occurrence", "sentence", "document", "text", "value"]
Kind = Literal["pure", "metric", "infinite"]


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What a ledger allows, stored in it."""

    budget: int  # 1e-12 nats per subject and window
    metric_budget: int  # 1e-12 nats per unit of distance, per subject, distance, space and window
    window: int  # microseconds; 0: for ever

    @classmethod
    def of(cls, budget: float, window: float | None, metric_budget: float | None) -> Self:
        """From what users give; no metric budget: as many nats as the budget has."""
        if window is not None:
            _validate.positive(window=window)
        metric = budget if metric_budget is None else metric_budget
        return cls(
            budget=budget_of(budget),
            metric_budget=budget_of(metric, "metric_budget"),
            window=0 if window is None else math.ceil(window * MICROSECONDS),
        )


@dataclass(frozen=True, kw_only=True)
class Charge:
    """What was recorded, durable when it is handed out."""

    release_id: str  # name of the release in the ledger
    number: int  # which event of its subject
    epsilon: float  # what was added to ``spent``, nats; 0 for a metric guarantee
    remaining: float  # nats that could be charged just after it


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What a release adds, in integers of 1e-12, rounded up."""

    kind: Kind
    scale: str  # what may be added up: the name of a sum
    epsilon: int = 0  # nats; 0 unless pure
    metric: int = 0  # nats per unit of distance; 0 unless metric
    slack: int = 0  # nats that a metric guarantee has on top, whatever the distance

    @classmethod
    def of(cls, certificate: Certificate, times: int) -> Self:
        """Of ``times`` releases under a certificate; IncompatibleGuarantees: it has a delta."""
        guarantee, epsilon = certificate.guarantee, certificate.epsilon
        if not epsilon >= 0:
            raise ParameterError(f"expected a certificate of epsilon >= 0, got {epsilon}")
        if math.isinf(epsilon) or isinstance(guarantee, NoGuarantee):
            return cls(kind="infinite", scale=NOTHING)
        if isinstance(guarantee, MetricDP):
            per_distance, slack = integer(guarantee.epsilon, times), integer(guarantee.slack, times)
            scale = f"{guarantee.distance}@{certificate.space}"
            return cls(kind="metric", scale=scale, metric=per_distance, slack=slack)
        if isinstance(guarantee, ApproxDP):
            raise IncompatibleGuarantees(
                "expected a pure, a metric or no guarantee, got ApproxDP: a ledger has no budget "
                "for delta; compose with an accountant of your own"
            )
        return cls(kind="pure", scale=PURE, epsilon=integer(epsilon, times))


@dataclass(frozen=True, kw_only=True)
class LedgerRow:
    """One event of a subject; never text."""

    subject: str = field(repr=False)
    number: int  # 1, 2, ... per subject, without gaps
    release: str  # random name of the event
    time: int  # microseconds since 1970; never decreasing along a subject's rows
    event: Event  # earlier versions also wrote replays of a charge, at no cost
    replay_of: str = ""  # the release that was replayed
    unit: str = ""
    tokens: int = 0  # or sentences, texts or values; public
    mechanism: str = ""  # fingerprint
    certificate: str = ""  # fingerprint
    kind: Kind  # of the cost, as the next four: see Cost
    scale: str
    epsilon: int
    metric: int
    slack: int
    total: int  # sum over the subject's rows of this scale up to here
    infinite_by: str  # the subject's first release without a finite guarantee, else empty
    budget: int  # the subject's own in force, 1e-12 nats; -1: the ledger's

    @property
    def amount(self) -> int:
        """What the row adds to the sum of its scale."""
        return self.epsilon + self.metric  # one of them is 0

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@lru_cache(maxsize=256)
def integer(nats: float, times: int = 1) -> int:
    """``times`` as many nats in 1e-12, rounded up, each at its shortest decimal: 0.1 is a tenth."""
    if math.isinf(nats):
        return UNLIMITED
    return min(math.ceil(Fraction(repr(float(nats))) * times * PER_NAT), UNLIMITED)


def budget_of(nats: float, name: str = "budget") -> int:
    """A budget in 1e-12 nats, rounded down; ``inf`` is :data:`UNLIMITED`."""
    if nats == math.inf:
        return UNLIMITED
    _validate.positive(**{name: nats})
    budget = math.floor(Fraction(repr(float(nats))) * PER_NAT)
    if not 0 < budget < UNLIMITED:
        raise ParameterError(
            f"expected 1e-12 <= {name} < {UNLIMITED // PER_NAT} nats, or inf; got {nats}"
        )
    return budget


def _table(name: str, types: dict[str, str], *keys: str) -> str:
    lines = [*(f"{column} {kind} NOT NULL" for column, kind in types.items()), *keys]
    return f"CREATE TABLE {name} (\n\t" + ", \n\t".join(lines) + "\n)"


_TYPES = {each.name: "BIGINT" if each.type == "int" else "TEXT" for each in fields(LedgerRow)}
_TYPES["digest"] = "TEXT"  # of a chain that earlier versions kept; now empty
_SCHEMA = (
    _table("dp_releases", _TYPES, "PRIMARY KEY (subject, number)", "UNIQUE (release)"),
    "CREATE INDEX dp_releases_by_scale ON dp_releases (subject, scale, time, number)",
    _table("dp_settings", {"name": "TEXT", "value": "TEXT"}, "PRIMARY KEY (name)"),
)
_REFUSING = """CREATE FUNCTION dp_append_only() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'the ledger is append-only'; END $$"""
_POSTGRESQL = """CREATE TRIGGER dp_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {0}
FOR EACH STATEMENT EXECUTE FUNCTION dp_append_only()"""
_SQLITE = """CREATE TRIGGER {0}_{1} BEFORE {1} ON {0}
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END"""


def create_tables(connection: sa.Connection, values: dict[str, str]) -> None:
    """Makes the tables, to which rows can only be added, and keeps the settings."""
    tables, events = ("dp_releases", "dp_settings"), ("UPDATE", "DELETE")
    if connection.dialect.name == "sqlite":
        triggers = [_SQLITE.format(table, event) for table in tables for event in events]
    else:
        triggers = [_REFUSING, *map(_POSTGRESQL.format, tables)]
    for statement in (*_SCHEMA, *triggers):
        connection.exec_driver_sql(statement)
    rows = [{"name": name, "value": value} for name, value in values.items()]
    connection.execute(sa.text("INSERT INTO dp_settings VALUES (:name, :value)"), rows)
