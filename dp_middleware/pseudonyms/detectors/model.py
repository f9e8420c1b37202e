"""A small model of personal data: Rampart of National Design Studio, trained further.

It reads words beside what public lists tell of each. Its weights lie in data/tagger.onnx.gz (int8;
CC BY 4.0, see NOTICE); benchmarks/tagger.py made them from messages written for it.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

from dp_middleware._waits import told
from dp_middleware.errors import library
from dp_middleware.pseudonyms.cues import CUES, DATA
from dp_middleware.pseudonyms.detection import Entity, pieces
from dp_middleware.pseudonyms.detectors.words import WORD, Listed, language_of, lists_of

# of its outputs: none, then the begin and the inside of each of these
KINDS: list[str] = CUES["tagged"].split()
WINDOW = 300  # characters that it reads at once, about
MOST = 510  # tokens that it reads at once, without the two around them
_NO_ROW = np.zeros((0, 1 + 2 * len(KINDS)), np.float32)
_UNKNOWN = 1  # the token of what the vocabulary has not
_PART = re.compile(r"[^\W_]+")
_WHOLE = re.compile(r"[\w\u0300-\u036f]+(?:['’-][\w\u0300-\u036f]+)*")
_STRANGE = re.compile("[\u2190-\u2bff\ud800-\udfff\ufe00-\ufe0f\U0001f000-\U0001faff]")  # as emoji
_ENDS = " \t\n.,;:!?()[]{}<>\"'“”„«»*|"
_SIDE = 0.5  # of the threshold: what stands beside something found, to be found too


@dataclass(frozen=True)
class Tagger:
    """Finds personal data with the model, which every process loads once.

    Args:
        threshold: Least probability that a word is private, of whatever kind.
        language: Of the texts; ``None``: of each its own.
    """

    threshold: float = 0.5
    language: str | None = None

    reads_whole_texts = True

    def __call__(self, text: str) -> list[Entity]:
        """What is found, as whole words."""
        language = self.language or language_of(text)
        return [
            Entity(offset + start, offset + end, kind)
            for offset, window in windows(text)
            for start, end, kind in self._of_window(window, language)
        ]

    def _of_window(self, window: str, language: str) -> list[Entity]:
        offsets, shares = _shares(window, signs(window, language))
        wholes = [match.span() for match in _WHOLE.finditer(window)]
        found, k = [(Entity(0, 0, ""), 0.0)], 0
        for (start, end), row, share in zip(offsets, shares, 1 - shares[:, 0], strict=True):
            if share < _SIDE * self.threshold or start == end:
                continue
            while k < len(wholes) and wholes[k][1] <= start:
                k += 1
            if k < len(wholes) and wholes[k][0] < end:
                start, end = min(start, wholes[k][0]), max(end, wholes[k][1])
            begin, inside = row[1::2], row[2::2]
            best = int((begin + inside).argmax())
            last, most = found[-1]
            goes_on = last.kind == KINDS[best] and begin[best] <= inside[best]
            if start < last.end or (goes_on and not window[last.end : start].strip(" ")):
                kind = KINDS[best] if share > most else last.kind
                found[-1] = Entity(last.start, max(end, last.end), kind), max(share, most)
            else:
                found.append((Entity(start, end, KINDS[best]), share))
        return [_trimmed(window, each, language) for each, most in found if most >= self.threshold]


def _trimmed(window: str, entity: Entity, language: str) -> Entity:
    """An entity without signs at its ends, which may be a secret's own; a place without "and"."""
    written = window[entity.start : entity.end].lstrip(_ENDS)
    start, written = entity.end - len(written), written.rstrip(_ENDS)
    if entity.kind == "secret" or not written:
        return entity
    before, _, last = written.rpartition(" ")
    is_frequent = lists_of(last, language) == Listed.WORD | Listed.FREQUENT
    if before and is_frequent and entity.kind in ("place", "organisation"):
        written = before.rstrip(_ENDS)
    return Entity(start, start + len(written), entity.kind)


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
    capitals = sum(map(str.isupper, word))
    if capitals and word[0].isupper():
        return 2 if len(word) > 1 and word.isupper() else 1 if capitals == 1 else 3
    return 3 if capitals else 0


def windows(text: str, size: int = WINDOW) -> Iterator[tuple[int, str]]:
    """A text in pieces that end with lines or sentences, if these are short, with their offsets."""
    ends = [m.end() for m in re.finditer(r"[^\n]*?(?:[.!?](?=\s)|\n|\Z)\s*", text)]
    start = 0
    for end, behind in pairwise([*ends, len(text) + size + 1]):
        if start < end and behind - start > size:
            most = size if end - start > size * 3 // 2 else end - start
            for offset, piece in pieces(text[start:end], most):
                yield start + offset, piece
            start = end


@cache
def _model() -> tuple[Any, Any]:
    """The loaded model, which threads may run at the same time, and its tokenizer."""
    runtime = library("onnxruntime", "detect")
    from tokenizers import BertWordPieceTokenizer

    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    with told("loading the model of names"):
        weights = gzip.decompress((DATA / "tagger.onnx.gz").read_bytes())
        session = runtime.InferenceSession(weights, options, providers=["CPUExecutionProvider"])
    return session, BertWordPieceTokenizer(str(DATA / "tagger_vocab.txt"))


def _shares(window: str, codes: bytes) -> tuple[list[tuple[int, int]], Any]:
    """Offsets of tokens and the probabilities of their labels, ``(tokens, labels)``."""
    session, tokenizer = _model()
    encoding = encoded(tokenizer, window)
    types, rows = [codes[start] for start, _ in encoding.offsets], [_NO_ROW]
    for k in range(0, len(types), MOST):
        ids = np.array([[2, *encoding.ids[k : k + MOST], 3]], dtype=np.int64)
        case = np.array([[0, *types[k : k + MOST], 0]], dtype=np.int64)
        inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": case}
        rows.append(session.run(None, inputs)[0][0][1:-1])
    logits = np.concatenate(rows)
    powers = np.exp(logits - logits.max(1, keepdims=True, initial=0))
    offsets = [
        (start, start if token == _UNKNOWN else end)  # of another script
        for token, (start, end) in zip(encoding.ids, encoding.offsets, strict=True)
    ]
    return offsets, powers / powers.sum(1, keepdims=True)
