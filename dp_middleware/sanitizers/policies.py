"""Which tokens are released unchanged, by public lists, and what is guaranteed then."""

from __future__ import annotations

import math
import string
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dp_middleware.certification import certify
from dp_middleware.certification.certificates import adjacency_of
from dp_middleware.certification.enumeration import scout
from dp_middleware.embedding import EmbeddingSpace
from dp_middleware.embedding.space import BLOCK
from dp_middleware.errors import ParameterError
from dp_middleware.mechanisms import ChannelMechanism, Mechanism, NearestResponse, NoiseMechanism
from dp_middleware.mechanisms.kernels import lists as _lists
from dp_middleware.privacy import Adjacency, Certificate
from dp_middleware.vocabulary import frequencies


@dataclass(frozen=True, kw_only=True)
class KeepPolicy:
    """Says which tokens are released unchanged: a public list that does not depend on the data.

    Where a kept token stood is public, so the certificate speaks of tokens that are not kept
    (``Adjacency.within``). Words and signs are compared without case and surrounding blanks, token
    by token: a piece of a longer word is kept too if it is on the list.
    """

    kept: frozenset[str] = field(default=frozenset(), repr=False)
    label: str = "nothing"  # names the lists in the certificate

    def __post_init__(self) -> None:
        if isinstance(self.kept, str):
            raise ParameterError("expected a collection of words to keep, got one str")
        object.__setattr__(self, "kept", frozenset(word.strip().lower() for word in self.kept))

    @classmethod
    def nothing(cls) -> KeepPolicy:
        """Keeps nothing: every token is perturbed."""
        return cls()

    @classmethod
    def stop_words(cls) -> KeepPolicy:
        """Keeps English function words, scikit-learn's list."""
        return cls(kept=frequencies.stop_words(), label="stop words (scikit-learn)")

    @classmethod
    def nltk_stop_words(cls) -> KeepPolicy:
        """Keeps NLTK's English stop words, as papers do; MissingExtra: no package has them."""
        return cls(kept=frequencies.nltk_stop_words(), label="stop words (NLTK)")

    @classmethod
    def punctuation(cls) -> KeepPolicy:
        """Keeps the ASCII punctuation signs."""
        return cls(kept=frozenset(string.punctuation), label="punctuation (ASCII)")

    @classmethod
    def words(cls, words: Iterable[str], *, label: str) -> KeepPolicy:
        """Keeps a list of your own. It must be public and not made from private text."""
        return cls(kept=words, label=label)  # type: ignore[arg-type] # __post_init__ looks

    def __or__(self, other: KeepPolicy) -> KeepPolicy:
        labels = [p.label for p in (self, other) if p.kept]
        return KeepPolicy(kept=self.kept | other.kept, label=" and ".join(labels) or "nothing")

    def kept_tokens(self, space: EmbeddingSpace) -> NDArray[np.bool_]:
        """Tells which tokens of the space are kept, bool (V,)."""
        return _lists.on_list(space, self.kept)


_MEANINGLESS = 1e-6  # share of the tokens that a guarantee protects, docs/guarantees.md, Lemma 2


def relation_of(
    mechanism: Mechanism, space: EmbeddingSpace, policy: KeepPolicy, adjacency: Adjacency | None
) -> Adjacency:
    """Every kept token is alone; the others, and the unknown symbol, are as asked for."""
    asked = adjacency if adjacency is not None else adjacency_of(mechanism)
    if not policy.kept:
        return asked
    kept = policy.kept_tokens(space)
    labels = asked.classes if asked.classes is not None else ("perturbed",) * (len(kept) + 1)
    return Adjacency.within(
        ("kept", i) if i < len(kept) and kept[i] else ("class", label)
        for i, label in enumerate(labels)
    )


def certificate_of(
    mechanism: Mechanism,
    space: EmbeddingSpace,
    policy: KeepPolicy,
    relation: Adjacency,
    tokens: int | None = None,
) -> Certificate:
    """Certifies texts of so many tokens, of which the policy keeps some."""
    bare = certify(mechanism, space, adjacency=relation, length=tokens)
    if not policy.kept:
        return bare
    note = (
        f"tokens in {policy.label} are released unchanged, also where they are a piece of "
        "another word; where they stand is public"
    )
    return bare.revised(assumptions=(*bare.assumptions, note))


def quick_loss(mechanism: Mechanism, space: EmbeddingSpace, relation: Adjacency) -> float:
    """Returns infinity if a few rows already show it; a certificate says the rest."""
    if isinstance(mechanism, NoiseMechanism):
        return mechanism.lipschitz(None)
    if not isinstance(mechanism, ChannelMechanism) or mechanism.full_support or mechanism.tight:
        return 0.0
    return scout(mechanism, space, relation, space.spread(BLOCK)).epsilon


def refuse_meaningless(kind: type[Mechanism], space: EmbeddingSpace, epsilon: float) -> None:
    """Refuses an epsilon of the default mechanism that hides nothing, before a long search."""
    others = len(space) - 1
    if kind is not NearestResponse or others < 1 or not math.isfinite(epsilon):
        return
    most = math.log(others / _MEANINGLESS)
    if epsilon > most:
        retention = 1 / (1 + others * math.exp(-epsilon))
        raise ParameterError(
            f"expected epsilon of at most {most:.3g} for a vocabulary of {len(space)} tokens, got "
            f"epsilon={epsilon:g}: its guarantee lets {100 * retention:.6g} % of the tokens out "
            "as they are, which means nothing; 1 to 12 mean something, and pseudonyms "
            "(dp.Pseudonyms) are for text that is to stay as it is but for its names"
        )
