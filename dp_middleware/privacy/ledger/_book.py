"""What every charge to a ledger takes: the row that follows another, or a refusal."""

from __future__ import annotations

import math
import re
import secrets
import unicodedata
from collections.abc import Callable
from typing import Any, TypeVar, get_args

import sqlalchemy as sa

from dp_middleware import _validate
from dp_middleware.errors import BudgetExhausted, ParameterError
from dp_middleware.privacy.certificate import Certificate
from dp_middleware.privacy.ledger import _rows
from dp_middleware.privacy.ledger._database import Database
from dp_middleware.privacy.ledger._rows import PURE, UNLIMITED, Charge, Cost, LedgerRow, Unit
from dp_middleware.privacy.releases import write_remaining

T = TypeVar("T")

_SHOWN = _rows.PER_NAT // 10**4  # four decimals, rounded down: never more than there is
_COLUMNS = tuple(LedgerRow.__dataclass_fields__)
_SELECT = f"SELECT {', '.join(_COLUMNS)} FROM dp_releases WHERE "
ALL = f"{_SELECT} subject = :subject ORDER BY number"
_LAST = f"{ALL} DESC LIMIT 1"
_OF_SCALE = f"{_SELECT} subject = :subject AND scale = :scale"
_NEWEST = "ORDER BY time DESC, number DESC LIMIT 1"
_NAMED = f"{_SELECT} release = :release"
_INSERT = f"""INSERT INTO dp_releases ({", ".join(_COLUMNS)}, digest)
VALUES ({", ".join(f":{name}" for name in _COLUMNS)}, '')"""
_VALUE = re.compile(r":(\w+)")


class Page:
    """Reads and adds rows in a transaction; to add one, the caller holds the subject's lock."""

    def __init__(self, terms: _rows.Terms, connection: sa.Connection) -> None:
        self._terms, self.connection = terms, connection

    def last(self, subject: str, scale: str | None = None) -> LedgerRow | None:
        query = _LAST if scale is None else f"{_OF_SCALE} {_NEWEST}"
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
            return self._charged(known, now)
        before, name = self.last(subject), release or secrets.token_hex(16)
        own = before.budget if before else _rows.LEDGERS_OWN
        on_scale = before
        if before is not None and before.scale != cost.scale:
            on_scale = self.last(subject, cost.scale)
        is_infinite = cost.kind == "infinite" and event["event"] == "charge"
        total = (on_scale.total if on_scale else 0) + cost.epsilon + cost.metric
        row = LedgerRow(
            subject=subject,
            number=before.number + 1 if before else 1,
            release=name,
            time=max(now, before.time) if before else now,
            total=min(total, UNLIMITED),
            infinite_by=(before.infinite_by if before else "") or name * is_infinite,
            **{"budget": own, **vars(cost), **event},
        )
        if row.event == "budget" and own not in (_rows.LEDGERS_OWN, row.budget):
            raise ParameterError(
                f"expected the subject's own budget as stored, {nats_of(own)}, "
                f"got budget={nats_of(row.budget)}; a budget is set once"
            )
        if row.event == "charge":
            self.check_fits(row)
        self.run(_INSERT, **vars(row))
        return self._charged(row, now, row)

    def _charged(self, row: LedgerRow, now: int, last: LedgerRow | None = None) -> Charge:
        is_infinite = row.kind == "infinite" and row.event == "charge"
        return Charge(
            release_id=row.release,
            number=row.number,
            epsilon=math.inf if is_infinite else nats_of(row.epsilon),
            remaining=self.remaining(row.subject, now, last),
        )

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
            within = f" per {window / _rows.MICROSECONDS:g} s" if window else ""
            raise BudgetExhausted(
                f"expected a charge of at most {nats_of(left):.12g} nats{per}, what is left of the "
                f"budget of {nats_of(limit):.6g}{within} of the subject {row.subject!r}; got "
                f"{nats_of(row.amount):.6g}; nothing was recorded"
            )

    def _in_window(self, row: LedgerRow, at: int) -> int:
        """The part of ``row.total`` that still counts against the budget at a time."""
        if not self._terms.window:
            return row.total
        until = at - self._terms.window
        query, scale = f"{_OF_SCALE} AND time <= :until {_NEWEST}", row.scale
        expired = self._row(query, subject=row.subject, scale=scale, until=until)
        return row.total - (expired.total if expired else 0)

    def _limit(self, scale: str, own: int) -> int:
        """How much may be charged on a scale within a window; ``own``: see :class:`LedgerRow`."""
        budget = self._terms.budget if own == _rows.LEDGERS_OWN else own
        if scale == _rows.NOTHING:
            return UNLIMITED if budget == UNLIMITED else 0
        return budget if scale == PURE else self._terms.metric_budget

    def _row(self, query: str, **values: Any) -> LedgerRow | None:
        columns = self.run(query, **values).fetchone()
        return None if columns is None else ledger_row(columns)

    def run(self, statement: str, **values: Any) -> Any:
        """A cursor of the driver's own: SQLAlchemy takes longer to run a statement than SQLite."""
        if self.connection.dialect.name == "postgresql":
            statement = _VALUE.sub(r"%(\1)s", statement)
        return self.connection.connection.cursor().execute(statement, values)


class Book:
    """Charges subjects, durably, and tells what remains."""

    _database: Database
    _terms: _rows.Terms
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
        """Records a release of ``n`` tokens, or of a text, before it is drawn; durable on return.

        Args:
            subject: Whose budget.
            certificate: Of one occurrence, sentence, text or value.
            n: Number of tokens, public; of sentences, texts or values, for a certificate of these.
            unit: ``"occurrence"`` adds the certificate's epsilon once, also of a sentence, and
                ``"document"`` ``n`` times. That of whole texts, or of values, is added ``n`` times.
            release: Its name, 32 hexadecimal digits that nobody else takes; default a random one.
                Charged once: the same again, after a crash, returns what is recorded. Only for the
                very same draw, of the same randomness.

        Raises:
            BudgetExhausted: It does not fit; nothing is recorded.
            IncompatibleGuarantees: The guarantee has a delta.
            LedgerError: The database failed, or another one is in its place: nothing may be drawn.
            ParameterError: No printable subject, or something else is recorded under the name.
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
        """Closes the connection; the next call opens another."""
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
        return int(self._clock() * _rows.MICROSECONDS)


def subject_name(subject: object) -> str:
    """The one spelling of a subject: NFC, without blanks at its ends."""
    name = unicodedata.normalize("NFC", subject).strip() if isinstance(subject, str) else ""
    if not name or not name.isprintable():
        raise ParameterError("expected subject= of printable characters, not empty")
    return name


def nats_of(units: int) -> float:
    """Nats; ``inf`` where counting ends."""
    return math.inf if units >= UNLIMITED else units / _rows.PER_NAT


def ledger_row(columns: Any) -> LedgerRow:
    return LedgerRow(**dict(zip(_COLUMNS, columns, strict=True)))
