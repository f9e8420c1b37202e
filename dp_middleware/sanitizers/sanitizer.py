"""The imperative shell: text in, a certified Release out. Charges, then draws."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from dp_middleware import _validate
from dp_middleware.contexts import Context
from dp_middleware.embedding import EmbeddingSpace, default_space
from dp_middleware.errors import ParameterError
from dp_middleware.mechanisms import MECHANISMS, ChannelMechanism, Mechanism
from dp_middleware.mechanisms.drawing import Drawer, check_context, drawer
from dp_middleware.mechanisms.prepared import prepare
from dp_middleware.privacy import Adjacency, Certificate
from dp_middleware.privacy.releases import Ledger, Release
from dp_middleware.sampling import sampler
from dp_middleware.sanitizers.certifier import Certifier
from dp_middleware.sanitizers.draft import Draft, read
from dp_middleware.sanitizers.explanation import Explanation, explain
from dp_middleware.sanitizers.policies import KeepPolicy
from dp_middleware.sanitizers.spans import Detector, Scope
from dp_middleware.vocabulary.vocabulary import UNKNOWN

DEFAULT_MECHANISM = "nearest-response"

_NOT_COPIED = {"_drawer", "certificate"}  # which rows are cached tells what was typed
_SCOPE_NOTE = "text outside the given spans is public, and so are their places and token counts"
_EDIT_NOTE = (
    "that a text replaces an earlier version, and which tokens a comparison of the two finds "
    "equal, is public"
)


class Sanitizer:
    """Releases texts through a mechanism on a space, each with a true certificate.

    Args:
        mechanism: How a token is perturbed.
        space: Vocabulary and vectors.
        context: Where a contextual mechanism has its logits from; for others none. It must run
            where raw text may go.
        policy: Tokens released unchanged; default none.
        adjacency: What the certificate compares; default any substitution. A policy narrows it
            to substitution among the tokens that are not kept.
        ledger: Charged before any draw.
        subject: Whose budget is charged; needed with a ledger.
        accept_infinite: Release even if the certified epsilon is infinite.
        insecure_entropy: Replaces the secure source of bytes in tests. Never use it on
            private text.

    Raises:
        InfiniteEpsilon: The certificate, computed at first use, says that nothing is guaranteed.
        ParameterError: A ledger without a subject, a context missing or not used.
    """

    def __init__(
        self,
        mechanism: Mechanism,
        space: EmbeddingSpace,
        *,
        context: Context | None = None,
        policy: KeepPolicy | None = None,
        adjacency: Adjacency | None = None,
        ledger: Ledger | None = None,
        subject: str | None = None,
        accept_infinite: bool = False,
        insecure_entropy: sampler.Entropy | None = None,
    ) -> None:
        certifier = Certifier(
            mechanism=mechanism,
            space=space,
            context=context,
            policy=policy if policy is not None else KeepPolicy.nothing(),
            adjacency=adjacency,
        )
        self._set_up(certifier, ledger, subject, accept_infinite, insecure_entropy)

    @classmethod
    def _of(cls, certifier: Certifier, ledger: Ledger | None, subject: str | None) -> Sanitizer:
        """One that releases as a certifier says."""
        sanitizer = cls.__new__(cls)
        sanitizer._set_up(certifier, ledger, subject)
        return sanitizer

    def _set_up(
        self,
        certifier: Certifier,
        ledger: Ledger | None,
        subject: str | None,
        accept_infinite: bool = False,
        entropy: sampler.Entropy | None = None,
    ) -> None:
        if ledger is not None and not subject:
            raise ParameterError("expected subject= with a ledger: whose budget is charged?")
        if ledger is not None and not callable(getattr(ledger, "charge", None)):
            raise ParameterError(
                f"expected ledger= with charge(), got {type(ledger).__name__}; write "
                'ledger=dp.PrivacyLedger("sqlite:///FILE", budget=NATS)'
            )
        self.ledger = ledger
        self.subject = subject
        self.accept_infinite = accept_infinite
        self._entropy = entropy
        self._certifier = certifier
        self.mechanism, self.space = certifier.mechanism, certifier.space
        self.context, self.policy = certifier.context, certifier.policy
        self._drawer  # noqa: B018 - refuses what cannot be drawn from
        if not accept_infinite:
            certifier.refuse_infinite(certifier.quick_loss())

    def __repr__(self) -> str:
        return f"Sanitizer({self.mechanism.fingerprint}, {self.space!r}, keeps {self.policy.label})"

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in _NOT_COPIED}

    @cached_property
    def _drawer(self) -> Drawer:
        return drawer(self.mechanism, self.space, self.context)

    @cached_property
    def certificate(self) -> Certificate:
        """The guarantee of every release, per token occurrence. Computed at first use.

        With a raw context, for texts as long as the context's window; a release of fewer tokens
        has a better one.
        """
        return self._certifier.certificate()

    def release(self, text: str, *, scope: Scope | None = None) -> Release:
        """Perturb a text.

        Args:
            text: Private. Where no token is perturbed, nothing is charged or drawn.
            scope: Private spans, as character offsets (start, end) or a function that finds them.
                **Everything else is released as it is**, the whole text if there are no spans:
                it is declared public, and so are the positions of the spans.

        Raises:
            InfiniteEpsilon: Nothing is guaranteed and ``accept_infinite`` is not set.
            BudgetExhausted: From the ledger; nothing was drawn.
            UnknownTokenError: The vocabulary's policy is ``"raise"``.
            ParameterError: Not a text, or a span outside of it.
        """
        ((release, _),) = self.release_drafts([self.read(text, scope)])
        return release

    def release_batch(
        self, texts: Sequence[str], *, scope: Detector | Sequence[Scope] | None = None
    ) -> list[Release]:
        """Perturb texts independently; all are charged before the first draw.

        Args:
            texts: Private.
            scope: A function that finds the private spans of a text, or one scope per text.

        Raises:
            As :meth:`release`. Charges made before an error stay spent.
        """
        if isinstance(texts, str):
            raise ParameterError("expected a list of texts, got one str")
        scopes = [scope] * len(texts) if scope is None or callable(scope) else list(scope)
        if len(scopes) != len(texts):
            raise ParameterError(f"expected one scope per text, {len(texts)}, got {len(scopes)}")
        drafts = [self.read(text, one) for text, one in zip(texts, scopes, strict=True)]
        return [release for release, _ in self.release_drafts(drafts)]

    def read(self, text: str, scope: Scope | None = None) -> Draft:
        """Cut a text into what is public and what is to be drawn for. Private; for sessions.

        Raises:
            UnknownTokenError: The vocabulary's policy is ``"raise"``.
            ParameterError: Not a text, or a span outside of it.
        """
        return read(text, scope, self.space, self.policy)

    def release_drafts(
        self,
        drafts: Sequence[Draft],
        compose: Callable[[Certificate], Certificate] = lambda own: own,
    ) -> list[tuple[Release, Draft]]:
        """Charge for all fresh tokens, draw for them, and write the texts.

        Args:
            drafts: From :meth:`read`. A token that has an output, from an earlier version of the
                text, keeps it.
            compose: Makes of a release's certificate the one that it is charged and released
                with: that of the release and of what follows it.

        Returns:
            The releases, and the drafts with what was drawn; the latter are private.

        Raises:
            As :meth:`release`.
        """
        if not self.accept_infinite:
            self._certifier.refuse_infinite(self.certificate.epsilon)
        certificates = [compose(self._certify(draft)) for draft in drafts]
        for draft, certificate in zip(drafts, certificates, strict=True):
            if self.ledger is not None and self.subject is not None and draft.fresh:
                self.ledger.charge(self.subject, certificate, len(draft.fresh))
        filled = self._draw(drafts)
        return [
            (self._write(draft, certificate), draft)
            for draft, certificate in zip(filled, certificates, strict=True)
        ]

    def _certify(self, draft: Draft) -> Certificate:
        """One release; the number of its tokens is public and may matter."""
        if isinstance(self.mechanism, ChannelMechanism):
            certificate = self.certificate
        else:
            certificate = self._certifier.certificate(max(1, len(draft.fresh)))
        notes = [_SCOPE_NOTE] * draft.scoped + [_EDIT_NOTE] * draft.edited
        assumptions = (*certificate.assumptions, *notes)
        return replace(certificate, assumptions=assumptions) if notes else certificate

    def _draw(self, drafts: Sequence[Draft]) -> list[Draft]:
        fresh = [np.array(draft.fresh, dtype=np.int64) for draft in drafts]
        drawn = self._drawer.draw(fresh, self._entropy or self._drawer.entropy)
        return [draft.fill(ids.tolist()) for draft, ids in zip(drafts, drawn, strict=True)]

    def _write(self, draft: Draft, certificate: Certificate) -> Release:
        return Release(
            text=draft.write(self.space.vocabulary),
            certificate=certificate,
            tokens_total=draft.tokens_total,
            tokens_verbatim=draft.tokens_verbatim,
        )

    def explain(self, text: str, *, scope: Scope | None = None) -> Explanation:
        """A local dry run: what would be kept and what the draws look like. No draw, no charge.

        Raises:
            ParameterError: The mechanism has no law per token that could be shown.
        """
        if not isinstance(self.mechanism, ChannelMechanism):
            raise ParameterError(
                f"expected a mechanism with a law per token to explain, got {self.mechanism.name}: "
                "its law depends on the other tokens or is known by its draws only"
            )
        return explain(self.read(text, scope), self.mechanism, self.space)

    def prepare(self, tokens: Iterable[str] | None = None) -> Path:
        """Compute the certificate and rows before any text is there, and keep the rows on disk.

        Sanitizers with an equal mechanism and space whose first draw comes later, in this process
        or in another, draw from a folder of arrays, which are mapped into memory;
        ``$DP_MIDDLEWARE_CACHE`` says where it is. Who can write to that folder chooses what is
        drawn, and is trusted.

        Which rows are in the folder is what you say here, and never what was typed. A row takes 9
        bytes for each token that can be released, so that all rows of a mechanism without
        impossible outputs take 9 V^2 bytes: 1.1 GB for V = 11,000. It takes 4 more if other tokens
        are impossible, and 8 more if a probability lies below e^-30.

        Without it, the first draw of a token in a process takes longer than the next ones, and so
        the time of a release tells whether its tokens occurred before. With all rows on disk every
        draw of every token searches these arrays. What still tells of use is which of their pages
        the system has in memory.

        Args:
            tokens: Public entries of the vocabulary, for instance ``vocabulary.tokens[:5000]``;
                others are computed when they occur. Default: all.

        Returns:
            The folder. One that has these rows, every byte as it was written, is kept; another is
            replaced by one with these rows only. Folders of other versions of the library are not
            read, and not removed.

        Raises:
            ParameterError: A mechanism without a law per token, or not of this library; a token
                that is not in the vocabulary; no room on the disk.
            InfiniteEpsilon: Nothing is guaranteed and ``accept_infinite`` is not set.
        """
        vocabulary = self.space.vocabulary
        ids = np.arange(len(vocabulary))
        if tokens is not None:
            ids = np.unique(np.array([vocabulary.id_of(t) for t in tokens], dtype=np.int64))
        if UNKNOWN in ids:
            raise ParameterError(f"expected tokens of {vocabulary!r}, got one that is not in it")
        if not self.accept_infinite:
            self._certifier.refuse_infinite(self.certificate.epsilon)
        path = prepare(self.mechanism, self.space, ids)
        self.__dict__.pop("_drawer", None)  # the next one finds the folder
        return path

    def at(self, epsilon: float) -> Sanitizer:
        """The same with its mechanism calibrated: a certified epsilon of this or just below.

        Space, context, policy, ledger and subject are the same; so are the mechanism's other
        parameters, but for a sanitizer from :func:`sanitizer`: its public defaults may depend
        on epsilon, as a tuned codebook does, and are taken anew.

        Args:
            epsilon: Nats per token occurrence.

        Raises:
            CannotCalibrate: The mechanism cannot reach this epsilon; see :func:`calibrate`.
        """
        twin = copy.copy(self)
        twin._certifier = self._certifier.at(epsilon)
        twin.mechanism = twin._certifier.mechanism
        return twin


def sanitizer(
    epsilon: float = 10,
    mechanism: str = DEFAULT_MECHANISM,
    space: EmbeddingSpace | None = None,
    *,
    context: Context | None = None,
    policy: KeepPolicy | None = None,
    adjacency: Adjacency | None = None,
    ledger: Ledger | None = None,
    subject: str | None = None,
) -> Sanitizer:
    """A sanitizer whose *certified* epsilon per token is the one asked for.

    Args:
        epsilon: Nats per token occurrence; the mechanism's own parameter is calibrated to it.
        mechanism: A name from :data:`dp_middleware.MECHANISMS`.
        space: Default :func:`default_space`.
        context: For a contextual mechanism; calibrated for texts as long as its window.
        policy: See :class:`Sanitizer`, and so for the rest.
        adjacency: What the certificate compares.
        ledger: Charged before any draw.
        subject: Whose budget is charged.

    Raises:
        ParameterError: Unknown mechanism.
        CannotCalibrate: The mechanism cannot reach this epsilon; see :func:`calibrate`.
    """
    _validate.one_of(tuple(MECHANISMS), mechanism=mechanism)
    check_context(MECHANISMS[mechanism], context)
    where = space if space is not None else default_space()
    certifier = Certifier(
        mechanism=MECHANISMS[mechanism].with_defaults(epsilon, where),
        space=where,
        context=context,
        policy=policy if policy is not None else KeepPolicy.nothing(),
        adjacency=adjacency,
        defaults=True,
    )
    return Sanitizer._of(certifier.calibrate(epsilon), ledger, subject)
