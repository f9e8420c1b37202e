"""A vocabulary with a vector per token: distances and cosines, exact on every machine."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from functools import cached_property, partial, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dp_middleware import _forks
from dp_middleware._torch import torch
from dp_middleware.embedding import arrays, grid
from dp_middleware.embedding.arrays import Floats, Ids, VectorSource, slices
from dp_middleware.errors import ParameterError
from dp_middleware.vocabulary.vocabulary import Vocabulary

T = TypeVar("T")
P = ParamSpec("P")
BLOCK = 64  # rows computed at a time on the CPU, a matter of memory and caches
_DEVICE_BLOCK = 1024  # the same on another device, which has more to do at a time


def once(
    compute: Callable[Concatenate[EmbeddingSpace, P], T],
) -> Callable[Concatenate[EmbeddingSpace, P], T]:
    """Makes a function of a space and hashable arguments one that computes once per process."""

    @wraps(compute)
    def known(space: EmbeddingSpace, /, *args: P.args, **named: P.kwargs) -> T:
        key = (compute.__module__, compute.__qualname__, *args)
        return space.derived(key, lambda: compute(space, *args, **named))

    return known


class EmbeddingSpace:
    """Vectors of a vocabulary's tokens; public and read-only.

    Args:
        vocabulary: V tokens.
        vectors: Finite floats (V, d), kept unchanged; ParameterError: other things.
        device: ``"cpu"``, ``"cuda"``, ... or ``"auto"``: CUDA if there is one. Products are
            float64, so a device without float64 (``"mps"``) is replaced by the CPU.

    Attributes:
        recipe: A function that makes the same space, bit for bit, in another process: pickles hold
            it in place of the vectors, unless it is ``None``.
    """

    def __init__(
        self, vocabulary: Vocabulary, vectors: ArrayLike | VectorSource, *, device: str = "auto"
    ) -> None:
        if not isinstance(vectors, VectorSource):
            own: Floats = np.array(vectors, dtype=np.float64, order="C")
            grid.check(own, len(vocabulary))
            own.setflags(write=False)
            vectors = VectorSource(lambda: own, own.shape[1])
        self.vocabulary, self._source = vocabulary, vectors
        self.recipe: Callable[[], EmbeddingSpace] | None = None
        self._derived: dict[object, Any] = {}
        self._asked_device = device
        if device not in ("auto", "cpu"):
            self.device  # noqa: B018 - refuses what torch does not know
        self.after_fork()
        _forks.renewed[id(self)] = self

    def after_fork(self) -> None:
        """Makes a new lock: a thread of the parent may have held the old one."""
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self.vocabulary)

    def __repr__(self) -> str:
        kind = f"d={self._source.dimensions}, {self.vocabulary.tokenizer.name}"
        return f"EmbeddingSpace({len(self)} tokens, {kind}, {self.fingerprint[:8]})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EmbeddingSpace) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __reduce__(self) -> tuple[Any, ...]:
        if self.recipe is not None:
            return _make_again, (self.recipe, self.fingerprint)
        return partial(type(self), device=self._asked_device), (self.vocabulary, self.vectors)

    @cached_property
    def fingerprint(self) -> str:
        """Digests the vocabulary's fingerprint, the vectors and the grid, SHA-256, hexadecimal."""
        known = self._source.fingerprint
        return known or grid.fingerprint(self.vocabulary.fingerprint, self.vectors)

    @property
    @once
    def vectors(self) -> Floats:
        """Gives the vectors, float64 (V, d), read-only."""
        return self._source.read()

    @cached_property
    def device(self) -> torch.device:
        """Tells where rows are computed."""
        automatic = "cuda" if torch.cuda.is_available() else "cpu"
        wanted = torch.device(automatic if self._asked_device == "auto" else self._asked_device)
        return torch.device("cpu") if wanted.type == "mps" else wanted

    def derived(self, key: object, compute: Callable[[], T]) -> T:
        """Returns a public quantity of this space, computed once per process."""
        with self._lock:
            if key not in self._derived:
                self._derived[key] = compute()
            return cast(T, self._derived[key])

    def checked(self, ids: ArrayLike) -> Ids:
        """Does :meth:`Vocabulary.checked`."""
        return self.vocabulary.checked(ids).copy()

    def spread(self, count: int) -> Ids:
        """Spaces up to ``count`` distinct ids evenly over the vocabulary."""
        return np.unique(np.linspace(0, len(self) - 1, count).astype(np.int64))

    @property
    def block(self) -> int:
        """Tells how many rows are computed at a time."""
        return BLOCK if self.device.type == "cpu" else _DEVICE_BLOCK

    @property
    def points(self) -> Floats:
        """Gives the vectors about a public centre, on the grid of distances; float64 (V, d).

        See :func:`~dp_middleware.embedding.grid.points_of`, which refuses some.
        """
        return self._points.host

    @property
    def resolution(self) -> float:
        """Bounds how far a distance differs from that of the original vectors."""
        return math.sqrt(self._source.dimensions) * self._points.spacing

    @property
    def radius(self) -> float:
        """Measures the longest of :attr:`points`: no two are further apart than twice that."""
        return math.sqrt(float(self._points.squares.max()))

    @property
    def squares(self) -> Floats:
        """Gives squared lengths of :attr:`points`, exact, float64 (V,)."""
        return on_host(self._points.squares)

    @property
    @once
    def _points(self) -> arrays.Points:
        host, spacing = grid.points_of(self.vectors)
        placed = self.on_device(host)
        host.setflags(write=False)
        return arrays.Points(host, spacing, placed, placed.square().sum(dim=1))

    def distances(self, ids: ArrayLike) -> Floats:
        """Computes Euclidean distances of :attr:`points`, from ids to every token, float64 (n, V).

        The square root, rounded once, of an exact number: the same bits in any batch, on every
        processor and device.
        """
        return on_host(self.distance_rows(self.checked(ids)))

    def distance_rows(self, ids: Ids) -> torch.Tensor:
        """Computes :meth:`distances` of ids that are in 0 .. V - 1, on the space's device."""
        return arrays.take_roots(self._points.squared_distances(self.on_device(ids)))

    def cosines(self, ids: ArrayLike) -> Floats:
        """Computes cosines of each id's vector with every token's, float64 (n, V) in [-1, 1].

        Exact products of :attr:`unit`, the same bits everywhere; that of a zero vector is 0.
        """
        return on_host(self.cosine_rows(self.checked(ids)))

    def cosine_rows(self, ids: Ids) -> torch.Tensor:
        """Computes :meth:`cosines` of ids that are in 0 .. V - 1, on the space's device."""
        return arrays.cosines(self.unit[self.on_device(ids)], self.unit)

    @property
    @once
    def unit(self) -> torch.Tensor:
        """Gives unit rows of the vectors, on the grid of cosines, on the device; float64 (V, d)."""
        return self.on_device(grid.unit_points(self.vectors))

    @property
    @once
    def centred_unit(self) -> Floats:
        """Gives unit rows of the vectors less their mean, on the grid of cosines, float64 (V, d).

        Raw vectors of an encoder lie in a cone: these have cosines for what tokens share beyond
        that. A row that is the mean, but for rounding, is zero.
        """
        centred = self.vectors - grid.mean(self.vectors)
        lost = np.abs(centred).max(axis=1) <= 1e-12 * np.abs(self.vectors).max()
        return grid.unit_points(np.where(lost[:, None], 0.0, centred))

    def centred_cosine_rows(self, ids: Ids, columns: Ids | None = None) -> torch.Tensor:
        """Computes exact cosines of :attr:`centred_unit` on the device, (n, V or len(columns))."""
        unit = self.derived("centred-unit", lambda: self.on_device(self.centred_unit))
        others = unit
        if columns is not None:
            key = ("centred-unit", columns.tobytes())
            others = self.derived(key, lambda: unit[self.on_device(columns)])
        return arrays.cosines(unit[self.on_device(ids)], others)

    @property
    @once
    def diameter(self) -> float:
        """Finds the largest of all :meth:`distances`, once per process: half a pass over pairs."""
        ids, points = self.on_device(np.arange(len(self))), self._points
        parts = slices(len(self), self.block)
        blocks = (points.squared_distances(ids[part], part.start) for part in parts)
        return math.sqrt(max(float(block.max()) for block in blocks))

    def on_device(self, values: NDArray[Any]) -> torch.Tensor:
        """Makes the array a tensor on the space's device; on the CPU it is the same memory."""
        return torch.from_numpy(values).to(self.device)


def _make_again(recipe: Callable[[], EmbeddingSpace], fingerprint: str) -> EmbeddingSpace:
    """The space of a pickle; refuses one that is no longer the same."""
    space = recipe()
    if space.fingerprint != fingerprint:
        raise ParameterError(
            f"expected the pickled space {fingerprint[:8]}, got {space.fingerprint[:8]}: the model "
            "or the library is another here; load it where it was made, or set space.recipe = None "
            "there to pickle its vectors"
        )
    return space


def on_host(rows: torch.Tensor) -> Floats:
    """Makes a tensor an array; on the CPU it is the same memory."""
    return np.asarray(rows.cpu().numpy())
