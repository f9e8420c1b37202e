"""Whose budget a release is charged to."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Self

from dp_middleware.errors import BudgetExhausted, ParameterError
from dp_middleware.privacy import Certificate, PureDP
from dp_middleware.privacy.receipts import write_charge
from dp_middleware.privacy.releases import Ledger

Bill = tuple[Certificate, int]
"""What a release is charged with, and for how many tokens or texts; for none nothing is."""


def check_payer(ledger: Ledger | None, subject: str | None) -> None:
    """Refuse a ledger without a subject, or what is none.

    Raises:
        ParameterError: See above.
    """
    if ledger is not None and not subject:
        raise ParameterError("expected subject= with a ledger: whose budget is charged?")
    if ledger is not None and not callable(getattr(ledger, "charge", None)):
        raise ParameterError(
            f"expected ledger= with charge(), got {type(ledger).__name__}; write "
            'ledger=dp.PrivacyLedger("sqlite:///FILE", budget=NATS)'
        )


class Payer(ABC):
    """What releases in the name of a subject.

    Attributes:
        ledger: Charged before any draw; ``None``: nothing is.
        subject: Whose budget.
    """

    ledger: Ledger | None
    subject: str | None

    @property
    @abstractmethod
    def certificate(self) -> Certificate:
        """The guarantee of every release."""

    def for_subject(self, subject: str) -> Self:
        """The same, charging another subject's budget.

        Raises:
            ParameterError: No name.
        """
        name: object = subject
        if not isinstance(name, str) or not name.strip():
            raise ParameterError("expected subject= of type str, not empty: whose budget?")
        twin = copy.copy(self)
        twin.subject = subject
        return twin

    def pay(self, bills: Iterable[Bill]) -> None:
        """Charge one release after the other.

        Raises:
            BudgetExhausted: From the ledger; what was charged before stays spent.
        """
        for certificate, n in bills:
            if self.ledger is not None and self.subject is not None and n:
                self.ledger.charge(self.subject, certificate, n)
            if n:
                write_charge(certificate)

    def require_budget(self, releases: int) -> None:
        """Refuse what cannot be afforded as a whole; reserves nothing.

        Args:
            releases: How many are needed.

        Raises:
            BudgetExhausted: The subject's budget has less left.
            ParameterError: The guarantee is not pure DP, so that its price is another.
        """
        if self.ledger is None or self.subject is None:
            return
        if not isinstance(self.certificate.guarantee, PureDP):
            raise ParameterError("expected a mechanism of pure DP to tell what a turn costs")
        remaining = getattr(self.ledger, "remaining", None)
        if remaining is None:
            raise ParameterError("expected a dp.PrivacyLedger to tell what remains of a budget")
        if remaining(self.subject) < releases * self.certificate.epsilon:
            raise BudgetExhausted(
                f"expected a budget for {releases} releases, got less; nothing was charged"
            )
