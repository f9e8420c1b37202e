"""RANTEXT's rows by quadrature from each distance to the next, for small vocabularies."""

from __future__ import annotations

import numpy as np

from dp_middleware._torch import torch
from dp_middleware.embedding.arrays import Floats
from dp_middleware.mechanisms.kernels.radius import RadiusLaw

SMALL = 128
"""Tokens up to which rows are integrated from each distance to the next."""

_NODES = 3  # between a cut and the next
_NUMBERS = 1 << 19  # of nodes and tokens at a time
_OCTAVES = 24  # below the largest radius
_PANELS = 64
_TINY = 1e-300  # between 0 and 0, with weight 0


class RadiusQuadrature:
    """Makes rows as :class:`RadiusGrid` does, without a grid: V times V + 165 radii a row.

    Between two distances of a row, what it integrates is as smooth as the density of the radius:
    three nodes of Gauss and Legendre there, and between public radii. Arguments are the grid's.
    """

    def __init__(
        self, law: RadiusLaw, *, noise_scale: float, reach: float, epsilon: float, literal: bool
    ) -> None:
        low, high = (q / noise_scale for q in law.quantiles)
        end = max(high, 1.01 * reach)
        self._law, self._noise_scale = law, noise_scale
        self._half, self._literal = 0.5 * epsilon, literal
        self._cuts = np.concatenate(
            [
                [0.0],
                end * 0.5 ** np.arange(0.0, _OCTAVES, 0.5),
                np.linspace(low, high, _PANELS + 1),
                np.linspace(high, end, _PANELS // 4 + 1),
            ]
        )

    def to_log_probs(self, rows: torch.Tensor) -> None:
        """Replaces rows of distances by their log-probabilities; float64 (n, V)."""
        nodes = _NODES * (len(self._cuts) + rows.shape[1])
        for part in torch.split(rows, max(1, _NUMBERS // (nodes * rows.shape[1]))):
            log_g = self._log_g(part.cpu().numpy())
            part.copy_(torch.log_softmax(torch.from_numpy(log_g), dim=1))

    def _log_g(self, distances: Floats) -> Floats:
        public = np.broadcast_to(self._cuts, (len(distances), len(self._cuts)))
        cuts = np.sort(np.concatenate([public, distances], axis=1), axis=1)
        points, weights = np.polynomial.legendre.leggauss(_NODES)
        half = 0.5 * np.diff(cuts)[:, :, None]
        radii = 0.5 * (cuts[:, 1:] + cuts[:, :-1])[:, :, None] + half * points
        radii, nodes = np.maximum(radii, _TINY), half.shape[1] * _NODES
        with np.errstate(divide="ignore"):  # the same distance twice
            log_mass = self._law.log_pdf(radii * self._noise_scale) + np.log(half * weights)
        radii, log_mass = (each.reshape(len(each), 1, nodes) for each in (radii, log_mass))
        share = distances[:, :, None] / radii
        log_kernel = -self._half * np.minimum(share, 1.0)
        if self._literal:
            log_kernel[share >= 1.0] = -np.inf
        log_kernel += log_mass - np.log(np.exp(log_kernel).sum(axis=1, keepdims=True))
        largest = log_kernel.max(axis=2, keepdims=True)
        log_kernel -= largest
        log_g: Floats = np.log(np.exp(log_kernel).sum(axis=2)) + largest[:, :, 0]
        return log_g
