"""What leaves the trust boundary, and the ledger that is charged for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from dp_middleware.privacy import Certificate


class Ledger(Protocol):
    """What a sanitizer needs of a privacy ledger."""

    def charge(self, subject: str, certificate: Certificate, n: int) -> object:
        """Durably add a release of ``n`` tokens, texts or values, or raise ``BudgetExhausted``."""


@dataclass(frozen=True, kw_only=True)
class Release:
    """What leaves the trust boundary, and what it is worth. Holds nothing of the input.

    Attributes:
        text: The released text.
        certificate: The guarantee per token occurrence, or for the whole text.
        tokens_total: Number of tokens of the input; public. 1 where the whole text is protected.
        tokens_verbatim: Tokens passed through unchanged by policy or outside the scope. A
            perturbed token that happens to be drawn as itself is not counted: that is private.
    """

    text: str
    certificate: Certificate
    tokens_total: int
    tokens_verbatim: int
