"""A text for a text: exactly epsilon with any history, the same support for every text."""

from __future__ import annotations

import itertools
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.stats import binom, chisquare
from support.letters import Letters
from support.spaces import random_space
from support.texts import CANARY

import dp_middleware as dp
from dp_middleware.errors import EmbeddingError, ParameterError
from dp_middleware.mechanisms.kernels import pursuit, units
from dp_middleware.sampling.sampler import insecure_entropy

UNITS = ("aab", "bbc", "cd", "dde", "zy")
SPACE = random_space(tokens=6, seed=1)
TEXTS = ["", " ", "a", "zz", "dd dd", "abcde " * 9, "\x00", "😀", "漢字", "مرحبا"]
TEXTS += [f"{a}{b} {b}" for a, b in itertools.product("abcdez", "bcdezy")] + ["a" * 1000] * 4


def joined(mechanism, numbers):
    return ", ".join(mechanism.units[number] for number in numbers)


def exact_law(mechanism, text, encoder):
    """P(release) of every release, by all histories."""
    vectors = encoder.encode(list(mechanism.units))
    (target,) = encoder.encode([text])
    law = {(): 1.0}
    for response in mechanism.responses:
        longer = {}
        for before, chance in law.items():
            best = pursuit.best_unit(
                target,
                before,
                vectors,
                lambda some: encoder.encode([joined(mechanism, numbers) for numbers in some]),
                mechanism.shortlist,
            )
            for number in range(len(mechanism.units)):
                if number not in before:
                    share = (
                        response.hit if number == best else (1 - response.hit) / (response.size - 1)
                    )
                    longer[*before, number] = chance * share
        law = longer
    return {joined(mechanism, numbers): chance for numbers, chance in law.items()}


@pytest.mark.parametrize(("epsilon", "rounds"), [(3.0, 1), (4.0, 2), (9.0, 3)])
def test_it_is_exactly_epsilon_over_fifty_texts(epsilon, rounds):
    mechanism = dp.DocumentResponse(epsilon=epsilon, rounds=rounds, codebook=UNITS, shortlist=3)
    laws = [exact_law(mechanism, text, Letters()) for text in TEXTS]
    table = np.log([[law[release] for release in laws[0]] for law in laws])
    assert len(TEXTS) == 50
    assert {len(law) for law in laws} == {math.perm(5, rounds)}
    assert np.exp(table).sum(axis=1) == pytest.approx(1.0)
    loss = float(np.ptp(table, axis=0).max())
    certificate = dp.certify(mechanism, SPACE)
    assert loss <= certificate.epsilon + 1e-12
    assert certificate.epsilon == pytest.approx(epsilon, abs=1e-12)
    assert certificate.epsilon <= epsilon
    if rounds == 1:  # later rounds need texts that differ in every best unit
        assert loss == pytest.approx(epsilon)
    assert (certificate.method, certificate.unit) == ("exact", "text")


def test_the_loss_is_attained_over_several_rounds():
    """Two texts whose best units differ in every round lose epsilon in all."""
    mechanism = dp.DocumentResponse(epsilon=4.0, rounds=2, codebook=UNITS)
    laws = [exact_law(mechanism, text, Letters()) for text in TEXTS]
    losses = [
        max(math.log(one[y] / other[y]) for y in one)
        for one, other in itertools.permutations(laws, 2)
    ]
    assert max(losses) == pytest.approx(4.0)


@settings(max_examples=30)
@given(st.text(max_size=60), st.floats(0.5, 20), st.integers(1, 3))
def test_any_text_gets_a_release_of_as_many_units(text, epsilon, rounds):
    mechanism = dp.DocumentResponse(epsilon=epsilon, rounds=rounds, codebook=UNITS)
    (release,) = mechanism.respond([text], Letters(), insecure_entropy(1))
    parts = release.split(", ")
    assert len(set(parts)) == rounds
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
def test_without_a_direction_every_release_stays_possible(shortlist):
    """Whatever was released before, the best unit is a free one, also for vectors of NaN."""
    vectors = Letters().encode(list(UNITS))
    nothing = np.zeros(64, dtype=np.float32)
    nan = lambda some: np.full((len(some), 64), np.nan, dtype=np.float32)  # noqa: E731
    for length in range(1, len(UNITS)):
        for before in itertools.permutations(range(len(UNITS)), length):
            best = pursuit.best_unit(nothing, before, vectors, nan, shortlist)
            assert best in set(range(len(UNITS))) - set(before)


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


@pytest.mark.parametrize(
    ("epsilon", "rounds", "size"),
    [(3, 1, 9), (6, 1, 55), (8, 1, 403), (10, 1, 2981), (12.5, 1, 36_300), (25, 2, 36_300)],
)
def test_a_round_offers_what_its_epsilon_can_tell_apart(epsilon, rounds, size):
    mechanism = dp.DocumentResponse(epsilon=epsilon)
    assert mechanism.rounds == rounds
    assert len(mechanism.units) == pytest.approx(size, rel=0.03)
    assert mechanism.units == units.english()[: len(mechanism.units)]


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilon": 0.0},
        {"epsilon": math.nan},
        {"epsilon": 5.0, "rounds": 0},
        {"epsilon": 5.0, "rounds": 65},
        {"epsilon": 5.0, "codebook": "abc"},
        {"epsilon": 5.0, "codebook": ()},
        {"epsilon": 5.0, "codebook": ("a", "a")},
        {"epsilon": 5.0, "codebook": ("a", " ")},
        {"epsilon": 50.0, "rounds": 5, "codebook": UNITS},
        {"epsilon": 5.0, "shortlist": 0},
    ],
)
def test_wrong_parameters_are_refused(wrong):
    with pytest.raises(ParameterError):
        dp.DocumentResponse(**wrong)


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
    assert len(listed) == 36_300
    assert dp.DocumentResponse.version == 1


def test_it_is_a_value():
    mechanism = dp.DocumentResponse(epsilon=25.0)
    assert mechanism == dp.DocumentResponse(epsilon=25.0) != dp.DocumentResponse(epsilon=24.0)
    assert pickle.loads(pickle.dumps(mechanism)) == mechanism
    assert hash(mechanism) == hash(dp.DocumentResponse(epsilon=25.0))
    assert dp.calibrate(mechanism, SPACE, 10.0).epsilon == 10.0
