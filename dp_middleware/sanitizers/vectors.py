"""Texts in, vectors out: encodes locally, charges once per text, then draws. For adapters."""

from __future__ import annotations

from collections.abc import Sequence

from dp_middleware.certification import certify
from dp_middleware.embedding import EmbeddingService
from dp_middleware.embedding.backends import check_texts
from dp_middleware.errors import ParameterError
from dp_middleware.mechanisms import VectorResponse
from dp_middleware.privacy import Certificate
from dp_middleware.privacy.releases import Ledger, Payer, check_payer
from dp_middleware.sampling.sampler import bulk_entropy


class VectorSanitizer(Payer):
    """Releases a vector for each text, which a local service encodes, charged once per text.

    ParameterError: no ``VectorResponse``, or a ledger without a subject.
    """

    def __init__(
        self,
        mechanism: VectorResponse,
        service: EmbeddingService,
        *,
        ledger: Ledger | None = None,
        subject: str | None = None,
    ) -> None:
        if not isinstance(mechanism, VectorResponse):
            raise ParameterError(f"expected dp.VectorResponse, got {type(mechanism).__name__}")
        if ledger is None and subject:
            raise ParameterError("expected ledger= with subject=: which budget is charged?")
        check_payer(ledger, subject)
        self.mechanism, self.service = mechanism, service
        self.ledger, self.subject = ledger, subject

    @property
    def certificate(self) -> Certificate:
        """The guarantee of every vector, per text."""
        return certify(self.mechanism)

    def release(self, texts: Sequence[str]) -> list[list[float]]:
        """Returns a vector for each text; equal texts have independent ones.

        BudgetExhausted, of the ledger, EmbeddingError and ParameterError, of texts and the width of
        vectors, are raised before any draw; charges before them stay spent.
        """
        rows = [self.service.encode([text]) for text in check_texts(texts)]  # none sees another
        directions = [self.mechanism.directions(row) for row in rows]  # refuses before a charge
        self.pay([(self.certificate, 1)] * len(rows))
        drawn = [self.mechanism.release(row, bulk_entropy).tolist() for row in directions]
        return [vector for vectors in drawn for vector in vectors]
