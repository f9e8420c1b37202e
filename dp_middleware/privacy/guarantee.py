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
    """Promises P(y | x) <= exp(epsilon) P(y | x') for all outputs y and all adjacent x, x'.

    Attributes:
        epsilon: Nats.
    """

    epsilon: float


@dataclass(frozen=True, kw_only=True)
class ApproxDP:
    """Promises P(S | x) <= exp(epsilon) P(S | x') + delta for all sets S and all adjacent x, x'.

    Attributes:
        epsilon: Nats.
        delta: Probability.
    """

    epsilon: float
    delta: float


@dataclass(frozen=True, kw_only=True)
class MetricDP:
    """Promises P(y | x) <= exp(epsilon d(x, x') + slack) P(y | x') (Chatzikokolakis et al., 2013).

    Attributes:
        epsilon: Nats per unit of distance.
        distance: The metric d.
        slack: Nats, what rounding a row to integers adds, whatever the distance.
    """

    epsilon: float
    distance: str = "euclidean"
    slack: float = 0.0


@dataclass(frozen=True, kw_only=True)
class NoGuarantee:
    """Promises nothing finite.

    Attributes:
        reason: Why, in a sentence without private text.
    """

    reason: str


Guarantee = PureDP | ApproxDP | MetricDP | NoGuarantee


@dataclass(frozen=True)
class Adjacency:
    """Says which two inputs a guarantee compares: two tokens of one occurrence, or two whole texts.

    Build one with :meth:`substitution` or :meth:`within`, where the number of tokens is public,
    with :meth:`texts`, where it is not, or with :meth:`entities`.

    Attributes:
        whole: Whether any text may replace any other; there are no classes then.
        classes: ``None``: any token may replace any other. Else a label per vocabulary token,
            length V, or V + 1 with the unknown symbol's last: only tokens with equal labels are
            neighbours, so the label is revealed.
        kinds: Names of the public kinds whose values replace each other; none: nothing but tokens
            or texts do.
        tokens: Whether tokens outside the entities replace each other, too.
    """

    classes: tuple[Hashable, ...] | None = field(default=None, repr=False)
    whole: bool = field(default=False, kw_only=True)
    kinds: tuple[str, ...] = field(default=(), kw_only=True)
    tokens: bool = field(default=True, kw_only=True)

    def __hash__(self) -> int:
        return hash(self.fingerprint)  # a charge looks up its certificate: not over V labels

    @classmethod
    def substitution(cls) -> Adjacency:
        """One token replaced by any other of the vocabulary, the unknown symbol included."""
        return cls()

    @classmethod
    def texts(cls) -> Adjacency:
        """Any text replaced by any other, whatever their lengths."""
        return cls(whole=True)

    @classmethod
    def within(cls, classes: Iterable[Hashable]) -> Adjacency:
        """One token replaced by another of its public class.

        Args:
            classes: A label per vocabulary token, length V; the unknown symbol is then alone:
                that a position is out of vocabulary is revealed. Or length V + 1, the unknown
                symbol's label last.

        Raises:
            ParameterError: A label cannot be hashed or is not equal to itself.
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
        """One value, at all its mentions, replaced by another of its public kind and shape.

        Args:
            kinds: Their names.
            beside: Which tokens outside the entities are neighbours, too, of two texts in which
                the same entities are found; default none, as all of that text is public.
        """
        tokens = beside is not None
        classes = None if beside is None else beside.classes
        return cls(classes, kinds=tuple(sorted(kinds)), tokens=tokens)

    @cached_property
    def fingerprint(self) -> str:
        """Identifies the relation; equal partitions have equal fingerprints."""
        if self.whole:
            return "texts"
        if self.kinds:
            beside = replace(self, kinds=()).fingerprint if self.tokens else "public"
            return f"entities({','.join(self.kinds)})+{beside}"
        if self.classes is None:
            return "substitution"
        order: dict[Hashable, int] = {}
        numbers = [order.setdefault(label, len(order)) for label in self.classes]
        return "within-" + hashlib.sha256(repr(numbers).encode()).hexdigest()[:16]

    def __str__(self) -> str:
        if self.whole:
            return "any text replaced by any other"
        if self.kinds:
            tokens = f", or {replace(self, kinds=())} with the same entities found"
            beside = tokens if self.tokens else ""
            return f"one value replaced by another of its public kind and shape{beside}"
        if self.classes is None:
            return "one token replaced by any other"
        return f"one token replaced within its public class ({len(set(self.classes))} classes)"
