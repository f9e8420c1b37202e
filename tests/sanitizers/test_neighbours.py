"""What is released of a text depends on no text beside it, bit for bit."""

from threading import Event, Thread

import numpy as np
import pytest

import dp_middleware as dp
from dp_middleware.embedding.service import apart
from dp_middleware.mechanisms.kernels.components import Components
from dp_middleware.sampling.sampler import insecure_entropy
from dp_middleware.sanitizers import vectors
from dp_middleware.sanitizers.vectors import VectorSanitizer

UNITS = ("knee", "leg", "hurts", "since", "march", "boat", "sea", "tax", "law", "dog")
TEXT, OTHER = "the left knee hurts", "a much longer text about boats and the sea " * 4


class Crowded:
    """An encoder whose rows tell how many texts were in the call; can be held in one."""

    def __init__(self):
        self.crowds, self.entered, self.go = [], Event(), Event()
        self.go.set()

    def encode(self, texts):
        self.entered.set()
        assert self.go.wait(20)
        self.crowds.append(len(texts))
        seeds = [[len(texts), *text.encode()] for text in texts]
        return [np.random.default_rng(seed).normal(size=16) for seed in seeds]


def crowding(service, encoder, work):
    """The result of some work, of which others' texts are in the queue all the time."""
    encoder.entered.clear()
    encoder.go.clear()
    first = service._batcher.submit(["first"])
    assert encoder.entered.wait(20)
    results = []
    worker = Thread(target=lambda: results.append(work()))
    others = [service._batcher.submit([f"{OTHER} {k}"]) for k in range(3)]
    worker.start()
    while len(service._batcher._queue) < 4:
        assert worker.is_alive()
    others += [service._batcher.submit([f"{OTHER} {k}"]) for k in range(3, 6)]
    encoder.go.set()
    worker.join(20)
    assert [len(answer.result(20)) for answer in (first, *others)] == [1] * 7
    assert max(encoder.crowds) > 1  # the others were together
    return results[0]


@pytest.mark.parametrize("rounds", [1, 3])
def test_a_document_response_beside_the_texts_of_others(rounds):
    mechanism = dp.DocumentResponse(epsilon=9.0, rounds=rounds, codebook=UNITS)

    def release(*texts):
        return mechanism.respond(texts, service, insecure_entropy(1))[0]

    encoder = Crowded()
    service = dp.EmbeddingService.of(encoder)
    alone = release(TEXT), mechanism.best([TEXT], service)
    assert release(TEXT, OTHER) == alone[0]
    assert crowding(service, encoder, lambda: mechanism.best([TEXT], service)) == alone[1]
    assert crowding(service, encoder, lambda: release(TEXT)) == alone[0]


def test_a_vector_beside_other_texts_and_those_of_others(monkeypatch):
    public = np.random.default_rng(0).normal(size=(400, 16)) * np.linspace(2, 0.5, 16)
    mechanism = dp.VectorResponse(epsilon=30.0, components=Components.of(public))
    encoder = Crowded()
    sanitizer = VectorSanitizer(mechanism, dp.EmbeddingService.of(encoder))

    def release(*texts):
        monkeypatch.setattr(vectors, "bulk_entropy", insecure_entropy(1))
        return sanitizer.release(texts)[0]

    alone = release(TEXT)
    assert release(TEXT, OTHER, TEXT) == alone
    assert crowding(sanitizer.service, encoder, lambda: release(TEXT)) == alone
    assert sanitizer.release([]) == []


SHARE = np.full(128, 1 / 128)
ROTATED = Components(  # of no text: the default ones take half a minute to find
    np.full(384, 0.01),
    np.linalg.qr(np.random.default_rng(3).normal(size=(384, 384)))[0][:128],
    np.sqrt(np.cumsum(SHARE)),
    SHARE,
)


def test_directions_do_not_round_by_the_rows_beside_them():
    mechanism = dp.VectorResponse(epsilon=30.0, components=ROTATED)
    rows = np.random.default_rng(2).normal(size=(33, 384))
    alone = np.concatenate([mechanism.directions(row[None]) for row in rows])
    assert (mechanism.directions(rows) == alone).all()


def test_the_default_encoder_gives_a_text_the_same_bits_beside_others(monkeypatch):
    pytest.importorskip("sentence_transformers")
    service = dp.EmbeddingService(device="cpu")
    mechanism = dp.VectorResponse(epsilon=30.0, components=ROTATED)
    sanitizer = VectorSanitizer(mechanism, service)

    def release(*texts):
        monkeypatch.setattr(vectors, "bulk_entropy", insecure_entropy(1))
        return sanitizer.release(texts)[0]

    texts = [TEXT, OTHER, f"{TEXT} since march"]
    together, [single] = service.encode(texts), apart(service)([TEXT])
    assert np.abs(together[0] - single).max() < 1e-5  # by rounding only, and yet
    assert release(*texts) == release(TEXT)


def test_a_codebook_is_encoded_apart_from_private_texts():
    encoder = Crowded()
    service = dp.EmbeddingService.of(encoder)
    alone = service.space(dp.Vocabulary(UNITS), "encoded").vectors

    def encoded():
        return service.space(dp.Vocabulary(UNITS), "encoded").vectors

    assert (crowding(service, encoder, encoded) == alone).all()
