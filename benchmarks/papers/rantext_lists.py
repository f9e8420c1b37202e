"""What the size of RANTEXT's random lists is, and what it does; a part of inferdpt.py."""

from __future__ import annotations

from collections.abc import Sequence

import common
import numpy as np

import dp_middleware as dp
from dp_middleware.lab import attacks
from dp_middleware.mechanisms import Mechanism
from dp_middleware.mechanisms.rantext import PRINTED_CHANCES, noise_epsilon

SHARES = (0.05, 0.25, 0.5)
"""Mean list sizes, of the vocabulary."""


def released(
    mechanism: Mechanism,
    space: dp.EmbeddingSpace,
    texts: Sequence[str],
    policy: dp.KeepPolicy | None = None,
) -> tuple[list[np.ndarray], list[np.ndarray], list[str]]:
    """Raw ids, released ids and released texts; unknown tokens are left out by the vocabulary."""
    sanitizer = dp.Sanitizer(mechanism, space, policy=policy, accept_infinite=True)
    drafts = sanitizer.release_drafts([sanitizer.read(text) for text in texts])
    sent = [np.where(draft.perturbed, draft.outputs, draft.ids) for _, draft in drafts]
    return [draft.ids for _, draft in drafts], sent, [made.text for made, _ in drafts]


def inversion_privacy(
    raw: Sequence[np.ndarray], sent: Sequence[np.ndarray], space: dp.EmbeddingSpace
) -> tuple[float, float]:
    """1 - the rate of embedding inversion with 1 and with 10 guesses, by tokens as the paper."""
    found = attacks.embedding_inversion(raw, sent, space, top=(1, 10)).details
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
    return common.markdown((*heads, *chances), lines)


def by_size(space: dp.EmbeddingSpace, texts: Sequence[str], epsilon: float) -> str:
    """Markdown: loss and privacy with wider noise, and of what has a proven loss of epsilon."""
    ways: dict[str, Mechanism] = {
        f"lists of {share:.0%}": dp.RanText.with_list_size(space, epsilon=epsilon, size=share)
        for share in SHARES
    }
    ways["`rantext-strict`"] = dp.RanTextStrict(epsilon=epsilon)
    ways["`custext-strict`"] = dp.CusTextStrict(epsilon=epsilon)
    ways["`santext`"] = dp.SanText(epsilon=epsilon / space.diameter)
    lines = []
    for name, mechanism in ways.items():
        raw, sent, _ = released(mechanism, space, texts)
        privacy = inversion_privacy(raw, sent, space)
        exact = name if "strict" in name or "san" in name else ""
        loss = f"at most {epsilon:g}" if exact else f"{dp.certify(mechanism, space).epsilon:.1f}"
        lines.append((name, loss, *(f"{share:.1%}" for share in privacy)))
    return common.markdown(("way", "loss", "privacy, k = 1", "k = 10"), lines)
