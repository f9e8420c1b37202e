"""Lines of a language model as a code: a tiny random GPT-2, whose lines can all be listed."""

import math
import pickle
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
import torch
from support.cases import over
from support.gpt2 import letters
from support.laws import p_value
from support.letters import Letters
from support.spaces import random_space
from support.texts import TORTURE
from support.weighted import law

import dp_middleware as dp
from dp_middleware.errors import ParameterError
from dp_middleware.sampling.entropy import exp_below
from dp_middleware.sampling.sampler import insecure_entropy
from dp_middleware.vocabulary import frequencies

TEXTS = ["", "b", "B", "d c", "c d", "bc d", "d d d", "b and c", "x", "\x00", "d" * 50, "bcd c b"]


@pytest.fixture(scope="module")
def pair():
    return letters()


PROMPTS = ("b c\nd\n", "d d\nc b\n")


@pytest.fixture(scope="module")
def code(pair):
    return dp.LanguageModelCode(pair, prompt=PROMPTS, most=3).fitted(12.0)


@pytest.fixture(scope="module")
def masses(code):
    """Mass of each text, from all sequences of tokens that read so behind either prompt."""
    texts = {}
    for prompt in PROMPTS:
        for text, mass in behind(code, code._writer(prompt)):
            texts[text] = texts.get(text, 0) + mass / 2
    return {text: mass for text, mass in texts.items() if mass}


def behind(code, writer):
    counts, share = frequencies.keywords(), Fraction(code.english)
    total = sum(counts.values())
    whole = {w: (writer.places(w), n) for w, n in counts.items() if set(w) <= set("bcd")}
    none = share * (1 - Fraction(sum(n for _, n in whole.values()), total))
    found, begun = {}, [{(): Fraction(1)}, {}, {}, {}]  # by the number of tokens
    for tokens, mass in (item for some in begun[:3] for item in some.items()):
        line = writer.line()
        for place in tokens:
            line.append(place)
        integers = [int(weight) for weight in line.integers]
        begun_by = [n if writer.begins[k] else 0 for k, n in enumerate(integers)]
        steps = [
            ((k,), Fraction(n, sum(integers)) - share * Fraction(begun_by[k], sum(integers)))
            for k, n in enumerate(integers)
        ]
        replaced = Fraction(sum(begun_by), sum(integers))
        steps += [(places, replaced * share * Fraction(n, total)) for places, n in whole.values()]
        for drawn, own in steps:  # what has no tokens is drawn again
            ends = drawn == (writer.end,)
            longer = tokens if ends else (*tokens, *drawn)[:3]
            where = found if ends else begun[len(longer)]
            where[longer] = where.get(longer, 0) + mass * own / (1 - replaced * none)
    for tokens, mass in [*found.items(), *begun[3].items()]:
        yield writer.text(tokens), mass


def test_lines_have_all_of_the_mass_and_none_is_given_too_much(code, masses):
    assert sum(masses.values()) == 1
    assert len(masses) > 200
    assert all(0 <= code.weight(text) <= mass for text, mass in masses.items())
    for text in ("b", "d c", "b c d"):  # split in the usual way
        assert code.weight(text) > 0
    for text in ("", " b", "b  c", "b ", "x", "b c d b", "\n"):
        assert code.weight(text) == 0


@over("epsilon", [10.0, 14.0])
def test_no_release_is_likelier_by_more_than_epsilon(code, masses, epsilon):
    mechanism = dp.WeightedResponse(epsilon=epsilon, code=code)
    answers = {text: mechanism.answer(text, Letters()) for text in TEXTS}
    assert len({*answers.values()} - {None}) >= 2
    share, laws = mechanism.coin.share, []
    for own in answers.values():
        left = 1 if own is None else 1 - share
        laws.append({y: left * m + (1 - left) * (y == own) for y, m in masses.items()})
    assert all(sum(one.values()) == 1 for one in laws)
    worst = max(max(one[y] for one in laws) / min(one[y] for one in laws) for y in masses)
    assert worst <= exp_below(Fraction(epsilon)) * (1 + Fraction(1, 10**40))
    # the law by the code's own masses, which are bounds, is no likelier anywhere else
    by_weights = law(mechanism, "d c", masses, Letters())
    assert all(mass <= laws[TEXTS.index("d c")][y] for y, mass in by_weights.items())


def test_lines_are_drawn_by_their_masses(code, masses):
    entropy, count = insecure_entropy(3), 500
    drawn = [code.draw(entropy) for _ in range(count)]
    assert set(drawn) <= set(masses)
    shares = [*map(float, masses.values())]
    law = [*shares, 1 - sum(shares)]  # a mass is a bound
    assert p_value([*map(drawn.count, masses), 0], law, 5) > 1e-9


def test_a_mass_is_the_same_whatever_else_was_computed(code):
    lines = ["b", "d c", "b c d", "bc d"]
    alone = [code.weight(line) for line in lines]
    threads = torch.get_num_threads()
    try:
        for number in (threads, 1, 2):
            torch.set_num_threads(number)
            for line in reversed(lines):
                list(code.search("d c b", Fraction(1, 10**6), Letters()))
                ratio = code.weight(line) / alone[lines.index(line)]
                assert ratio == 1 if number == threads else abs(ratio - 1) < Fraction(1, 1024)
    finally:
        torch.set_num_threads(threads)


@over("text", TORTURE.values())
def test_any_text_gets_a_line(code, masses, text):
    mechanism = dp.WeightedResponse(epsilon=12.0, code=code)
    (release,) = mechanism.respond([text], Letters(), insecure_entropy(1))
    assert release in masses
    beside = mechanism.respond([text, *TEXTS], Letters(), insecure_entropy(1))
    assert beside[0] == release


def test_words_stand_in_another_order_only_where_that_saves_a_nat(pair):
    code = dp.LanguageModelCode(pair, prompt=PROMPTS[0], most=3).fitted(12.0)
    moved = 0
    for words in permutations("bcd"):
        best = next(code.search(" then ".join(words), Fraction(1, 10**12), Letters()))
        assert sorted(best.split()) == ["b", "c", "d"]
        mass, kept = code.weight(best), code.weight(" ".join(words))
        assert best == " ".join(words) or math.log(mass / kept) > 0.9  # of three tries at most
        moved += best != " ".join(words)
    assert 0 < moved < 6
    assert list(code.search("d c", Fraction(1, 10**12), None)) == []


def test_of_a_long_word_that_cannot_be_paid_its_beginning_is_said(pair):
    code = dp.LanguageModelCode(pair, prompt=PROMPTS[0], most=9).fitted(12.0)
    word, least = "bcdbcdbcd", {}
    for count in range(5, 10):
        least[count] = code.weight(word[:count])
    assert [*least.values()] == sorted(least.values(), reverse=True)
    for mass in least.values():
        best = code.answer(word, mass, Letters())
        assert best is not None
        assert word.startswith(best)
        assert code.weight(best) >= mass
    assert code.answer(word, least[9], Letters()) == word
    assert code.answer(word, least[5], Letters()) == word[:5]
    assert code.answer("bcd" * 30_000, least[5], Letters()) == word[:5]


def test_lines_that_pass_together_cost_what_each_costs_alone(code):
    writer = code._writer(PROMPTS[0])
    lines = [[0, 1, 2], [2, 1, 0], [1, 1, 1]]
    together = writer.nats(lines)
    for line, nats in zip(lines, together, strict=True):
        np.testing.assert_allclose(nats, writer.nats([line])[0], atol=1e-4)
        alone, walked = writer.line(), 0.0
        for place in line:
            walked -= math.log(alone.share(place))
            alone.append(place)
        assert nats[range(3), line].sum() == pytest.approx(walked, abs=1e-4)


class Unhashable(Letters):
    __hash__ = None


def test_a_line_is_written_behind_the_prompt_whose_lines_are_nearest(pair):
    prompts = ("b\nb\n", "c\nc c\n", "d\n")
    code = dp.LanguageModelCode(pair, prompt=prompts, most=3).fitted(12.0)
    for text, prompt in zip(("b b", "c", "d and d"), prompts, strict=True):
        found = code.answer(text, Fraction(1, 10**9), Letters())
        alone = dp.LanguageModelCode(pair, prompt=prompt, most=3).fitted(12.0)
        assert found == alone.answer(text, Fraction(1, 10**9), Letters())
        assert found == code.answer(text, Fraction(1, 10**9), Unhashable())
        assert code._nearest(Letters().encode([text])[0], Letters()) == prompt
        assert code.weight(found) > alone.weight(found) / 3


def test_function_words_stand_before_other_words_alone(code, monkeypatch):
    monkeypatch.setattr(frequencies, "stop_words", lambda: frozenset("b"))
    best = [
        next(code.search(text, Fraction(1, 10**12), Letters()), None)
        for text in ("c b d", "d b", "b", "d b b c")
    ]
    assert best == ["c b d", "d", None, "d c"]  # of three tokens at most


def test_a_fingerprint_names_model_prompt_and_numbers_and_loads_nothing():
    base = dp.LanguageModelCode("no-such-model")
    others = [
        dp.LanguageModelCode("another"),
        dp.LanguageModelCode("no-such-model", prompt="Notes:\n-"),
        dp.LanguageModelCode("no-such-model", hazard=0.1),
        dp.LanguageModelCode("no-such-model", english=0.1),
        dp.LanguageModelCode("no-such-model", temperature=1.0),
        base.fitted(50.0),
    ]
    assert len({code.fingerprint for code in [base, *others]}) == 7
    assert pickle.loads(pickle.dumps(base)).fingerprint == base.fingerprint
    certificate = dp.certify(dp.WeightedResponse(epsilon=50, code=base), random_space(5, seed=1))
    assert (certificate.method, certificate.epsilon <= 50) == ("exact", True)
    assert any("passes of the model" in note for note in certificate.assumptions)


def test_wrong_numbers_are_refused():
    wrong = {"hazard": 0.0, "english": 1.0, "temperature": 0.0, "most": 0}
    for name, value in [*wrong.items(), ("prompt", 3), ("prompt", ()), ("prompt", ("a", 3))]:
        with pytest.raises(ParameterError):
            dp.LanguageModelCode("no-such-model", **{name: value})


def test_a_prompt_leaves_room_for_a_line(pair):
    with pytest.raises(ParameterError, match="room"):
        dp.LanguageModelCode(pair, prompt="b " * 40).fitted(9.0).draw(insecure_entropy(1))
    short = dp.LanguageModelCode(pair, prompt="b " * 13).fitted(900.0)
    assert all(len(short.draw(insecure_entropy(k))) < 8 for k in range(20))
