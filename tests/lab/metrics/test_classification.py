"""Accuracy: chat models over loopback, labels read from what models say, a trained probe."""

import traceback
from functools import partial

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
    ends = (0.0676, 0.9324)  # Clopper-Pearson for 2 of 4
    assert (found.low, found.high) == pytest.approx(ends, abs=1e-3)
    for prompt, review in zip(server.prompts, REVIEWS, strict=True):
        assert f"Review: {review}\n" in prompt
        assert "negative or positive" in prompt
    assert metrics.classification_accuracy(REVIEWS, [1, 0, 0, 1], model) == found  # GLUE's


def test_qnli_through_a_real_client(served):
    server, model = served
    server.reply, asked = "**Not entailment**", {"task": QNLI, "questions": ["Who?", "When?"]}
    labels = ["not_entailment", "entailment"]
    found = metrics.classification_accuracy(REVIEWS[:2], labels, model, **asked)
    assert found.value == 0.5
    assert "Question: When?\nSentence: dull" in server.prompts[1]
    for texts, own, options in (
        (REVIEWS[:2], labels, {"task": QNLI}),
        (REVIEWS, LABELS, {"questions": REVIEWS}),
    ):
        with pytest.raises(dp.ParameterError, match="questions="):
            metrics.classification_accuracy(texts, own, model, **options)
    assert len(server.prompts) == 2


def test_unparsable_answers_are_wrong_and_counted(served):
    server, model = served
    server.reply = "It is positive and negative at once."
    found = metrics.classification_accuracy(REVIEWS, LABELS, model)
    assert (found.value, found.details["unparsable"]) == (0.0, 4.0)


def test_failures_are_no_accuracy_and_quote_nothing(served):
    server, model = served
    server.mode = "error"

    def broken(messages):
        raise ValueError(messages[-1]["content"])

    for asked, said in (
        (model, "HTTP 500"),
        (broken, "ValueError"),
        (lambda messages: 3, "type str, got int"),
    ):
        with pytest.raises(dp.ChatError, match=said) as failure:
            metrics.classification_accuracy([CANARY], ["positive"], asked)
        assert CANARY not in "".join(traceback.format_exception(failure.value))


SENTIMENTS = [("positive", "positive"), (" **POSITIVE**.\n", "positive")]
SENTIMENTS += [("Sentiment: negative", "negative"), ('{"label": "negative"}', "negative")]
SENTIMENTS += [("<think>positive? no</think>negative", "negative")]
SENTIMENTS += [("The review is positive. Positive!", "positive"), ("negative/positive", None)]
SENTIMENTS += [("not positive", None), ("It isn’t really negative", None), ("positively", None)]
SENTIMENTS += [("neutral", None), ("", None), ("积极 😀", None)]


PAIRS = [("entailment", "entailment"), ("not_entailment", "not_entailment")]
PAIRS += [("Not-Entailment.", "not_entailment")]
PAIRS += [("not entailment, since the sentence names no year", "not_entailment")]
PAIRS += [("entailment or not_entailment", None), ("non-entailment", None), ("no", None)]


@over("task, answers", [(SST2, SENTIMENTS), (QNLI, PAIRS)])
def test_labels_are_read(task, answers):
    for answer, label in answers:
        assert parsed_label(answer, task.labels) == label, answer


def test_labels_of_another_task_are_refused():
    calls = []
    for labels in (["entailment"], [2], [-1], [None], ["positive", "positive"]):
        with pytest.raises(dp.ParameterError, match="label"):
            metrics.classification_accuracy(["secret"], labels, calls.append)
    assert not calls


def test_a_probe_learns_from_raw_texts_only(letters):
    train, labels = ["aaaa", "aaab", "abaa", "zzzz", "zzzy", "zyzz"], [0, 0, 0, 1, 1, 1]
    learn = partial(metrics.probe_accuracy, service=letters)
    assert learn(train, labels, ["aa", "zz", "zy", ""], [0, 1, 1, 1]).value in (0.75, 1.0)
    swapped = learn(train, labels, ["zz", "aa"], [0, 1])
    assert (swapped.value, swapped.low, swapped.trials) == (0.0, 0.0, 2)
    assert swapped.high == pytest.approx(1 - 0.025**0.5)
    assert (swapped.details["training accuracy"], swapped.details["majority"]) == (1.0, 0.5)
    for given, said in (
        ((train[:3], labels[:3], ["a"], [0]), "two different labels"),
        ((train, labels, ["a"], ["0"]), "occur in training"),
        ((train, labels[:2], ["a"], [0]), "one label per text"),
    ):
        with pytest.raises(dp.ParameterError, match=said):
            learn(*given)
