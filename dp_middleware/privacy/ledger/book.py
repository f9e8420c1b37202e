"""What is charged to a subject of a privacy ledger: the row that follows another, or a refusal."""

from __future__ import annotations

import math
import re
import secrets
import unicodedata
from collections.abc import Callable
from functools import lru_cache
from typing import Any, get_args

import sqlalchemy as sa

from dp_middleware import _validate
from dp_middleware.errors import BudgetExhausted, ParameterError
from dp_middleware.privacy.certificate import Certificate
from dp_middleware.privacy.ledger.database import Database
from dp_middleware.privacy.ledger.rows import (
    COLUMNS,
    LEDGERS_OWN,
    MICROSECONDS,
    NOTHING,
    PER_NAT,
    PURE,
    SHOWN,
    UNLIMITED,
    Charge,
    Cost,
    LedgerRow,
    Terms,
    Unit,
    releases,
)
from dp_middleware.privacy.releases import write_remaining

_SHOWN = PER_NAT // 10**4  # four decimals, rounded down: never more than there is


OF_SUBJECT = sa.select(*SHOWN).where(releases.c.subject == sa.bindparam("subject"))
_LAST = OF_SUBJECT.order_by(releases.c.number.desc()).limit(1)
_LAST_OF_SCALE = (
    OF_SUBJECT.where(releases.c.scale == sa.bindparam("scale"))
    .order_by(releases.c.time.desc(), releases.c.number.desc())
    .limit(1)
)
_NAMED = sa.select(*SHOWN).where(releases.c.release == sa.bindparam("release"))
_LAST_UNTIL = _LAST_OF_SCALE.where(releases.c.time <= sa.bindparam("until"))
_INSERT = sa.insert(releases)


class Book:
    """Charges subjects, durably, and tells what remains."""

    _database: Database
    _terms: Terms
    _clock: Callable[[], float]

    def charge(
        self,
        subject: str,
        certificate: Certificate,
        n: int,
        unit: Unit = "occurrence",
        *,
        release: str | None = None,
    ) -> Charge:
        """Record a release of ``n`` tokens, or of a text, before it is drawn; durable on return.

        Args:
            subject: Whose budget.
            certificate: Of one occurrence, sentence, text or value.
            n: Number of tokens, public; of sentences, texts or values, for a certificate of these.
            unit: ``"occurrence"`` adds the certificate's epsilon once, also of a sentence, and
                ``"document"`` ``n`` times. A certificate of whole texts, or of values, is
                recorded as ``"text"`` or ``"value"`` and added ``n`` times.
            release: Its name, 32 hexadecimal digits that nobody else takes; default a random one.
                It is charged once: the same again, after a crash, returns what is recorded. Only
                for the very same draw, of the same randomness.

        Raises:
            BudgetExhausted: It does not fit; nothing is recorded.
            IncompatibleGuarantees: The guarantee has a delta.
            LedgerError: The database failed, or another one is in its place: nothing may be drawn.
            ParameterError: The subject is empty or has characters that cannot be printed, or
                something else is recorded under the name.
        """
        subject = subject_name(subject)
        _validate.at_least(1, n=n)
        if release is not None and not re.fullmatch(r"[0-9a-f]{32}", release):
            raise ParameterError("expected release= of 32 hexadecimal digits in lower case")
        _validate.one_of(get_args(Unit), unit=unit)
        own = certificate.unit
        if own in ("text", "value") or (own == "sentence" and unit != "document"):
            unit = own
        elif unit not in ("occurrence", "document"):
            raise ParameterError(
                f"expected a certificate of this unit, got unit={unit!r} of tokens"
            )
        return self._append(
            subject,
            Cost.of(certificate, 1 if unit in ("occurrence", "sentence") else int(n)),
            release=release,
            event="charge",
            unit=unit,
            tokens=int(n),
            mechanism=certificate.mechanism,
            certificate=certificate.fingerprint,
        )

    def remaining(self, subject: str) -> float:
        """Nats that may be charged now; 0 after a release without a finite guarantee."""
        subject, now = subject_name(subject), self._now()
        return self._database.read(
            lambda connection: remaining(connection, self._terms, subject, now)
        )

    def close(self) -> None:
        """Close the connection; the next call opens another."""
        self._database.close()

    def _now(self) -> int:
        return int(self._clock() * MICROSECONDS)

    def _append(self, subject: str, cost: Cost, **event: Any) -> Charge:
        now = self._now()
        charge = self._database.write(
            subject,
            lambda connection: append(connection, self._terms, subject, cost, now, **event),
        )
        write_remaining(charge.remaining)
        return charge


def subject_name(subject: object) -> str:
    """The one spelling of a subject: NFC, without blanks at its ends.

    Raises:
        ParameterError: Empty, or with characters that cannot be printed.
    """
    name = unicodedata.normalize("NFC", subject).strip() if isinstance(subject, str) else ""
    if not name or not name.isprintable():
        raise ParameterError("expected subject= of printable characters, not empty")
    return name


def last_row(connection: sa.Connection, subject: str, scale: str | None = None) -> LedgerRow | None:
    """The subject's last row, of all or of one scale."""
    query = _LAST if scale is None else _LAST_OF_SCALE
    return _row(connection, query, subject=subject, scale=scale)


def _row(connection: sa.Connection, query: sa.Select[Any], **values: Any) -> LedgerRow | None:
    columns = _run(connection, query, values).fetchone()
    return None if columns is None else LedgerRow(**dict(zip(COLUMNS, columns, strict=True)))


def _run(connection: sa.Connection, statement: sa.Executable, values: dict[str, Any]) -> Any:
    """A cursor of the driver's own: SQLAlchemy takes longer to run a statement than SQLite."""
    words, own, places = _compiled(statement, connection.dialect)
    values = {**own, **values}
    ordered = values if places is None else [values[name] for name in places]
    return connection.connection.cursor().execute(words, ordered)


@lru_cache(maxsize=64)
def _compiled(statement: Any, dialect: sa.Dialect) -> tuple[str, dict[str, Any], Any]:
    """In SQL, with its own values, and the order in which they are asked for."""
    compiled = statement.compile(dialect=dialect)
    return compiled.string, compiled.params, compiled.positiontup


def nats_of(units: int) -> float:
    """Nats; ``inf`` where counting ends."""
    return math.inf if units >= UNLIMITED else units / PER_NAT


def _limit(terms: Terms, scale: str, own: int) -> int:
    """How much may be charged on a scale within a window; ``own``: see :class:`LedgerRow`."""
    budget = terms.budget if own == LEDGERS_OWN else own
    if scale == PURE:
        return budget
    if scale == NOTHING:
        return UNLIMITED if budget == UNLIMITED else 0
    return terms.metric_budget


def remaining(
    connection: sa.Connection,
    terms: Terms,
    subject: str,
    now: int,
    last: LedgerRow | None = None,
) -> float:
    """Nats that a subject may be charged at a time; ``last``: its last row, where that is known."""
    last = last or last_row(connection, subject)
    if last is None:
        return nats_of(terms.budget)
    if last.infinite_by:
        return 0.0
    pure = last if last.scale == PURE else last_row(connection, subject, PURE)
    limit = _limit(terms, PURE, last.budget)
    counted = _in_window(connection, terms, pure, max(now, last.time)) if pure else 0
    return nats_of(limit if limit == UNLIMITED else max(0, limit - counted))


def append(
    connection: sa.Connection,
    terms: Terms,
    subject: str,
    cost: Cost,
    now: int,
    release: str | None = None,
    **event: Any,
) -> Charge:
    """Add the row of an event, if none has its name; the caller holds the subject's lock.

    Raises:
        BudgetExhausted: It does not fit.
        ParameterError: A second budget of the subject's own, or another event of this name.
    """
    if release is not None and (known := _row(connection, _NAMED, release=release)) is not None:
        if {**vars(known), "subject": subject, **vars(cost), **event} != vars(known):
            raise ParameterError("expected the release that is recorded under its name")
        return _charged(known, remaining(connection, terms, subject, now))
    before, name = last_row(connection, subject), release or secrets.token_hex(16)
    own = before.budget if before else LEDGERS_OWN
    is_on_scale = before is None or before.scale == cost.scale
    on_scale = before if is_on_scale else last_row(connection, subject, cost.scale)
    is_infinite = cost.kind == "infinite" and event["event"] == "charge"
    row = LedgerRow(
        subject=subject,
        number=before.number + 1 if before else 1,
        release=name,
        time=max(now, before.time) if before else now,
        total=min((on_scale.total if on_scale else 0) + cost.amount, UNLIMITED),
        infinite_by=(before.infinite_by if before else "") or name * is_infinite,
        **{"budget": own, **vars(cost), **event},
    )
    if row.event == "budget" and own not in (LEDGERS_OWN, row.budget):
        raise ParameterError(
            f"expected the subject's own budget as stored, {nats_of(own)}, "
            f"got budget={nats_of(row.budget)}; a budget is set once"
        )
    if row.event == "charge":
        check_fits(connection, terms, row)
    _run(connection, _INSERT, {**vars(row), "digest": ""})
    return _charged(row, remaining(connection, terms, subject, now, last=row))


def _charged(row: LedgerRow, left: float) -> Charge:
    is_infinite = row.kind == "infinite" and row.event == "charge"
    epsilon = math.inf if is_infinite else nats_of(row.epsilon)
    return Charge(release_id=row.release, number=row.number, epsilon=epsilon, remaining=left)


def check_fits(connection: sa.Connection, terms: Terms, row: LedgerRow) -> None:
    """Refuse a charge that the budget has no room for.

    Raises:
        BudgetExhausted: It has not.
    """
    counted = _in_window(connection, terms, row, row.time)
    limit = _limit(terms, row.scale, row.budget)
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
        left = max(0, limit - counted + row.amount) // _SHOWN * _SHOWN
        per = " per unit of distance" if row.kind == "metric" else ""
        within = f" per {terms.window / MICROSECONDS:g} s" if terms.window else ""
        raise BudgetExhausted(
            f"expected a charge of at most {nats_of(left):.12g} nats{per}, what is left of the "
            f"budget of {nats_of(limit):.6g}{within} of the subject {row.subject!r}; got "
            f"{nats_of(row.amount):.6g}; nothing was recorded"
        )


def _in_window(connection: sa.Connection, terms: Terms, row: LedgerRow, at: int) -> int:
    """The part of ``row.total`` that still counts against the budget at a time."""
    if not terms.window:
        return row.total
    until = at - terms.window
    expired = _row(connection, _LAST_UNTIL, subject=row.subject, scale=row.scale, until=until)
    return row.total - (expired.total if expired else 0)
