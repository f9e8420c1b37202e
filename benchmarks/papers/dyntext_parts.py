"""DYNTEXT's baselines, and itself with one of its three parts taken away (its Table 2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from protocol import Ids

import dp_middleware as dp
from dp_middleware._torch import torch
from dp_middleware.mechanisms import Mechanism
from dp_middleware.mechanisms.dyntext import Density, density, table_noise
from dp_middleware.mechanisms.kernels.nearest import noisy
from dp_middleware.sampling.sampler import Entropy

DENSITY, DELTA, K = 0.5, 1e-5, 20  # nats of the density, its delta, the longest list


def lists(space: dp.EmbeddingSpace, smooth: bool) -> tuple[Density, Ids]:
    """Neighbourhoods, and the length of each token's list from the table of noisy densities.

    Not ``smooth``: all noise is scaled by the global sensitivity, which is the largest smooth one.
    """
    public = density(space, K, DENSITY, DELTA)
    if not smooth:
        public = replace(public, log_sigma=np.full(len(space), public.log_sigma.max()))
    return public, public.lengths(table_noise(0, len(space)))


@dataclass(frozen=True, kw_only=True)
class OnLists(dp.CusTextAggressive):
    """DYNTEXT's replacement on the lists of :func:`lists`."""

    smooth: bool = False

    def candidate_lists(self, ids: Ids, space: dp.EmbeddingSpace) -> tuple[torch.Tensor, ...]:
        """A token's list, filled up with the token itself."""
        public, lengths = lists(space, self.smooth)
        inside = np.arange(K) < lengths[ids, None]
        listed = np.where(inside, public.listed[ids], ids[:, None])
        distances = np.where(inside, public.distances[ids], 0.0)
        return torch.from_numpy(listed), torch.from_numpy(distances)


@dataclass(frozen=True, kw_only=True)
class NoiseOnLists(dp.MetricNoise):
    """Of the dynamic list the token nearest to the vector plus noise."""

    def perturb(self, ids: ArrayLike, space: dp.EmbeddingSpace, entropy: Entropy) -> Ids:
        """Draws released ids, int64 (n,)."""
        own, (public, lengths) = space.checked(ids), lists(space, smooth=True)
        points, listed = noisy(space.points[own], self.eta, entropy), public.listed[own]
        distances = np.linalg.norm(space.points[listed] - points[:, None], axis=2)
        distances[np.arange(K) >= lengths[own, None]] = np.inf
        return listed[np.arange(len(own)), distances.argmin(axis=1)]


Make = Callable[[float, dp.EmbeddingSpace], Mechanism]  # from the total epsilon

METHODS: dict[str, Make] = {
    "FBDD": dp.MetricNoise.with_defaults,
    "SANTEXT+": dp.SanTextPlus.with_defaults,
    "CUSTEXT+": dp.CusTextPlus.with_defaults,
    "RANTEXT": dp.RanText.with_defaults,
    "DYNTEXT": dp.DynText.with_defaults,
}
ABLATIONS: dict[str, Make] = {
    "w/o smooth": lambda t, _: OnLists(epsilon=t - DENSITY),
    "w/o dynamic list": lambda t, _: dp.CusTextAggressive(epsilon=t - DENSITY, candidates=K // 2),
    "w/o replacement": lambda t, _: NoiseOnLists(eta=t - DENSITY),
}
