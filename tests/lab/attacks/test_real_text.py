"""The shipped samples, and the order of attacks on their text."""

from __future__ import annotations

import json
from collections import Counter
from importlib import resources

import numpy as np
import pytest
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import CountVectorizer

import dp_middleware as dp
from dp_middleware.lab import attacks
from dp_middleware.lab.attacks._inversion import _places
from dp_middleware.mechanisms.drawing import drawer
from dp_middleware.sampling import sampler

MECHANISMS = [
    dp.TokenExponential(epsilon=8.0),
    dp.SanText(epsilon=8.0),
    dp.CusText(epsilon=4.0, candidates=10),
    dp.CusTextAggressive(epsilon=4.0, candidates=10),
    dp.RanText(epsilon=2.0),
    dp.DynText(epsilon=3.0, candidates=10),
    dp.NearestResponse(epsilon=4.0, candidates=3),
]


def sample(name):
    text = resources.files("dp_middleware.lab.evaluation").joinpath("samples", name).read_text()
    return [json.loads(line) for line in text.splitlines()]


def test_the_samples_are_what_they_are_said_to_be():
    reviews, health = sample("reviews.jsonl"), sample("health.jsonl")
    assert [set(row) for row in reviews] == [{"text", "label"}] * 40
    assert Counter(row["label"] for row in reviews) == {0: 20, 1: 20}
    assert [set(row) for row in health] == [{"question", "answer"}] * 30
    texts = [str(value) for row in (*reviews, *health) for value in row.values()]
    assert all(text.isascii() and text.strip() for text in texts)
    assert len({row["text"] for row in reviews}) == 40


@pytest.fixture(scope="module")
def corpus():
    reviews = [row["text"] for row in sample("reviews.jsonl")]
    return reviews + [f"{row['question']} {row['answer']}" for row in sample("health.jsonl")]


@pytest.fixture(scope="module")
def space(corpus):
    """The 300 most frequent words, close if they occur in texts together or are spelt alike."""
    counts = Counter(word for text in corpus for word in text.split())
    words = [word for word, _ in counts.most_common(300)]
    beside = CountVectorizer(vocabulary=words, token_pattern=r"\S+").transform(corpus)
    spelling = CountVectorizer(analyzer="char_wb", ngram_range=(1, 3)).fit_transform(words)
    parts = [
        TruncatedSVD(12, random_state=0).fit_transform(matrix)
        for matrix in (beside.T.astype(float), spelling.astype(float))
    ]
    return dp.EmbeddingSpace(dp.Vocabulary(words), np.hstack(parts))


@pytest.fixture(scope="module")
def raw(corpus, space):
    return [space.vocabulary.encode(text) for text in corpus]


@pytest.fixture(scope="module")
def prior(raw, space):
    ids = np.concatenate(raw)
    counts = np.bincount(ids[ids >= 0], minlength=len(space))
    return counts / counts.sum()


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda mechanism: mechanism.name)
def test_no_context_free_attack_beats_bayes_on_real_text(mechanism, raw, prior, space):
    """In expectation over the draws, exactly: the prior is that of the text."""
    size = len(space)
    rows = np.exp(mechanism.log_probs(np.arange(size), space))
    joint = prior[:, None] * rows
    places = _places(*np.indices((size, size)).reshape(2, -1), space)
    near = dict(zip(("", " by id"), np.reshape(places, (2, size, size)), strict=True))
    exact = attacks.bayes(mechanism, space, prior=prior, top=(1, 5, 10))
    likeliest = rows.argmax(axis=0)  # the attacker who knows no word frequencies
    assert joint[likeliest, np.arange(size)].sum() <= exact.rate + 1e-12
    for top in (1, 5, 10):
        for unit, ranks in near.items():
            assert joint[ranks <= top].sum() <= exact.details[f"top {top}{unit}"] + 1e-12
    bound = attacks.recovery_bound(dp.certify(mechanism, space), space, prior=prior)
    assert exact.rate <= bound + 1e-12

    released = drawer(mechanism, space).draw(raw, sampler.insecure_entropy(5))
    run = attacks.bayes_on(raw, released, mechanism, space, prior=prior, top=(1, 5, 10))
    inversion = attacks.embedding_inversion(raw, released, space)
    assert run.rate == pytest.approx(exact.rate, abs=0.05)
    for top in ("top 1", "top 5", "top 10"):
        assert inversion.details[top] <= run.details[top] + 0.05
