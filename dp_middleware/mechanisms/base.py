"""What a mechanism is: public parameters, and a random map; and the shape with a law per token."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from dp_middleware import _files, _validate
from dp_middleware._torch import torch
from dp_middleware.embedding.arrays import Floats, Ids
from dp_middleware.embedding.space import EmbeddingSpace, on_host
from dp_middleware.errors import ParameterError, needs
from dp_middleware.sampling.integers import normalize
from dp_middleware.vocabulary.vocabulary import UNKNOWN

Notion = Literal["pure", "metric"]
Product = Literal["distance", "cosine"]

LATER = {"later": True}  # metadata of fields that fingerprints leave out at their defaults
REVEALED = "the released token's class is the class of the input: the class is public"


def named(name: str, text: str) -> str:
    """Makes a fingerprint of a name and the digest of a text."""
    return f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


@dataclass(frozen=True, kw_only=True)
class Mechanism(ABC):
    """Maps tokens at random, with a guarantee: a frozen dataclass of public parameters."""

    name: ClassVar[str]  # what the command line and dp.MECHANISMS call it
    version: ClassVar[int] = 1  # in the fingerprint; raised when the law changes, as it should not
    notion: ClassVar[Notion] = "pure"  # "metric": the parameter is per unit of distance, by proof
    claim: ClassVar[str] = "epsilon-DP"  # of the paper, in a phrase, for tables
    truth: ClassVar[str]  # what is truly guaranteed, in a phrase, for tables
    scale: ClassVar[str | None] = "epsilon"  # what calibration solves for; None if there is none
    largest: ClassVar[float] = 1e6  # of the scale, up to which nothing overflows
    references: ClassVar[tuple[str, ...]] = ()  # keys of bibliography.BIBTEX
    notes: ClassVar[tuple[str, ...]] = ()  # assumptions on every space

    def __post_init__(self) -> None:
        _validate.check_fields(self)
        if self.scale is not None:
            value = getattr(self, self.scale)
            _validate.positive(**{self.scale: value})
            if value > self.largest:
                raise ParameterError(f"expected {self.scale} <= {self.largest:g}, got {value!r}")
            object.__setattr__(self, self.scale, float(value))

    @classmethod
    def with_defaults(cls, nominal: float, space: EmbeddingSpace) -> Self:
        """Makes the mechanism with this nominal parameter and public defaults for all others."""
        return cls(**{} if cls.scale is None else {cls.scale: nominal})

    @classmethod
    def has_defaults(cls, nominal: float, space: EmbeddingSpace) -> bool:
        """Tells whether :meth:`with_defaults` takes no search."""
        return True

    @property
    def nominal(self) -> float:
        """Returns the epsilon that the paper would name; ParameterError: there is none."""
        if self.scale is None:
            raise ParameterError(f"{self.name} has no parameter that trades privacy for utility")
        return float(getattr(self, self.scale))

    def at(self, nominal: float) -> Self:
        """Sets another nominal parameter; ParameterError: there is none."""
        self.nominal  # noqa: B018 - refuses a mechanism without one
        return replace(self, **{str(self.scale): nominal})

    @property
    def parameters(self) -> dict[str, Any]:
        """Gives the public parameters by name."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.init}

    @property
    def parts(self) -> tuple[Mechanism, ...]:
        """Lists the mechanisms that this one is made of."""
        return ()

    @property
    def fingerprint(self) -> str:
        """Identifies name, version and parameters; short enough for a ledger row."""
        kind = f"{type(self).__module__}.{type(self).__qualname__}"
        later = {f.name: f.default for f in fields(self) if "later" in f.metadata}
        plain = {k: v for k, v in self.parameters.items() if k not in later or v != later[k]}
        items = sorted((k, sorted(v) if isinstance(v, frozenset) else v) for k, v in plain.items())
        return named(self.name, f"{kind}/{self.name}/{self.version}/{items!r}")

    @property
    def claimed_epsilon(self) -> float:
        """Returns the epsilon that the paper claims, nats per token, or per unit of distance."""
        return self.nominal

    def claimed_on(self, space: EmbeddingSpace) -> float:
        """Returns the claim where it depends on the space, else :attr:`claimed_epsilon`."""
        return self.claimed_epsilon

    def assumptions(self, space: EmbeddingSpace) -> tuple[str, ...]:
        """Says what a reader of the certificate must know about this mechanism on this space."""
        return self.notes


@dataclass(frozen=True, kw_only=True)
class ChannelMechanism(Mechanism):
    """Releases at a position what depends on the token there and on nothing else.

    An author writes :meth:`log_rows`, or :meth:`log_probs` in NumPy; the other one is made from it,
    for every class: what a subclass writes last is read, certified and drawn from.
    """

    full_support: ClassVar[bool] = True  # every token can be released for every token
    tight: ClassVar[bool] = False  # the exact loss is the nominal epsilon
    jumps: ClassVar[tuple[float, ...]] = ()  # nominal epsilons above which the law changes abruptly

    epsilon: float

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        names = {"log_rows", "log_probs"}
        latest: Any = next(vars(kind) for kind in cls.__mro__ if names & vars(kind).keys())
        log_rows, log_probs = latest.get("log_rows"), latest.get("log_probs")

        # not by self.log_probs: a subclass may write it and ask its parent for the parent's
        def torch_form(self: ChannelMechanism, ids: Ids, space: EmbeddingSpace) -> torch.Tensor:
            return space.on_device(np.require(log_probs(self, ids, space), np.float64, ["C", "W"]))

        def numpy_form(self: ChannelMechanism, ids: ArrayLike, space: EmbeddingSpace) -> Floats:
            return on_host(log_rows(self, space.checked(ids), space))

        if log_rows is None:
            cls.log_rows = torch_form  # type: ignore[method-assign]
        elif log_probs is None:
            cls.log_probs = numpy_form  # type: ignore[method-assign]

    @abstractmethod
    def log_rows(self, ids: Ids, space: EmbeddingSpace) -> torch.Tensor:
        """Computes the law of the token released for ``ids[i]``, on the space's device.

        ``ids`` are int64 (n,), each in 0 .. V - 1; float64 (n, V), each row log-sum-exp zero; -inf
        where an output is impossible. Row i is a function of ``ids[i]`` alone, bit for bit.
        """

    def log_probs(self, ids: ArrayLike, space: EmbeddingSpace) -> Floats:
        """Gives :meth:`log_rows` as NumPy's float64 (n, V); ParameterError: an id outside."""
        return on_host(self.log_rows(space.checked(ids), space))

    def possible(self, space: EmbeddingSpace) -> Ids | None:
        """Lists tokens that can be released at all, ascending; ``None``: no token is ruled out."""
        return None

    def outputs(self, space: EmbeddingSpace) -> Ids | None:
        """Lists the outputs of which an unknown token draws one, some twice; ``None``: all."""
        return None


@dataclass(frozen=True, kw_only=True)
class ScoredMechanism(ChannelMechanism):
    """Releases y for x with probability proportional to exp(score), of their distance or cosine."""

    product: ClassVar[Product] = "distance"  # what the score is a function of

    @abstractmethod
    def scores(self, products: torch.Tensor, space: EmbeddingSpace) -> torch.Tensor:
        """Computes scores of distances or cosines, nats, one by one; overwrites."""

    def log_rows(self, ids: Ids, space: EmbeddingSpace) -> torch.Tensor:
        """Computes the law of the token released for ids[i]; float64 (n, V)."""
        of = space.distance_rows if self.product == "distance" else space.cosine_rows
        return normalize(self.scores(of(ids), space))


def rows_of(
    mechanism: ChannelMechanism,
    ids: Ids,
    space: EmbeddingSpace,
    log_rows: Callable[[Ids, EmbeddingSpace], torch.Tensor] | None = None,
) -> torch.Tensor:
    """Computes rows of ids, float64 (n, V); the unknown symbol's (-1) is uniform over outputs."""
    known, size, log_rows = ids != UNKNOWN, len(space), log_rows or mechanism.log_rows
    if known.all():
        return log_rows(ids, space)
    outputs, uniform = mechanism.outputs(space), np.full(size, -np.log(size))
    if outputs is not None:
        with np.errstate(divide="ignore"):
            uniform = np.log(np.bincount(outputs, minlength=size) / len(outputs))
    rows = torch.empty(len(ids), size, dtype=torch.float64, device=space.device)
    rows[space.on_device(~known)] = space.on_device(uniform)
    if known.any():
        rows[space.on_device(known)] = log_rows(ids[known], space)
    return rows


def is_ours(mechanism: Mechanism) -> bool:
    """Tells whether this package's code decides its rows, inner mechanisms included."""
    own = type(mechanism).__module__.startswith("dp_middleware.mechanisms.")
    return own and all(map(is_ours, mechanism.parts))


def is_known(mechanism: Mechanism, space: EmbeddingSpace) -> bool:
    """Tells whether fingerprints and the version of this package tell all that decides the rows."""
    return is_ours(mechanism) and type(space) is EmbeddingSpace


_WORTH_STORING = 512  # tokens


def takes_long(space: EmbeddingSpace) -> bool:
    """Tells whether a pass over all rows does, longer than reading a file."""
    return len(space) >= _WORTH_STORING


def is_kept(mechanism: Mechanism, space: EmbeddingSpace) -> bool:
    """Tells whether what takes long is kept on disk, under a key that says all."""
    return is_known(mechanism, space) and takes_long(space)


def key_in_memory(mechanism: ChannelMechanism, space: EmbeddingSpace) -> Hashable:
    """Makes a key that is equal where the rows are, bit for bit; never where code is not known."""
    if not is_known(mechanism, space):
        return object()
    return mechanism.fingerprint, space.fingerprint, str(space.device)


def key_on_disk(mechanism: Mechanism, space: EmbeddingSpace) -> tuple[str, ...]:
    """Gathers all that decides a row on the CPU, the versions of what computes it included."""
    with needs("models"):
        versions = ", ".join(f"{name} {version(name)}" for name in ("numpy", "torch", "scipy"))
    return mechanism.fingerprint, space.fingerprint, _files.code_fingerprint(), versions


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Says, where a file cannot be written, that another folder can be chosen."""
    try:
        yield
    except OSError as error:
        said = f"cannot write to {path.parent}: {error.strerror}"
        raise ParameterError(f"{said}; set DP_MIDDLEWARE_CACHE to another folder") from None
