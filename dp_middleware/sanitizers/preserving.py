"""Numbers stay numbers, months months and names names: one calibrated sanitizer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence

from dp_middleware.certification import calibrate
from dp_middleware.embedding import EmbeddingSpace, default_space
from dp_middleware.errors import ParameterError
from dp_middleware.mechanisms import TokenExponential, WithinClasses
from dp_middleware.sanitizers.sanitizer import Sanitizer
from dp_middleware.vocabulary.classes import token_classes
from dp_middleware.vocabulary.vocabulary import Vocabulary


def class_preserving(
    epsilon: float = 10,
    space: EmbeddingSpace | None = None,
    classes: Sequence[Hashable] | None = None,
) -> Sanitizer:
    """A sanitizer that releases every token as one of its class, calibrated within classes.

    **The class of every token is public**: that a position holds a three-digit number, a month or
    a given name goes out as it is, and epsilon is about which one. In a small class that is few
    alternatives: of seven weekdays one is guessed once in seven without any release.

    Args:
        epsilon: Nats per token occurrence, between two tokens of a class.
        space: Default :func:`default_space`.
        classes: A public label per token, and the unknown symbol's last or not at all; default
            :func:`token_classes` of the space's vocabulary.

    Raises:
        ParameterError: Labels for another number of tokens, or a token that is alone in its class
            and would be released unchanged. One with which unknown words share the class is not:
            whichever was there, the token is released.
        CannotCalibrate: See :func:`calibrate`.
    """
    where = space if space is not None else default_space()
    labels = tuple(classes) if classes is not None else token_classes(where.vocabulary)
    if alone := _alone(labels, where.vocabulary):
        raise ParameterError(
            f"expected classes of two tokens or more, got {alone} with one: a token alone in its "
            "class is released unchanged; join its class with another"
        )
    nominal = WithinClasses(mechanism=TokenExponential(epsilon=epsilon), classes=labels)
    relation = nominal.adjacency
    return Sanitizer(
        calibrate(nominal, where, epsilon, adjacency=relation), where, adjacency=relation
    )


def _alone(labels: Sequence[Hashable], vocabulary: Vocabulary) -> int:
    """How many tokens are told by their class; an unknown one may be dropped, or never come."""
    sizes = Counter(labels[: len(vocabulary)])
    unknown = labels[len(vocabulary) :] if vocabulary.unknown in ("uniform", "split") else ()
    return sum(size == 1 and label not in unknown for label, size in sizes.items())
