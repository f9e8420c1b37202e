"""A text for a text: exactly epsilon, the same support for every text."""

import itertools
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.stats import binom, chisquare
from support.cases import over, refuses
from support.letters import Letters
from support.spaces import random_space
from support.texts import CANARY

import dp_middleware as dp
from dp_middleware.embedding.plain import searcher
from dp_middleware.errors import EmbeddingError, ParameterError
from dp_middleware.mechanisms import codes
from dp_middleware.mechanisms.kernels import units
from dp_middleware.sampling.sampler import insecure_entropy

UNITS = ("aab", "bbc", "cd", "dde", "zy")
SPACE = random_space(tokens=6, seed=1)
TEXTS = ["", " ", "a", "zz", "dd dd", "abcde " * 9, "\x00", "😀", "漢字", "مرحبا"]
TEXTS += [f"{a}{b} {b}" for a, b in itertools.product("abcdez", "bcdezy")] + ["a" * 1000] * 4


def exact_law(mechanism, text, encoder):
    (target,) = encoder.encode([text])
    best = units.best_units(
        target,
        mechanism.rounds,
        encoder.encode(list(mechanism.units)),
        lambda some: encoder.encode([joined(mechanism, numbers) for numbers in some]),
        mechanism.shortlist,
    )
    response = mechanism.response
    other = (1 - response.hit) / (response.size - 1)
    every = itertools.product(range(len(mechanism.units)), repeat=mechanism.rounds)
    return {joined(mechanism, s): response.hit if [*s] == best else other for s in every}


def joined(mechanism, numbers):
    return ", ".join(mechanism.units[number] for number in numbers)


@over("epsilon, rounds", [(3.0, 1), (4.0, 2), (9.0, 3)])
def test_it_is_exactly_epsilon_over_fifty_texts(epsilon, rounds):
    mechanism = dp.DocumentResponse(epsilon=epsilon, rounds=rounds, codebook=UNITS, shortlist=3)
    laws = [exact_law(mechanism, text, Letters()) for text in TEXTS]
    table = np.log([[law[release] for release in laws[0]] for law in laws])
    assert len(TEXTS) == 50
    assert {len(law) for law in laws} == {5**rounds}
    assert np.exp(table).sum(axis=1) == pytest.approx(1.0)
    loss = float(np.ptp(table, axis=0).max())
    certificate = dp.certify(mechanism, SPACE)
    assert loss == pytest.approx(epsilon)
    assert loss <= certificate.epsilon + 1e-12
    assert certificate.epsilon == pytest.approx(epsilon, abs=1e-12)
    assert certificate.epsilon <= epsilon
    assert (certificate.method, certificate.unit) == ("exact", "text")


@settings(max_examples=30)
@given(st.text(max_size=60), st.floats(0.5, 20), st.integers(1, 3))
def test_any_text_gets_a_release_of_as_many_units(text, epsilon, rounds):
    mechanism = dp.DocumentResponse(epsilon=epsilon, rounds=rounds, codebook=UNITS)
    (release,) = mechanism.respond([text], Letters(), insecure_entropy(1))
    parts = release.split(", ")
    assert len(parts) == rounds
    assert set(parts) <= set(UNITS)


def test_draws_follow_the_law_and_no_other():
    mechanism = dp.DocumentResponse(epsilon=4.0, rounds=2, codebook=UNITS)
    law = exact_law(mechanism, "aab bbc", Letters())
    count = 6000
    drawn = mechanism.respond(["aab bbc"] * count, Letters(), insecure_entropy(5))
    observed = [drawn.count(release) for release in law]
    assert chisquare(observed, np.array(list(law.values())) * count).pvalue > 1e-6
    likeliest = max(law, key=law.get)
    twice = exact_law(mechanism.at(8.0), "aab bbc", Letters())[likeliest]
    assert binom.cdf(drawn.count(likeliest), count, twice) < 1e-9


def test_the_encoder_decides_what_is_likely_only():
    """Even one that answers NaN, or cannot read the text, leaves the same releases possible."""

    class Broken(Letters):
        def encode(self, texts):
            return np.full((len(texts), 64), np.nan, dtype=np.float32)

        def space(self, vocabulary, vectors):
            return Letters().space(vocabulary, vectors)

    class Strict(Letters):
        def encode(self, texts):
            assert all(one.encode() for one in texts)
            return super().encode(texts)

    mechanism = dp.DocumentResponse(epsilon=4.0, rounds=2, codebook=UNITS)
    for text, encoder in (("a", Broken()), ("\ud800 x", Strict()), ("a\udfff", Strict())):
        (release,) = mechanism.respond([text], encoder, insecure_entropy(0))
        assert len(release.split(", ")) == 2


def test_a_failing_encoder_shows_no_text():
    class Failing(Letters):
        def encode(self, texts):
            raise ValueError(texts[0])

    sanitizer = dp.Sanitizer(
        dp.DocumentResponse(epsilon=4.0, codebook=UNITS), SPACE, encoder=Failing()
    )
    with pytest.raises((EmbeddingError, ParameterError)) as error:
        sanitizer.release(CANARY)
    assert CANARY not in repr(error.value) + repr(error.value.__context__)


SIZES = [(3, 1, 9), (6, 1, 55), (8, 1, 403), (10, 1, 2981), (12.5, 1, 36_300), (50, 4, 36_300)]


@over("epsilon, rounds, size", [*SIZES, (20, 2, 8103)])
def test_the_list_is_what_epsilon_can_tell_apart(epsilon, rounds, size):
    mechanism = dp.DocumentResponse(epsilon=epsilon)
    assert mechanism.rounds == rounds
    assert mechanism.response.hit > 0.87 or epsilon < 4
    assert len(mechanism.units) == pytest.approx(size, rel=0.03)
    assert mechanism.units == units.english()[: len(mechanism.units)]


def test_a_codebook_from_public_texts():
    texts = ["The liver is inflamed. The liver disease is mild.", "Liver disease of the young."]
    mechanism = dp.DocumentResponse.tuned(texts, epsilon=6.0, rounds=1)
    assert {"liver", "disease", "liver disease"} <= set(mechanism.codebook)
    assert not {"the", "is", "of the"} & set(mechanism.codebook)
    tuned = partial(dp.DocumentResponse.tuned, epsilon=6.0)
    refuses("words|collection", tuned, ["12 34", ""], "a text")
    refuses("more units", lambda book: dp.UnitCode(codebook=book, rounds=5).fitted(50.0), UNITS)


def test_the_english_codebook_is_the_one_of_this_version():
    """Another one has another meaning: then ``version`` of the mechanism is raised."""
    listed = units.english()
    assert units.checked(listed) == listed
    assert len(listed) == 35_785
    assert dp.DocumentResponse.version == 2


SENTENCES = (
    "a gripping thriller with a superb ending",
    "What are the symptoms of kidney stones ?",
    "The senator resigned on Monday over a bribery scandal.",
    "x",
)


def test_the_default_encoder_finds_about_what_encoding_all_units_finds():
    class Another:
        encode, space = searcher().encode, searcher().space

    code, another = dp.UnitCode(rounds=2).fitted(13.0), Another()
    assert len(code.units) > codes._NEAR
    for text in SENTENCES:
        found = [code.sequence(code.best(text, each)) for each in (dp.EmbeddingService(), another)]
        target, quick, full = searcher().encode([text, *found])
        assert quick @ target >= full @ target - 0.03
