"""The codebooks that come with the package are those that a search would find."""

import hashlib

import numpy as np
import pytest
from support.spaces import random_space

import dp_middleware as dp
from dp_middleware.mechanisms import near_lists
from dp_middleware.mechanisms.base import rows_of
from dp_middleware.mechanisms.kernels import chosen, codebook, priors
from dp_middleware.sampling.sampler import insecure_entropy, tables
from dp_middleware.vocabulary import frequencies


@pytest.fixture
def no_search(monkeypatch):
    def refuse(*_):
        raise AssertionError("a search")

    monkeypatch.setattr(codebook, "best_codebook", refuse)
    monkeypatch.setattr(dp.NearestResponse, "nearest", refuse)


def test_the_file_is_small():
    assert chosen.FILE.stat().st_size < 2e6
    assert chosen.part("codebook", "of nothing") is None


@pytest.mark.slow
def test_the_default_space_needs_no_search(no_search):
    """Under five seconds of search would do; it is none."""
    space = dp.default_space()
    for epsilon in chosen.EPSILONS:
        tuned = dp.NearestResponse.tuned(space, epsilon=epsilon)
        assert tuned.epsilon == epsilon
        assert frequencies.codewords(space.vocabulary)[list(tuned.codebook)].all()
        drawn = dp.sanitizer(epsilon).mechanism
        assert drawn.codebook == tuned.codebook
        assert len(near_lists.near_rows(drawn, space).lists) == len(space)


@pytest.mark.slow
def test_the_rows_are_those_of_exact_products():
    """Integers are made with exp, whose last bit is each machine's own."""
    space = dp.default_space()
    for epsilon in (2, 6, 9):
        drawn = dp.sanitizer(epsilon).mechanism
        kept, again = near_lists.shipped(drawn, space), near_lists.made(drawn, space)
        for name in ("outputs", "lists", "kinds"):
            assert (getattr(kept, name) == getattr(again, name)).all()
        for name in ("own", "common", "unknown", "largest"):
            np.testing.assert_allclose(
                getattr(kept, name).astype(float), getattr(again, name).astype(float), rtol=2**-40
            )


def value(space, epsilon, codewords, near):
    """The expected similarity of a codebook by the uniform prior."""
    unit = space.centred_unit
    similarity, weight = unit @ unit[codewords].T, np.expm1(epsilon)
    raised = np.sort(similarity, axis=1)[:, -near:].sum(axis=1).mean()
    return (weight * raised + similarity.mean(axis=0).sum()) / (weight * near + len(codewords))


def among_ready(space, epsilon, monkeypatch):
    """Values of what is searched for among codewords of the ready ones, and of what among all."""
    words = np.flatnonzero(frequencies.codewords(space.vocabulary))
    quick, asked = dp.NearestResponse.tuned(space, epsilon=epsilon, prior="uniform"), []
    with monkeypatch.context() as patch:
        patch.setattr(
            codebook, "best_codebook", lambda *given: asked.append(given[3]) or (words, 1)
        )
        patch.setattr("dp_middleware.embedding.arrays.load", lambda *_: None)
        patch.setattr("dp_middleware.embedding.arrays.store", lambda *_: None)
        dp.NearestResponse.tuned(space, epsilon=epsilon)
    weights = space.vocabulary.whole_words / space.vocabulary.whole_words.sum()
    best = codebook.best_codebook(space, epsilon, weights, words)
    assert len(asked[0]) < len(words)
    found = value(space, epsilon, np.array(quick.codebook), quick.candidates)
    return found, value(space, epsilon, *best)


def test_between_ready_codebooks_their_codewords_are_good_enough(monkeypatch):
    """Half a percent of similarity, for the same search among some of the words."""
    space, made = random_space(tokens=150, dimensions=6), {}
    monkeypatch.setattr(codebook, "_UNIONS", 1)
    words = np.arange(len(space))
    asked, prior = hashlib.sha256(words.tobytes()).hexdigest(), np.full(150, 1 / 150)
    for nats in (2, 3, 5):
        origin, _ = priors.weighted(None, space.vocabulary, nats)
        book, near = codebook.best_codebook(space, nats, prior, words)
        name = chosen.name_of("codebook", space.fingerprint, repr(float(nats)), origin, asked)
        made[name] = np.array([near, *book])
    monkeypatch.setattr(chosen, "part", lambda *key: made.get(chosen.name_of(*key)))
    for epsilon in (2.5, 3.6):
        quick, best = among_ready(space, epsilon, monkeypatch)
        assert quick >= 0.995 * best


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("epsilon", [2.5, 5.5])
def test_between_ready_codebooks_of_the_default_space(epsilon, monkeypatch):
    quick, best = among_ready(dp.default_space(), epsilon, monkeypatch)
    assert quick >= 0.995 * best


@pytest.mark.slow
def test_a_search_finds_a_codebook_of_that_value(monkeypatch):
    """The same one where the file was made; elsewhere rounding in float32 may lead it astray."""
    space = dp.default_space()
    kept = dp.NearestResponse.tuned(space, epsilon=6.0)
    monkeypatch.setattr(chosen, "part", lambda *_: None)
    monkeypatch.setattr("dp_middleware.embedding.arrays.load", lambda *_: None)
    again = dp.NearestResponse.tuned(space, epsilon=6.0)
    unit, hit = space.centred_unit, []
    for tuned in (kept, again):
        best = unit @ unit[list(tuned.codebook)].T
        weight = np.expm1(6.0)
        mean = best.mean(axis=0).sum() + weight * best.max(axis=1).mean()
        hit.append(mean / (weight + len(tuned.codebook)))
    assert hit[0] == pytest.approx(hit[1], rel=1e-2)


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "step"), [(3.0, 7), (10.0, 11)])
def test_the_default_rows_are_drawn_bit_for_bit(epsilon, step):
    """Every integer of many rows of the default space, and of the unknown symbol."""
    space = dp.default_space()
    mechanism = dp.NearestResponse.tuned(space, epsilon=epsilon)
    rows = near_lists.made(mechanism, space)
    some = np.arange(-1, len(space), step)
    for start in range(0, len(some), 512):
        ids = some[start : start + 512]
        for x, table in zip(ids, tables(rows_of(mechanism, ids, space)), strict=True):
            uniform = np.concatenate([table.lasts, table.lasts + np.uint64(1)])
            expected = table.locate(uniform, insecure_entropy(0))
            assert (rows.locate(np.full(len(uniform), x), uniform) == expected).all()
