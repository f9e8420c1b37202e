"""The codebook of a tuned nearest response: from the package, from disk, or searched for.

Which it is decides on utility only. A search may end elsewhere on another processor; the file of
the package, made by ``benchmarks/ready_codebooks.py``, gives everybody the same ones.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dp_middleware import _files, _validate
from dp_middleware._waits import told
from dp_middleware.embedding import arrays
from dp_middleware.embedding.arrays import Floats, Ids
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.errors import ParameterError
from dp_middleware.mechanisms.kernels import codebook
from dp_middleware.vocabulary import frequencies
from dp_middleware.vocabulary.vocabulary import Vocabulary

EPSILONS = range(1, 13)  # exact nats per token for which the file has a codebook
FILE = Path(__file__).parent.parent / "data" / "codebooks.npz"  # arrays by name

_FINE = 9  # nats, whose codebook is fine enough to choose from for every smaller epsilon
_SMALL = 512  # tokens, among which a search takes no time


def part(kind: str, *key: str) -> NDArray[Any] | None:
    """Reads an array of the file; ``None`` if it has none for this key."""
    return parts([kind], *key).get(kind)


def parts(kinds: Iterable[str], *key: str) -> dict[str, NDArray[Any]]:
    """Reads the arrays that the file has for this key, by kind; it is opened once."""
    if not FILE.exists():
        return {}
    with np.load(FILE, allow_pickle=False) as file:
        names = {kind: name_of(kind, *key) for kind in kinds}
        return {kind: file[name] for kind, name in names.items() if name in file.files}


def name_of(kind: str, *key: str) -> str:
    """Names an array by what it is, and by all that decides it but the search."""
    return f"{kind}-{hashlib.sha256(chr(0).join(key).encode()).hexdigest()[:16]}"


class Chosen:
    """Chooses a codebook; arguments and errors are those of :meth:`NearestResponse.tuned`."""

    def __init__(
        self,
        space: EmbeddingSpace,
        epsilon: float,
        prior: Prior | None = None,
        outputs: Collection[int] | None = None,
    ) -> None:
        _validate.positive(epsilon=epsilon)
        if not isinstance(space, EmbeddingSpace):
            raise ParameterError(f"expected dp.EmbeddingSpace, got {type(space).__name__}")
        words = np.flatnonzero(frequencies.codewords(space.vocabulary))
        self._allowed = words if outputs is None else np.unique(space.checked([*outputs]))
        if not len(self._allowed):
            raise ParameterError("expected outputs as ids of tokens, got none")
        self._space, self._epsilon = space, float(epsilon)
        self._origin, self._weights = weighted(prior, space.vocabulary, epsilon)

    def is_known(self) -> bool:
        """Tells whether there is no search to wait for."""
        return len(self._space) < _SMALL or self._known() is not None

    def codebook(self) -> tuple[Ids, int]:
        """Gives the ids of the codewords, and the number k of near ones."""
        if known := self._known():
            return known
        space, epsilon, allowed = self._space, self._epsilon, self._candidates
        with told(f"choosing a codebook for epsilon {epsilon:g} among {len(allowed):,} tokens"):
            book, near = codebook.best_codebook(space, epsilon, self._weights(), allowed)
        with suppress(OSError):
            arrays.store({"codebook": np.append(near, book)}, self._path)
        return book, near

    def _known(self) -> tuple[Ids, int] | None:
        """The one that comes with the package, or the one from disk; k stands before it."""
        book = self._ready(self._epsilon, self._origin)
        if book is None:
            book = (arrays.load(self._path) or {}).get("codebook")
        return None if book is None else (book[1:].astype(np.int64), int(book[0]))

    def _ready(self, epsilon: float, origin: str) -> NDArray[Any] | None:
        return part("codebook", *self._key(epsilon, origin, self._allowed))

    def _key(self, epsilon: float, origin: str, among: Ids) -> tuple[str, ...]:
        digest = hashlib.sha256(among.tobytes()).hexdigest()
        return self._space.fingerprint, repr(epsilon), origin, digest

    @property
    def _path(self) -> Path:
        """By all that decides the search, its code included."""
        search = hashlib.sha256(Path(str(codebook.__file__)).read_bytes()).hexdigest()
        key = self._key(self._epsilon, self._origin, self._candidates)
        return _files.cache_path("codebooks", *key, search, suffix=".npz")

    @cached_property
    def _candidates(self) -> Ids:
        """Codewords of the package's codebooks up to the next larger epsilon, else all allowed."""
        nats, known = self._epsilon, list[Ids]()
        if nats <= max(EPSILONS) and self._origin == self._default_origin(nats):
            for whole in map(float, range(1, max(math.ceil(nats), _FINE) + 1)):
                if (book := self._ready(whole, self._default_origin(whole))) is not None:
                    known.append(book[1:].astype(np.int64))
        return np.unique(np.concatenate(known)) if known else self._allowed

    def _default_origin(self, epsilon: float) -> str:
        return weighted(None, self._space.vocabulary, epsilon)[0]


Prior = Literal["english", "uniform"] | ArrayLike | Sequence[str]

ENGLISH_FROM = 6.0  # epsilon from which on a codebook for English is better on text
_FREQUENT = 1000.0  # a token beyond 1 in 1000 counts no more: what it says is little


def weighted(
    prior: Prior | None, vocabulary: Vocabulary, epsilon: float
) -> tuple[str, Callable[[], Floats]]:
    """Returns what identifies a prior, and what computes its weights, (V,), which sum to one."""
    if prior is None:
        real = epsilon >= ENGLISH_FROM and frequencies.is_english(vocabulary)
        prior = "english" if real else "uniform"
    if isinstance(prior, str):
        _validate.one_of(("english", "uniform"), prior=prior)
        if prior == "english":
            return f"english {_FREQUENT} {frequencies.fingerprint()}", lambda: _shares(
                damped(frequencies.english(vocabulary)), len(vocabulary)
            )
        prior = vocabulary.whole_words.astype(np.float64)
    elif isinstance(prior, Sequence) and prior and all(isinstance(each, str) for each in prior):
        prior = damped(frequencies.in_texts(vocabulary, prior))  # type: ignore[arg-type]
    weights = _shares(prior, len(vocabulary))
    return hashlib.sha256(weights.tobytes()).hexdigest(), lambda: weights


def damped(shares: Floats) -> Floats:
    """Computes p / (1 + 1000 p) for shares p of occurrences: what is very common says little."""
    return shares / (1 + _FREQUENT * shares)


def _shares(prior: object, size: int) -> Floats:
    """Weights that sum to one, float64 (V,)."""
    expected = 'prior as "english", "uniform", public texts or finite weights >= 0'
    weights = array(prior, expected, "iuf").astype(np.float64)
    if len(weights) != size or not weights.any():
        raise ParameterError(f"expected {expected}, {size} of them, one positive")
    weights /= weights.max()
    return np.asarray(weights / weights.sum())


def array(values: object, expected: str, kinds: str) -> NDArray[Any]:
    """Makes an array (n,) of finite numbers of these kinds, or raises: none, or negative ones."""
    try:
        made = np.asarray(values)
    except ValueError:  # rows of different lengths
        made = np.empty(0)
    right = made.ndim == 1 and made.size and made.dtype.kind in kinds
    if not right or not (np.isfinite(made) & (made >= 0)).all():
        raise ParameterError(f"expected {expected}, at least one, none negative")
    return made
