"""A vocabulary with a vector per token: distances and cosines, in float64."""

from __future__ import annotations

import hashlib
import math
import threading
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dp_middleware import _forks
from dp_middleware._parts import parts
from dp_middleware.embedding._farthest import farthest
from dp_middleware.errors import ParameterError
from dp_middleware.vocabulary import Vocabulary

if TYPE_CHECKING:
    import torch

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]
T = TypeVar("T")

BLOCK = 64
"""Rows of one matrix product on the CPU. Fixed: its last bits depend on its shape."""

_DEVICE_BLOCK = 1024
"""The same on another device, which has more to do at a time."""

ZERO_DISTANCE = 1e-6
"""Distances below this are set to zero: duplicates in real vector files differ by rounding."""

_PAIRS = 1 << 16  # differences of vectors held at a time
_CANCELLATION = 1e-6  # relative squared distance below which the Gram form loses digits


class EmbeddingSpace:
    """Vectors of a vocabulary's tokens; public and read-only.

    Args:
        vocabulary: V tokens.
        vectors: Finite floats (V, d), kept as they are (nothing is normalised).
        device: ``"cpu"``, ``"cuda"``, ... or ``"auto"``: CUDA if there is one. Products are
            float64, so a device without float64 (``"mps"``) is replaced by the CPU.

    Attributes:
        vectors: float64 (V, d), read-only.

    Raises:
        ParameterError: Not (V, d), or a value is NaN or infinite.
    """

    def __init__(self, vocabulary: Vocabulary, vectors: ArrayLike, *, device: str = "auto") -> None:
        self.vocabulary = vocabulary
        self.vectors: Floats = np.array(vectors, dtype=np.float64, order="C")
        if self.vectors.ndim != 2 or len(self.vectors) != len(vocabulary):
            raise ParameterError(
                f"expected vectors of shape ({len(vocabulary)}, d), got {self.vectors.shape}"
            )
        if self.vectors.shape[1] == 0:
            raise ParameterError("expected vectors of at least one dimension, got d=0")
        broken = np.flatnonzero(~np.isfinite(self.vectors).all(axis=1))
        if broken.size:
            raise ParameterError(
                f"expected finite vectors, got NaN or infinity in {broken.size} of "
                f"{len(vocabulary)} rows, the first at row {broken[0]}"
            )
        with np.errstate(over="ignore"):
            longest = np.einsum("vd,vd->v", self.vectors, self.vectors).max()
        if not np.isfinite(16 * longest):
            raise ParameterError("expected vectors whose squared lengths do not overflow")
        self.vectors.setflags(write=False)
        self._asked_device = device
        self.device = _float64_device(device)
        self._derived: dict[object, Any] = {}
        self.after_fork()
        _forks.renew(self)

    def after_fork(self) -> None:
        """With a lock that nobody holds."""
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self.vocabulary)

    def __repr__(self) -> str:
        return (
            f"EmbeddingSpace({len(self)} tokens, d={self.vectors.shape[1]}, "
            f"{self.vocabulary.tokenizer.name}, {self.fingerprint[:8]})"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EmbeddingSpace) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __getstate__(self) -> dict[str, Any]:
        return {
            "vocabulary": self.vocabulary,
            "vectors": self.vectors,
            "device": self._asked_device,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["vocabulary"], state["vectors"], device=state["device"])  # type: ignore[misc]

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over the vocabulary's fingerprint and the vectors, hexadecimal."""
        digest = hashlib.sha256(self.vocabulary.fingerprint.encode())
        digest.update(str(self.vectors.shape).encode())
        digest.update(self.vectors.data)
        return digest.hexdigest()

    def derived(self, key: object, compute: Callable[[], T]) -> T:
        """A public quantity of this space, computed once per process."""
        with self._lock:
            if key not in self._derived:
                self._derived[key] = compute()
            return cast(T, self._derived[key])

    def checked(self, ids: ArrayLike) -> Ids:
        """Ids as int64 (n,).

        Raises:
            ParameterError: Not a sequence of integers in 0 .. V - 1.
        """
        numbers = np.asarray(ids)
        if numbers.ndim != 1 or (numbers.size and not np.issubdtype(numbers.dtype, np.integer)):
            raise ParameterError("expected ids as a one-dimensional sequence of integers")
        if numbers.size and not 0 <= numbers.min() <= numbers.max() < len(self):
            raise ParameterError(f"expected ids in 0 .. {len(self) - 1}, got ids outside of it")
        return numbers.astype(np.int64)

    def spread(self, count: int) -> Ids:
        """Up to ``count`` distinct ids, evenly spaced over the vocabulary."""
        return np.unique(np.linspace(0, len(self) - 1, count).astype(np.int64))

    @property
    def block(self) -> int:
        """Rows computed at a time: those of one matrix product."""
        return BLOCK if self.device.type == "cpu" else _DEVICE_BLOCK

    def distances(self, ids: ArrayLike) -> Floats:
        """Euclidean distances from each id to every token, float64 (n, V).

        Row i depends on ``ids[i]`` alone, bit for bit. A distance below 1e-6 is 0. Vectors are
        centred first, and nearby pairs are computed from the difference of the vectors, where
        the Gram form would cancel.
        """
        return on_host(self.distance_rows(self.checked(ids)))

    def distance_rows(self, ids: Ids) -> torch.Tensor:
        """:meth:`distances` of ids that are in 0 .. V - 1, on the space's device."""
        import torch

        centred, squares = self._centred
        rows, numbers = self._products(centred, ids, "centred"), self.on_device(ids)
        lengths = self.derived("squares-device", lambda: self.on_device(squares))
        own = lengths[numbers][:, None]
        least = (_CANCELLATION * (own + squares.max())).clamp_(min=4 * ZERO_DISTANCE**2)
        near, start = [numbers[:0]], 0
        for part, squared, limit in parts(rows, own, least):
            torch.add(squared, part, alpha=-2.0, out=part).add_(lengths)
            near.append(_below(part, limit).add_(start))
            start += part.numel()
            part.sqrt_()
        self._correct(rows, numbers, torch.cat(near))
        if "diameter" not in self._derived:
            self._reaches[numbers] = rows.amax(dim=1)
        return rows

    @property
    def _reaches(self) -> torch.Tensor:
        """How far away the farthest token is, of rows computed so far; NaN for the others."""
        import torch

        def unknown() -> torch.Tensor:
            return torch.full((len(self),), torch.nan, dtype=torch.float64, device=self.device)

        return self.derived("reaches", unknown)

    def _correct(self, rows: torch.Tensor, own: torch.Tensor, near: torch.Tensor) -> None:
        """Distances at some places of the flat rows, from differences of vectors."""
        import torch

        vectors, size = self._columns("centred", self._centred[0]).T, len(self)
        for part in torch.split(near, _PAIRS):
            difference = vectors[own[part // size]] - vectors[part % size]
            exact = _folded(difference.square_())
            rows.view(-1)[part] = exact.where(exact >= ZERO_DISTANCE**2, 0.0).sqrt_()

    @property
    def _centred(self) -> tuple[Floats, Floats]:
        """The vectors about their centre, and their squared lengths."""
        centred = self.derived("centred", lambda: self.vectors - _round_centre(self.vectors))
        squares = self.derived("squares", lambda: np.einsum("vd,vd->v", centred, centred))
        return centred, squares

    def cosines(self, ids: ArrayLike) -> Floats:
        """Cosines of each id's vector with every token's, float64 (n, V) in [-1, 1].

        Row i depends on ``ids[i]`` alone, bit for bit. The cosine of a zero vector is 0.
        """
        return on_host(self.cosine_rows(self.checked(ids)))

    def cosine_rows(self, ids: Ids) -> torch.Tensor:
        """:meth:`cosines` of ids that are in 0 .. V - 1, on the space's device."""
        unit = self.derived("unit", lambda: unit_rows(self.vectors))
        return self._products(unit, ids, "unit").clamp_(-1.0, 1.0)

    @property
    def centred_unit(self) -> Floats:
        """Unit rows of the vectors less their mean, float64 (V, d); a zero row stays zero.

        Their cosines measure what tokens share beyond what all tokens share: raw vectors of an
        encoder lie in a cone, and a constant answer already has a positive mean cosine.
        """

        def compute() -> Floats:
            centred = self.vectors - self.vectors.mean(axis=0)
            lengths = np.linalg.norm(centred, axis=1)
            centred[lengths <= 1e-12 * np.abs(self.vectors).max()] = 0.0  # equal to the mean
            return unit_rows(centred)

        return self.derived("centred-unit", compute)

    def centred_cosines(self, ids: ArrayLike, columns: Ids | None = None) -> Floats:
        """Cosines of mean-centred vectors, float64 (n, V) in [-1, 1], or (n, len(columns)).

        Row i depends on ``ids[i]`` (and the columns) alone, bit for bit.
        """
        return on_host(self.centred_cosine_rows(self.checked(ids), columns))

    def centred_cosine_rows(self, ids: Ids, columns: Ids | None = None) -> torch.Tensor:
        """:meth:`centred_cosines` of ids that are in 0 .. V - 1, on the space's device."""
        name = "centred-unit" if columns is None else ("centred-unit", columns.tobytes())
        return self._products(self.centred_unit, ids, name, columns).clamp_(-1.0, 1.0)

    @property
    def diameter(self) -> float:
        """The largest of all :meth:`distances`, once per process.

        Half a pass over the pairs, and none where the distances of all tokens were computed.
        """
        return self.derived("diameter", self._diameter)

    def _diameter(self) -> float:
        """To the last bit that of the rows: where a law ends there, no pair may lie beyond."""
        import torch

        known = float(self._reaches.max())  # NaN if any is
        if not math.isnan(known):
            return known
        centred, squares = self._centred
        lengths = torch.from_numpy(squares).to(self.device)
        ends = farthest(self._columns("centred", centred), lengths)
        starts = range(0, len(ends), self.block)
        return max(float(self.distance_rows(ends[s : s + self.block]).max()) for s in starts)

    def _products(
        self, matrix: Floats, numbers: Ids, name: object, chosen: Ids | None = None
    ) -> torch.Tensor:
        """matrix[numbers] @ matrix.T in products of one fixed shape, float64 on the device.

        ``name`` is that of the matrix and its columns; by default all of them.
        """
        import torch

        columns = self._columns(name, matrix, slice(None) if chosen is None else chosen)
        result = torch.empty(
            len(numbers), columns.shape[1], dtype=torch.float64, device=self.device
        )
        for start in range(0, len(numbers), self.block):
            rows = matrix[numbers[start : start + self.block]]
            target = result[start : start + self.block]
            if len(target) == self.block:
                torch.mm(self.on_device(rows), columns, out=target)
            else:
                padded = np.zeros((self.block, matrix.shape[1]))
                padded[: len(rows)] = rows
                target.copy_((self.on_device(padded) @ columns)[: len(rows)])
        return result

    def on_device(self, values: NDArray[Any]) -> torch.Tensor:
        """An array where products are made; on the CPU it is the same memory."""
        import torch

        return torch.from_numpy(values).to(self.device)

    def _columns(
        self, name: object, matrix: Floats, kept: slice | Ids = slice(None)
    ) -> torch.Tensor:
        """Rows of a matrix, transposed, on the device; ``name`` is that of these rows."""
        import torch

        return self.derived(
            (name, "device"), lambda: torch.tensor(matrix[kept], device=self.device).T
        )


def on_host(rows: torch.Tensor) -> Floats:
    """A tensor as an array; on the CPU it is the same memory."""
    found: Floats = rows.cpu().numpy()
    return found


def _below(rows: torch.Tensor, limit: torch.Tensor) -> torch.Tensor:
    """Places in the flat rows of what is below the row's limit, int64."""
    import torch

    if rows.device.type == "cpu":  # NumPy compares several times as fast as torch
        return torch.from_numpy(np.flatnonzero(rows.numpy() < limit.numpy()))
    return (rows < limit).view(-1).nonzero()[:, 0]


def _folded(values: torch.Tensor) -> torch.Tensor:
    """Sums of rows, halves added to halves: in an order that no shape or device changes."""
    width = values.shape[1]
    while width > 1:
        half = (width + 1) // 2
        values[:, : width - half] += values[:, half:width]
        width = half
    return values[:, 0]


def _round_centre(vectors: Floats) -> Floats:
    """The mean, rounded to a power of two about the spread, so that ties of lattices stay ties."""
    spread = float(vectors.std(axis=0).max())
    step = 2.0 ** np.ceil(np.log2(spread)) if spread > 0 else 1.0
    centre: Floats = np.round(vectors.mean(axis=0) / step) * step
    return centre


def unit_rows(vectors: ArrayLike) -> Floats:
    """Rows divided by their length, float64; a zero row stays zero."""
    rows = np.asarray(vectors, dtype=np.float64)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: Floats = np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0)
    return unit


def _float64_device(device: str) -> torch.device:
    import torch

    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    wanted = torch.device(device)
    return torch.device("cpu") if wanted.type == "mps" else wanted
