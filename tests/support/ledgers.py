"""Ledgers in memory, for what charges them."""

import math

import dp_middleware as dp


class Charges:
    """Keeps what it is charged.

    Args:
        budget: Tokens that it grants.

    Attributes:
        rows: Subject, epsilon and tokens of each charge.
        certificates: Of each charge.
    """

    def __init__(self, budget: float = math.inf) -> None:
        self.rows: list[tuple[str, float, int]] = []
        self.certificates: list[dp.Certificate] = []
        self.budget = budget

    def charge(self, subject: str, certificate: dp.Certificate, n: int) -> None:
        if sum(self.tokens) + n > self.budget:
            raise dp.BudgetExhausted("the budget of this subject is spent")
        self.rows.append((subject, certificate.epsilon, n))
        self.certificates.append(certificate)

    @property
    def tokens(self) -> list[int]:
        """Of each charge."""
        return [tokens for _, _, tokens in self.rows]

    @property
    def epsilons(self) -> list[float]:
        """Of each charge."""
        return [epsilon for _, epsilon, _ in self.rows]
