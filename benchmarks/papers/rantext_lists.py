"""How RANTEXT's privacy depends on the size of its random lists; a part of inferdpt.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import common
import numpy as np

import dp_middleware as dp
from dp_middleware.lab import attacks
from dp_middleware.mechanisms import Mechanism
from dp_middleware.mechanisms.rantext import PRINTED_CHANCES, noise_epsilon

SHARES = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75)
"""Mean list sizes, of the vocabulary."""

INVERSIONS = {
    "inversion, k = 1": "top 1 by id",
    "inversion, k = 10": "top 10 by id",
    "inversion of words, k = 1": "top 1",
    "inversion of words, k = 10": "top 10",
}
"""Privacy by the name of its attack: as the paper counts, by tokens, and by words, whose other
spellings are recovered too; with the rate among an attack's details."""


@dataclass(frozen=True, kw_only=True)
class Size:
    """RANTEXT with lists of one mean size.

    Attributes:
        share: Of the vocabulary.
        exact: The exact loss, nats per token.
        privacy: By attack, from :func:`inversion_privacy`.
    """

    share: float
    exact: float
    privacy: Mapping[str, float]


def released(
    mechanism: Mechanism, space: dp.EmbeddingSpace, texts: Sequence[str]
) -> tuple[list[np.ndarray], list[np.ndarray], list[str]]:
    """Raw ids, released ids and released texts; an unknown token becomes a uniform one."""
    sanitizer = dp.Sanitizer(mechanism, space, accept_infinite=True)
    pairs = sanitizer.release_drafts([sanitizer.read(text) for text in texts])
    raw = [draft.ids for _, draft in pairs]
    return raw, [draft.outputs for _, draft in pairs], [r.text for r, _ in pairs]


def inversion_privacy(
    raw: Sequence[np.ndarray], sent: Sequence[np.ndarray], space: dp.EmbeddingSpace
) -> dict[str, float]:
    """1 - the rate of embedding inversion, for each of :data:`INVERSIONS`."""
    details = attacks.embedding_inversion(raw, sent, space, top=(1, 10)).details
    return {name: 1.0 - details[rate] for name, rate in INVERSIONS.items()}


def by_size(space: dp.EmbeddingSpace, texts: Sequence[str], epsilon: float) -> list[Size]:
    """Every share of :data:`SHARES`, with the paper's rule for the noise and other ranges."""
    sizes = []
    for share in SHARES:
        mechanism = dp.RanText.with_list_size(space, epsilon=epsilon, size=share)
        raw, sent, _ = released(mechanism, space, texts)
        exact = dp.certify(mechanism, space).epsilon
        kept = inversion_privacy(raw, sent, space)
        sizes.append(Size(share=share, exact=exact, privacy=kept))
    return sizes


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
        shown = [*(f"{cell:.2%}" for cell in cells), *(f"{chance:.1%}" for chance in chances)]
        lines.append((f"{epsilon:g}", *shown[:5], f"{printed:.1%}", shown[5]))
    heads = ("epsilon", "list, 1 %", "median", "99 %", "mean")
    return common.markdown((*heads, "P(5 %)", "paper, App. B", "P(5 %), fitted here"), lines)


def table(sizes: Sequence[Size]) -> str:
    """Markdown: a line for each size."""
    heads = ("mean list, of V", "exact epsilon", *(f"privacy, {name}" for name in INVERSIONS))
    lines = [
        (f"{s.share:.0%}", f"{s.exact:.1f}", *(f"{s.privacy[name]:.1%}" for name in INVERSIONS))
        for s in sizes
    ]
    return common.markdown(heads, lines)
