"""Similarity of texts: identity scores 1, the library's values, texts without words."""

import sys

import pytest
from hypothesis import given, strategies as st

import dp_middleware as dp
from dp_middleware.lab import metrics

TEXTS = [
    "A quiet, careful film.",
    "我喜欢猫。日本語",
    "I 😀 you 👩‍👩‍👧 ok",
    "",
    "?!",
    "naïve café, straße",
]
OTHER = [
    "An unrelated sentence on plumbing",
    "他不在家",
    "🏳️‍🌈 tonight",
    "words",
    "...",
    "привет мир",
]


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


def test_identity_scores_one():
    pytest.importorskip("rouge_score")
    found = [
        metrics.rouge_l(TEXTS, TEXTS),
        metrics.sbert_cosine(TEXTS, TEXTS),
        metrics.coherence(TEXTS, TEXTS),
        metrics.alignment(TEXTS, TEXTS),
    ]
    for each in found:
        assert each.value == pytest.approx(1.0, abs=1e-6)
        assert each.low == pytest.approx(1.0, abs=1e-6)
        assert each.trials == len(TEXTS)


def test_the_bundled_encoder_tells_alike_from_unlike():
    raw = ["The doctor prescribed an antibiotic.", "The match ended in a draw."]
    near = metrics.sbert_cosine(raw, ["A physician gave out medicine.", "The game was a tie."])
    far = metrics.sbert_cosine(raw, list(reversed(raw)))
    assert near.value > 0.4 > 0.2 > far.value
    assert "all-MiniLM-L6-v2" in near.assumptions[0]


def test_cosines_by_hand_and_with_another_service(letters):
    found = metrics.coherence(["aab"], ["abb"], service=letters)
    assert found.value == pytest.approx((0.25 + 2 + 2) / (0.25 + 4 + 1), abs=1e-6)
    assert (found.metric, found.low, found.high) == ("coherence", -1.0, 1.0)
    assert "letters" in found.assumptions[0]
    assert metrics.alignment(["aab"], ["abb"], service=letters).metric == "alignment"


def test_bert_score_agrees_with_the_library():
    library = pytest.importorskip("bert_score")
    from dp_middleware._files import encoder_source

    raw, released = TEXTS[:3], OTHER[:3]
    folder = encoder_source("all-MiniLM-L6-v2")
    expected = library.score(released, raw, model_type=folder, num_layers=6, device="cpu")
    found = metrics.bert_score(raw, released)
    assert found.value == pytest.approx(float(expected[2].mean()), abs=1e-4)
    assert found.details["precision"] == pytest.approx(float(expected[0].mean()), abs=1e-4)
    assert found.details["recall"] == pytest.approx(float(expected[1].mean()), abs=1e-4)
    fewer = metrics.bert_score(raw, released, layers=2)
    assert fewer.value != pytest.approx(found.value, abs=1e-3)


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
        ("bert_score", "bert-score", "eval", lambda a, b: metrics.bert_score(a, b, layers=1)),
        ("mauve.compute_mauve", "mauve-text", "mauve", metrics.mauve),
    ],
)
def test_a_missing_library_names_its_extra(monkeypatch, module, package, extra, call):
    monkeypatch.setitem(sys.modules, module, None)  # as if it were not installed
    with pytest.raises(dp.MissingExtra, match=rf"{package} .*install '\.\[{extra}\]"):
        call(["a", "b"], ["c", "d"])


@pytest.mark.parametrize("metric", [metrics.rouge_l, metrics.sbert_cosine, metrics.bert_score])
def test_refusals_quote_no_text(metric):
    for raw, released in ((["secret"], []), ([], []), ("secret", "secret"), ([1], ["secret"])):
        with pytest.raises(dp.ParameterError) as failure:
            metric(raw, released)
        assert "secret" not in str(failure.value)
