"""The nearest tokens of points, exactly: a product filters, differences of vectors decide.

And tokens near to noisy points, which is all that the noise mechanisms do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.errors import MissingExtra
from dp_middleware.mechanisms._noise import (
    UNIT,
    centre,
    folded,
    random_vectors,
    snapped,
    spacing,
)
from dp_middleware.sampling import Entropy, insecure_entropy

if TYPE_CHECKING:
    import torch

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]
Index = Literal["exact", "approximate"]

_BLOCK = 256  # points searched at a time
_QUERIES = 1000  # of a measured recall
_SCORES = 1 << 22  # filter scores held at a time
_PAIRS = 1 << 13  # differences of vectors held at a time
_SINGLE = 2.0**-24  # largest relative error of one float32 operation
_LARGEST_SCALE = 2.0**32  # so that points far from tiny vectors do not overflow
_LINKS, _VISITED = 32, 128  # of the approximate index: links per token, tokens kept in a search


def released(
    centres: Floats, space: EmbeddingSpace, eta: float, entropy: Entropy, index: Index = "exact"
) -> Ids:
    """Tokens near to centres plus independent noise of density exp(-eta ||z||), int64 (n,).

    A function of the snapped noisy vectors alone: see :mod:`dp_middleware.mechanisms._noise`.

    Args:
        centres: float64 (n, d), less the space's :func:`_noise.centre`.
        space: V tokens with vectors.
        eta: Nats per unit of distance.
        entropy: Source of random bytes.
        index: How to search.
    """
    search = nearest if index == "exact" else nearly_nearest
    dimensions = centres.shape[1]
    step = spacing(eta, dimensions)
    found = np.empty(len(centres), dtype=np.int64)
    for start in range(0, len(centres), _BLOCK):
        block = centres[start : start + _BLOCK]
        noise = random_vectors(len(block), dimensions, eta, entropy)
        points = snapped(block + noise, step) + centre(space)
        found[start : start + _BLOCK] = search(space, points)
    return found


def recall(space: EmbeddingSpace, eta: float) -> float:
    """Share of noisy vectors for which the approximate index finds a nearest token.

    Measured once per space and eta on 1,000 noisy vectors of evenly spaced tokens, with a fixed
    seed: they are public and no release.
    """

    def measured() -> float:
        ids = np.resize(space.spread(_QUERIES), _QUERIES)
        centres = space.vectors[ids] - centre(space)
        exact = released(centres, space, eta, insecure_entropy(0))
        found = released(centres, space, eta, insecure_entropy(0), "approximate")
        same = space.vectors[exact] == space.vectors[found]  # duplicates are as near
        return float(same.all(axis=1).mean())

    return space.derived(("noise-recall", eta), measured)


def nearest(space: EmbeddingSpace, points: Floats, excluded: Ids | None = None) -> Ids:
    """The token nearest to each point by Euclidean distance, ties to the smallest id.

    The distance is the float64 sum of squared differences, added in a fixed order: the answer
    for a point does not depend on the others, nor on the device.

    Args:
        space: V tokens with vectors.
        points: float64 (n, d).
        excluded: int64 (n,), a token per point that is not an answer; needs V > 1.

    Returns:
        int64 (n,).
    """
    found = np.empty(len(points), dtype=np.int64)
    size = max(1, min(_BLOCK, _SCORES // len(space)))
    for start in range(0, len(points), size):
        part = slice(start, start + size)
        left_out = None if excluded is None else excluded[part]
        rows, columns = _candidates(space, points[part], left_out)
        found[part] = _decided(space, points[part], rows, columns)
    return found


def _decided(space: EmbeddingSpace, points: Floats, rows: Ids, columns: Ids) -> Ids:
    if len(rows) == len(points):  # one candidate each
        return columns
    squares = np.empty(len(rows))
    for start in range(0, len(rows), _PAIRS):
        part = slice(start, start + _PAIRS)
        difference = points[rows[part]] - space.vectors[columns[part]]
        difference *= difference
        squares[part] = folded(difference)
    smallest = np.minimum.reduceat(squares, np.flatnonzero(np.diff(rows, prepend=-1)))
    best = squares == smallest[rows]
    _, first = np.unique(rows[best], return_index=True)
    found: Ids = columns[best][first]
    return found


@dataclass(frozen=True)
class _Filter:
    """What scores <w, v> - ||v||^2 / 2 are computed from.

    Attributes:
        centre: float64 (d,), subtracted from vectors and points.
        scale: A power of two that brings centred vectors to length at most 1; 2^32 at most, so
            very short vectors are all candidates.
        table: (d + 1, V): scaled centred vectors, and minus half their squared lengths; float32
            on the host. On another device float64: its float32 products may be less exact than
            float32 (TF32), by a global setting.
        unit: Largest relative error of one operation on it.
    """

    centre: Floats
    scale: float
    table: NDArray[np.float32] | torch.Tensor
    unit: float

    def scaled(self, points: Floats) -> Floats:
        """Centred and brought to the scale of the table."""
        moved: Floats = (points - self.centre) * self.scale
        return moved


def _filter(space: EmbeddingSpace) -> _Filter:
    import torch

    centre = space.vectors.mean(axis=0)
    centred = space.vectors - centre
    longest = float(np.linalg.norm(centred, axis=1).max())
    scale = min(2.0 ** -math.frexp(longest)[1], _LARGEST_SCALE) if longest > 0 else 1.0
    centred *= scale
    halves = 0.5 * np.einsum("vd,vd->v", centred, centred)
    table = np.ascontiguousarray(np.column_stack([centred, -halves]).T)
    if space.device.type == "cpu":
        return _Filter(centre, scale, table.astype(np.float32), _SINGLE)
    return _Filter(centre, scale, torch.from_numpy(table).to(space.device), UNIT)


def _candidates(space: EmbeddingSpace, points: Floats, excluded: Ids | None) -> tuple[Ids, Ids]:
    """Pairs (row, id), ascending, among them every nearest token of each row.

    With l the length of a scaled point: a score is a sum of d + 1 products, off by at most
    (d + 4) unit (l + 1/2) in any order of additions, and by (d + 1) UNIT for the half squares;
    the float64 squares that decide are off by (ceil(log2 d) + 3) UNIT (l + 1)^2, and centring
    moves them by 4 UNIT (l + 1)^2. The margin is above twice their sum.
    """
    import torch

    prepared = space.derived("nearest-filter", lambda: _filter(space))
    scaled = prepared.scaled(points)
    lengths = np.linalg.norm(scaled, axis=1)
    shrink = np.ldexp(1.0, -np.maximum(np.frexp(lengths)[1], 0))  # no overflow of float32
    queries = np.column_stack([scaled, np.ones(len(points))]) * shrink[:, None]
    depth, dimensions = math.ceil(math.log2(points.shape[1])), points.shape[1]
    margin = 4 * (dimensions + 8) * prepared.unit * (lengths + 1)
    margin += 4 * (depth + 8) * UNIT * (lengths + 1) ** 2
    margin = margin * shrink + 2.0**-90  # and what underflows
    if isinstance(prepared.table, np.ndarray):
        scores = torch.from_numpy(queries.astype(np.float32) @ prepared.table)
    else:
        scores = torch.from_numpy(queries).to(space.device) @ prepared.table
    if excluded is not None:
        scores[torch.arange(len(points)), torch.from_numpy(excluded)] = -torch.inf
    least = scores.amax(dim=1) - torch.from_numpy(margin).to(scores)
    rows, columns = np.divmod(_at_least(scores, least), scores.shape[1])
    unclear = np.setdiff1d(np.arange(len(points)), rows)  # not numbers: all are compared
    if unclear.size:
        every = np.arange(scores.shape[1])
        rows = np.append(rows, np.repeat(unclear, len(every)))
        columns = np.append(columns, np.tile(every, len(unclear)))
        order = np.argsort(rows, kind="stable")
        rows, columns = rows[order], columns[order]
    if excluded is None:
        return rows, columns
    others = columns != excluded[rows]
    return rows[others], columns[others]


def _at_least(scores: torch.Tensor, least: torch.Tensor) -> Ids:
    """Flat places of the scores that are no less than their row's limit."""
    import torch

    if scores.device.type == "cpu":  # NumPy is several times as fast here
        return np.flatnonzero(scores.numpy() >= least.numpy()[:, None])
    found: Ids = torch.nonzero((scores >= least[:, None]).ravel()).cpu().numpy().ravel()
    return found


def nearly_nearest(space: EmbeddingSpace, points: Floats) -> Ids:
    """A near token of each point, from a graph index (HNSW); int64 (n,).

    Points are sought one by one in a fixed graph, in float32: the answer for a point does not
    depend on the others. Threads build the graph, so it may differ between processes; it is a
    function of the public vectors and of their timing, never of points.

    Raises:
        MissingExtra: faiss is not installed.
    """
    try:
        import faiss
    except ImportError:
        raise MissingExtra("faiss-cpu", "faiss") from None
    prepared = space.derived("nearest-filter", lambda: _filter(space))
    distinct: Ids = space.derived("distinct", lambda: _distinct(space.vectors))
    index: Any = space.derived(
        "nearest-graph", lambda: _graph(prepared.scaled(space.vectors[distinct]), faiss)
    )
    _, found = index.search(np.float32(prepared.scaled(points)), 1)
    answers: Ids = distinct[found[:, 0]]
    return answers


def _distinct(vectors: Floats) -> Ids:
    """The first token of each group of equal vectors, ascending."""
    first: dict[bytes, int] = {}
    for number, vector in enumerate(vectors + 0.0):  # no negative zeros
        first.setdefault(vector.tobytes(), number)
    return np.array(list(first.values()), dtype=np.int64)


def _graph(vectors: Floats, faiss: Any) -> Any:
    index = faiss.IndexHNSWFlat(vectors.shape[1], _LINKS)
    index.hnsw.efSearch = _VISITED
    index.add(np.float32(vectors))
    return index
