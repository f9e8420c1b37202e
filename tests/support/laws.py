"""Laws of mechanisms as float64, and whether draws follow one."""

import numpy as np
from scipy import stats


def law_of(mechanism, space, token):
    """P(y | token), float64 (V,)."""
    return np.exp(mechanism.log_probs([token], space)[0])


def laws_of(mechanism, space):
    """P(y | x), float64 (V, V)."""
    return np.exp(mechanism.log_probs(np.arange(len(space)), space))


def p_value(counts, law, least=20):
    """Of chi-squared: rarer outcomes than ``least`` draws count as one, impossible ones reject."""
    counts, law = np.asarray(counts, dtype=float), np.asarray(law, dtype=float)
    expected = counts.sum() * law
    if counts[expected == 0].any():
        return 0.0
    rare = expected < least
    observed = np.append(counts[~rare], counts[rare].sum())
    wanted = np.append(expected[~rare], expected[rare].sum())
    kept = wanted > 0
    return stats.chisquare(observed[kept], wanted[kept]).pvalue if kept.sum() > 1 else 1.0
