"""What can be promised (guarantees) and between which inputs (adjacency).

Guarantees of different kinds have different units and are different types: nothing adds a
:class:`PureDP` to a :class:`MetricDP`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property

from dp_middleware.errors import ParameterError


@dataclass(frozen=True, kw_only=True)
class PureDP:
    """Promises P(y | x) <= exp(epsilon) P(y | x') for all outputs y and all adjacent x, x'."""

    epsilon: float  # nats


@dataclass(frozen=True, kw_only=True)
class ApproxDP:
    """Promises P(S | x) <= exp(epsilon) P(S | x') + delta for all sets S and all adjacent x, x'."""

    epsilon: float  # nats
    delta: float  # a probability


@dataclass(frozen=True, kw_only=True)
class MetricDP:
    """Promises P(y | x) <= exp(epsilon d(x, x') + slack) P(y | x') (Chatzikokolakis, 2013)."""

    epsilon: float  # nats per unit of distance
    distance: str = "euclidean"  # the metric d
    slack: float = 0.0  # nats that rounding a row to integers adds, whatever the distance


@dataclass(frozen=True, kw_only=True)
class NoGuarantee:
    """Promises nothing finite."""

    reason: str  # why, in a sentence without private text


Guarantee = PureDP | ApproxDP | MetricDP | NoGuarantee


@dataclass(frozen=True)
class Adjacency:
    """Says which two inputs a guarantee compares: two tokens of one occurrence, or two whole texts.

    Build one with :meth:`substitution` or :meth:`within`, where the number of tokens is public,
    with :meth:`texts`, where it is not, with :meth:`sentences`, or with :meth:`entities`.

    Attributes:
        classes: ``None``: any token may replace any other. Else a label per vocabulary token,
            length V, or V + 1 with the unknown symbol's last: only tokens with equal labels are
            neighbours, so the label is revealed.
        whole: Whether any text, or sentence, may replace any other; there are no classes then.
        by_sentence: Whether a sentence does, and the number of sentences is public.
        kinds: Names of the public kinds whose values replace each other, if any.
        tokens: Whether tokens outside the entities replace each other, too.
    """

    classes: tuple[Hashable, ...] | None = field(default=None, repr=False)
    whole: bool = field(default=False, kw_only=True)
    by_sentence: bool = field(default=False, kw_only=True)
    kinds: tuple[str, ...] = field(default=(), kw_only=True)
    tokens: bool = field(default=True, kw_only=True)

    def __hash__(self) -> int:
        return hash(self.fingerprint)  # a charge looks up its certificate: not over V labels

    @classmethod
    def substitution(cls) -> Adjacency:
        """Compares one token with any other of the vocabulary, the unknown symbol included."""
        return cls()

    @classmethod
    def texts(cls) -> Adjacency:
        """Compares any text with any other, whatever their lengths."""
        return cls(whole=True)

    @classmethod
    def sentences(cls) -> Adjacency:
        """Compares one sentence with any other, whatever their lengths; their number is public.

        What n sentences tell costs n times as much.
        """
        return cls(whole=True, by_sentence=True)

    @classmethod
    def within(cls, classes: Iterable[Hashable]) -> Adjacency:
        """Compares one token with another of its public class.

        ``classes`` are a label per vocabulary token, length V; the unknown symbol is then alone:
        that a position is out of vocabulary is revealed. Or length V + 1, with its label last.
        ParameterError: a label cannot be hashed or is not equal to itself.
        """
        labels = tuple(classes)
        try:
            comparable = all(label == label for label in {*labels})  # NaN is not
        except TypeError:
            comparable = False
        if not comparable:
            raise ParameterError("expected class labels that can be compared and hashed, not NaN")
        return cls(labels)

    @classmethod
    def entities(cls, kinds: Iterable[str], beside: Adjacency | None = None) -> Adjacency:
        """Compares one value, at all its mentions, with another of its public kind and shape.

        ``kinds`` are their names; ``beside`` says which tokens outside the entities are neighbours,
        too, of two texts in which the same entities are found; default none: they are public.
        """
        classes = None if beside is None else beside.classes
        return cls(classes, kinds=tuple(sorted(kinds)), tokens=beside is not None)

    @cached_property
    def fingerprint(self) -> str:
        """Identifies the relation; equal partitions have equal fingerprints."""
        if self.whole:
            return "sentences" if self.by_sentence else "texts"
        if self.kinds:
            beside = replace(self, kinds=()).fingerprint if self.tokens else "public"
            return f"entities({','.join(self.kinds)})+{beside}"
        if self.classes is None:
            return "substitution"
        return "within-" + hashlib.sha256(repr(self.numbers).encode()).hexdigest()[:16]

    @cached_property
    def numbers(self) -> list[int]:
        """Numbers the classes of the tokens in the order of their first ones; none: empty."""
        order: dict[Hashable, int] = {}
        return [order.setdefault(label, len(order)) for label in self.classes or ()]

    def __str__(self) -> str:
        if self.by_sentence:
            return "one sentence replaced by any other, the number of sentences public"
        if self.whole:
            return "any text replaced by any other"
        if self.kinds:
            tokens = f", or {replace(self, kinds=())} with the same entities found"
            beside = tokens if self.tokens else ""
            return f"one value replaced by another of its public kind and shape{beside}"
        if self.classes is None:
            return "one token replaced by any other"
        return f"one token replaced within its public class ({len(set(self.classes))} classes)"
