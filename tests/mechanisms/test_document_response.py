"""A text for a text: exactly epsilon, the same support for every text."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.stats import binom, chisquare
from support.cases import over
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
    """P(release) of every release."""
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


@pytest.mark.parametrize(("epsilon", "rounds"), [(3.0, 1), (4.0, 2), (9.0, 3)])
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
    """Even one that answers nonsense, or nothing but NaN, leaves the same releases possible."""

    class Broken(Letters):
        def encode(self, texts):
            return np.full((len(texts), 64), np.nan, dtype=np.float32)

    mechanism = dp.DocumentResponse(epsilon=4.0, rounds=2, codebook=UNITS)
    units_only = Letters()
    Broken.space = lambda self, vocabulary, vectors: units_only.space(vocabulary, vectors)
    (release,) = mechanism.respond(["a"], Broken(), insecure_entropy(0))
    assert len(release.split(", ")) == 2


@pytest.mark.parametrize("text", ["\ud800 x", "a\udfff"])
def test_a_text_that_utf8_cannot_say_is_released_as_any_other(text):
    class Strict(Letters):
        def encode(self, texts):
            for one in texts:
                one.encode()
            return super().encode(texts)

    mechanism = dp.DocumentResponse(epsilon=4.0, rounds=2, codebook=UNITS)
    (release,) = mechanism.respond([text], Strict(), insecure_entropy(0))
    assert len(release.split(", ")) == 2


@pytest.mark.parametrize("shortlist", [1, 64])
def test_without_a_direction_the_best_units_are_distinct(shortlist):
    vectors = Letters().encode(list(UNITS))
    nothing = np.zeros(64, dtype=np.float32)
    nan = lambda some: np.full((len(some), 64), np.nan, dtype=np.float32)  # noqa: E731
    for count in range(1, len(UNITS) + 1):
        best = units.best_units(nothing, count, vectors, nan, shortlist)
        assert len(set(best)) == count
        assert set(best) <= set(range(len(UNITS)))


def test_texts_of_a_batch_are_encoded_alone():
    encoder = Letters()
    mechanism = dp.DocumentResponse(epsilon=4.0, rounds=2, codebook=UNITS, shortlist=3)
    asked = []
    encoder.encode = lambda texts: asked.append(texts) or Letters.encode(encoder, texts)
    mechanism.respond(["one text", "another"], encoder, insecure_entropy(0))
    assert [texts for texts in asked if set(texts) & {"one text", "another"}] == [
        ["one text"],
        ["another"],
    ]


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


@over(
    "epsilon, rounds, size",
    [
        (3, 1, 9),
        (6, 1, 55),
        (8, 1, 403),
        (10, 1, 2981),
        (12.5, 1, 36_300),
        (20, 2, 8103),
        (50, 4, 36_300),
    ],
)
def test_the_list_is_what_epsilon_can_tell_apart(epsilon, rounds, size):
    mechanism = dp.DocumentResponse(epsilon=epsilon)
    assert mechanism.rounds == rounds
    assert mechanism.response.hit > 0.87 or epsilon < 4
    assert len(mechanism.units) == pytest.approx(size, rel=0.03)
    assert mechanism.units == units.english()[: len(mechanism.units)]


def test_rounds_that_epsilon_cannot_pay_for_are_refused():
    with pytest.raises(ParameterError):
        dp.DocumentResponse(epsilon=50.0, rounds=5, codebook=UNITS)


def test_a_codebook_from_public_texts():
    texts = ["The liver is inflamed. The liver disease is mild.", "Liver disease of the young."]
    mechanism = dp.DocumentResponse.tuned(texts, epsilon=6.0, rounds=1)
    assert {"liver", "disease", "liver disease"} <= set(mechanism.codebook)
    assert not {"the", "is", "of the"} & set(mechanism.codebook)
    with pytest.raises(ParameterError, match="words"):
        dp.DocumentResponse.tuned(["12 34", ""], epsilon=6.0)
    with pytest.raises(ParameterError, match="collection"):
        dp.DocumentResponse.tuned("a text", epsilon=6.0)


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


def test_what_is_named_has_units_about_as_near_as_any():
    encoder, size = searcher(), 500
    exact = encoder.encode(units.english()[:size])
    for target in encoder.encode(SENTENCES):
        named = units.nearest(target, encoder.pieces, size, 60)
        assert named == sorted(set(named))
        assert (len(named), named[-1] < size) == (60, True)
        assert (exact[named] @ target).max() >= (exact @ target).max() - 0.06
        assert units.nearest(target, encoder.pieces, 50, 60) == list(range(50))


def test_the_default_encoder_finds_about_what_encoding_all_units_finds():
    class Another:
        """The same vectors by an encoder that is not known."""

        encode, space = searcher().encode, searcher().space

    code, another = dp.UnitCode(rounds=2).fitted(13.0), Another()
    assert len(code.units) > codes._NEAR
    for text in SENTENCES:
        found = [code.sequence(code.best(text, each)) for each in (dp.EmbeddingService(), another)]
        target, quick, full = searcher().encode([text, *found])
        assert quick @ target >= full @ target - 0.03
