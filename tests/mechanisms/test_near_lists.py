"""A nearest response drawn from lists is that of its rows, and shipped codebooks are good ones.

What a default codebook holds are ordinary words, none that shames who releases it.
"""

import hashlib
from importlib.resources import files

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from support.cases import over
from support.spaces import random_space, responses, spaces

import dp_middleware as dp
from dp_middleware.mechanisms import near_lists
from dp_middleware.mechanisms.base import rows_of
from dp_middleware.mechanisms.drawing import drawer
from dp_middleware.mechanisms.kernels import chosen, codebook, units
from dp_middleware.sampling.sampler import insecure_entropy, tables
from dp_middleware.vocabulary import frequencies


def assert_alike(rows, mechanism, space):
    """The same owner of every first and last integer, so the same integers: the law is equal."""
    ids = np.arange(-1, len(space))
    for x, table in zip(ids, tables(rows_of(mechanism, ids, space)), strict=True):
        uniform = np.concatenate([table.lasts, table.lasts + np.uint64(1)])
        expected = table.locate(uniform, insecure_entropy(0))
        assert rows.locate(np.full(len(uniform), x), uniform).tolist() == expected.tolist()


@settings(max_examples=60)
@given(space=spaces(), data=st.data())
def test_every_integer_is_that_of_the_row(space, data):
    mechanism = data.draw(responses(len(space)))
    rows = near_lists.near_rows(mechanism, space)
    assert_alike(rows, mechanism, space)


@settings(max_examples=25)
@given(space=spaces(), data=st.data(), seed=st.integers(0, 9))
def test_the_same_entropy_draws_the_same(space, data, seed):
    mechanism, generator = data.draw(responses(len(space))), np.random.default_rng(seed)
    texts = [generator.integers(-1, len(space), n) for n in (0, 1, 40)]
    fast = drawer(mechanism, space).draw(texts, insecure_entropy(seed))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dp_middleware.mechanisms.drawing.near_rows", lambda *_: None)
        slow = drawer(mechanism, space).draw(texts, insecure_entropy(seed))
    assert [ids.tolist() for ids in fast] == [ids.tolist() for ids in slow]


def test_another_law_is_rejected():
    """The test of all integers sees a codeword moved and half a percent of epsilon."""
    space = random_space(tokens=9)
    rows = near_lists.near_rows(dp.NearestResponse(epsilon=2.0, candidates=2), space)
    for other in (
        dp.NearestResponse(epsilon=2.01, candidates=2),
        dp.NearestResponse(epsilon=2.0, candidates=2, nearness="centred_cosine"),
        dp.NearestResponse(epsilon=2.0, candidates=2, codebook=range(8)),
    ):
        with pytest.raises(AssertionError):
            assert_alike(rows, other, space)


def test_rows_are_taken_where_lists_would_not_do():
    space = random_space(tokens=9)

    class Mine(dp.NearestResponse):
        """A subclass may have another law."""

    assert near_lists.near_rows(Mine(epsilon=2.0, candidates=1), space) is None
    assert near_lists.near_rows(dp.TokenExponential(epsilon=2.0), space) is None
    wide = dp.NearestResponse(epsilon=40.0, candidates=1)  # rows of 128 bits
    assert near_lists.near_rows(wide, space) is None
    flat = dp.NearestResponse(epsilon=1e-17, candidates=1)  # all logarithms are equal
    assert near_lists.near_rows(flat, space) is None
    assert drawer(wide, space).draw([np.arange(9)], insecure_entropy(0))[0].tolist() == [*range(9)]


def test_lists_are_kept_on_disk_and_damage_is_seen(tmp_path, monkeypatch):
    monkeypatch.setenv("DP_MIDDLEWARE_CACHE", str(tmp_path))
    monkeypatch.setattr(near_lists, "_FEW", 0)
    mechanism = dp.NearestResponse(epsilon=2.0, candidates=2, codebook=(0, 0, 3, 5))
    expected = near_lists.near_rows(mechanism, random_space()).arrays
    (file,) = (tmp_path / "lists").iterdir()
    made = []
    monkeypatch.setattr(near_lists, "made", lambda *_: made.append(1))
    again = near_lists.near_rows(mechanism, random_space()).arrays
    assert not made
    assert all((again[name] == expected[name]).all() for name in expected)
    whole = file.read_bytes()
    with np.load(file) as stored:
        arrays = dict(stored)
    arrays["own"] += np.uint64(1)
    np.savez(file, **arrays)
    for damaged in (file.read_bytes(), whole[:-30], b"", b"PK"):
        file.write_bytes(damaged)
        assert near_lists.near_rows(mechanism, random_space()) is None
    assert len(made) == 4


@pytest.fixture
def no_search(monkeypatch):
    def refuse(*_):
        raise AssertionError("a search")

    monkeypatch.setattr(codebook, "best_codebook", refuse)
    monkeypatch.setattr(dp.NearestResponse, "nearest", refuse)


@pytest.mark.slow
def test_the_default_space_needs_no_search(no_search):
    space = dp.default_space()
    for epsilon in chosen.EPSILONS:
        tuned = dp.NearestResponse.tuned(space, epsilon=epsilon)
        assert tuned.epsilon == epsilon
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
    space, made = random_space(tokens=150, dimensions=6), {}
    monkeypatch.setattr(codebook, "_UNIONS", 1)
    words = np.arange(len(space))
    asked, prior = hashlib.sha256(words.tobytes()).hexdigest(), np.full(150, 1 / 150)
    for nats in (2, 3, 5):
        origin, _ = chosen.weighted(None, space.vocabulary, nats)
        book, near = codebook.best_codebook(space, nats, prior, words)
        name = chosen.name_of("codebook", space.fingerprint, repr(float(nats)), origin, asked)
        made[name] = np.array([near, *book])
    monkeypatch.setattr(chosen, "part", lambda *key: made.get(chosen.name_of(*key)))
    for epsilon in (2.5, 3.6):
        quick, best = among_ready(space, epsilon, monkeypatch)
        assert quick >= 0.995 * best


@pytest.mark.slow
def test_a_search_finds_a_codebook_of_that_value(monkeypatch):
    """The same one where the file was made; elsewhere rounding in float32 may lead it astray."""
    space = dp.default_space()
    kept = dp.NearestResponse.tuned(space, epsilon=6.0)
    monkeypatch.setattr(chosen, "part", lambda *_: None)
    monkeypatch.setattr("dp_middleware.embedding.arrays.load", lambda *_: None)
    again = dp.NearestResponse.tuned(space, epsilon=6.0)
    hit = [value(space, 6.0, np.array(tuned.codebook), 1) for tuned in (kept, again)]
    assert hit[0] == pytest.approx(hit[1], rel=1e-2)


LISTED = (files("better_profanity") / "profanity_wordlist.txt").read_text("utf-8").lower()
SHAMEFUL = {*LISTED.splitlines()} | {"stalin"}
GRIM = {"massacre", "holocaust", "terrorist", "idiot"}  # fine in a sentence, not as one word
BLOCKED = SHAMEFUL | GRIM


def test_an_english_vocabulary_offers_ordinary_words():
    assert len(BLOCKED) > 800
    assert {"hitler", "fuck", "nazi"} <= BLOCKED
    for unit in units.english():
        assert SHAMEFUL.isdisjoint(unit.lower().replace(",", " ").split()), unit
    other = dp.Vocabulary(["haus", "baum", "x"])  # which offers its whole words
    assert frequencies.codewords(other).tolist() == [True, True, False]
    vocabulary = dp.default_space().vocabulary
    offered = {vocabulary.tokens[k] for k in np.flatnonzero(frequencies.codewords(vocabulary))}
    assert len(offered) > 10_000
    assert offered.isdisjoint(BLOCKED)
    assert {"hospital", "sister", "monday"} <= offered
    assert offered.isdisjoint({"obama", "merkel", "maria", "london", "don", "mein"})


@over("epsilon", chosen.EPSILONS)
def test_a_shipped_codebook_has_ordinary_words_only(epsilon):
    """So that no text, of whatever language, is released as another one."""
    space = dp.default_space()
    tuned = dp.NearestResponse.tuned(space, epsilon=epsilon)
    assert BLOCKED.isdisjoint(space.vocabulary.tokens[k] for k in tuned.codebook)
    assert frequencies.codewords(space.vocabulary)[list(tuned.codebook)].all()
