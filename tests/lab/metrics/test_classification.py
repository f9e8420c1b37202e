"""Accuracy: chat models over loopback, labels read from what models say, a trained probe."""

import pytest
from support.cases import over
from support.contract import OpenAIServer
from support.texts import CANARY

import dp_middleware as dp
from dp_middleware.lab import metrics
from dp_middleware.lab.metrics.classification import QNLI, SST2, parsed_label

REVIEWS = ["a joy from start to end", "dull and far too long", "", "好看 😀 {text}"]
LABELS = ["positive", "negative", "negative", "positive"]


@pytest.fixture
def served():
    openai = pytest.importorskip("openai")
    with (
        OpenAIServer("Positive.") as server,
        openai.OpenAI(base_url=server.url, api_key="none", max_retries=0) as client,
    ):
        yield server, dp.chat_model(client, model="gpt-4o-mini")


def test_sst2_through_a_real_client(served):
    server, model = served
    found = metrics.classification_accuracy(REVIEWS, LABELS, model)
    assert (found.value, found.trials) == (0.5, 4)
    assert found.details == {"unparsable": 0.0, "majority": 0.5}
    assert found.low == pytest.approx(0.0676, abs=1e-3)  # Clopper-Pearson for 2 of 4
    assert found.high == pytest.approx(0.9324, abs=1e-3)
    assert len(server.prompts) == 4
    for prompt, review in zip(server.prompts, REVIEWS, strict=True):
        assert f"Review: {review}\n" in prompt
        assert "negative or positive" in prompt
    assert metrics.classification_accuracy(REVIEWS, [1, 0, 0, 1], model) == found  # GLUE's


def test_qnli_through_a_real_client(served):
    server, model = served
    server.reply = "**Not entailment**"
    labels = ["not_entailment", "entailment"]
    found = metrics.classification_accuracy(
        REVIEWS[:2], labels, model, task=QNLI, questions=["Who?", "When?"]
    )
    assert found.value == 0.5
    assert "Question: When?\nSentence: dull" in server.prompts[1]
    with pytest.raises(dp.ParameterError, match="questions="):
        metrics.classification_accuracy(REVIEWS[:2], labels, model, task=QNLI)
    with pytest.raises(dp.ParameterError, match="questions="):
        metrics.classification_accuracy(REVIEWS, LABELS, model, questions=REVIEWS)
    assert len(server.prompts) == 2


def test_unparsable_answers_are_wrong_and_counted(served):
    server, model = served
    server.reply = "It is positive and negative at once."
    found = metrics.classification_accuracy(REVIEWS, LABELS, model)
    assert (found.value, found.details["unparsable"]) == (0.0, 4.0)


def test_failures_are_no_accuracy_and_quote_nothing(served):
    server, model = served
    server.mode = "error"
    with pytest.raises(dp.ChatError, match="HTTP 500") as failure:
        metrics.classification_accuracy([CANARY], ["positive"], model)
    assert CANARY not in repr(failure.value)

    def broken(messages):
        raise ValueError(messages[-1]["content"])

    with pytest.raises(dp.ChatError, match="ValueError") as failure:
        metrics.classification_accuracy([CANARY], ["positive"], broken)
    assert CANARY not in repr(failure.value)
    assert failure.value.__context__ is None
    with pytest.raises(dp.ChatError, match="expected a str, got int"):
        metrics.classification_accuracy([CANARY], ["positive"], lambda messages: 3)


@over(
    "answer, label",
    [
        ("positive", "positive"),
        (" **POSITIVE**.\n", "positive"),
        ("Sentiment: negative", "negative"),
        ('{"label": "negative"}', "negative"),
        ("<think>positive? no</think>negative", "negative"),
        ("The review is positive. Positive!", "positive"),
        ("negative/positive", None),
        ("not positive", None),
        ("It isn’t really negative", None),
        ("positively", None),
        ("neutral", None),
        ("", None),
        ("积极 😀", None),
    ],
)
def test_labels_of_sentiment(answer, label):
    assert parsed_label(answer, SST2.labels) == label


@over(
    "answer, label",
    [
        ("entailment", "entailment"),
        ("not_entailment", "not_entailment"),
        ("Not-Entailment.", "not_entailment"),
        ("not entailment, since the sentence names no year", "not_entailment"),
        ("entailment or not_entailment", None),
        ("non-entailment", None),
        ("no", None),
    ],
)
def test_labels_of_pairs(answer, label):
    assert parsed_label(answer, QNLI.labels) == label


def test_labels_of_another_task_are_refused():
    calls = []
    for labels in (["entailment"], [2], [-1], [None], ["positive", "positive"]):
        with pytest.raises(dp.ParameterError, match="label"):
            metrics.classification_accuracy(["secret"], labels, calls.append)
    assert not calls


def test_a_probe_learns_from_raw_texts_only(letters):
    train = ["aaaa", "aaab", "abaa", "zzzz", "zzzy", "zyzz"]
    labels = [0, 0, 0, 1, 1, 1]
    found = metrics.probe_accuracy(
        train, labels, ["aa", "zz", "zy", ""], [0, 1, 1, 1], service=letters
    )
    assert found.value in (0.75, 1.0)
    swapped = metrics.probe_accuracy(train, labels, ["zz", "aa"], [0, 1], service=letters)
    assert swapped.value == 0.0
    assert (swapped.low, swapped.trials) == (0.0, 2)
    assert swapped.high == pytest.approx(1 - 0.025**0.5)
    assert swapped.details["training accuracy"] == 1.0
    assert swapped.details["majority"] == 0.5
    with pytest.raises(dp.ParameterError, match="two different labels"):
        metrics.probe_accuracy(train[:3], labels[:3], ["a"], [0], service=letters)
    with pytest.raises(dp.ParameterError, match="occur in training"):
        metrics.probe_accuracy(train, labels, ["a"], ["0"], service=letters)
    with pytest.raises(dp.ParameterError, match="one label per text"):
        metrics.probe_accuracy(train, labels[:2], ["a"], [0], service=letters)
