"""Releases of texts that were read: whose budget is charged, then draw, write."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Self, TypeVar

from dp_middleware.embedding import EmbeddingSpace
from dp_middleware.errors import BudgetExhausted, InfiniteEpsilon, ParameterError
from dp_middleware.mechanisms import ChannelMechanism, Mechanism
from dp_middleware.mechanisms.drawing import Drawer
from dp_middleware.mechanisms.text_mechanisms import NoiseMechanism, TextMechanism
from dp_middleware.privacy import Certificate, PureDP
from dp_middleware.privacy.receipts import write_charge
from dp_middleware.privacy.releases import Ledger, Release
from dp_middleware.sampling.entropy import Entropy
from dp_middleware.sanitizers.certifier import Certifier
from dp_middleware.sanitizers.draft import Draft, TextDraft

D = TypeVar("D", Draft, TextDraft, Draft | TextDraft)

Bill = tuple[Certificate, int]
"""What a release is charged with, and for how many tokens or texts; for none nothing is."""


def check_payer(ledger: Ledger | None, subject: str | None) -> None:
    """Refuse a ledger without a subject, or what is none.

    Raises:
        ParameterError: See above.
    """
    if ledger is not None and not subject:
        raise ParameterError("expected subject= with a ledger: whose budget is charged?")
    if ledger is not None and not callable(getattr(ledger, "charge", None)):
        raise ParameterError(
            f"expected ledger= with charge(), got {type(ledger).__name__}; write "
            'ledger=dp.PrivacyLedger("sqlite:///FILE", budget=NATS)'
        )


class Payer(ABC):
    """What releases in the name of a subject.

    Attributes:
        ledger: Charged before any draw; ``None``: nothing is.
        subject: Whose budget.
    """

    ledger: Ledger | None
    subject: str | None

    @property
    @abstractmethod
    def certificate(self) -> Certificate:
        """The guarantee of every release."""

    def for_subject(self, subject: str) -> Self:
        """The same, charging another subject's budget.

        Raises:
            ParameterError: No name.
        """
        name: object = subject
        if not isinstance(name, str) or not name.strip():
            raise ParameterError("expected subject= of type str, not empty: whose budget?")
        twin = copy.copy(self)
        twin.subject = subject
        return twin

    def pay(self, bills: Iterable[Bill]) -> None:
        """Charge one release after the other.

        Raises:
            BudgetExhausted: From the ledger; what was charged before stays spent.
        """
        for certificate, n in bills:
            if self.ledger is not None and self.subject is not None and n:
                self.ledger.charge(self.subject, certificate, n)
            if n:
                write_charge(certificate)

    def require_budget(self, releases: int) -> None:
        """Refuse what cannot be afforded as a whole; reserves nothing.

        Args:
            releases: How many are needed.

        Raises:
            BudgetExhausted: The subject's budget has less left.
            ParameterError: The guarantee is not pure DP, so that its price is another.
        """
        if self.ledger is None or self.subject is None:
            return
        if not isinstance(self.certificate.guarantee, PureDP):
            raise ParameterError("expected a mechanism of pure DP to tell what a turn costs")
        remaining = getattr(self.ledger, "remaining", None)
        if remaining is None:
            raise ParameterError("expected a dp.PrivacyLedger to tell what remains of a budget")
        if remaining(self.subject) < releases * self.certificate.epsilon:
            raise BudgetExhausted(
                f"expected a budget for {releases} releases, got less; nothing was charged"
            )


class DraftReleaser(Payer):
    """Charges for drafts, draws for them and writes them.

    Attributes:
        mechanism: How a token is perturbed, or a text is.
        space: Vocabulary and vectors.
        accept_infinite: Release even if nothing is guaranteed.
    """

    mechanism: Mechanism
    space: EmbeddingSpace
    accept_infinite: bool
    _certifier: Certifier
    _entropy: Entropy | None

    @property
    @abstractmethod
    def _drawer(self) -> Drawer:
        """What draws."""

    def release_drafts(
        self,
        drafts: Sequence[D],
        compose: Callable[[Certificate], Certificate] = lambda own: own,
        pay: Callable[[Sequence[Bill]], None] | None = None,
    ) -> list[tuple[Release, D]]:
        """Charge for all fresh tokens, draw for them, and write the texts.

        Args:
            drafts: From :meth:`read`. A token that has an output, from an earlier version of the
                text, keeps it.
            compose: Makes of a release's certificate the one that it is charged and released
                with: that of the release and of what follows it.
            pay: Charges for all of them, before the first draw; default :meth:`pay`.

        Returns:
            The releases, and the drafts with what was drawn; the latter are private.

        Raises:
            As :meth:`release`.
        """
        if not self.accept_infinite:
            self._refuse_infinite(self.certificate.epsilon)
        fresh = [draft.fresh for draft in drafts]
        counts = [len(own) for own in fresh]
        around, all_drafts = None, list[Draft | TextDraft](drafts)
        if isinstance(self.mechanism, ChannelMechanism | TextMechanism):
            certificates = [self.certificate for _ in drafts]
        else:
            vocabulary = self.space.vocabulary
            around = [own.releases(vocabulary) for own in all_drafts if isinstance(own, Draft)]
            # the number of tokens is public and may matter; a window lies over public ones too
            seen = around if isinstance(self.mechanism, NoiseMechanism) else fresh
            certificates = [self._certifier.certificate(max(1, len(own))) for own in seen]
        certificates = [
            compose(certificate.assuming(more) if (more := draft.assumptions) else certificate)
            for certificate, draft in zip(certificates, drafts, strict=True)
        ]
        (pay or self.pay)(list(zip(certificates, counts, strict=True)))
        drawn = self._drawer.draw(fresh, self._entropy or self._drawer.entropy, around)
        released = []
        for draft, certificate, outputs in zip(drafts, certificates, drawn, strict=True):
            draft = draft.fill(outputs)
            release = Release(
                text=draft.write(self.space.vocabulary),
                certificate=certificate,
                tokens_total=draft.tokens_total,
                tokens_verbatim=draft.tokens_verbatim,
            )
            released.append((release, draft))
        return released

    def _refuse_infinite(self, epsilon: float) -> None:
        """Refuses to release with no guarantee.

        Raises:
            InfiniteEpsilon: That is what this epsilon says.
        """
        if math.isinf(epsilon):
            raise InfiniteEpsilon(
                f"the loss of {self.mechanism.name} is infinite under this adjacency; use a "
                "mechanism with a guarantee (its strict variant, where there is one), "
                "adjacency=dp.Adjacency.within(...), or accept_infinite=True"
            )
