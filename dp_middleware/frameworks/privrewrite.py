"""PrivRewrite: sanitize, let a chat model write candidates, release one that suits the text."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, Self

from dp_middleware import _validate
from dp_middleware._quiet import in_thread
from dp_middleware.embedding import EmbeddingService, EmbeddingSpace
from dp_middleware.embedding.arrays import Ids
from dp_middleware.errors import ParameterError, RemoteError
from dp_middleware.frameworks import _candidates, _selection
from dp_middleware.frameworks._candidates import CandidateEncoder
from dp_middleware.frameworks._selection import Selection, Sensitivity, pure_epsilon
from dp_middleware.mechanisms import NoiseMechanism, TokenExponential
from dp_middleware.mechanisms.text_mechanisms import TextMechanism
from dp_middleware.models.adapters import run
from dp_middleware.models.chat import chat_model
from dp_middleware.privacy import Certificate
from dp_middleware.privacy.releases import Release
from dp_middleware.sampling import sampler
from dp_middleware.sanitizers.draft import Draft, tokenize_with
from dp_middleware.sanitizers.sanitizer import Sanitizer
from dp_middleware.vocabulary.vocabulary import Vocabulary

Fallback = Literal["abstain", "sanitized"]


@dataclass(frozen=True, eq=False)
class PrivRewrite:
    """Sanitizes a text, has k rewrites of that written, and privately chooses one of them.

    The chat model sees the sanitized text only. Candidates, their pruning and the fallback depend
    on that text and on public parameters; the private text is looked at by the sanitizer and by
    the choice, :class:`Selection`.

    Guarantee:
        epsilon_1 + epsilon_select per token occurrence, or per text after a mechanism of whole
        texts, under the sanitizer's adjacency: basic composition, as all inputs of the choice but
        the text are functions of what the sanitizer released. The chat model alone has epsilon_1.
        Both are charged at once, before the first draw, and stay spent whatever fails.

    Attributes:
        sanitizer: Phase 1 (the paper: TokenExponential), of a pure guarantee; its space, with
            vectors of norm at most 1, is that of the choice; its ledger is charged for both.
        generator: What :func:`chat_model` takes; its temperature is its own (the paper: 0.75).
        service: Sentence vectors for pruning; default an :class:`EmbeddingService`.
        epsilon_select: Nats per token occurrence for the choice; default the sanitizer's
            certified epsilon, which is the even split.
        k: Candidates for a text, asked for with one call each.
        prompts: Public instructions for candidates, in turns; see ``rewriting_prompts``.
        prune_above: A candidate is dropped if (1 + cosine) / 2 with one kept before is larger;
            1 keeps all.
        alpha: See :class:`Selection`.
        sensitivity: ``"candidates"`` or ``"paper"``; see :class:`Selection`.
        minimum: Fewest candidates that must come, empty ones included, at most k.
        fallback: If none is left: ``"abstain"`` raises, ``"sanitized"`` releases that text.
        at_once: Calls of the chat model at the same time.
        insecure_entropy: Replaces the operating system's entropy of the choice in tests.

    Raises:
        IncompatibleGuarantees: The sanitizer's guarantee is not pure and finite; here or, where
            that takes a certificate, at first use.
        ParameterError: A vector of norm above 1, or a parameter out of range.
    """

    sanitizer: Sanitizer
    _: KW_ONLY
    generator: Any = field(repr=False)
    service: CandidateEncoder = field(default_factory=EmbeddingService, repr=False)
    epsilon_select: float | None = None
    k: int = 10
    prompts: Sequence[str] = ()
    prune_above: float = 0.8
    alpha: float = 1.0
    sensitivity: Sensitivity = "candidates"
    minimum: int = 1
    fallback: Fallback = "abstain"
    at_once: int = 8
    insecure_entropy: sampler.Entropy | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        _validate.at_least(1, k=self.k, at_once=self.at_once)
        _validate.positive(prune_above=self.prune_above)
        _validate.one_of(("abstain", "sanitized"), fallback=self.fallback)
        if isinstance(self.prompts, str) or not all(isinstance(p, str) for p in self.prompts):
            raise ParameterError("expected prompts as a sequence of instructions")
        object.__setattr__(self, "prompts", tuple(self.prompts))
        if self.minimum not in range(1, self.k + 1):
            raise ParameterError(f"expected 1 <= minimum <= k={self.k}, got {self.minimum!r}")
        if isinstance(self.sanitizer.mechanism, NoiseMechanism):
            raise _selection.not_pure("metric privacy")
        _selection.require_short_vectors(self.sanitizer.space)
        self._selection_of(1.0 if self.epsilon_select is None else self.epsilon_select)
        generator = replace(chat_model(self.generator), error=RemoteError, may_be_blank=True)
        object.__setattr__(self, "generator", generator)

    @classmethod
    def with_total(
        cls, epsilon: float, space: EmbeddingSpace, *, share: float = 0.5, **options: Any
    ) -> Self:
        """Makes the paper's own: TokenExponential, and a ``share`` of ``epsilon`` for the choice.

        ``epsilon``, nats per token occurrence, is nominal: the certificate says how much less
        phase 1 spends. ``options`` are further arguments, ``generator`` among them.
        """
        _validate.positive(epsilon=epsilon)
        _validate.probability(share=share)
        sanitizer = Sanitizer(TokenExponential(epsilon=(1 - share) * epsilon), space)
        return cls(sanitizer, epsilon_select=share * epsilon, **options)

    @cached_property
    def selection(self) -> Selection:
        """Phase 2. Computes the sanitizer's certificate if ``epsilon_select`` is the default."""
        own = self.epsilon_select
        return self._selection_of(pure_epsilon(self.sanitizer.certificate) if own is None else own)

    @cached_property
    def certificate(self) -> Certificate:
        """The guarantee of every rewrite, per token occurrence. Computed at first use."""
        return self._compose(self.sanitizer.certificate)

    def rewrite(self, text: str) -> Release:
        """Makes a private rewrite of a text.

        Raises:
            ParameterError: The text has no tokens; nothing was charged or sent. Or ``service``
                failed; what was charged stays spent.
            BudgetExhausted: From the ledger; nothing was drawn or sent.
            RemoteError: Too few candidates, or none left; what was charged stays spent.
        """
        return run(self.arewrite(text))

    async def arewrite(self, text: str) -> Release:
        """Does as :meth:`rewrite`, without blocking the event loop."""
        return (await self.arewrite_batch([text]))[0]

    def rewrite_batch(self, texts: Sequence[str]) -> list[Release]:
        """Makes independent rewrites, as :meth:`rewrite`; all are charged before the first draw."""
        return run(self.arewrite_batch(texts))

    async def arewrite_batch(self, texts: Sequence[str]) -> list[Release]:
        """Does as :meth:`rewrite_batch`, without blocking the event loop."""
        pairs, gate = await in_thread(self._sanitize, texts), asyncio.Semaphore(self.at_once)
        return await _candidates.all_of(self._choose(*pair, gate) for pair in pairs)

    def _selection_of(self, epsilon: float) -> Selection:
        return Selection(epsilon=epsilon, alpha=self.alpha, sensitivity=self.sensitivity)

    @cached_property
    def _reader(self) -> Vocabulary:
        """The vocabulary, for which a candidate's unknown token is unknown and no error."""
        own = self.sanitizer.space.vocabulary
        if own.unknown != "raise":
            return own
        return Vocabulary(own.tokens, tokenizer=own.tokenizer, unknown="uniform")

    def _sanitize(self, texts: Sequence[str]) -> list[tuple[Ids, Release]]:
        """Ids of private texts with their releases, charged for both phases."""
        if isinstance(texts, str):
            raise ParameterError("expected a list of texts, got one str")
        drafts = [self.sanitizer.read(text) for text in texts]
        read = self._reader.encode  # a draft of a whole text has no ids
        private = [d.ids if isinstance(d, Draft) else tokenize_with(read, d.text) for d in drafts]
        if not self._whole and not all(map(len, private)):
            raise ParameterError("expected texts with at least one token, got one without")
        released = self.sanitizer.release_drafts(drafts, self._compose)
        return [(ids, release) for ids, (release, _) in zip(private, released, strict=True)]

    async def _choose(self, private: Ids, sanitized: Release, gate: asyncio.Semaphore) -> Release:
        unit = sanitized.certificate.unit
        questions = _candidates.questions(sanitized.text, unit, self.k, self.prompts)
        answers = await _candidates.answers(self.generator, questions, self.minimum, gate)
        if candidates := await in_thread(self._prune, answers):
            return replace(sanitized, text=await in_thread(self._draw, private, candidates))
        if self.fallback == "sanitized":
            return sanitized
        raise RemoteError(
            f"expected a candidate with tokens, got none in {len(answers)} answers; retry, "
            'which is charged, or use fallback="sanitized"'
        )

    def _prune(self, answers: list[str]) -> list[str]:
        texts = _candidates.distinct(answers, lambda text: len(self._reader.encode(text)) > 0)
        return _candidates.prune(texts, self.service, self.prune_above)

    def _draw(self, private: Ids, candidates: list[str]) -> str:
        ids = [self._reader.encode(text) for text in candidates]
        entropy = self.insecure_entropy or sampler.os_entropy
        count = 1 if self._whole else None
        table = self.selection.table(private, ids, self.sanitizer.space, count)
        return candidates[int(table.draw(1, entropy)[0])]

    @property
    def _whole(self) -> bool:
        return isinstance(self.sanitizer.mechanism, TextMechanism)

    def _compose(self, first: Certificate) -> Certificate:
        own = (self.selection, self.k, self.prune_above, self.minimum, self.fallback)
        return _selection.compose(first, self.selection.epsilon, repr((*own, *self.prompts)))


@dataclass(frozen=True, eq=False)
class PrivRewriteNaive(PrivRewrite):
    """Chooses with sensitivity 1, whatever the length: the paper's baseline."""

    sensitivity: Sensitivity = "naive"
