"""Numbers stay numbers, months months and names names: one calibrated sanitizer."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from dp_middleware.certification import calibrate
from dp_middleware.embedding import EmbeddingSpace, default_space
from dp_middleware.errors import ParameterError
from dp_middleware.mechanisms import TokenExponential, WithinClasses
from dp_middleware.sanitizers import Sanitizer
from dp_middleware.token_labels import token_classes


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
        ParameterError: Labels for another number of tokens, or a label of its own for each.
        CannotCalibrate: See :func:`calibrate`.
    """
    where = space if space is not None else default_space()
    labels = tuple(classes) if classes is not None else token_classes(where.vocabulary)
    if len(set(labels)) == len(labels):
        raise ParameterError(
            "expected a class of two tokens or more: one alone in its class is released unchanged"
        )
    nominal = WithinClasses(mechanism=TokenExponential(epsilon=epsilon), classes=labels)
    relation = nominal.adjacency
    return Sanitizer(
        calibrate(nominal, where, epsilon, adjacency=relation), where, adjacency=relation
    )
