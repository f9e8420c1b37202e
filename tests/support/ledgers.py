"""Ledgers in memory, for what charges them."""

import math

import dp_middleware as dp


class Charges:
    """Keeps subject, epsilon and tokens of each charge, of as many tokens as its budget has."""

    def __init__(self, budget=math.inf):
        self.rows, self.certificates, self.budget = [], [], budget

    def charge(self, subject, certificate, n):
        if sum(self.tokens) + n > self.budget:
            raise dp.BudgetExhausted("the budget of this subject is spent")
        self.rows.append((subject, certificate.epsilon, n))
        self.certificates.append(certificate)

    @property
    def tokens(self):
        return [tokens for _, _, tokens in self.rows]

    @property
    def epsilons(self):
        return [epsilon for _, epsilon, _ in self.rows]
