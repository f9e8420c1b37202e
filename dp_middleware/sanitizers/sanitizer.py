"""The imperative shell: text in, a certified Release out. Charges, then draws."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
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
from dp_middleware.mechanisms.drawing import check_context, drawer
from dp_middleware.mechanisms.prepared import prepare
from dp_middleware.privacy import Adjacency, Certificate
from dp_middleware.privacy.releases import Ledger, Release
from dp_middleware.sampling import sampler
from dp_middleware.sanitizers.certifier import Certifier, narrowed
from dp_middleware.sanitizers.draft import Detector, Plan, Scope
from dp_middleware.sanitizers.explanation import Explanation, explained
from dp_middleware.sanitizers.policies import KeepPolicy
from dp_middleware.sanitizers.reader import Reader
from dp_middleware.vocabulary.vocabulary import UNKNOWN

DEFAULT_MECHANISM = "nearest-response"

_NOT_PICKLED = {"_drawer", "certificate"}  # which rows are cached tells what was typed
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
        if ledger is not None and not subject:
            raise ParameterError("expected subject= with a ledger: whose budget is charged?")
        if ledger is not None and not callable(getattr(ledger, "charge", None)):
            raise ParameterError(
                f"expected ledger= with charge(), got {type(ledger).__name__}; write "
                'ledger=dp.PrivacyLedger("sqlite:///FILE", budget=NATS)'
            )
        self.mechanism = mechanism
        self.space = space
        self.context = context
        self.policy = policy if policy is not None else KeepPolicy.nothing()
        self.ledger = ledger
        self.subject = subject
        self.accept_infinite = accept_infinite
        self._entropy = insecure_entropy
        self._reader = Reader(space, self.policy)
        self._certifier = Certifier(
            mechanism=mechanism,
            space=space,
            context=context,
            policy=self.policy,
            adjacency=narrowed(self.policy, self._reader.kept, adjacency),
        )
        self._by_default = False
        self._drawer = drawer(mechanism, space, context)
        if not accept_infinite:
            self._certifier.refuse_infinite(self._certifier.quick_loss())

    def __repr__(self) -> str:
        return f"Sanitizer({self.mechanism.fingerprint}, {self.space!r}, keeps {self.policy.label})"

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in _NOT_PICKLED}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._drawer = drawer(self.mechanism, self.space, self.context)

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
        return self.release_batch([text], scope=None if scope is None else [scope])[0]

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
        plans = [self.plan(text, each) for text, each in zip(texts, scopes, strict=True)]
        return [release for release, _ in self.release_plans(plans)]

    def plan(self, text: str, scope: Scope | None = None) -> Plan:
        """Cut a text into what is public and what is to be drawn for. Private; for sessions.

        Raises:
            UnknownTokenError: The vocabulary's policy is ``"raise"``.
            ParameterError: Not a text, or a span outside of it.
        """
        return self._reader.plan(text, scope)

    def release_plans(self, plans: Sequence[Plan]) -> list[tuple[Release, Plan]]:
        """Charge for all fresh tokens, draw for them, and put the texts together.

        Args:
            plans: From :meth:`plan`. A token that has an output, from an earlier version of the
                text, keeps it.

        Returns:
            Each release, and the plan with what was drawn; the latter is private.

        Raises:
            As :meth:`release`.
        """
        if not self.accept_infinite:
            self._certifier.refuse_infinite(self.certificate.epsilon)
        private = [np.array(plan.fresh, dtype=np.int64) for plan in plans]
        certificates = [self._certificate_of(plan) for plan in plans]
        for ids, certificate in zip(private, certificates, strict=True):
            if self.ledger is not None and self.subject is not None and len(ids):
                self.ledger.charge(self.subject, certificate, len(ids))
        drawn = self._drawer.draw(private, self._entropy or self._drawer.entropy)
        filled = [plan.drawn(ids.tolist()) for plan, ids in zip(plans, drawn, strict=True)]
        return [
            (self._released(plan, certificate), plan)
            for plan, certificate in zip(filled, certificates, strict=True)
        ]

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
        return explained(self.plan(text, scope), self.mechanism, self.space)

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
        self._drawer = drawer(self.mechanism, self.space, self.context)  # finds the folder
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
        twin._certifier = self._certifier.calibrated(epsilon, by_default=self._by_default)
        twin.mechanism = twin._certifier.mechanism
        twin._drawer = drawer(twin.mechanism, self.space, self.context)
        return twin

    def _certificate_of(self, plan: Plan) -> Certificate:
        """Of one release; the number of its tokens is public and may matter."""
        fresh, channel = len(plan.fresh), isinstance(self.mechanism, ChannelMechanism)
        found = self.certificate if channel else self._certifier.certificate(max(1, fresh))
        notes = [_SCOPE_NOTE] * plan.scoped + [_EDIT_NOTE] * plan.edited
        return replace(found, assumptions=(*found.assumptions, *notes)) if notes else found

    def _released(self, plan: Plan, certificate: Certificate) -> Release:
        return Release(
            text=plan.released(self.space.vocabulary),
            certificate=certificate,
            tokens_total=plan.tokens_total,
            tokens_verbatim=plan.tokens_verbatim,
        )


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
    keeps = policy if policy is not None else KeepPolicy.nothing()
    nominal = Certifier(
        mechanism=MECHANISMS[mechanism].with_defaults(epsilon, where),
        space=where,
        context=context,
        policy=keeps,
        adjacency=narrowed(keeps, keeps.kept_tokens(where), adjacency),
    )
    built = Sanitizer(
        nominal.calibrated(epsilon, by_default=False).mechanism,
        where,
        context=context,
        policy=keeps,
        adjacency=adjacency,
        ledger=ledger,
        subject=subject,
    )
    built._by_default = True
    return built
