"""A persistent privacy budget that threads, processes and machines share and cannot overdraw."""

from __future__ import annotations

import math
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from dp_middleware.errors import BudgetExhausted, LedgerError, ParameterError
from dp_middleware.privacy.ledger import _rows
from dp_middleware.privacy.ledger._book import ALL, Book, Page, ledger_row, nats_of, subject_name
from dp_middleware.privacy.ledger._database import Database
from dp_middleware.privacy.ledger._rows import PURE, UNLIMITED, Charge, Cost, LedgerRow, Terms

__all__ = ["Account", "Audit", "Charge", "LedgerError", "LedgerRow", "PrivacyLedger"]

_FORMAT = "2"  # 1 kept subjects as they were spelt
_METRIC = """SELECT scale, max(total) FROM dp_releases
WHERE subject = :subject AND kind = 'metric' GROUP BY scale ORDER BY scale"""


@dataclass(frozen=True, kw_only=True)
class Audit:
    """A ledger that is intact, in numbers."""

    subjects: int
    charges: int  # releases that were charged
    epsilon: int  # sum of all pure charges, 1e-12 nats

    @property
    def spent(self) -> float:
        """Nats, over all subjects."""
        return self.epsilon / _rows.PER_NAT

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class Account:
    """One subject's standing."""

    spent: float  # nats over all time; ``inf`` after a release without a finite guarantee
    remaining: float  # nats that may be charged now; 0 after such a release
    metric: dict[str, float]  # nats per unit of distance, by distance and space; not in ``spent``
    events: int  # number of rows
    infinite_by: str | None  # the first release without a finite guarantee


class PrivacyLedger(Book):
    """Charges before the draw, durably, and raises rather than exceed a budget.

    A pure guarantee adds its epsilon to ``spent``, a metric one has a budget of its own. A release
    without a finite guarantee is refused under a finite budget; with ``budget=math.inf`` it is
    recorded, and absorbs: the subject's ``spent`` is infinite from then on, ``remaining`` 0, and
    the account names the release. A sum is counted up to 4.6 million nats: under a finite budget
    more is refused, under ``math.inf`` ``spent`` is then infinite.

    Objects are shared by threads, survive a fork and pickle without their connection. Machines
    that share a ledger with a window need clocks that agree. SQLite needs a local disk;
    PostgreSQL must run with ``fsync`` on, as it does unless told otherwise. A ledger whose file or
    tables were deleted, or replaced by others, while it is open refuses every charge, and so does
    one whose file has several names (hard links; mount its folder into a container, never the
    file). A backup that is put back forgets what was spent since. See docs/budgets.md.

    Args:
        url: ``sqlite:///FILE`` or ``postgresql+psycopg://HOST/NAME``. Subjects are stored: use
            pseudonyms where names should not be on disk.
        budget: Nats per subject, rounded down to 1e-12; may be ``math.inf``. Stored with the
            ledger, with the next two; ``None``: the stored terms, of a ledger that exists.
        window: Seconds; charges count against the budgets for so long. ``None``: for ever.
        metric_budget: Nats per unit of distance, per subject, distance and space; may be
            ``math.inf``. ``None``: as many as ``budget``.
        clock: Seconds since 1970.

    Attributes:
        budget: As the next two, the stored terms.
        metric_budget: Nats per unit of distance.
        window: Seconds, or ``None``.

    Raises:
        ParameterError: The ledger was created with other terms, or none is there, or a window or
            metric budget comes without a budget.
        LedgerError: The database cannot be used.
    """

    def __init__(
        self,
        url: str,
        *,
        budget: float | None = None,
        window: float | None = None,
        metric_budget: float | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._clock = clock
        self._database = Database(url)
        if budget is None and (window, metric_budget) != (None, None):
            raise ParameterError("expected budget= beside window= or metric_budget=, got none")
        wanted = None if budget is None else Terms.of(budget, window, metric_budget)
        if not self._database.exists:
            if wanted is None:
                raise ParameterError("expected an existing ledger; give budget= to create one")
            terms = {name: str(value) for name, value in asdict(wanted).items()}
            name = secrets.token_hex(16)
            self._database.create({"format": _FORMAT, **terms, "ledger": name})
        self._stored = self._database.read(_settings_of)
        if self._stored.get("format") != _FORMAT:
            raise LedgerError(
                "expected a ledger of this library's format, got another, as earlier versions "
                "wrote; keep that one as a record and create a new one elsewhere"
            )
        stored = Terms(**{name: int(self._stored[name]) for name in Terms.__dataclass_fields__})
        if wanted is not None and wanted != stored:
            raise ParameterError(
                f"expected the terms of the ledger, {_shown(stored)}; got {_shown(wanted)}; "
                "give none to keep them"
            )
        self._terms = stored
        self.budget = nats_of(stored.budget)
        self.metric_budget = nats_of(stored.metric_budget)
        self.window = stored.window / _rows.MICROSECONDS if stored.window else None
        self._database.pin(self._stored["ledger"])

    def __repr__(self) -> str:
        return f"PrivacyLedger({self._database.kind}, budget={self.budget})"

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if not self._database.exists or self._database.read(_settings_of) != self._stored:
            raise LedgerError("expected the ledger that was pickled, got none or another one")
        self._database.pin(self._stored["ledger"])

    @property
    def file(self) -> Path | None:
        """Where the ledger is, if it is in a file."""
        return self._database.file

    def set_budget(self, subject: str, budget: float) -> None:
        """Gives a subject a budget of its own, once: the same again changes nothing.

        Its metric budget stays the ledger's. ParameterError: it already has another.
        """
        subject, wanted = subject_name(subject), _rows.budget_of(budget)
        before = self._read(lambda page: page.last(subject))
        if before is None or before.budget != wanted:
            cost = Cost(kind="pure", scale=_rows.OVERRIDE)
            self._append(subject, cost, event="budget", budget=wanted)

    def spent(self, subject: str) -> float:
        """Nats over all releases ever; ``inf`` after one without a finite guarantee."""
        return self.account(subject).spent

    def account(self, subject: str) -> Account:
        """The subject's standing; an unknown subject has spent nothing."""
        subject, now = subject_name(subject), self._now()
        return self._read(lambda page: _account(page, subject, now))

    def subjects(self) -> list[str]:
        """Every subject with a row, sorted."""
        return self._read(_subjects)

    def rows(self, subject: str) -> list[LedgerRow]:
        """The audit trail of a subject, in order."""
        name = subject_name(subject)
        return self._read(lambda page: [*_rows_of(page, name)])

    def verify(self) -> Audit:
        """Checks the file, and recomputes every sum from the rows.

        LedgerError: the file is damaged, a row is missing, a sum is wrong or a budget exceeded.
        """
        return self._read(_audit)


def _account(page: Page, subject: str, now: int) -> Account:
    last, pure = page.last(subject), page.last(subject, PURE)
    infinite_by = last.infinite_by if last else ""
    metric = page.run(_METRIC, subject=subject).fetchall()
    return Account(
        spent=math.inf if infinite_by else nats_of(pure.total if pure else 0),
        remaining=page.remaining(subject, now, last),
        metric={scale: nats_of(total) for scale, total in metric},
        events=last.number if last else 0,
        infinite_by=infinite_by or None,
    )


def _subjects(page: Page) -> list[str]:
    subjects = page.run("SELECT DISTINCT subject FROM dp_releases")
    return sorted(subject for (subject,) in subjects)


def _rows_of(page: Page, subject: str) -> Iterator[LedgerRow]:
    for columns in page.run(ALL, subject=subject):
        yield ledger_row(columns)


def _audit(page: Page) -> Audit:
    """Checks everything; LedgerError says what is wrong, in which row of which subject."""
    if page.connection.dialect.name == "sqlite":
        verdict = page.connection.exec_driver_sql("PRAGMA integrity_check").scalar()
        if verdict != "ok":
            raise LedgerError("expected an intact SQLite file, got a damaged one; restore a copy")
    names, charges, epsilon = _subjects(page), 0, 0
    for place, subject in enumerate(names, start=1):
        totals: Counter[str] = Counter()
        for number, row in enumerate(_rows_of(page, subject), start=1):
            totals[row.scale] = min(totals[row.scale] + row.amount, UNLIMITED)
            wrong = _wrong(page, row, number, totals[row.scale])
            if wrong is not None:
                raise LedgerError(
                    f"expected an intact ledger, got {wrong} at row {row.number} of subject "
                    f"{place} of {len(names)}"
                )
            charges += row.event == "charge"
            epsilon += row.epsilon
    return Audit(subjects=len(names), charges=charges, epsilon=epsilon)


def _wrong(page: Page, row: LedgerRow, number: int, total: int) -> str | None:
    if row.number != number:
        return "a missing row"
    if min(row.epsilon, row.metric, row.slack) < 0 or (row.event != "charge" and row.amount):
        return "a charge that cannot be"
    if row.total != total:
        return "a wrong sum"
    try:
        if row.event == "charge":
            page.check_fits(row)
    except BudgetExhausted:
        return "an exceeded budget"
    return None


def _shown(terms: Terms) -> str:
    window = f"{terms.window / _rows.MICROSECONDS:g} s" if terms.window else "None"
    budget, metric = nats_of(terms.budget), nats_of(terms.metric_budget)
    return f"budget={budget}, window={window}, metric_budget={metric}"


def _settings_of(connection: sa.Connection) -> dict[str, str]:
    rows = connection.exec_driver_sql("SELECT name, value FROM dp_settings")
    return {row.name: row.value for row in rows}
