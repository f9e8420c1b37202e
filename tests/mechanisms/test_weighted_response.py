"""WeightedResponse: exactly epsilon, in rationals, for any code, search and text."""

from fractions import Fraction

import pytest
from hypothesis import given, settings, strategies as st
from support.cases import over, refuses
from support.laws import p_value
from support.letters import Letters
from support.spaces import random_space
from support.texts import TORTURE
from support.weighted import CODES, KEYWORDS, TEXTS, law

import dp_middleware as dp
from dp_middleware.sampling.entropy import OTHER, Coin, exp_below, log_above
from dp_middleware.sampling.sampler import insecure_entropy

SPACE = random_space(tokens=6, seed=1)


@over("name", CODES)
@over("epsilon", [2.0, 6.0, 8.5])
def test_no_answer_is_likelier_by_more_than_epsilon_and_one_attains_it(name, epsilon):
    code, releases = CODES[name]
    mechanism = dp.WeightedResponse(epsilon=epsilon, code=code)
    laws = [law(mechanism, text, releases, Letters()) for text in TEXTS]
    assert all(sum(own.values()) == 1 for own in laws)
    most = exp_below(Fraction(epsilon)) * (1 + Fraction(1, 10**40))
    worst = max(max(own[y] for own in laws) / min(own[y] for own in laws) for y in laws[0])
    assert worst <= mechanism.coin.ratio <= most
    certificate = dp.certify(mechanism, SPACE)
    assert log_above(worst) <= certificate.epsilon <= epsilon
    assert (certificate.method, certificate.unit) == ("exact", "text")
    # a code in which an answer of the least mass is some text's own loses all of it
    answers = {mechanism.answer(text, Letters()) for text in TEXTS} - {None}
    weights = [mechanism.fitted.weight(own) for own in answers]
    assert all(weight >= mechanism.coin.least for weight in weights)
    if name == "units" or mechanism.coin.least in weights:
        assert worst == mechanism.coin.ratio


@over("name", CODES)
def test_draws_of_a_code_follow_its_masses(name):
    code, releases = CODES[name]
    fitted, entropy, count = code.fitted(8.0), insecure_entropy(4), 4000
    masses = {y: fitted.weight(y) for y in dict.fromkeys(releases)}
    masses = {y: float(mass) for y, mass in masses.items() if mass}
    drawn = [fitted.draw(entropy) for _ in range(count)]
    assert set(drawn) <= set(masses)
    assert p_value([*map(drawn.count, masses)], [*masses.values()], 5) > 1e-9


@settings(max_examples=60)
@given(st.fractions(Fraction(1, 100), 200), st.integers(1, 10**30))
def test_lambda_is_the_largest_multiple_of_two_to_the_minus_64(epsilon, weight):
    coin = Coin.of(epsilon, Fraction(1, weight))
    more = Coin(heads=min(coin.heads + 1, OTHER - 1), least=coin.least)
    above = exp_below(epsilon) * (1 + Fraction(1, 10**40))
    assert coin.ratio <= exp_below(epsilon)
    assert more.ratio > above or coin.heads == OTHER - 1
    assert coin.loss <= float(epsilon) * (1 + 2**-50)
    assert exp_below(Fraction(coin.loss)) * (1 + Fraction(1, 10**40)) >= coin.ratio


@over("text", TORTURE.values())
@over("encoder", [Letters(), None])
def test_any_text_gets_a_release_of_the_code(text, encoder):
    mechanism = dp.WeightedResponse(epsilon=9.0, code=KEYWORDS)
    (release,) = mechanism.respond([text], encoder, insecure_entropy(1))
    assert mechanism.fitted.weight(release) > 0


def test_an_encoder_that_answers_nonsense_moves_no_mass():
    class Broken(Letters):
        def encode(self, texts):
            return super().encode(texts) * float("nan")

    mechanism = dp.WeightedResponse(epsilon=9.0, code=KEYWORDS)
    answer = mechanism.answer("a cat and a dog", Broken())
    assert answer is None or mechanism.fitted.weight(answer) >= mechanism.coin.least


def test_keywords_are_the_texts_own_and_paid_for():
    for epsilon in (25.0, 50.0, 80.0):
        mechanism = dp.WeightedResponse(epsilon=epsilon, code=dp.KeywordCode())
        text = "Coffin-Lowry syndrome is a rare disorder with facial abnormalities"
        for encoder in (Letters(), None):
            answer = mechanism.answer(text, encoder)
            assert set(answer.split()) <= set(text.lower().replace("-", " ").split())
            assert mechanism.fitted.weight(answer) >= mechanism.coin.least
        assert 0.98 < float(mechanism.coin.share) < 0.99


def test_a_bag_has_one_spelling():
    code = KEYWORDS.fitted(9.0)
    assert code.weight("dog ant bee") == Fraction(6 * 5 * 40, 3 * 75**3)
    assert code.weight("ant ant bee") == Fraction(3 * 25 * 40, 3 * 75**3)
    for other in ("bee ant dog", "", "dog  ant", "dog fox", "ant " * 3, "dog ant bee cat"):
        assert code.weight(other) == 0


def test_counts_of_public_texts_have_half_of_the_mass():
    code = dp.KeywordCode.tuned(["The gadolinium was given.", "Gadolinium and zyxqw"]).fitted(50.0)
    counts = dict(code.counts)
    assert counts["zyxqw"] > counts["house"]
    own = counts["gadolinium"] + counts["given"] + counts["zyxqw"]
    assert own / sum(counts.values()) == pytest.approx(0.5, abs=0.01)
    assert "the" not in counts
    refuses("expected", dp.KeywordCode.tuned, ["12 34", ""], "a text")


def test_the_code_is_chosen_by_epsilon_alone():
    names = {e: dp.WeightedResponse(epsilon=e).fitted.name for e in (5.0, 39.9, 40.0, 90.0)}
    assert names == {5.0: "units", 39.9: "units", 40.0: "keywords", 90.0: "keywords"}
    sanitizer = dp.document_sanitizer(45.0, SPACE, encoder=Letters())
    assert "keywords" in str(sanitizer.certificate.assumptions)
    assert sanitizer.at(30.0).mechanism.fitted.name == "units"
    own = dp.document_sanitizer(9.0, SPACE, encoder=Letters(), code=KEYWORDS)
    assert own.at(7.0).mechanism == dp.WeightedResponse(epsilon=7.0, code=KEYWORDS)
    assert own.mechanism.fingerprint != own.at(7.0).mechanism.fingerprint


def test_wrong_parameters_are_refused():
    wrong = ("keywords", dp.UnitCode(codebook=("a",)))
    refuses("expected", lambda code: dp.WeightedResponse(epsilon=5.0, code=code), *wrong)
    wrong = ((), (("a", 1), ("a", 2)), (("a b", 1),), (("a", 0),))
    refuses("expected", lambda counts: dp.KeywordCode(counts=counts), *wrong)
    refuses("expected", dp.MixtureCode, [], [(0, KEYWORDS)])
    refuses("expected", lambda most: dp.KeywordCode(most=most), 0)
