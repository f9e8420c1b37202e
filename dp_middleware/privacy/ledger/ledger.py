"""A persistent privacy budget that threads, processes and machines share and cannot overdraw."""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Callable
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from dp_middleware import _validate
from dp_middleware.errors import LedgerError, ParameterError
from dp_middleware.privacy.ledger.audit import Account, Audit, account, all_rows, audit, subjects
from dp_middleware.privacy.ledger.book import (
    Book,
    last_row,
    nats_of,
    subject_name,
)
from dp_middleware.privacy.ledger.database import Database
from dp_middleware.privacy.ledger.rows import (
    MICROSECONDS,
    OVERRIDE,
    PER_NAT,
    UNLIMITED,
    Charge,
    Cost,
    LedgerRow,
    Terms,
    settings,
)

__all__ = ["Account", "Audit", "Charge", "LedgerError", "LedgerRow", "PrivacyLedger"]


_FORMAT = "2"  # 1 kept subjects as they were spelt


class PrivacyLedger(Book):
    """Charges before the draw, durably, and raises rather than exceed a budget.

    A pure guarantee adds its epsilon to ``spent``: a valid sum also where what is released next
    depends on what was released. A metric guarantee has another unit and sits in another column
    with a budget of its own: as many nats per unit of distance, unless ``metric_budget`` says
    otherwise. A release without a finite guarantee is refused under a finite budget; with
    ``budget=math.inf`` it is recorded, and absorbs: the subject's ``spent`` is infinite from then
    on, ``remaining`` 0, and the account names the release. A sum is counted up to 4.6 million nats:
    under a finite budget more is refused, under ``math.inf`` ``spent`` is then infinite.

    Objects are shared by threads, survive a fork and pickle without their connection. Machines
    that share a ledger with a window need clocks that agree. SQLite needs a local disk;
    PostgreSQL must run with ``fsync`` on, as it does unless told otherwise.

    A subject is its name in Unicode's composed form (NFC) without blanks at its ends: ``"Ann"`` and
    ``"Ann "`` have one budget; upper and lower case differ. A ledger whose file or tables were
    deleted, or replaced by others, while it is open refuses every charge, and so does one whose
    file has several names (hard links; mount its folder into a container, never the file). A
    backup that is put back forgets what was spent since, and nothing tells it apart.

    Args:
        url: ``sqlite:///FILE`` or ``postgresql+psycopg://HOST/NAME``. Subjects are stored: use
            pseudonyms where names should not be on disk.
        budget: Nats per subject, rounded down to 1e-12; may be ``math.inf``. Stored with the
            ledger, with the next two; ``None``: the stored terms, of a ledger that exists.
        window: Seconds; charges count against the budgets for so long. ``None``: for ever.
        metric_budget: Nats per unit of distance, per subject, distance and space; may be
            ``math.inf``. ``None``: as many as ``budget``.
        clock: Seconds since 1970.

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
        wanted = None if budget is None else _terms_of(budget, window, metric_budget)
        if not self._database.exists:
            if wanted is None:
                raise ParameterError("expected an existing ledger; give budget= to create one")
            terms = {name: str(value) for name, value in asdict(wanted).items()}
            ledger = {"format": _FORMAT, **terms, "ledger": secrets.token_hex(16)}
            self._database.create(ledger)
        self._stored = self._database.read(_settings_of)
        stored = _stored_terms(self._stored)
        if stored is None:
            raise LedgerError(
                "expected a ledger of this library's format, got another, as earlier versions "
                "wrote; keep that one as a record and create a new one elsewhere"
            )
        if wanted not in (None, stored):
            raise ParameterError(
                f"expected the terms of the ledger, {_shown(stored)}; got {_shown(wanted)}; "
                "give none to keep them"
            )
        self._terms = stored
        self._database.pin(self._stored["ledger"])

    def __repr__(self) -> str:
        return f"PrivacyLedger({self._database.kind}, budget={self.budget})"

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if not self._database.exists or self._database.read(_settings_of) != self._stored:
            raise LedgerError("expected the ledger that was pickled, got none or another one")
        self._database.pin(self._stored["ledger"])

    @property
    def budget(self) -> float:
        """Nats per subject and window."""
        return nats_of(self._terms.budget)

    @property
    def metric_budget(self) -> float:
        """Nats per unit of distance, per subject, distance, space and window."""
        return nats_of(self._terms.metric_budget)

    @property
    def file(self) -> Path | None:
        """Where the ledger is, if it is in a file."""
        return self._database.file

    @property
    def window(self) -> float | None:
        """Seconds for which a charge counts against the budgets; ``None``: for ever."""
        return self._terms.window / MICROSECONDS if self._terms.window else None

    def set_budget(self, subject: str, budget: float) -> None:
        """Give a subject a budget of its own, once: the same again changes nothing.

        Its metric budget stays the ledger's.

        Raises:
            ParameterError: It already has another.
        """
        subject = subject_name(subject)
        wanted = _budget_of(budget=budget)
        before = self._database.read(lambda connection: last_row(connection, subject))
        if before is None or before.budget != wanted:
            cost = Cost(kind="pure", scale=OVERRIDE)
            self._append(subject, cost, event="budget", budget=wanted)

    def spent(self, subject: str) -> float:
        """Nats over all releases ever; ``inf`` after one without a finite guarantee."""
        return self.account(subject).spent

    def account(self, subject: str) -> Account:
        """The subject's standing; an unknown subject has spent nothing."""
        subject, now = subject_name(subject), self._now()
        return self._database.read(
            lambda connection: account(connection, self._terms, subject, now)
        )

    def subjects(self) -> list[str]:
        """Every subject with a row, sorted."""
        return self._database.read(subjects)

    def rows(self, subject: str) -> list[LedgerRow]:
        """The audit trail of a subject, in order."""
        name = subject_name(subject)
        return self._database.read(lambda connection: list(all_rows(connection, name)))

    def verify(self) -> Audit:
        """Checks the file, and recomputes every sum from the rows.

        Raises:
            LedgerError: The file is damaged, a row is missing, a sum is wrong or a budget exceeded.
        """
        return self._database.read(lambda connection: audit(connection, self._terms))


def _terms_of(budget: float, window: float | None, metric_budget: float | None) -> Terms:
    """From what users give; no metric budget: as many nats as the budget has."""
    if window is not None:
        _validate.positive(window=window)
    pure = _budget_of(budget=budget)
    return Terms(
        budget=pure,
        metric_budget=pure if metric_budget is None else _budget_of(metric_budget=metric_budget),
        window=0 if window is None else math.ceil(window * MICROSECONDS),
    )


def _shown(terms: Terms) -> str:
    window = f"{terms.window / MICROSECONDS:g} s" if terms.window else "None"
    budget, metric = nats_of(terms.budget), nats_of(terms.metric_budget)
    return f"budget={budget}, window={window}, metric_budget={metric}"


def _stored_terms(values: dict[str, str]) -> Terms | None:
    """From a ledger's settings, or ``None`` if they are of another format."""
    if values.get("format") != _FORMAT:
        return None
    return Terms(**{name: int(values[name]) for name in Terms.__dataclass_fields__})


def _budget_of(**parameters: float) -> int:
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


def _settings_of(connection: sa.Connection) -> dict[str, str]:
    """The terms and the name of a ledger, by name."""
    return {row.name: row.value for row in connection.execute(sa.select(settings))}
