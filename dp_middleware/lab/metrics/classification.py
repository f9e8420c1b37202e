"""How many texts are still classified correctly: by a chat model, or by a trained classifier."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dp_middleware.errors import ChatError, DPMiddlewareError, ParameterError
from dp_middleware.lab.metrics.inputs import (
    Chat,
    SentenceEncoder,
    check_pairs,
    check_texts,
    default_encoder,
)
from dp_middleware.lab.metrics.results import MetricResult, of_rate

Label = str | int

_THOUGHT = re.compile(r"<think>.*?</think>", re.DOTALL | re.IGNORECASE)
_DENIED = r"(?:(?:\b(?:not|neither|nor|never)|n't)\s+(?:\w+\s+){0,2}|\b(?:no|non)\s+)"


@dataclass(frozen=True, kw_only=True)
class Task:
    """Describes a task: labels in GLUE's order; a prompt with ``{text}``, ``{question}``."""

    name: str
    labels: tuple[str, ...]
    template: str

    def label(self, label: Label) -> str:
        """Names a label given by name or number; one of another task raises ParameterError."""
        if isinstance(label, int) and 0 <= label < len(self.labels):
            return self.labels[label]
        if not isinstance(label, str) or _plain(label) not in map(_plain, self.labels):
            raise ParameterError(f"expected labels of {self.name}: {self.labels}, or numbers")
        return next(own for own in self.labels if _plain(own) == _plain(label))


SST2 = Task(
    name="SST-2",
    labels=("negative", "positive"),
    template=(
        "Classify the sentiment of this film review. Answer with one word: negative or positive."
        "\n\nReview: {text}\nSentiment:"
    ),
)
"""Sentiment of film reviews, a task of Cape (and of SANTEXT); the prompt is in our own words."""

QNLI = Task(
    name="QNLI",
    labels=("entailment", "not_entailment"),
    template=(
        "Does the sentence contain the answer to the question? Answer with one word: entailment "
        "if it does, not_entailment if it does not."
        "\n\nQuestion: {question}\nSentence: {text}\nAnswer:"
    ),
)
"""Questions and sentences, a task of Cape (and of SANTEXT); the prompt is in our own words."""


def classification_accuracy(
    texts: Sequence[str],
    labels: Sequence[Label],
    model: Chat,
    *,
    task: Task = SST2,
    questions: Sequence[str] | None = None,
) -> MetricResult:
    """Counts the texts that a chat model classifies correctly, as Cape measures it.

    An answer that names no label or several, or denies one, is wrong. The interval is exact
    (Clopper-Pearson) for independent texts. The model is sent ``texts``: **give released ones**, or
    raw ones that are public; ``questions``, of a task on pairs, are sent as they are. Labels are
    the true ones, by name or by number.

    Raises:
        ChatError: The model failed; nothing is known of the remaining texts.
        ParameterError: No texts, not as many labels or questions, or a label of another task.
    """
    texts = check_texts(texts)
    truths = _truths(texts, [task.label(label) for label in labels])
    prompts = _prompts(texts, task, questions)
    labelled = [parsed_label(_answer(model, prompt), task.labels) for prompt in prompts]
    right = np.array([label == truth for label, truth in zip(labelled, truths, strict=True)])
    details = {"unparsable": float(labelled.count(None)), "majority": _majority(truths)}
    assumption = f"one call a text with the {task.name} prompt; unparsable answers are wrong"
    return of_rate("classification accuracy", right, assumption, details)


def probe_accuracy(
    train_texts: Sequence[str],
    train_labels: Sequence[Label],
    texts: Sequence[str],
    labels: Sequence[Label],
    *,
    service: SentenceEncoder | None = None,
) -> MetricResult:
    """Counts the texts that a classifier trained on public raw text gets right.

    Logistic regression on sentence vectors. Train once on public texts and test on the same held
    out texts, none of them trained on, raw and released: the difference is what perturbation costs.

    Raises:
        ParameterError: No texts, not as many labels, a single label to train on, or one to test
            that was not trained on.
    """
    from sklearn.linear_model import LogisticRegression

    train_texts, texts = check_texts(train_texts), check_texts(texts)
    known, truths = _truths(train_texts, train_labels), _truths(texts, labels)
    if len(set(known)) < 2:
        raise ParameterError("expected at least two different labels to train on, got one")
    if not set(truths) <= set(known):
        raise ParameterError("expected labels that occur in training, and of the same type")
    encoder = service if service is not None else default_encoder()
    vectors = encoder.encode(train_texts)
    classifier = LogisticRegression(max_iter=1000).fit(vectors, known)
    right = np.asarray(classifier.predict(encoder.encode(texts))) == np.array(truths)
    details = {
        "majority": _majority(truths),
        "training accuracy": float(classifier.score(vectors, known)),
        "training texts": float(len(known)),
    }
    assumption = "logistic regression on sentence vectors, trained on public raw texts"
    return of_rate("probe accuracy", right, assumption, details)


def parsed_label(answer: str, labels: Sequence[str]) -> str | None:
    """Finds the one label that an answer names, apart from ``<think>`` tags, or ``None``."""
    rest = _plain(_THOUGHT.sub(" ", answer))
    named = set()
    for label in sorted(labels, key=len, reverse=True):  # "not entailment" before "entailment"
        own = rf"\b{re.escape(_plain(label))}\b"
        if re.search(_DENIED + own, rest):
            return None
        if re.search(own, rest):
            named.add(label)
            rest = re.sub(own, " ", rest)
    return named.pop() if len(named) == 1 else None


def _prompts(texts: list[str], task: Task, questions: Sequence[str] | None) -> list[str]:
    if ("{question}" in task.template) != (questions is not None):
        raise ParameterError(f"expected questions= for a task on pairs alone, got {task.name}")
    asked = [""] * len(texts) if questions is None else check_pairs(questions, texts)[0]
    return [
        task.template.format(text=text, question=question)
        for text, question in zip(texts, asked, strict=True)
    ]


def _answer(model: Chat, prompt: str) -> str:
    """What the model says; exceptions of a plain function may quote the text, ours do not."""
    try:
        answer: Any = model([{"role": "user", "content": prompt}])
        failed = f"expected a str, got {type(answer).__name__}"
    except DPMiddlewareError:
        raise
    except Exception as error:
        answer, failed = None, type(error).__name__
    if not isinstance(answer, str):
        raise ChatError(f"the chat model failed: {failed}")
    return answer


def _truths(texts: Sequence[str], labels: Sequence[Any]) -> list[Any]:
    if len(labels) != len(texts):
        raise ParameterError(f"expected one label per text, {len(texts)}, got {len(labels)}")
    return list(labels)


def _majority(labels: Sequence[Label]) -> float:
    """Accuracy of the best constant answer."""
    return Counter(labels).most_common(1)[0][1] / len(labels)


def _plain(text: str) -> str:
    return re.sub(r"[\s_-]+", " ", text.lower().replace("’", "'")).strip()
