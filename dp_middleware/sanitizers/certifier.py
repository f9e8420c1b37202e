"""What a sanitizer's releases guarantee, and its mechanism at another epsilon."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

from dp_middleware.certification import calibrate, certify
from dp_middleware.certification.calibration import is_quick
from dp_middleware.certification.certificates import adjacency_of
from dp_middleware.certification.enumeration import scout
from dp_middleware.contexts import Context
from dp_middleware.embedding import EmbeddingSpace
from dp_middleware.embedding.space import BLOCK
from dp_middleware.errors import ParameterError
from dp_middleware.mechanisms import ChannelMechanism, Mechanism, NearestResponse, NoiseMechanism
from dp_middleware.privacy import Adjacency, Certificate
from dp_middleware.sanitizers.policies import KeepPolicy

_MEANINGLESS = 1e-6  # share of the tokens that a guarantee protects


@dataclass(frozen=True, kw_only=True)
class Certifier:
    """Certifies one mechanism as a sanitizer uses it.

    Attributes:
        mechanism: How a token is perturbed.
        space: Vocabulary and vectors.
        context: Of a contextual mechanism.
        policy: Tokens released unchanged.
        adjacency: What is compared among the tokens that are not kept; default any substitution.
        defaults: Whether all other parameters of the mechanism are its public defaults, which may
            depend on epsilon, as a tuned codebook does.
    """

    mechanism: Mechanism
    space: EmbeddingSpace
    context: Context | None
    policy: KeepPolicy
    adjacency: Adjacency | None
    defaults: bool = False

    @cached_property
    def relation(self) -> Adjacency:
        """Every kept token is alone; the others, and the unknown symbol, are as asked for."""
        asked = self.adjacency if self.adjacency is not None else adjacency_of(self.mechanism)
        if not self.policy.kept:
            return asked
        kept = self.policy.kept_tokens(self.space)
        labels = asked.classes if asked.classes is not None else ("perturbed",) * (len(kept) + 1)
        return Adjacency.within(
            ("kept", i) if i < len(kept) and kept[i] else ("class", label)
            for i, label in enumerate(labels)
        )

    def certificate(self, tokens: int | None = None) -> Certificate:
        """Certifies texts of so many tokens; ``None``: the longest."""
        if self.context is not None:
            tokens = min(tokens or self.context.window, self.context.window)
        bare = certify(self.mechanism, self.space, adjacency=self.relation, length=tokens)
        if not self.policy.kept:
            return bare
        note = (
            f"tokens in {self.policy.label} are released unchanged, also where they are a piece of "
            "another word; where they stand is public"
        )
        return bare.revised(assumptions=(*bare.assumptions, note))

    def quick_loss(self) -> float:
        """Returns infinity if a few rows already show it; a certificate says the rest."""
        if isinstance(self.mechanism, NoiseMechanism):
            return self.mechanism.lipschitz(None)
        if not isinstance(self.mechanism, ChannelMechanism):
            return 0.0
        if self.mechanism.full_support or self.mechanism.tight:
            return 0.0
        return scout(self.mechanism, self.space, self.relation, self.space.spread(BLOCK)).epsilon

    def at(self, epsilon: float) -> Certifier:
        """Does as :meth:`calibrate`, with the public defaults for this epsilon if it has any."""
        refuse_meaningless(type(self.mechanism), self.space, epsilon)
        if not self.defaults:
            return self.calibrate(epsilon)
        mechanism = type(self.mechanism).with_defaults(epsilon, self.space)
        return replace(self, mechanism=mechanism).calibrate(epsilon)

    def is_quick(self, epsilon: float) -> bool:
        """Tells whether :meth:`at`, and the certificate there, take no search or pass over rows."""
        mechanism = self.mechanism
        if self.defaults:
            if not type(mechanism).has_defaults(epsilon, self.space):
                return False
            mechanism = type(mechanism).with_defaults(epsilon, self.space)
        return is_quick(mechanism, self.space, epsilon, self.relation)

    def calibrate(self, epsilon: float) -> Certifier:
        """Returns the same with its mechanism at this certified epsilon, or just below.

        Args:
            epsilon: Nats per token; in a raw context, for texts as long as its window.

        Raises:
            CannotCalibrate: The mechanism cannot reach this epsilon.
        """
        length = None if self.context is None else self.context.window
        mechanism = calibrate(
            self.mechanism, self.space, epsilon, adjacency=self.relation, length=length
        )
        return replace(self, mechanism=mechanism)


def refuse_meaningless(kind: type[Mechanism], space: EmbeddingSpace, epsilon: float) -> None:
    """Refuses an epsilon of the default mechanism at which nothing is hidden, before a long search.

    Raises:
        ParameterError: By Lemma 2 of docs/guarantees.md all but a millionth of the tokens may be
            told from their releases.
    """
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
