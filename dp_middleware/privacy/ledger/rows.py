"""Rows of a privacy ledger: what a charge costs, what a row says, and how it is read and written.

A row is a subject's whole state after an event, so the last row is all that a charge needs.
"""

from __future__ import annotations

import hashlib
import json
import math
import unicodedata
from contextlib import closing
from dataclasses import dataclass, field, fields
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal, Self

import sqlalchemy as sa
from sqlalchemy import BigInteger, Column, Index, MetaData, Table, Text

from dp_middleware import _validate
from dp_middleware.errors import IncompatibleGuarantees, ParameterError
from dp_middleware.privacy.certificate import Certificate
from dp_middleware.privacy.guarantee import ApproxDP, MetricDP, NoGuarantee

PER_NAT = 10**12
UNLIMITED = 2**62  # also where counting ends, 4.6 million nats; the sum of two fits 64 bits
PURE, NOTHING, OVERRIDE = "nats", "infinite", "budget"

Event = Literal["charge", "replay", "budget"]
Unit = Literal["occurrence", "document", "text", "value"]
Kind = Literal["pure", "metric", "infinite"]


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What a release adds, in integers of 1e-12, rounded up.

    Attributes:
        kind: ``"pure"``, ``"metric"`` or ``"infinite"``.
        scale: What may be added up: the name of a sum.
        epsilon: 1e-12 nats; 0 unless pure.
        metric: 1e-12 nats per unit of distance; 0 unless metric.
        slack: 1e-12 nats that a metric guarantee has on top, whatever the distance.
    """

    kind: Kind
    scale: str
    epsilon: int = 0
    metric: int = 0
    slack: int = 0

    @classmethod
    def of(cls, certificate: Certificate, times: int) -> Self:
        """Of ``times`` releases under a certificate.

        Raises:
            IncompatibleGuarantees: The guarantee has a delta, which no budget bounds.
        """
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
                "for delta; compose with dp_middleware.privacy.accountant"
            )
        return cls(kind="pure", scale=PURE, epsilon=integer(epsilon, times))

    @property
    def amount(self) -> int:
        """What is added to the sum of this scale."""
        return self.epsilon + self.metric  # one of them is 0


@dataclass(frozen=True, kw_only=True)
class Row:
    """One event of a subject; never text.

    Attributes:
        subject: Whose budget.
        number: 1, 2, ... per subject, without gaps.
        release: Random name of the event.
        time: Microseconds since 1970; never decreasing along a subject's rows.
        event: A charge, or a budget of the subject's own; earlier versions also wrote replays of a
            charge, at no cost.
        replay_of: The release that was replayed, else empty.
        unit: ``"occurrence"``, ``"document"``, ``"text"`` or ``"value"``.
        tokens: Number of tokens released; public.
        mechanism: Fingerprint.
        certificate: Fingerprint.
        kind: See :class:`Cost`, as ``scale``, ``epsilon``, ``metric`` and ``slack``.
        total: Sum over the subject's rows of this scale up to here, 1e-12 nats (per unit of
            distance).
        infinite_by: The first release of this subject without a finite guarantee, else empty.
        budget: The subject's own budget in force, 1e-12 nats; -1: the ledger's.
    """

    subject: str = field(repr=False)
    number: int
    release: str
    time: int
    event: Event
    replay_of: str = ""
    unit: str = ""
    tokens: int = 0
    mechanism: str = ""
    certificate: str = ""
    kind: Kind
    scale: str
    epsilon: int
    metric: int
    slack: int
    total: int
    infinite_by: str
    budget: int

    @property
    def amount(self) -> int:
        """What the row adds to the sum of its scale."""
        return self.epsilon + self.metric

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {name: getattr(self, name) for name in COLUMNS}


COLUMNS = tuple(each.name for each in fields(Row))


@lru_cache(maxsize=256)
def integer(nats: float, times: int = 1) -> int:
    """``times`` as many nats in 1e-12, rounded up; at most :data:`UNLIMITED`.

    A float is taken at its shortest decimal, as it was written: 0.1 is a tenth.
    """
    if math.isinf(nats):
        return UNLIMITED
    return min(math.ceil(Fraction(repr(float(nats))) * times * PER_NAT), UNLIMITED)


def nats_of(units: int) -> float:
    """Nats; ``inf`` where counting ends."""
    return math.inf if units >= UNLIMITED else units / PER_NAT


def budget_of(**parameters: float) -> int:
    """A budget in 1e-12 nats, rounded down; ``inf`` is :data:`UNLIMITED`."""
    for name, value in parameters.items():
        if value != math.inf:
            _validate.positive(**{name: value})
            budget = math.floor(Fraction(repr(float(value))) * PER_NAT)
            if not 0 < budget < UNLIMITED:
                raise ParameterError(
                    f"expected 1e-12 <= {name} < {UNLIMITED // PER_NAT} nats, or inf; got {value}"
                )
            return budget
    return UNLIMITED


def subject_name(subject: object) -> str:
    """The one spelling of a subject: NFC, without blanks at its ends.

    Raises:
        ParameterError: Empty, or with characters that cannot be printed.
    """
    name = unicodedata.normalize("NFC", subject).strip() if isinstance(subject, str) else ""
    if not name or not name.isprintable():
        raise ParameterError("expected subject= of printable characters, not empty")
    return name


@lru_cache(maxsize=64)
def fingerprint(certificate: Certificate) -> str:
    """Identifies a certificate."""
    text = json.dumps(certificate.to_dict(), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


metadata = MetaData()
releases = Table(
    "dp_releases",
    metadata,
    *(
        Column(
            column.name,
            BigInteger if column.type == "int" else Text,
            primary_key=column.name in ("subject", "number"),
            autoincrement=False,
            nullable=False,
            unique=column.name == "release",
        )
        for column in fields(Row)
    ),
    Column("digest", Text, nullable=False),  # of a chain that earlier versions kept; now empty
    Index("dp_releases_by_scale", "subject", "scale", "time", "number"),
)
SHOWN = tuple(releases.c[name] for name in COLUMNS)

settings = Table(
    "dp_settings",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
)

Statement = sa.Select[Any] | sa.Insert
"""Of a charge; passed straight to the driver: SQLAlchemy would take longer than the database."""

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


def last_row(connection: sa.Connection, subject: str, scale: str | None = None) -> Row | None:
    """The subject's last row, of all or of one scale."""
    if scale is None:
        return first_row(connection, LAST, subject=subject)
    return first_row(connection, LAST_OF_SCALE, subject=subject, scale=scale)


def ledger_name(connection: sa.Connection) -> str | None:
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
