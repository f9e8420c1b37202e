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
    """Releases a vector for each text through a :class:`VectorResponse`.

    Args:
        mechanism: How vectors are perturbed.
        service: Encodes raw texts; local.
        ledger: Charged before any draw, once per text.
        subject: Whose budget is charged; needed with a ledger.

    Raises:
        ParameterError: No ``VectorResponse``, or a ledger without a subject.
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

    def __repr__(self) -> str:
        return f"VectorSanitizer({self.mechanism.fingerprint}, {self.service!r})"

    @property
    def certificate(self) -> Certificate:
        """The guarantee of every vector, per text."""
        return certify(self.mechanism)

    def release(self, texts: Sequence[str]) -> list[list[float]]:
        """Returns a vector for each text; equal texts have independent ones.

        Raises:
            BudgetExhausted: From the ledger; nothing was drawn. Charges before it stay spent.
            ParameterError: Not texts, or an encoder of another width than the components have.
            EmbeddingError: The encoder failed.
        """
        rows = [self.service.encode([text]) for text in check_texts(texts)]  # none sees another
        directions = [self.mechanism.directions(row) for row in rows]  # refuses before a charge
        self.pay([(self.certificate, 1)] * len(rows))
        released = [self.mechanism.release(row, bulk_entropy) for row in directions]
        return [vector for drawn in released for vector in drawn.tolist()]
