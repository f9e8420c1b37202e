"""What the rows of a ledger say in one transaction: the row that follows another, or a refusal."""

from __future__ import annotations

import math
import re
import secrets
import unicodedata
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar, get_args

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

T = TypeVar("T")

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


class Page:
    """Reads and adds rows in a transaction; to add one, the caller holds the subject's lock."""

    def __init__(self, terms: Terms, connection: sa.Connection) -> None:
        self._terms, self.connection = terms, connection

    def last(self, subject: str, scale: str | None = None) -> LedgerRow | None:
        """Returns the subject's last row, of all or of one scale."""
        query = _LAST if scale is None else _LAST_OF_SCALE
        return self._row(query, subject=subject, scale=scale)

    def remaining(self, subject: str, now: int, last: LedgerRow | None = None) -> float:
        """Nats that a subject may be charged at a time; ``last``: its last row, where known."""
        last = last or self.last(subject)
        if last is None:
            return nats_of(self._terms.budget)
        if last.infinite_by:
            return 0.0
        pure = last if last.scale == PURE else self.last(subject, PURE)
        limit = self._limit(PURE, last.budget)
        counted = self._in_window(pure, max(now, last.time)) if pure else 0
        return nats_of(limit if limit == UNLIMITED else max(0, limit - counted))

    def append(
        self, subject: str, cost: Cost, now: int, release: str | None = None, **event: Any
    ) -> Charge:
        """Adds the row of an event, if none has its name; BudgetExhausted: it does not fit."""
        if release is not None and (known := self._row(_NAMED, release=release)) is not None:
            if {**vars(known), "subject": subject, **vars(cost), **event} != vars(known):
                raise ParameterError("expected the release that is recorded under its name")
            return _charged(known, self.remaining(subject, now))
        before, name = self.last(subject), release or secrets.token_hex(16)
        own = before.budget if before else LEDGERS_OWN
        is_on_scale = before is None or before.scale == cost.scale
        on_scale = before if is_on_scale else self.last(subject, cost.scale)
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
            self.check_fits(row)
        self._run(_INSERT, {**vars(row), "digest": ""})
        return _charged(row, self.remaining(subject, now, last=row))

    def check_fits(self, row: LedgerRow) -> None:
        """Refuses, by BudgetExhausted, a charge that the budget has no room for."""
        limit = self._limit(row.scale, row.budget)
        if limit == UNLIMITED:
            return
        counted = self._in_window(row, row.time)
        if row.kind == "infinite":
            raise BudgetExhausted(
                "expected a finite loss under a finite budget, got a certificate that guarantees "
                "nothing; nothing was recorded; see budget=math.inf"
            )
        if row.kind == "pure" and row.infinite_by:
            raise BudgetExhausted(
                f"release {row.infinite_by} guarantees nothing and has used up any finite budget"
            )
        if counted > limit or row.total >= UNLIMITED:
            left = max(0, limit - counted + row.amount) // _SHOWN * _SHOWN
            per = " per unit of distance" if row.kind == "metric" else ""
            window = self._terms.window
            within = f" per {window / MICROSECONDS:g} s" if window else ""
            raise BudgetExhausted(
                f"expected a charge of at most {nats_of(left):.12g} nats{per}, what is left of the "
                f"budget of {nats_of(limit):.6g}{within} of the subject {row.subject!r}; got "
                f"{nats_of(row.amount):.6g}; nothing was recorded"
            )

    def _limit(self, scale: str, own: int) -> int:
        """How much may be charged on a scale within a window; ``own``: see :class:`LedgerRow`."""
        budget = self._terms.budget if own == LEDGERS_OWN else own
        if scale == PURE:
            return budget
        if scale == NOTHING:
            return UNLIMITED if budget == UNLIMITED else 0
        return self._terms.metric_budget

    def _in_window(self, row: LedgerRow, at: int) -> int:
        """The part of ``row.total`` that still counts against the budget at a time."""
        if not self._terms.window:
            return row.total
        until = at - self._terms.window
        expired = self._row(_LAST_UNTIL, subject=row.subject, scale=row.scale, until=until)
        return row.total - (expired.total if expired else 0)

    def _row(self, query: sa.Select[Any], **values: Any) -> LedgerRow | None:
        columns = self._run(query, values).fetchone()
        return None if columns is None else LedgerRow(**dict(zip(COLUMNS, columns, strict=True)))

    def _run(self, statement: sa.Executable, values: dict[str, Any]) -> Any:
        """A cursor of the driver's own: SQLAlchemy takes longer to run a statement than SQLite."""
        words, own, places = _compiled(statement, self.connection.dialect)
        values = {**own, **values}
        ordered = values if places is None else [values[name] for name in places]
        return self.connection.connection.cursor().execute(words, ordered)


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
            raise ParameterError(f"expected a certificate of this unit, got {unit=} of tokens")
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
        return self._read(lambda page: page.remaining(subject, now))

    def close(self) -> None:
        """Close the connection; the next call opens another."""
        self._database.close()

    def _read(self, work: Callable[[Page], T]) -> T:
        return self._database.read(lambda connection: work(Page(self._terms, connection)))

    def _append(self, subject: str, cost: Cost, **event: Any) -> Charge:
        now = self._now()
        charge = self._database.write(
            subject,
            lambda connection: Page(self._terms, connection).append(subject, cost, now, **event),
        )
        write_remaining(charge.remaining)
        return charge

    def _now(self) -> int:
        return int(self._clock() * MICROSECONDS)


def subject_name(subject: object) -> str:
    """The one spelling of a subject: NFC, without blanks at its ends."""
    name = unicodedata.normalize("NFC", subject).strip() if isinstance(subject, str) else ""
    if not name or not name.isprintable():
        raise ParameterError("expected subject= of printable characters, not empty")
    return name


def nats_of(units: int) -> float:
    """Nats; ``inf`` where counting ends."""
    return math.inf if units >= UNLIMITED else units / PER_NAT


@lru_cache(maxsize=64)
def _compiled(statement: Any, dialect: sa.Dialect) -> tuple[str, dict[str, Any], Any]:
    """In SQL, with its own values, and the order in which they are asked for."""
    compiled = statement.compile(dialect=dialect)
    return compiled.string, compiled.params, compiled.positiontup


def _charged(row: LedgerRow, left: float) -> Charge:
    is_infinite = row.kind == "infinite" and row.event == "charge"
    epsilon = math.inf if is_infinite else nats_of(row.epsilon)
    return Charge(release_id=row.release, number=row.number, epsilon=epsilon, remaining=left)
