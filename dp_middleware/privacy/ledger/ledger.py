"""A persistent privacy budget that threads, processes and machines share and cannot overdraw."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

from dp_middleware import _validate
from dp_middleware.errors import LedgerError, ParameterError
from dp_middleware.privacy.certificate import Certificate
from dp_middleware.privacy.ledger import book
from dp_middleware.privacy.ledger.audit import Audit, all_rows, audit, subjects
from dp_middleware.privacy.ledger.book import (
    MICROSECONDS,
    Account,
    Charge,
    Terms,
    budget_of,
    nats_of,
    subject_name,
)
from dp_middleware.privacy.ledger.database import Database
from dp_middleware.privacy.ledger.rows import OVERRIDE, Cost, LedgerRow, Unit
from dp_middleware.privacy.releases import write_remaining

__all__ = ["Account", "Audit", "Charge", "LedgerError", "LedgerRow", "PrivacyLedger"]


class PrivacyLedger:
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
        wanted = None if budget is None else Terms.of(budget, window, metric_budget)
        if not self._database.exists:
            if wanted is None:
                raise ParameterError("expected an existing ledger; give budget= to create one")
            self._database.create({**wanted.settings, "ledger": secrets.token_hex(16)})
        self._stored = self._database.read(book.stored_settings)
        stored = Terms.stored(self._stored)
        if stored is None:
            raise LedgerError(
                "expected a ledger of this library's format, got another, as earlier versions "
                "wrote; keep that one as a record and create a new one elsewhere"
            )
        if wanted not in (None, stored):
            raise ParameterError(
                f"expected the terms of the ledger, {stored}; got {wanted}; give none to keep them"
            )
        self._terms = stored
        self._database.pin(self._stored["ledger"])

    def __repr__(self) -> str:
        return f"PrivacyLedger({self._database.kind}, budget={self.budget})"

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if not self._database.exists or self._database.read(book.stored_settings) != self._stored:
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

    def charge(
        self, subject: str, certificate: Certificate, n: int, unit: Unit = "occurrence"
    ) -> Charge:
        """Record a release of ``n`` tokens, or of a text, before it is drawn; durable on return.

        Args:
            subject: Whose budget.
            certificate: Of one occurrence, sentence, text or value.
            n: Number of tokens, public; of sentences, texts or values, for a certificate of these.
            unit: ``"occurrence"`` adds the certificate's epsilon once, ``"document"`` ``n`` times.
                A certificate of a sentence is recorded as ``"sentence"`` and added once, one of
                whole texts, or of values, as ``"text"`` or ``"value"`` and added ``n`` times.

        Raises:
            BudgetExhausted: It does not fit; nothing is recorded.
            IncompatibleGuarantees: The guarantee has a delta.
            LedgerError: The database failed, or another one is in its place: nothing may be drawn.
            ParameterError: The subject is empty or has characters that cannot be printed.
        """
        subject = subject_name(subject)
        _validate.at_least(1, n=n)
        _validate.one_of(get_args(Unit), unit=unit)
        if certificate.unit != "occurrence" and unit != "document":
            unit = certificate.unit
        elif unit not in ("occurrence", "document"):
            raise ParameterError(
                f"expected a certificate of this unit, got unit={unit!r} of tokens"
            )
        return self._append(
            subject,
            Cost.of(certificate, 1 if unit in ("occurrence", "sentence") else int(n)),
            event="charge",
            unit=unit,
            tokens=int(n),
            mechanism=certificate.mechanism,
            certificate=certificate.fingerprint,
        )

    def set_budget(self, subject: str, budget: float) -> None:
        """Give a subject a budget of its own, once: the same again changes nothing.

        Its metric budget stays the ledger's.

        Raises:
            ParameterError: It already has another.
        """
        subject = subject_name(subject)
        wanted = budget_of(budget=budget)
        before = self._database.read(lambda connection: book.last_row(connection, subject))
        if before is None or before.budget != wanted:
            cost = Cost(kind="pure", scale=OVERRIDE)
            self._append(subject, cost, event="budget", budget=wanted)

    def spent(self, subject: str) -> float:
        """Nats over all releases ever; ``inf`` after one without a finite guarantee."""
        return self.account(subject).spent

    def remaining(self, subject: str) -> float:
        """Nats that may be charged now; 0 after a release without a finite guarantee."""
        subject, now = subject_name(subject), self._now()
        return self._database.read(
            lambda connection: book.remaining(connection, self._terms, subject, now)
        )

    def account(self, subject: str) -> Account:
        """The subject's standing; an unknown subject has spent nothing."""
        subject, now = subject_name(subject), self._now()
        return self._database.read(
            lambda connection: book.account(connection, self._terms, subject, now)
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

    def close(self) -> None:
        """Close the connection; the next call opens another."""
        self._database.close()

    def _now(self) -> int:
        return int(self._clock() * MICROSECONDS)

    def _append(self, subject: str, cost: Cost, **event: Any) -> Charge:
        now = self._now()
        charge = self._database.write(
            subject,
            lambda connection: book.append(connection, self._terms, subject, cost, now, **event),
        )
        write_remaining(charge.remaining)
        return charge
