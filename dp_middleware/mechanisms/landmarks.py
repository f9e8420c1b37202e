"""Landmarks of a channel: made in a pass over its rows, kept on disk, and drawn by."""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import TypeGuard

import numpy as np
from numpy.typing import NDArray

from dp_middleware import _files
from dp_middleware._torch import torch
from dp_middleware.embedding.arrays import Floats, Ids
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.mechanisms.base import Mechanism, ScoredMechanism
from dp_middleware.mechanisms.kernels.radius import SMALL
from dp_middleware.mechanisms.keys import is_known, key_on_disk, writing
from dp_middleware.mechanisms.rantext import RanText
from dp_middleware.sampling import landmarks as marks
from dp_middleware.sampling.entropy import Words
from dp_middleware.sampling.integers import IntegerRows, integer_rows
from dp_middleware.vocabulary.vocabulary import UNKNOWN

Landmarked = ScoredMechanism | RanText

MOST = 1e8  # bytes of landmarks up to which they are written unasked
_WORTH_STORING = 512  # tokens; fewer make a row in no time
_HELD = 1 << 29  # bytes of all landmarks that were not asked for
_KINDS = "prepared", "landmarks"  # folders: asked for, and not


class LandmarkRows:
    """Draws by the landmarks of all of a mechanism's rows, on the host."""

    def __init__(
        self, mechanism: Landmarked, space: EmbeddingSpace, landmarks: marks.Landmarks
    ) -> None:
        self._mechanism, self._space, self._landmarks = mechanism, space, landmarks

    def __len__(self) -> int:
        return len(self._space)

    def locate(self, ids: Ids, uniform: Words) -> tuple[NDArray[np.bool_], Ids]:
        """Tells which places are decided, and the outputs there; see :class:`Landmarks`."""
        return self._landmarks.locate(ids, uniform, self.scores)

    def scores(self, ids: Ids, firsts: Ids, width: int) -> Floats:
        """Computes scores of outputs from ``firsts`` on, float64 (n, width); -inf behind V."""
        inside = firsts[:, None] + np.arange(width) < len(self._space)
        products = self._products(ids, firsts, width)
        if isinstance(self._mechanism, RanText):
            scores = self._landmarks.on_curves(ids, products)
        else:
            scores = self._mechanism.scores(torch.from_numpy(products), self._space).numpy()
        return np.where(inside, scores, -np.inf)

    def _products(self, ids: Ids, firsts: Ids, width: int) -> Floats:
        """Distances or cosines, exact; each vector passes through the processor once."""
        space, mechanism = self._space, self._mechanism
        by_distance = isinstance(mechanism, RanText) or mechanism.product == "distance"
        vectors = space.points if by_distance else space.unit.numpy()
        made, order = np.zeros((len(ids), width)), np.argsort(firsts, kind="stable")
        rows, dots = vectors[ids[order]], np.zeros_like(made)
        blocks, starts = np.unique(firsts[order], return_index=True)
        for first, (start, end) in zip(
            blocks.tolist(), pairwise([*starts.tolist(), len(ids)]), strict=True
        ):
            block = vectors[first : first + width]
            np.matmul(rows[start:end], block.T, out=dots[start:end, : len(block)])
        made[order] = dots
        if not by_distance:
            return np.clip(made, -1.0, 1.0, out=made)
        made *= -2.0
        made += space.squares[ids, None]
        made += space.squares.take(firsts[:, None] + np.arange(width), mode="clip")
        return np.sqrt(np.maximum(made, 0.0, out=made), out=made)


class Survey:
    """Makes the landmarks of a channel in a pass over its rows that another one makes as well."""

    def __init__(self, mechanism: Landmarked, space: EmbeddingSpace) -> None:
        self._mechanism, self._space = mechanism, space
        self._surveyor = marks.Surveyor(len(space), MOST)
        self._largest = np.empty(len(space))  # ln of the largest probability
        self._top = np.empty(len(space), dtype=np.int64)  # where that is
        self._points, self._curves = np.empty(0), np.empty((len(space), 0), dtype=np.float32)
        self._met = np.empty(0, dtype=np.bool_)

    def take(self, ids: Ids, integers: IntegerRows) -> None:
        """Takes in rows of tokens; that of the unknown symbol has no landmarks."""
        known = np.flatnonzero(ids != UNKNOWN)
        weights, units = (each.numpy()[known] for each in (integers.weights, integers.units))
        self._surveyor.take(ids[known], weights, units)
        self._top[ids[known]] = weights.argmax(axis=1)
        self._largest[ids[known]] = np.log(weights.max(axis=1) * units[:, 0])

    def log_rows(self, ids: Ids, space: EmbeddingSpace) -> torch.Tensor:
        """Computes those of the mechanism; notes what they are functions of."""
        if not isinstance(self._mechanism, RanText):
            return self._mechanism.log_rows(ids, space)
        rows, all_curves = self._mechanism.rows_and_curves(ids, space)
        done = 0
        for points, values, met in filter(None, all_curves):
            if not len(self._points):
                self._points, self._met = points, np.arange(len(points)) < 1
                self._curves = np.empty((len(space), len(points)), dtype=np.float32)
            self._met |= met.numpy()
            self._curves[ids[done : done + len(values)]] = (values - values[:, :1]).numpy()
            done += len(values)
        return rows

    def landmarks(self) -> marks.Landmarks:
        """Makes those of all rows; of curves at 0, and between points that distances have met."""
        met = np.flatnonzero(self._met).tolist()
        columns = [0, *range(met[1], met[-1] + 1)] if len(met) > 1 else [0, 1][: 2 * len(met)]
        made = self._surveyor.landmarks(self._points[columns], self._curves[:, columns])
        rows = LandmarkRows(self._mechanism, self._space, made)
        scores = rows.scores(np.arange(len(self._space)), self._top, 1)
        made.rows["offset"] = self._largest - scores[:, 0]
        return made

    def keep(self) -> None:
        """Writes them unasked, if they are not large and there is a folder."""
        made = self.landmarks()
        if made.rows.nbytes > MOST:
            return
        path = _path("landmarks", self._mechanism, self._space)
        with suppress(OSError):
            marks.store(made, path)
            _files.forget_oldest(path.parent, _HELD)


def opened(mechanism: Mechanism, space: EmbeddingSpace) -> LandmarkRows | None:
    """Opens the landmarks that are on disk, if any are."""
    if not _can_be(mechanism, space):
        return None
    for kind in _KINDS:
        path = _path(kind, mechanism, space)
        if (found := marks.load(path)) is not None:
            with suppress(OSError):
                os.utime(path)  # what is used last is forgotten last
            return LandmarkRows(mechanism, space, found)
    return None


def survey(mechanism: Mechanism, space: EmbeddingSpace) -> Survey | None:
    """Prepares landmarks to be made beside something else; ``None``: some exist, or none can."""
    if not _can_be(mechanism, space) or opened(mechanism, space) is not None:
        return None
    return Survey(mechanism, space)


def keep(mechanism: Mechanism, space: EmbeddingSpace) -> Path | None:
    """Has the landmarks of all tokens in a file for good; ``None`` where there can be none.

    ParameterError: the folder cannot be written to, or has no room.
    """
    if not _can_be(mechanism, space):
        return None
    path, unasked = (_path(kind, mechanism, space) for kind in _KINDS)
    if marks.load(path) is not None:
        return path
    with writing("landmarks", path):
        path.parent.mkdir(parents=True, exist_ok=True)
        if marks.load(unasked) is not None:
            unasked.replace(path)
        else:
            survey = Survey(mechanism, space)
            for ids in np.array_split(np.arange(len(space)), -(-len(space) // space.block)):
                survey.take(ids, integer_rows(survey.log_rows(ids, space)))
            marks.store(survey.landmarks(), path)
    return path


def _can_be(mechanism: Mechanism, space: EmbeddingSpace) -> TypeGuard[Landmarked]:
    """Of code that is part of the key, where rows take long, on the host."""
    if not isinstance(mechanism, Landmarked):
        return False
    least = max(_WORTH_STORING, SMALL + 1) if isinstance(mechanism, RanText) else _WORTH_STORING
    large = len(space) >= least
    return large and space.device.type == "cpu" and is_known(mechanism, space)


def _path(kind: str, mechanism: Landmarked, space: EmbeddingSpace) -> Path:
    return _files.cache_path(kind, *key_on_disk(mechanism, space), suffix=".npy")
