"""A small model of personal data: Rampart of National Design Studio, trained further.

It reads words beside what public lists tell of each. Its weights lie in data/tagger.onnx.gz (int8;
CC BY 4.0, see NOTICE); benchmarks/tagger.py made them from messages written for it.
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
from dp_middleware.pseudonyms.cues import DATA
from dp_middleware.pseudonyms.detection import Entity, pieces
from dp_middleware.pseudonyms.detectors.words import WORD, Listed, language_of, lists_of

# of its outputs: none, then the begin and the inside of each of these
KINDS = [
    *("person", "organisation", "place", "address", "email", "phone", "id", "username", "secret"),
    *("url", "date", "age", "amount"),
]
WINDOW = 300  # characters that it reads at once, about
MOST = 510  # tokens that it reads at once, without the two around them
_UNKNOWN = 1  # the token of what the vocabulary has not
_PART = re.compile(r"[^\W_]+")
_WHOLE = re.compile(r"[\w\u0300-\u036f]+(?:['’-][\w\u0300-\u036f]+)*")
_STRANGE = re.compile("[\u2190-\u2bff\ud800-\udfff\ufe00-\ufe0f\U0001f000-\U0001faff]")  # as emoji
_ENDS = " \t\n.,;:!?()[]{}<>\"'“”„«»*|"
_SIDE = 0.5  # of the threshold: what stands beside something found, to be found too


class Tagger:
    """Finds personal data with the model, which every process loads once.

    Args:
        threshold: Least probability that a word is private, of whatever kind.
        language: Of the texts; ``None``: of each its own.
    """

    reads_whole_texts = True

    def __init__(self, threshold: float = 0.5, language: str | None = None) -> None:
        self.threshold, self.language = threshold, language

    def __call__(self, text: str) -> list[Entity]:
        """What is found, as whole words."""
        language = self.language or language_of(text)
        return [
            Entity(offset + start, offset + end, kind)
            for offset, window in windows(text)
            for start, end, kind in self._of_window(window, language)
        ]

    def _of_window(self, window: str, language: str) -> Iterator[Entity]:
        offsets, shares = _model().shares(window, signs(window, language))
        wholes = [match.span() for match in _WHOLE.finditer(window)]
        last, most, k = Entity(0, 0, ""), 0.0, 0
        for (start, end), row, share in zip(offsets, shares, 1 - shares[:, 0], strict=True):
            if share < _SIDE * self.threshold or start == end:
                continue
            while k < len(wholes) and wholes[k][1] <= start:
                k += 1
            if k < len(wholes) and wholes[k][0] < end:
                start, end = min(start, wholes[k][0]), max(end, wholes[k][1])
            begin, inside = row[1::2], row[2::2]
            best = int((begin + inside).argmax())
            goes_on = last.kind == KINDS[best] and begin[best] <= inside[best]
            if start < last.end or (goes_on and not window[last.end : start].strip(" ")):
                kind = KINDS[best] if share > most else last.kind
                last, most = Entity(last.start, max(end, last.end), kind), max(share, most)
                continue
            if most >= self.threshold:
                yield _trimmed(window, last, language)
            last, most = Entity(start, end, KINDS[best]), share
        if most >= self.threshold:
            yield _trimmed(window, last, language)


def _trimmed(window: str, entity: Entity, language: str) -> Entity:
    """An entity without signs at its ends, which may be a secret's own; a place without "and"."""
    start, end, kind = entity
    written = window[start:end]
    if kind == "secret" or not written.strip(_ENDS):
        return entity
    start += len(written) - len(written.lstrip(_ENDS))
    written = written.strip(_ENDS)
    before, _, last = written.rpartition(" ")
    is_frequent = lists_of(last, language) == Listed.WORD | Listed.FREQUENT
    if before and is_frequent and kind in ("place", "organisation"):
        written = before.rstrip(_ENDS)
    return Entity(start, start + len(written), kind)


def encoded(tokenizer: Any, window: str) -> Any:
    """Tokens of a window with their offsets; emoji are none, or a word with one had no token."""
    return tokenizer.encode(_STRANGE.sub(" ", window), add_special_tokens=False)


def signs(window: str, language: str) -> bytes:
    """What each character's word is: in which lists, and above these bits how it is written."""
    codes = bytearray(len(window))
    for match in _PART.finditer(window):
        written = _case(match.group()) << len(Listed)
        codes[match.start() : match.end()] = bytes([written]) * len(match.group())
    for match in WORD.finditer(window):
        word = match.group().lower().replace("’", "'")
        listed = lists_of(word.removesuffix("'s"), language)
        for k in range(*match.span()):
            codes[k] += listed
    return bytes(codes)


def _case(word: str) -> int:
    """0 for small letters, 1 for a capital one before them, 2 for capitals, 3 for any others."""
    if not any(map(str.isupper, word)):
        return 0
    if not word[0].isupper():
        return 3
    if len(word) > 1 and word.isupper():
        return 2
    return 3 if any(map(str.isupper, word[1:])) else 1


def windows(text: str, size: int = WINDOW) -> Iterator[tuple[int, str]]:
    """A text in pieces that end with lines or sentences, if these are short, with their offsets."""
    start, end = 0, 0
    for match in re.finditer(r"[^\n]*?(?:[.!?](?=\s)|\n|\Z)\s*", text):
        if match.end() - start > size and end > start:
            yield from _parts(start, text[start:end], size)
            start = end
        end = match.end()
    if start < len(text):
        yield from _parts(start, text[start:], size)


def _parts(offset: int, window: str, size: int) -> Iterator[tuple[int, str]]:
    if len(window) <= size * 3 // 2:
        yield offset, window
        return
    for start, piece in pieces(window, size):
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
            weights = gzip.decompress((DATA / "tagger.onnx.gz").read_bytes())
            self._session = runtime.InferenceSession(
                weights, options, providers=["CPUExecutionProvider"]
            )
        self._tokenizer: Any = BertWordPieceTokenizer(str(DATA / "tagger_vocab.txt"))
        self._lock = Lock()
        _forks.renewed[id(self)] = self

    def after_fork(self) -> None:
        """A thread that used it is gone."""
        self._lock = Lock()

    def shares(self, window: str, codes: bytes) -> tuple[list[tuple[int, int]], Any]:
        """Offsets of tokens and the probabilities of their labels, ``(tokens, labels)``."""
        encoding = encoded(self._tokenizer, window)
        types = [codes[start] for start, _ in encoding.offsets]
        rows = [
            self._logits([2, *encoding.ids[k : k + MOST], 3], [0, *types[k : k + MOST], 0])[1:-1]
            for k in range(0, len(types), MOST)
        ]
        logits = np.concatenate([*rows, np.zeros((0, 1 + 2 * len(KINDS)), np.float32)])
        powers = np.exp(logits - logits.max(1, keepdims=True, initial=0))
        offsets = [
            (start, start if token == _UNKNOWN else end)  # of another script
            for token, (start, end) in zip(encoding.ids, encoding.offsets, strict=True)
        ]
        return offsets, powers / powers.sum(1, keepdims=True)

    def _logits(self, ids: list[int], types: list[int]) -> Any:
        row, case = np.array([ids], dtype=np.int64), np.array([types], dtype=np.int64)
        inputs = {"input_ids": row, "attention_mask": np.ones_like(row), "token_type_ids": case}
        with self._lock:
            return self._session.run(None, inputs)[0][0]


_model = cache(_Model)
