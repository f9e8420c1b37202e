"""Similarity, diversity and MAUVE: by hand, the library's values, texts without words."""

import sys

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from support.cases import over

import dp_middleware as dp
from dp_middleware.lab import metrics
from dp_middleware.lab.metrics.generation import mauve_of

TEXTS = ["A quiet, careful film.", "我喜欢猫。日本語", "I 😀 you 👩‍👩‍👧 ok", "", "?!"]
TEXTS += ["naïve café, straße"]
OTHER = ["An unrelated sentence on plumbing", "他不在家", "🏳️‍🌈 tonight", "words", "..."]
OTHER += ["привет мир"]


def test_rouge_l_by_hand():
    pytest.importorskip("rouge_score")
    found = metrics.rouge_l(["the cat sat on the mat"], ["the dog sat on a mat, the fool"])
    precision, recall = 4 / 8, 4 / 6  # the sat on mat
    assert found.details == pytest.approx({"precision": precision, "recall": recall})
    assert found.value == pytest.approx(2 * precision * recall / (precision + recall))
    assert (found.low, found.high, found.trials) == (0.0, 1.0, 1)
    assert metrics.rouge_l(["猫在家"], ["狗在家"]).value == pytest.approx(2 / 3)
    assert metrics.rouge_l(["a b c d"], ["d c b a"]).value == pytest.approx(1 / 4)


@given(st.text(st.characters(max_codepoint=126), max_size=40), st.text("ab c1_-.\n", max_size=40))
def test_rouge_l_agrees_with_the_library_on_ascii(raw, released):
    scorers = pytest.importorskip("rouge_score.rouge_scorer")
    library = scorers.RougeScorer(["rougeL"]).score(raw, released)["rougeL"].fmeasure
    found = metrics.rouge_l([raw], [released]).value
    empty = not any(letter.isalnum() for letter in raw + released)
    assert found == pytest.approx(1.0 if empty else library)


def test_rouge_l_of_texts_without_words():
    pytest.importorskip("rouge_score")
    assert metrics.rouge_l(["", "?", "a"], ["", "", ""]).value == pytest.approx(2 / 3)
    assert metrics.rouge_l(["😀 😀"], ["😀"]).value == pytest.approx(2 / 3)
    assert metrics.rouge_l(TEXTS[:4], OTHER[:4]).value == 0.0


@over("metric", [metrics.rouge_l, metrics.sbert_cosine, metrics.coherence, metrics.alignment])
def test_identity_scores_one(metric):
    pytest.importorskip("rouge_score")
    found = metric(TEXTS, TEXTS)
    assert (found.value, found.low) == pytest.approx((1.0, 1.0), abs=1e-6)
    assert found.trials == len(TEXTS)


def test_cosines_by_hand_and_with_another_service(letters):
    found = metrics.coherence(["aab"], ["abb"], service=letters)
    assert found.value == pytest.approx((0.25 + 2 + 2) / (0.25 + 4 + 1), abs=1e-6)
    assert (found.metric, found.low, found.high) == ("coherence", -1.0, 1.0)
    assert "letters" in found.assumptions[0]
    assert metrics.alignment(["aab"], ["abb"], service=letters).metric == "alignment"


def test_bert_score_agrees_with_the_library():
    library = pytest.importorskip("bert_score")
    from dp_middleware._files import encoder_source

    raw, released, folder = TEXTS[:3], OTHER[:3], encoder_source("all-MiniLM-L6-v2")
    scores = library.score(released, raw, model_type=folder, num_layers=6, device="cpu")
    found = metrics.bert_score(raw, released)
    own = [found.details["precision"], found.details["recall"], found.value]
    assert own == pytest.approx([float(score.mean()) for score in scores], abs=1e-4)


def test_bert_score_says_why_it_cannot_run(tmp_path):
    pytest.importorskip("bert_score")
    with pytest.raises(dp.ParameterError, match=r"could not load .* give the folder") as failure:
        metrics.bert_score(["secret"], ["other"], model=str(tmp_path))
    assert "secret" not in str(failure.value)
    assert failure.value.__context__ is None


@pytest.mark.parametrize(
    ("module", "package", "extra", "call"),
    [
        ("rouge_score.rouge_scorer", "rouge-score", "eval", metrics.rouge_l),
        ("bert_score", "bert-score", "eval", lambda a, b: metrics.bert_score(a, b, model="x")),
        ("mauve.compute_mauve", "mauve-text", "mauve", metrics.mauve),
    ],
)
def test_a_missing_library_names_its_extra(monkeypatch, module, package, extra, call):
    monkeypatch.setitem(sys.modules, module, None)  # as if it were not installed
    with pytest.raises(dp.MissingExtra, match=rf"{package} .*install '\.\[{extra}\]"):
        call(["a", "b"], ["c", "d"])


@over("metric", [metrics.rouge_l, metrics.sbert_cosine, metrics.bert_score])
def test_refusals_quote_no_text(metric):
    for raw, released in ((["secret"], []), ([], []), ("secret", "secret"), ([1], ["secret"])):
        with pytest.raises(dp.ParameterError) as failure:
            metric(raw, released)
        assert "secret" not in str(failure.value)


def test_diversity_by_hand():
    found = metrics.diversity(["a b a b a", "c d e"])
    # bigrams ab ba ab ba, cd de; trigrams aba bab aba, cde; 4-grams abab baba
    shares = {"distinct 2-grams": 4 / 6, "distinct 3-grams": 3 / 4, "distinct 4-grams": 2 / 2}
    assert found.details == pytest.approx(shares)
    assert found.value == pytest.approx(4 / 6 * 3 / 4)
    assert found.low <= found.value <= found.high


def test_diversity_of_repetition_and_of_none():
    assert metrics.diversity(["one two three four five", "six seven"]).value == 1.0
    looped = metrics.diversity(["so " * 400])
    assert looped.value == pytest.approx(1 / 399 * 1 / 398 * 1 / 397)
    assert (looped.low, looped.high) == (0.0, 1.0)
    assert metrics.diversity(["", "word", "😀"]).value == 1.0
    assert metrics.diversity(["猫猫猫猫"]).details["distinct 2-grams"] == pytest.approx(1 / 3)
    with pytest.raises(dp.ParameterError, match="at least one text"):
        metrics.diversity([])


def texts(alphabet, count, seed):
    draws = np.random.default_rng(seed)
    return ["".join(draws.choice(list(alphabet), 12)) for _ in range(count)]


def test_mauve_orders_and_is_deterministic(letters):
    pytest.importorskip("mauve")
    human = texts("abcdef", 40, seed=0)
    near, far, again = (
        metrics.mauve(human, texts(alphabet, 30, seed=1), service=letters)
        for alphabet in ("abcdef", "uvwxyz", "abcdef")
    )
    assert metrics.mauve(human, human, service=letters).value == pytest.approx(1.0)
    assert near == again
    assert near.value > 0.5 > 0.05 > far.value
    for found in (near, far):
        assert 0 <= found.low <= found.value <= found.high <= 1
        assert (found.trials, found.details["buckets"]) == (70, 3)


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=6))
def test_mauve_of_histograms_is_the_librarys(counts):
    library = pytest.importorskip("mauve.compute_mauve")
    p, q = np.array([(1, 1), *counts], dtype=float).T
    p, q = p / p.sum(), q / q.sum()
    weights = np.linspace(1e-6, 1 - 1e-6, 25)
    x, y = library.get_divergence_curve_for_multinomials(p, q, weights, 5).T
    area = library.compute_area_under_curve
    expected = (area(np.sort(x), y[np.argsort(x)]) + area(np.sort(y), x[np.argsort(y)])) / 2
    found = mauve_of(p, q)
    if np.array_equal(p, q):  # the library's ties come in any order
        assert found == pytest.approx(1.0)
    else:
        assert found == pytest.approx(expected, abs=1e-9)


def test_mauve_of_equal_texts_and_too_few(letters):
    pytest.importorskip("mauve")
    assert metrics.mauve(["a"] * 3, ["a"] * 3, service=letters).value == pytest.approx(1.0)
    assert metrics.mauve(["", "猫"], ["😀", "b"], service=letters).trials == 4
    with pytest.raises(dp.ParameterError, match="at least two texts"):
        metrics.mauve(["a"], ["b", "c"], service=letters)
