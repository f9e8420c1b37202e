"""The imperative shell: text in, a certified Release out. Charges, then draws."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dp_middleware import _validate, sampling
from dp_middleware._plan import Detector, Plan, Scope, Token, spans_of
from dp_middleware.certification import calibrate, certify
from dp_middleware.certification.enumeration import scout
from dp_middleware.contexts import Context
from dp_middleware.embedding import EmbeddingSpace, default_space
from dp_middleware.embedding.space import BLOCK
from dp_middleware.errors import DPMiddlewareError, InfiniteEpsilon, ParameterError
from dp_middleware.explanation import Alternative, Explanation
from dp_middleware.mechanisms import (
    MECHANISMS,
    ChannelMechanism,
    Mechanism,
    NoiseMechanism,
)
from dp_middleware.mechanisms.drawing import check_context, drawer
from dp_middleware.policies import KeepPolicy
from dp_middleware.privacy import Adjacency, Certificate
from dp_middleware.vocabulary import UNKNOWN, Occurrence

DEFAULT_MECHANISM = "nearest-response"

_LIKELY = 5
_NOT_PICKLED = {"_drawer", "certificate"}  # which rows are cached tells what was typed


class Ledger(Protocol):
    """What a sanitizer needs of a privacy ledger."""

    def charge(self, subject: str, certificate: Certificate, n: int) -> object:
        """Durably add a release of ``n`` tokens, or raise ``BudgetExhausted``."""


@dataclass(frozen=True, kw_only=True)
class Release:
    """What leaves the trust boundary, and what it is worth. Holds nothing of the input.

    Attributes:
        text: The released text.
        certificate: The guarantee per token occurrence.
        tokens_total: Number of tokens of the input; public.
        tokens_verbatim: Tokens passed through unchanged by policy or outside the scope. A
            perturbed token that happens to be drawn as itself is not counted: that is private.
    """

    text: str
    certificate: Certificate
    tokens_total: int
    tokens_verbatim: int


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
        insecure_entropy: Replaces the operating system's entropy in tests. Never use it on
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
        insecure_entropy: sampling.Entropy | None = None,
    ) -> None:
        if ledger is not None and not subject:
            raise ParameterError("expected subject= with a ledger: whose budget is charged?")
        self.mechanism = mechanism
        self.space = space
        self.context = context
        self.policy = policy if policy is not None else KeepPolicy.nothing()
        self.ledger = ledger
        self.subject = subject
        self.accept_infinite = accept_infinite
        self._entropy = insecure_entropy if insecure_entropy is not None else sampling.os_entropy
        self._kept = self.policy.kept_tokens(space)
        self._adjacency = _adjacency(self.policy, self._kept, adjacency)
        self._drawer = drawer(mechanism, space, context)
        if not accept_infinite:
            self._refuse_infinite(self._quick_loss())

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
        return self._certified(None)

    def _certified(self, tokens: int | None) -> Certificate:
        length = tokens
        if self.context is not None:
            length = min(tokens or self.context.window, self.context.window)
        found = certify(self.mechanism, self.space, adjacency=self._adjacency, length=length)
        if not self.policy.kept:
            return found
        note = (
            f"tokens in {self.policy.label} are released unchanged, also where they are a piece of "
            "another word; where they stand is public"
        )
        assumptions = (*found.assumptions, note)
        return replace(found, assumptions=assumptions, recovery=None, retention=None)

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
        if not self.accept_infinite:
            self._refuse_infinite(self.certificate.epsilon)
        plans = [self._plan(text, each) for text, each in zip(texts, scopes, strict=True)]
        private = [
            np.array([token.id for token in plan.perturbed()], dtype=np.int64) for plan in plans
        ]
        certificates = [self._certificate_of(ids, scoped=scope is not None) for ids in private]
        for ids, certificate in zip(private, certificates, strict=True):
            if self.ledger is not None and self.subject is not None and len(ids):
                self.ledger.charge(self.subject, certificate, len(ids))
        drawn = self._drawer.draw(private, self._entropy)
        released = zip(plans, certificates, drawn, strict=True)
        return [self._released(plan, found, iter(ids.tolist())) for plan, found, ids in released]

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
        plan = self._plan(text, scope)
        counts = Counter(token.id for token in plan.perturbed())
        alternatives = [
            self._alternative(number, counts[number], row)
            for start in range(0, len(counts), BLOCK)
            for number, row in self._rows_of(list(counts)[start : start + BLOCK])
        ]
        perturbed = counts.total()
        expected = sum(each.count * each.retention for each in alternatives)
        return Explanation(
            tokens_total=plan.tokens_total,
            tokens_verbatim=plan.tokens_total - perturbed,
            tokens_unknown=counts[UNKNOWN],
            expected_retention=expected / perturbed if perturbed else 0.0,
            alternatives=tuple(alternatives),
        )

    def _quick_loss(self) -> float:
        """Infinite if a few rows already show it; a certificate says the rest at first use."""
        if isinstance(self.mechanism, NoiseMechanism):
            return self.mechanism.lipschitz(None)
        if not isinstance(self.mechanism, ChannelMechanism) or self.mechanism.full_support:
            return 0.0
        return scout(self.mechanism, self.space, self._adjacency, self.space.spread(BLOCK)).epsilon

    def _refuse_infinite(self, epsilon: float) -> None:
        if math.isinf(epsilon):
            raise InfiniteEpsilon(
                f"the loss of {self.mechanism.name} is infinite under this adjacency; use a "
                "mechanism with a guarantee (its strict variant, where there is one), "
                "adjacency=dp.Adjacency.within(...), or accept_infinite=True"
            )

    def _certificate_of(self, ids: NDArray[np.int64], *, scoped: bool) -> Certificate:
        """Of one release; the number of its tokens is public and may matter."""
        channel = isinstance(self.mechanism, ChannelMechanism)
        found = self.certificate if channel else self._certified(max(1, len(ids)))
        if not scoped:
            return found
        note = "text outside the given spans is public, and so are their places and token counts"
        return replace(found, assumptions=(*found.assumptions, note))

    def _plan(self, text: str, scope: Scope | None) -> Plan:
        if not isinstance(text, str):
            raise ParameterError(f"expected text of type str, got {type(text).__name__}")
        spans = [(0, len(text))] if scope is None else spans_of(text, scope)
        parts: list[str | list[Token]] = []
        public_tokens, position = 0, 0
        for start, end in [*spans, (len(text), len(text))]:
            if outside := text[position:start]:
                parts.append(outside)
                public_tokens += len(self._occurrences(outside, 0, len(outside)))
            parts.append(
                [self._token(text[start:end], o) for o in self._occurrences(text, start, end)]
            )
            position = end
        return Plan(parts, public_tokens)

    def _occurrences(self, text: str, start: int, end: int) -> list[Occurrence]:
        try:
            return self.space.vocabulary.occurrences(text[start:end])
        except DPMiddlewareError:
            raise
        except Exception as error:  # a tokenizer of the user's may quote the text
            failed = type(error).__name__
        raise ParameterError(f"the tokenizer failed with {failed}")

    def _token(self, text: str, occurrence: Occurrence) -> Token:
        """A token and, if the policy keeps it, its public spelling."""
        if occurrence.id != UNKNOWN:
            kept = bool(self._kept[occurrence.id])
            return Token(
                occurrence.id, self.space.vocabulary.tokens[occurrence.id] if kept else None
            )
        word = text[occurrence.start : occurrence.end].strip().lower()
        return Token(UNKNOWN, word if word in self.policy.kept else None)

    def _released(self, plan: Plan, certificate: Certificate, drawn: Iterator[int]) -> Release:
        vocabulary = self.space.vocabulary
        texts = [
            part
            if isinstance(part, str)
            else vocabulary.tokenizer.join(
                [t.kept if t.kept is not None else vocabulary.tokens[next(drawn)] for t in part]
            )
            for part in plan.parts
        ]
        return Release(
            text="".join(texts),
            certificate=certificate,
            tokens_total=plan.tokens_total,
            tokens_verbatim=plan.tokens_total - len(plan.perturbed()),
        )

    def _rows_of(self, ids: list[int]) -> Iterator[tuple[int, NDArray[np.float64]]]:
        assert isinstance(self.mechanism, ChannelMechanism)  # checked by the caller
        yield from zip(ids, self.mechanism.rows(np.array(ids), self.space), strict=True)

    def _alternative(self, number: int, count: int, row: NDArray[np.float64]) -> Alternative:
        tokens = self.space.vocabulary.tokens
        likeliest = np.argsort(-row, kind="stable")[:_LIKELY]
        known = number != UNKNOWN
        return Alternative(
            token=tokens[number] if known else "(unknown)",
            count=count,
            retention=float(np.exp(row[number])) if known else 0.0,
            likely=tuple((tokens[k], float(np.exp(row[k]))) for k in likeliest),
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
    relation = _adjacency(keeps, keeps.kept_tokens(where), adjacency)
    nominal = MECHANISMS[mechanism].with_defaults(epsilon, where)
    length = None if context is None else context.window
    calibrated = calibrate(nominal, where, epsilon, adjacency=relation, length=length)
    return Sanitizer(
        calibrated,
        where,
        context=context,
        policy=keeps,
        adjacency=adjacency,
        ledger=ledger,
        subject=subject,
    )


def _adjacency(
    policy: KeepPolicy, kept: NDArray[np.bool_], adjacency: Adjacency | None
) -> Adjacency:
    """Each kept token alone; the others, and the unknown symbol, as given."""
    relation = adjacency if adjacency is not None else Adjacency.substitution()
    if not policy.kept:
        return relation
    labels = relation.classes if relation.classes is not None else ("perturbed",) * (len(kept) + 1)
    return Adjacency.within(
        ("kept", i) if i < len(kept) and kept[i] else ("class", label)
        for i, label in enumerate(labels)
    )
