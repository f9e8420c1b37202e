"""How much any context-free attacker can recover, from a certificate alone."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from dp_middleware import _validate
from dp_middleware.attacks.rows import prior_of, summed
from dp_middleware.embedding.arrays import Floats
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.errors import ParameterError
from dp_middleware.privacy import ApproxDP, Certificate
from dp_middleware.vocabulary.words import word_numbers


def recovery_bound(
    certificate: Certificate,
    space: EmbeddingSpace,
    *,
    prior: ArrayLike | None = None,
    top: int = 1,
    by: Literal["word", "id"] = "word",
) -> float:
    """Largest success that a certificate leaves to an attacker, whatever the mechanism.

    Let P(y|x) <= e^eps P(y|x') for all x, x', and let S be the tokens guessed for y, of prior
    mass p(S) and with M the largest P(y|x) in it. Then sum over S of p(x) P(y|x) is at most
    p(S) M and the same sum over the others at least (1 - p(S)) e^-eps M, so that the posterior
    of S is at most p(S) e^eps / (p(S) e^eps + 1 - p(S)). This grows with p(S), which is at most
    q, the mass of the ``top`` likeliest words, or tokens:

        rate <= q e^eps / (1 + q (e^eps - 1)) <= min(1, q e^eps).

    For the uniform prior and one token as guess it is e^eps / (e^eps + V - 1), which k-ary
    randomised response attains. Between tokens of a public class the bound holds in each class,
    and an attacker who sees the class does no worse than one who does not: the mean over classes.

    Args:
        certificate: Of a mechanism on this space; an infinite epsilon bounds nothing.
        space: V tokens.
        prior: Probability of each token, float (V,); default uniform.
        top: Guesses of which one must be right.
        by: Whether a guess is a ``"word"``, as the attacks count, or a token (``"id"``).

    Returns:
        A rate in [0, 1]; also a bound on an attacker who knows all other tokens of the text, with
        the prior of the token given those.

    Raises:
        ParameterError: The certificate is for another space or allows a delta.
    """
    _validate.at_least(1, top=top)
    _validate.one_of(("word", "id"), by=by)
    weights = prior_of(prior, space)
    if certificate.space != space.fingerprint:
        raise ParameterError("expected a certificate for this space, got one for another")
    if isinstance(certificate.guarantee, ApproxDP):
        raise ParameterError("expected a certificate of a pure or metric guarantee, got a delta")
    epsilon, labels = certificate.epsilon, certificate.adjacency.classes
    units = word_numbers(space.vocabulary) if by == "word" else np.arange(len(space))
    if labels is None:
        return bound_of(summed(weights, units), epsilon, top)
    numbers = {label: number for number, label in enumerate(dict.fromkeys(labels))}
    classes = np.array([numbers[label] for label in labels[: len(space)]])
    inside = [classes == number for number in np.unique(classes[weights > 0])]
    parts = [summed(weights[own], units[own]) for own in inside]
    masses = [float(part.sum()) for part in parts]
    bounds = [bound_of(part / part.sum(), epsilon, top) for part in parts]
    return min(1.0, float(np.dot(masses, bounds)))


def bound_of(prior: Floats, epsilon: float, top: int) -> float:
    """As :func:`recovery_bound`, for any secrets of which no two lose more than epsilon."""
    likeliest = min(1.0, float(np.sort(prior)[::-1][:top].sum()))
    return 1.0 / (1.0 + math.exp(-epsilon) * (1.0 - likeliest) / likeliest)
