"""What a mechanism is: public parameters, and a random map from tokens to tokens.

Three shapes: a channel has a law per token, a contextual mechanism a law per token and context,
a noise mechanism a program with a proof.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from dp_middleware import _validate
from dp_middleware._torch import torch
from dp_middleware.embedding.arrays import Floats, Ids
from dp_middleware.embedding.space import EmbeddingSpace, on_host
from dp_middleware.errors import ParameterError
from dp_middleware.sampling.integers import normalize
from dp_middleware.vocabulary.vocabulary import UNKNOWN

Notion = Literal["pure", "metric"]
Product = Literal["distance", "cosine"]

_ROWS = {"log_rows", "log_probs"}

LATER = {"later": True}
"""Metadata of a field that came after fingerprints: these leave it out at its default."""

REVEALED = "the released token's class is the class of the input: the class is public"
"""What certificates of mechanisms say that keep a token in its class."""


def named(name: str, text: str) -> str:
    """Makes a fingerprint of a name and the digest of a text."""
    return f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


@dataclass(frozen=True, kw_only=True)
class Mechanism(ABC):
    """Maps tokens at random, with a guarantee: a frozen dataclass of public parameters.

    Attributes:
        name: What the command line and :data:`dp_middleware.MECHANISMS` call it.
        version: Part of the fingerprint; raised when the law changes, which it should not.
        notion: ``"pure"``, or ``"metric"`` where the parameter is per unit of distance and a proof
            says so: a noise mechanism is certified by that, a channel by its exact loss as well.
        claim: What the paper claims, in a phrase, for tables.
        truth: What is truly guaranteed, in a phrase, for tables.
        scale: The parameter that calibration solves for; ``None`` if there is none.
        largest: Value of it up to which everything is computed without overflow.
        references: Keys of :data:`dp_middleware.mechanisms.bibliography.BIBTEX`.
    """

    name: ClassVar[str]
    version: ClassVar[int] = 1
    notion: ClassVar[Notion] = "pure"
    claim: ClassVar[str] = "epsilon-DP"
    truth: ClassVar[str]
    scale: ClassVar[str | None] = "epsilon"
    largest: ClassVar[float] = 1e6
    references: ClassVar[tuple[str, ...]] = ()

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
    def _solved_for(self) -> str:
        if self.scale is None:
            raise ParameterError(f"{self.name} has no parameter that trades privacy for utility")
        return self.scale

    @property
    def nominal(self) -> float:
        """Returns the epsilon that the paper would name; ParameterError: there is none."""
        value: float = getattr(self, self._solved_for)
        return value

    def at(self, nominal: float) -> Self:
        """Sets another nominal parameter; ParameterError: there is none."""
        return replace(self, **{self._solved_for: nominal})

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
        plain = self.parameters
        for f in fields(self):
            if "later" in f.metadata and plain[f.name] == f.default:
                del plain[f.name]
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
        return ()


@dataclass(frozen=True, kw_only=True)
class ChannelMechanism(Mechanism):
    """Releases at a position what depends on the token there and on nothing else.

    An author writes one method: :meth:`log_rows`, or :meth:`log_probs` in NumPy. The other one is
    made from it, for every class: what a subclass writes last is read, certified and drawn from.

    Attributes:
        full_support: Whether every token can be released for every token.
        tight: Whether the exact loss is the nominal epsilon.
        jumps: Nominal epsilons above which the law changes abruptly.
    """

    full_support: ClassVar[bool] = True
    tight: ClassVar[bool] = False
    jumps: ClassVar[tuple[float, ...]] = ()

    epsilon: float

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        latest: Any = next(vars(kind) for kind in cls.__mro__ if _ROWS & vars(kind).keys())
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
        """Gives :meth:`log_rows` to readers: any array of ids, and NumPy's float64 (n, V).

        ParameterError: an id outside 0 .. V - 1.
        """
        return on_host(self.log_rows(space.checked(ids), space))

    def possible(self, space: EmbeddingSpace) -> Ids | None:
        """Lists tokens that can be released at all, ascending; ``None``: no token is ruled out."""
        return None

    def outputs(self, space: EmbeddingSpace) -> Ids | None:
        """Lists the public outputs, of which one is drawn for an unknown token; ``None``: all.

        An output listed twice is drawn twice as often.
        """
        return None


@dataclass(frozen=True, kw_only=True)
class ScoredMechanism(ChannelMechanism):
    """Releases y for x with probability proportional to exp(score), of their distance or cosine.

    Attributes:
        product: What the score is a function of.
    """

    product: ClassVar[Product] = "distance"

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
    """Computes the law of each id, that of the unknown symbol (-1) uniform over the outputs.

    ``ids`` are int64 (n,), each in -1 .. V - 1; ``log_rows`` computes rows of tokens, default the
    mechanism's own function. float64 (n, V), logarithms, on the space's device.
    """
    known, size = ids != UNKNOWN, len(space)
    log_rows = mechanism.log_rows if log_rows is None else log_rows
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
