"""How many texts are still classified correctly: by a chat model, or by a trained classifier."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dp_middleware.errors import ParameterError
from dp_middleware.lab.metrics import results
from dp_middleware.lab.metrics.results import Chat, MetricResult, SentenceEncoder, of_rate

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
        names = {_plain(own): own for own in self.labels} | dict(enumerate(self.labels))
        found = names.get(_plain(label) if isinstance(label, str) else label)
        if found is None:
            raise ParameterError(f"expected labels of {self.name}: {self.labels}, or numbers")
        return found


SST2 = Task(
    name="SST-2",
    labels=("negative", "positive"),
    template="Classify the sentiment of this film review. Answer with one word: negative or "
    "positive.\n\nReview: {text}\nSentiment:",
)
"""Sentiment of film reviews, a task of Cape (and of SANTEXT); the prompt is in our own words."""

QNLI = Task(
    name="QNLI",
    labels=("entailment", "not_entailment"),
    template="Does the sentence contain the answer to the question? Answer with one word: "
    "entailment if it does, not_entailment if it does not."
    "\n\nQuestion: {question}\nSentence: {text}\nAnswer:",
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

    An answer that names no label or several, or denies one, is wrong. The model is sent ``texts``,
    **released or public ones**, and ``questions``, of a task on pairs, as they are. Labels are the
    true ones, by name or by number. ParameterError: no texts, not as many labels or questions, or a
    label of another task. ChatError: the model failed.
    """
    texts = results.check_texts(texts)
    truths = _truths(texts, [task.label(label) for label in labels])
    if ("{question}" in task.template) != (questions is not None):
        raise ParameterError(f"expected questions= for a task on pairs alone, got {task.name}")
    said = [""] * len(texts) if questions is None else results.check_pairs(questions, texts)[0]
    fill = task.template.format
    prompts = [fill(text=text, question=own) for text, own in zip(texts, said, strict=True)]
    ask = results.asked(model)
    answers = [ask([{"role": "user", "content": prompt}]) for prompt in prompts]
    labelled = [parsed_label(answer, task.labels) for answer in answers]
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
    """Counts the texts that logistic regression on vectors of **public** raw texts gets right.

    Test the same held out texts raw and released: the difference is what perturbation costs.
    ParameterError: no texts, not as many labels, a single label to train on, or one to test that
    was not trained on.
    """
    from sklearn.linear_model import LogisticRegression

    train_texts, texts = results.check_texts(train_texts), results.check_texts(texts)
    known, truths = _truths(train_texts, train_labels), _truths(texts, labels)
    if len(set(known)) < 2:
        raise ParameterError("expected at least two different labels to train on, got one")
    if not set(truths) <= set(known):
        raise ParameterError("expected labels that occur in training, and of the same type")
    encoder = service or results.default_encoder()
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


def _truths(texts: Sequence[str], labels: Sequence[Any]) -> list[Any]:
    if len(labels) != len(texts):
        raise ParameterError(f"expected one label per text, {len(texts)}, got {len(labels)}")
    return list(labels)


def _majority(labels: Sequence[Label]) -> float:
    """Accuracy of the best constant answer."""
    return Counter(labels).most_common(1)[0][1] / len(labels)


def _plain(text: str) -> str:
    return re.sub(r"[\s_-]+", " ", text.lower().replace("’", "'")).strip()
