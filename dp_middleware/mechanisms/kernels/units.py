"""Public words and phrases of which texts are put together, and which of them suit a text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_middleware.errors import ParameterError
from dp_middleware.mechanisms.kernels.chosen import damped
from dp_middleware.vocabulary.bert import default_bert
from dp_middleware.vocabulary.frequencies import stop_words

_WORD = re.compile(r"[^\W\d_]+(?:['-][^\W\d_]+)*")
_SENTENCE = re.compile(r"[.!?;:\n]+")
_LONGEST = 3  # words of a phrase
_MOST = 40_000
_REACH = 0.5, 1.0, 2.0  # of a unit chosen before in the vector of a completion; the new one has 1

Rows = NDArray[np.float32]


@cache
def english() -> tuple[str, ...]:
    """Reads words and phrases of WordNet, the most useful first; see ``benchmarks/units.py``."""
    text = (files("dp_middleware.mechanisms") / "data" / "english_units.txt").read_text("utf-8")
    return tuple(line for line in text.splitlines() if not line.startswith("#"))


def checked(units: Iterable[object]) -> tuple[str, ...]:
    """Returns units as they are, or raises ParameterError: no texts, blank or listed twice."""
    listed = () if isinstance(units, str) else tuple(units)
    texts = tuple(unit for unit in listed if isinstance(unit, str) and unit.strip())
    if not texts or len(set(texts)) < len(listed):
        raise ParameterError("expected a codebook as distinct texts that are not blank")
    return texts


def public(texts: Iterable[str]) -> Iterable[str]:
    """Returns a collection of texts as it is, or raises ParameterError: one str."""
    if isinstance(texts, str):
        raise ParameterError("expected a collection of public texts, got one str")
    return texts


def from_texts(texts: Iterable[str]) -> tuple[str, ...]:
    """Lists words and phrases of two or three words of public texts, those that tell most first."""
    words, phrases, common = Counter[str](), Counter[str](), stop_words()
    for sentence in (part for text in public(texts) for part in _SENTENCE.split(text)):
        tokens = [match.lower() for match in _WORD.findall(sentence)]
        words.update(token for token in tokens if token not in common)
        for length in range(2, _LONGEST + 1):
            parts = (tokens[k : k + length] for k in range(len(tokens) - length + 1))
            phrases.update(" ".join(p) for p in parts if not {p[0], p[-1]} & common)
    if not words:
        raise ParameterError("expected public texts with words, got none")
    counts = words | Counter({phrase: count for phrase, count in phrases.items() if count > 1})
    shares = np.array(list(counts.values())) / words.total()
    weights = dict(zip(counts, damped(shares).tolist(), strict=True))
    return tuple(sorted(weights, key=lambda unit: (-weights[unit], unit))[:_MOST])


FILE = str(files("dp_middleware.mechanisms") / "data" / "unit_map.npz")
CONSTANT = 0.05  # beside the mean


class Pieces:
    """The WordPieces of texts that have some."""

    def __init__(self, texts: Sequence[str]) -> None:
        ids = [one.ids for one in default_bert().encode_batch([*texts], add_special_tokens=False)]
        self._flat = np.concatenate(ids).astype(np.int32)
        self._counts = np.array([len(own) for own in ids])
        self._starts = np.cumsum(self._counts) - self._counts

    def means(self, of_pieces: Rows) -> Rows:
        """Mean over each text's pieces of a number for each of the model's, float32 (n,)."""
        return np.asarray(np.add.reduceat(of_pieces[self._flat], self._starts) / self._counts)


@cache
def _english() -> tuple[Pieces, Rows, NDArray[Any]]:
    """Pieces of all units, the map, and the length of what it gives for each unit."""
    with np.load(FILE, allow_pickle=False) as file:
        return Pieces(english()), file["map"] * file["scale"], file["lengths"]


def nearest(target: Rows, embeddings: Rows, size: int, count: int) -> list[int]:
    """Names ``count`` of the first ``size`` units near to a vector, by WordPieces' embeddings."""
    pieces, linear, lengths = _english()
    along = linear @ target
    cosines = (pieces.means(embeddings @ along[:-1]) + CONSTANT * along[-1]) / lengths
    return sorted(np.argpartition(-cosines[:size], min(count, size) - 1)[:count].tolist())


def best_units(
    target: Rows,
    count: int,
    vectors: Rows,
    encode: Callable[[Sequence[Sequence[int]]], Rows],
    shortlist: int,
) -> list[int]:
    """Chooses distinct units, each the one that best completes those before it.

    A completion is first taken for a weighted sum of both parts' vectors; the ``shortlist`` best
    are encoded, and the nearest to the target (d,) wins. ``vectors`` are unit rows (M, d) of all
    units.
    """
    towards = vectors @ target
    chosen = [int(towards.argmax())]  # a unit alone: its own vector is exact
    head, free = vectors[chosen[0]], np.ones(len(vectors), dtype=np.bool_)
    while len(chosen) < count:
        free[chosen] = False
        reached, along, listed = head @ target, vectors @ head, set[int]()
        most = min(-(-shortlist // len(_REACH)), int(free.sum()))
        for reach in _REACH:
            weight = reach * len(chosen)
            lengths = np.sqrt(np.maximum(1 + weight**2 + 2 * weight * along, 1e-6))
            cosines = np.where(free, (weight * reached + towards) / lengths, -np.inf)
            listed.update(np.argpartition(-cosines, most - 1)[:most].tolist())
        offered = sorted(listed)
        rows = encode([[*chosen, number] for number in offered])
        rows = np.nan_to_num(rows, posinf=0.0, neginf=0.0)
        best = int((rows @ target).argmax())
        chosen.append(offered[best])
        head = rows[best]
    return chosen
