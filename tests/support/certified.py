"""Certificates of a toy mechanism, for tests of what is done with certificates."""

from dp_middleware.privacy import Adjacency, Certificate


def certified(guarantee, epsilon, space="plane", adjacency=None):
    return Certificate(
        guarantee=guarantee,
        adjacency=adjacency or Adjacency.substitution(),
        method="proof",
        assumptions=(),
        claimed=epsilon,
        epsilon=epsilon,
        mechanism="toy()",
        space=space,
    )
