"""What leaves the trust boundary, whose budget is charged for it, and the receipt of a call."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

from dp_middleware.errors import ParameterError
from dp_middleware.privacy.certificate import Certificate, json_number

Bill = tuple[Certificate, int]
"""What a release is charged with, and for how many tokens or texts; for none nothing is."""


class Ledger(Protocol):
    """Says what a sanitizer needs of a privacy ledger."""

    def charge(self, subject: str, certificate: Certificate, n: int) -> object:
        """Adds a release of ``n`` tokens, texts or values durably; or raises BudgetExhausted."""


@dataclass(frozen=True, kw_only=True)
class Release:
    """Holds what leaves the trust boundary, and what it is worth; nothing of the input.

    Attributes:
        text: The released text.
        certificate: The guarantee per token occurrence or sentence, or for the whole text.
        tokens_total: Number of tokens of the input, or of its sentences where one of them is
            protected; public. 1 where the whole text is.
        tokens_verbatim: Tokens passed through unchanged by policy or outside the scope; not those
            that happen to be drawn as themselves: which ones is private.
        tokens_free: Tokens of pseudonyms beside perturbed words: drawn, and of no price here.
        for_values: Nats for values whose pseudonyms were drawn near them, each paid for once.
    """

    text: str
    certificate: Certificate
    tokens_total: int
    tokens_verbatim: int
    tokens_free: int = 0
    for_values: float = 0.0

    @property
    def spent(self) -> float:
        """Counts nats on this text: what its protected tokens or sentences cost together.

        For another text of this length no release is more than e^spent times as likely.
        """
        return self._nats(self._drawn)

    @property
    def charged(self) -> float:
        """Counts nats of the subject: what a ledger adds for it, per token or sentence."""
        return self._nats(min(self._drawn, 1))

    @property
    def _drawn(self) -> int:
        return self.tokens_total - self.tokens_verbatim - self.tokens_free

    def _nats(self, times: int) -> float:
        is_apart = self.certificate.unit == "value" or not times  # infinity as well
        return self.for_values + (0.0 if is_apart else times * self.certificate.epsilon)


def check_payer(ledger: Ledger | None, subject: str | None) -> None:
    """Refuses a ledger without a subject, or what is none, with ParameterError."""
    if ledger is not None and not subject:
        raise ParameterError("expected subject= with a ledger: whose budget is charged?")
    if ledger is not None and not callable(getattr(ledger, "charge", None)):
        raise ParameterError(
            f"expected ledger= with charge(), got {type(ledger).__name__}; write "
            'ledger=dp.PrivacyLedger("sqlite:///FILE", budget=NATS)'
        )


class Payer(ABC):
    """Releases in the name of a subject."""

    ledger: Ledger | None  # charged before any draw; ``None``: nothing is
    subject: str | None  # whose budget

    @property
    @abstractmethod
    def certificate(self) -> Certificate:
        """States the guarantee of every release."""

    def for_subject(self, subject: str) -> Self:
        """Makes the same releaser, charging another subject's budget; ParameterError: no name."""
        name: object = subject
        if not isinstance(name, str) or not name.strip():
            raise ParameterError("expected subject= of type str, not empty: whose budget?")
        twin = copy.copy(self)
        twin.subject = subject
        return twin

    def pay(self, bills: Iterable[Bill]) -> None:
        """Charges one release after the other; what was charged before an error stays spent."""
        for certificate, n in bills:
            if self.ledger is not None and self.subject is not None and n:
                self.ledger.charge(self.subject, certificate, n)
            if n:
                write_charge(certificate)


@dataclass(kw_only=True)
class Receipt:
    """Holds what happened in a block of :func:`receipts`."""

    # what went out for private texts since the last answer in the transcript
    releases: list[Release] = field(default_factory=list)
    # the certificate of each draw; what came from a memo is not among them
    charged: list[Certificate] = field(default_factory=list)
    remaining: float | None = None  # nats that the last charge left of a subject's budget
    found: Counter[str] = field(default_factory=Counter)  # entities of a detector, by kind
    detection: float = 0.0  # its seconds

    @property
    def nats(self) -> float:
        """Adds up what was charged."""
        return math.fsum(certificate.epsilon for certificate in self.charged)

    def to_dict(self) -> dict[str, Any]:
        """Returns JSON-ready data: the released texts, their certificate, what they spend and cost.

        ``"spent"``: :attr:`Release.spent` of all; ``"charged"``: nats that this call was charged, 0
        where all came from a memo. An infinite number is the string ``"inf"``.
        """
        if not self.releases:
            return {}
        certificate = self.releases[-1].certificate
        return {
            "released": [release.text for release in self.releases],
            "certificate": certificate.to_dict(),
            "spent": json_number(math.fsum(release.spent for release in self.releases)),
            "charged": json_number(self.nats),
            "unit": certificate.unit,
        }


open_receipts: ContextVar[tuple[Receipt, ...]] = ContextVar("dp_middleware_receipts", default=())
"""Those on which is written down what happens now."""


@contextmanager
def receipts(around: tuple[Receipt, ...] = ()) -> Iterator[Receipt]:
    """Writes all down that happens in this block, and in threads started with its context."""
    receipt = Receipt()
    token = open_receipts.set((*around, receipt))
    try:
        yield receipt
    finally:
        open_receipts.reset(token)


def shared_receipts() -> AbstractContextManager[Receipt]:
    """Does as :func:`receipts`; in blocks around it all is written down too."""
    return receipts(open_receipts.get())


def write_charge(certificate: Certificate) -> None:
    """Writes down that a release was drawn, and charged if there is a ledger."""
    for receipt in open_receipts.get():
        receipt.charged.append(certificate)


def write_remaining(nats: float) -> None:
    """Writes down what a charge left of a budget."""
    for receipt in open_receipts.get():
        receipt.remaining = nats


def write_releases(transcript: Sequence[tuple[bool, Release]]) -> None:
    """Writes down what goes out for a transcript, with whether it was private."""
    for receipt in open_receipts.get():
        for private, release in transcript:
            if private:
                receipt.releases.append(release)
            else:
                receipt.releases.clear()
