"""What the size of RANTEXT's random lists is, and what it does; a part of inferdpt.py."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from common import markdown
from protocol import Released, release

import dp_middleware as dp
from dp_middleware.lab import attacks
from dp_middleware.mechanisms import Mechanism
from dp_middleware.mechanisms.rantext import PRINTED_CHANCES, noise_epsilon

SHARES = (0.05, 0.5)
"""Mean list sizes, of the vocabulary."""


def inversion_privacy(sent: Released, space: dp.EmbeddingSpace) -> tuple[float, float]:
    """1 - the rate of embedding inversion with 1 and with 10 guesses, by tokens as the paper."""
    raw, released = zip(*sent.whole, strict=True)  # kept tokens too; unknown ones are left out
    found = attacks.embedding_inversion(raw, released, space, top=(1, 10)).details
    return 1 - found["top 1 by id"], 1 - found["top 10 by id"]


def published_shares(space: dp.EmbeddingSpace, epsilon: float, draws: int = 512) -> np.ndarray:
    """Shares of the vocabulary on lists with the paper's own constants, (tokens, draws)."""
    ranges = np.ptp(space.vectors, axis=0)
    noise = np.random.default_rng(0).laplace(size=(draws, len(ranges))) * ranges
    radii = np.linalg.norm(noise, axis=1) / noise_epsilon(epsilon)
    distances = np.sort(space.distances(space.spread(min(draws, len(space)))), axis=1)
    return np.array([np.searchsorted(row, radii) for row in distances]) / len(space)


def law(space: dp.EmbeddingSpace) -> str:
    """Fig. 4 and App. B: how large lists are with the paper's constants, and as App. B fits them.

    Markdown; a list of 5 % is one of 4.5 to 5.5 %.
    """
    lines = []
    for epsilon, printed in PRINTED_CHANCES.items():
        shares = published_shares(space, epsilon)
        fitted = dp.RanText.with_list_share(space, epsilon=epsilon)
        chances = [made.list_chances(space)[0] for made in (dp.RanText(epsilon=epsilon), fitted)]
        cells = [*np.quantile(shares, (0.01, 0.5, 0.99)), shares.mean()]
        shown = [*(f"{cell:.2%}" for cell in cells), f"{printed:.1%}"]
        lines.append((f"{epsilon:g}", *shown, *(f"{chance:.1%}" for chance in chances)))
    heads = ("epsilon", "list, 1 %", "median", "99 %", "mean")
    chances = ("P(5 %), App. B", "P(5 %) here", "P(5 %) here, fitted")
    return markdown((*heads, *chances), lines)


def by_size(space: dp.EmbeddingSpace, texts: Sequence[str], epsilon: float) -> str:
    """Markdown: loss and privacy with wider noise, and of what has a proven loss of epsilon.

    The loss is between known tokens: that others are left out tells that they were there.
    """
    words = dp.Vocabulary(space.vocabulary.tokens, unknown="raise")
    known = dp.EmbeddingSpace(words, space.vectors)
    strict = {
        "`rantext-strict`": dp.RanTextStrict(epsilon=epsilon),
        "`custext-strict`": dp.CusTextStrict(epsilon=epsilon),
        "`santext`": dp.SanText(epsilon=epsilon / space.diameter),
    }
    ways: dict[str, Mechanism] = {
        f"lists of {share:.0%}": dp.RanText.with_list_size(space, epsilon=epsilon, size=share)
        for share in SHARES
    }
    lines = []
    for name, mechanism in (ways | strict).items():
        privacy = inversion_privacy(release(mechanism, space, texts), space)
        proven = f"at most {epsilon:g}" if name in strict else ""
        loss = proven or f"{dp.certify(mechanism, known).epsilon:.1f}"
        lines.append((name, loss, *(f"{share:.1%}" for share in privacy)))
    return markdown(("way", "loss", "privacy, k = 1", "k = 10"), lines)
