"""Exact laws of the nearest token to a noisy point, on the line and in the plane."""

import numpy as np
from scipy import stats
from scipy.special import gammainc

ANGLES = 20_000
FALSE_ALARM = 1e-9  # two-sided tests on fresh entropy: once in 10^9 runs


def fits(counts, law):
    """Whether counts of independent draws are likely under a law."""
    return stats.chisquare(counts, counts.sum() * law / law.sum()).pvalue > FALSE_ALARM


def line_law(tokens, centre, eta):
    """P(y) for noise of density eta/2 exp(-eta |z|): the Laplace law between midpoints."""
    tokens = np.asarray(tokens, dtype=float)
    order = np.argsort(tokens, kind="stable")
    ends = np.concatenate([[-np.inf], (tokens[order][1:] + tokens[order][:-1]) / 2, [np.inf]])
    ends -= centre
    tails = np.exp(-eta * np.abs(ends)) / 2
    below = np.where(ends < 0, tails, 1 - tails)
    low, high = slice(None, -1), slice(1, None)
    # cells right of the centre from their upper tails, so that small ones keep their digits
    masses = np.where(ends[low] >= 0, tails[low] - tails[high], below[high] - below[low])
    law = np.empty(len(tokens))
    law[order] = masses
    return law


def plane_law(tokens, centre, eta):
    """P(y) for density eta^2/(2 pi) exp(-eta r): along a ray each cell is one interval of r."""
    angles = (np.arange(ANGLES) + 0.5) * 2 * np.pi / ANGLES
    rays = np.column_stack([np.cos(angles), np.sin(angles)])
    moves = np.asarray(tokens, dtype=float) - centre
    along = rays @ moves.T  # (angles, V)
    squares = (moves**2).sum(axis=1)
    law = np.empty(len(moves))
    for y in range(len(moves)):
        others = np.arange(len(moves)) != y
        gain = along[:, [y]] - along[:, others]
        with np.errstate(divide="ignore"):
            ratio = (squares[y] - squares[others])[None, :] / 2 / gain
        low = np.where(gain > 0, ratio, 0.0).max(axis=1, initial=0.0)
        high = np.where(gain < 0, ratio, np.inf).min(axis=1, initial=np.inf)
        high = np.maximum(low, high)
        law[y] = (gammainc(2, eta * high) - gammainc(2, eta * low)).mean()
    return law
