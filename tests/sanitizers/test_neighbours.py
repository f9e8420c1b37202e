"""What is released of a text depends on no text beside it, bit for bit."""

import numpy as np
import pytest
from support.cases import over

import dp_middleware as dp
from dp_middleware.mechanisms.vector_response import Components
from dp_middleware.sampling.sampler import insecure_entropy
from dp_middleware.sanitizers import vectors
from dp_middleware.sanitizers.vectors import VectorSanitizer

UNITS = ("knee", "leg", "hurts", "since", "march", "boat", "sea", "tax", "law", "dog")
TEXT, OTHER = "the left knee hurts", "a much longer text about boats and the sea " * 4


class Crowded:
    """An encoder whose rows tell how many texts were in the call."""

    def encode(self, texts):
        seeds = [[len(texts), *text.encode()] for text in texts]
        return [np.random.default_rng(seed).normal(size=16) for seed in seeds]


KEYWORDS = dp.KeywordCode(counts=tuple((unit, 9) for unit in UNITS))
MECHANISMS = [
    dp.DocumentResponse(epsilon=9.0, rounds=1, codebook=UNITS),
    dp.DocumentResponse(epsilon=9.0, rounds=3, codebook=UNITS),
    dp.WeightedResponse(epsilon=9.0, code=KEYWORDS),
]


@over("mechanism", MECHANISMS)
def test_a_response_beside_other_texts(mechanism):
    def release(*texts):
        return mechanism.respond(texts, service, insecure_entropy(1))[0]

    service = dp.EmbeddingService.of(Crowded())
    assert release(TEXT, OTHER) == release(TEXT)
    if isinstance(mechanism, dp.WeightedResponse):
        assert mechanism.answer(TEXT, service)
    else:
        assert mechanism.best([TEXT, OTHER], service)[:1] == mechanism.best([TEXT], service)


def test_a_vector_beside_other_texts(monkeypatch):
    public = np.random.default_rng(0).normal(size=(400, 16)) * np.linspace(2, 0.5, 16)
    mechanism = dp.VectorResponse(epsilon=30.0, components=Components.of(public))
    sanitizer = VectorSanitizer(mechanism, dp.EmbeddingService.of(Crowded()))

    def release(*texts):
        monkeypatch.setattr(vectors, "bulk_entropy", insecure_entropy(1))
        return sanitizer.release(texts)[0]

    alone = release(TEXT)
    assert release(TEXT, OTHER, TEXT) == alone
    assert sanitizer.release([]) == []


SHARE = np.full(128, 1 / 128)
ROTATED = Components(  # of no text: the default ones take half a minute to find
    np.full(384, 0.01),
    np.linalg.qr(np.random.default_rng(3).normal(size=(384, 384)))[0][:128],
    np.sqrt(np.cumsum(SHARE)),
    SHARE,
)


def test_the_default_encoder_gives_a_text_the_same_bits_beside_others(monkeypatch):
    pytest.importorskip("sentence_transformers")
    service = dp.EmbeddingService(device="cpu")
    mechanism = dp.VectorResponse(epsilon=30.0, components=ROTATED)
    sanitizer = VectorSanitizer(mechanism, service)

    def release(*texts):
        monkeypatch.setattr(vectors, "bulk_entropy", insecure_entropy(1))
        return sanitizer.release(texts)[0]

    texts = [TEXT, OTHER, f"{TEXT} since march"]
    together, [single] = service.encode(texts), service.encode([TEXT])
    assert np.abs(together[0] - single).max() < 1e-5  # by rounding only, and yet
    assert release(*texts) == release(TEXT)
