"""What one call released and charged, for the metadata of its answer: public, plain JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from dp_middleware.privacy.certificate import Certificate, json_number
from dp_middleware.privacy.releases import Release


@dataclass(kw_only=True)
class Receipt:
    """What happened in a block of :func:`receipts`.

    Attributes:
        releases: What went out for private texts since the last answer in the transcript.
        charged: The certificate of each draw; what came from a memo is not among them.
        remaining: What the last charge to a ``dp.PrivacyLedger`` left of its subject's budget,
            nats; ``None`` where nothing was charged.
    """

    releases: list[Release] = field(default_factory=list)
    charged: list[Certificate] = field(default_factory=list)
    remaining: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready: the released texts, their certificate, and what this call was charged.

        An infinite charge is the string ``"inf"``.
        """
        if not self.releases:
            return {}
        certificate = self.releases[-1].certificate
        nats = math.fsum(each.epsilon for each in self.charged)
        return {
            "released": [release.text for release in self.releases],
            "certificate": certificate.to_dict(),
            "charge": {
                "nats": json_number(nats),
                "unit": certificate.unit,
            },
        }


_open: ContextVar[tuple[Receipt, ...]] = ContextVar("dp_middleware_receipts", default=())


@contextmanager
def receipts() -> Iterator[Receipt]:
    """In this block, and in threads that are started with its context, all is written down."""
    with _opened(()) as receipt:
        yield receipt


@contextmanager
def shared_receipts() -> Iterator[Receipt]:
    """As :func:`receipts`; in blocks around it all is written down too."""
    with _opened(_open.get()) as receipt:
        yield receipt


@contextmanager
def _opened(around: tuple[Receipt, ...]) -> Iterator[Receipt]:
    receipt = Receipt()
    token = _open.set((*around, receipt))
    try:
        yield receipt
    finally:
        _open.reset(token)


def write_charge(certificate: Certificate) -> None:
    """Writes down that a release was drawn, and charged if there is a ledger."""
    for receipt in _open.get():
        receipt.charged.append(certificate)


def write_remaining(nats: float) -> None:
    """Writes down what a charge left of a budget."""
    for receipt in _open.get():
        receipt.remaining = nats


def write_releases(transcript: Sequence[tuple[bool, Release]]) -> None:
    """Writes down what goes out for a transcript, with whether it was private."""
    for receipt in _open.get():
        for private, release in transcript:
            if private:
                receipt.releases.append(release)
            else:
                receipt.releases.clear()
