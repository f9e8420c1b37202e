"""Rampart, a small model of personal data by National Design Studio, on one thread.

Its weights lie beside this file as int8 (data/rampart.onnx.gz; CC BY 4.0, see NOTICE).
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from functools import cache
from threading import Lock
from typing import Any

import numpy as np

from dp_middleware import _forks
from dp_middleware._waits import told
from dp_middleware.errors import library
from dp_middleware.pseudonyms.detection import Entity, pieces
from dp_middleware.pseudonyms.detectors.cues import DATA
from dp_middleware.pseudonyms.labels import kind_of

LABELS = (
    "GIVEN_NAME SURNAME EMAIL PHONE URL TAX_ID BANK_ACCOUNT ROUTING_NUMBER GOVERNMENT_ID PASSPORT "
    "DRIVERS_LICENSE BUILDING_NUMBER STREET_NAME SECONDARY_ADDRESS CITY STATE ZIP_CODE"
)
"""Of its outputs: none, then the begin and the inside of each of these."""

WINDOW = 100
"""Characters that it reads at once."""

_KINDS = tuple(kind_of(label) for label in LABELS.split())
_MOST = 510  # tokens of a window, without the two around them
_WORD = re.compile(r"\w+(?:['’-]\w+)*")


class Rampart:
    """Finds personal data with the model, which every process loads once.

    Args:
        threshold: Least probability of what it returns.
    """

    reads_whole_texts = True

    def __init__(self, threshold: float = 0.5) -> None:
        self.threshold = threshold

    def __call__(self, text: str) -> list[Entity]:
        """What is found, as whole words; what joins is one."""
        return [
            Entity(offset + start, offset + end, kind)
            for offset, window in windows(text)
            for start, end, kind in self._of_window(window)
        ]

    def of_windows(self, parts: list[tuple[int, str]]) -> list[Entity]:
        """As of a text, of some of its windows with their offsets."""
        return [
            Entity(offset + start, offset + end, kind)
            for offset, window in parts
            for start, end, kind in self._of_window(window)
        ]

    def _of_window(self, window: str) -> Iterator[Entity]:
        offsets, labels = _model().labels(window, self.threshold)
        words = [match.span() for match in _WORD.finditer(window)]
        last: Entity | None = None
        k = 0
        for (start, end), label in zip(offsets, labels, strict=True):
            if label < 0 or start == end:
                continue
            while k < len(words) and words[k][1] <= start:
                k += 1
            if k < len(words) and words[k][0] < end:
                start, end = min(start, words[k][0]), max(end, words[k][1])
            kind = _KINDS[label]
            if (
                last
                and last.kind == kind
                and not window[last.end : start].strip(" .,-" if kind == "address" else " .-")
            ):
                last = last._replace(end=max(end, last.end))
                continue
            if last:
                yield last
            last = Entity(start, end, kind)
        if last:
            yield last


def windows(text: str) -> Iterator[tuple[int, str]]:
    """A text in pieces that end with lines or sentences, if these are short, with their offsets."""
    start, end = 0, 0
    for match in re.finditer(r"[^\n]*?(?:[.!?](?=\s)|\n|\Z)\s*", text):
        if match.end() - start > WINDOW and end > start:
            yield from _parts(start, text[start:end])
            start = end
        end = match.end()
    if start < len(text):
        yield from _parts(start, text[start:])


def _parts(offset: int, window: str) -> Iterator[tuple[int, str]]:
    if len(window) <= WINDOW * 3 // 2:
        yield offset, window
        return
    for start, piece in pieces(window, WINDOW):
        yield offset + start, piece


class _Model:
    """The loaded model; used by one thread at a time."""

    def __init__(self) -> None:
        runtime = library("onnxruntime", "detect")
        from tokenizers import BertWordPieceTokenizer

        options = runtime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        with told("loading the model of names"):
            weights = gzip.decompress((DATA / "rampart.onnx.gz").read_bytes())
            self._session = runtime.InferenceSession(
                weights, options, providers=["CPUExecutionProvider"]
            )
        self._tokenizer: Any = BertWordPieceTokenizer(str(DATA / "rampart_vocab.txt"))
        self._lock = Lock()
        _forks.renewed[id(self)] = self

    def after_fork(self) -> None:
        """A thread that used it is gone."""
        self._lock = Lock()

    def labels(self, window: str, threshold: float) -> tuple[list[tuple[int, int]], list[int]]:
        """Offsets of tokens and their labels, -1 for none, in parts of a length that it reads."""
        encoding = self._tokenizer.encode(window, add_special_tokens=False)
        ids, offsets, labels = encoding.ids, encoding.offsets, list[int]()
        for start in range(0, len(ids), _MOST - 60):
            new = _labels(self._logits([2, *ids[start : start + _MOST], 3])[1:-1], threshold)
            labels[start:] = [
                max(pair) for pair in zip(labels[start:] or new, new, strict=False)
            ] + (new[len(labels) - start :] if labels[start:] else [])
        return offsets, labels

    def _logits(self, ids: list[int]) -> Any:
        row = np.array([ids], dtype=np.int64)
        inputs = {"input_ids": row, "attention_mask": np.ones_like(row), "token_type_ids": row * 0}
        with self._lock:
            return self._session.run(None, inputs)[0][0]


def _labels(logits: Any, threshold: float) -> list[int]:
    """The most probable label of each token, -1 where it is less probable than the threshold."""
    powers = np.exp(logits - logits.max(1, keepdims=True))
    shares = powers[:, 1:].reshape(len(logits), -1, 2).sum(2) / powers.sum(1, keepdims=True)
    best = shares.argmax(1)
    labels: list[int] = np.where(shares.max(1) >= threshold, best, -1).tolist()
    return labels


_model = cache(_Model)
