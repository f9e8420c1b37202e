"""Releases of texts that were read: charge for all of them, draw, write."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TypeVar

from dp_middleware.embedding import EmbeddingSpace
from dp_middleware.mechanisms import ChannelMechanism, Mechanism
from dp_middleware.mechanisms.drawing import Drawer
from dp_middleware.mechanisms.text_mechanisms import NoiseMechanism, TextMechanism
from dp_middleware.privacy import Certificate
from dp_middleware.privacy.releases import Release
from dp_middleware.sampling.entropy import Entropy
from dp_middleware.sanitizers.certifier import Certifier
from dp_middleware.sanitizers.draft import Draft, TextDraft
from dp_middleware.sanitizers.payer import Bill, Payer

D = TypeVar("D", Draft, TextDraft, Draft | TextDraft)


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
            self._certifier.refuse_infinite(self.certificate.epsilon)
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
            compose(certificate.assuming(draft.assumptions))
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
