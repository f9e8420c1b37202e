"""Two vectors told apart by a half-space of what is released for them."""

from __future__ import annotations

from functools import partial
from itertools import chain

import numpy as np
from numpy.typing import ArrayLike

from dp_middleware.certification.auditing.pairs import Outcome, best_events, log_ratio
from dp_middleware.certification.auditing.shapes import Sampling
from dp_middleware.embedding.arrays import Floats
from dp_middleware.errors import ParameterError
from dp_middleware.mechanisms.vector_response import VectorResponse


def by_vectors(
    mechanism: VectorResponse,
    vectors: tuple[ArrayLike, ArrayLike],
    claim: float,
    sampling: Sampling,
) -> Outcome:
    """Half of the draws choose direction, order and threshold, half test.

    Args:
        mechanism: Draws.
        vectors: Of two texts, float (d,) each.
        claim: The claim in doubt, nats.
        sampling: Draws of each vector, risk and source.
    """
    if len(vectors) != 2:
        raise ParameterError(f"expected vectors= as two vectors, got {len(vectors)}")
    pair = [np.asarray(vector, dtype=np.float64) for vector in vectors]
    normals = [pair[0] - pair[1], pair[0], -pair[1]]

    def released(vector: Floats, count: int) -> Floats:
        return mechanism.perturb(np.tile(vector, (count, 1)), sampling.entropy)

    half = sampling.samples // 2
    pilot = [released(vector, half) for vector in pair]
    events = [best_events(0, claim, partial(_along, normal), pilot) for normal in normals]
    event = max(chain.from_iterable(events), key=lambda candidate: candidate.rank)
    tested = sampling.samples - half
    hits, misses = (event.holds(released(v, tested)).sum() for v in pair[:: event.sign])
    bound = float(log_ratio(hits, misses, tested, sampling.risk))
    return Outcome(epsilon=bound, claim=claim, draws=2 * sampling.samples)


def _along(normal: Floats, released: Floats) -> Floats:
    return released @ normal
