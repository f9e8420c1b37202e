"""What is released for the tokens of texts, or for texts: one way for each shape of mechanism."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import accumulate, pairwise
from typing import Any, TypeVar

import numpy as np

from dp_middleware.contexts import Context
from dp_middleware.embedding.arrays import Floats, Ids, slices
from dp_middleware.embedding.plain import searcher
from dp_middleware.embedding.service import EmbeddingService
from dp_middleware.embedding.space import BLOCK, EmbeddingSpace
from dp_middleware.errors import ParameterError, withheld
from dp_middleware.mechanisms import landmarks
from dp_middleware.mechanisms.base import ChannelMechanism, Mechanism, key_in_memory, rows_of
from dp_middleware.mechanisms.near_lists import NearRows, near_rows
from dp_middleware.mechanisms.text_mechanisms import (
    ContextualMechanism,
    Encoder,
    NoiseMechanism,
    TextMechanism,
)
from dp_middleware.sampling import sampler
from dp_middleware.sampling.entropy import Entropy
from dp_middleware.vocabulary.vocabulary import UNKNOWN

T = TypeVar("T")
Public = Sequence[Ids] | None

FRESH = -1  # in a text's releases: what is to be drawn here is not yet known
_ROWS = 8 * BLOCK  # of logits held at a time


class Drawer:
    """Draws for one mechanism on one space."""

    entropy = staticmethod(sampler.os_entropy)  # what to draw releases with

    def draw(self, texts: Sequence[Any], entropy: Entropy, releases: Public = None) -> list[Any]:
        """Draws what is released for each text: ids for ids, strings for strings.

        ``texts``, private, are int64 (n,) each, -1 for an unknown token; for a text mechanism
        sequences of str. ``releases`` are int64 (m,) each, in reading order: ids of tokens that are
        public already, and :data:`FRESH` for each token of the text. A mechanism with a context or
        a window sees them; default all fresh.
        """
        if releases is None:
            releases = [np.full(len(ids), FRESH) for ids in texts]
        pairs = zip(texts, releases, strict=True)
        return [self._draw_text(ids, public, entropy) for ids, public in pairs]

    def _draw_text(self, ids: Ids, public: Ids, entropy: Entropy) -> Ids:
        raise NotImplementedError


def drawer(
    mechanism: Mechanism,
    space: EmbeddingSpace,
    context: Context | None = None,
    encoder: Encoder | None = None,
) -> Drawer:
    """Makes what draws for a mechanism of any shape.

    ``context`` is where a contextual mechanism has its logits from; ``encoder`` what a text
    mechanism scores texts with, default an :class:`EmbeddingService`, or :func:`searcher` where it
    needs none. ParameterError: one is missing, or given where none is used.
    """
    check_context(type(mechanism), context)
    if isinstance(mechanism, TextMechanism):
        if encoder is None:
            encoder = EmbeddingService() if mechanism.needs_encoder else searcher()
        return _FromTexts(mechanism, encoder)
    if encoder is not None:
        raise ParameterError(f"expected no encoder=: {mechanism.name} has no use for one")
    if isinstance(mechanism, ContextualMechanism) and context is not None:
        return _FromContext(mechanism, space, context)
    if isinstance(mechanism, ChannelMechanism):
        return _FromTables(mechanism, space)
    if isinstance(mechanism, NoiseMechanism):
        return _FromNoise(mechanism, space)
    raise ParameterError(f"expected a mechanism, got {type(mechanism).__name__}")


def check_context(kind: type[Mechanism], context: Context | None) -> None:
    """Refuses a context that is missing, or of no use."""
    if issubclass(kind, ContextualMechanism):
        if context is None:
            contexts = "dp.MaskedContext(model) or dp.CausalContext(model)"
            raise ParameterError(f"expected context= for {kind.name}: {contexts}")
    elif context is not None:
        name = getattr(kind, "name", kind.__name__)
        raise ParameterError(f"expected no context=: {name} has no use for one")


@dataclass(frozen=True, eq=False, repr=False)
class _FromTables(Drawer):
    """Draws by near lists or landmarks where there are some, else by rows, which it keeps."""

    mechanism: ChannelMechanism
    space: EmbeddingSpace

    @cached_property
    def _sampler(self) -> sampler.Sampler | NearRows:
        """Made at the first draw: the fingerprint of a space takes a pass over its vectors."""
        mechanism, space = self.mechanism, self.space
        return near_rows(mechanism, space) or sampler.Sampler(
            lambda ids: rows_of(mechanism, ids, space),
            batch=space.block,
            cache=sampler.shared_cache(key_in_memory(mechanism, space)),
            landmarks=landmarks.opened(mechanism, space),
        )

    def draw(self, texts: Sequence[Ids], entropy: Entropy, releases: Public = None) -> list[Ids]:
        drawn = self._sampler.draw(np.concatenate([np.empty(0, dtype=np.int64), *texts]), entropy)
        ends = accumulate(map(len, texts), initial=0)
        return [drawn[start:end] for start, end in pairwise(ends)]


@dataclass(frozen=True, eq=False, repr=False)
class _FromNoise(Drawer):
    """The mechanism's own program; an unknown token becomes a uniformly drawn one before it.

    A uniform *output* would not do: a token that is nobody's nearest is never released, and so
    would tell that the input was unknown.
    """

    entropy = staticmethod(sampler.bulk_entropy)

    mechanism: NoiseMechanism
    space: EmbeddingSpace

    @cached_property
    def _uniform(self) -> sampler.Table:
        return sampler.tables(np.full((1, len(self.space)), -np.log(len(self.space))))[0]

    def _draw_text(self, ids: Ids, public: Ids, entropy: Entropy) -> Ids:
        known, unknown, fresh = ids.copy(), ids == UNKNOWN, public == FRESH
        known[unknown] = self._uniform.draw(int(unknown.sum()), entropy)
        if fresh.all():
            return self.mechanism.perturb(known, self.space, entropy)
        return self.mechanism.perturb_among(_whole(known, public), fresh, self.space, entropy)


@dataclass(frozen=True, eq=False, repr=False)
class _FromContext(Drawer):
    """Integer tables of rows given their logits; an unknown token's is uniform over the outputs."""

    mechanism: ContextualMechanism
    space: EmbeddingSpace
    context: Context

    def _draw_text(self, ids: Ids, public: Ids, entropy: Entropy) -> Ids:
        if self.mechanism.context == "raw":
            return self._from_raw(ids, public, entropy)
        # position by position, each after what was released before it
        stream = asked(partial(self.context.start_among, self.space, public))
        private, drawn = iter(ids), []
        for number in public.tolist():
            if number == FRESH:
                token, row = np.array([next(private)]), asked(stream.logits)
                number = int(self._draw_rows(entropy, token, row)[0])
                drawn.append(number)
            asked(partial(stream.append, number))
        return np.array(drawn, dtype=np.int64)

    def _from_raw(self, ids: Ids, public: Ids, entropy: Entropy) -> Ids:
        text, places, drawn = _whole(ids, public), np.flatnonzero(public == FRESH), list[Ids]()
        some, start = (places,) if len(places) < len(text) else (), 0
        blocks = asked(lambda: iter(self.context.blocks(text, self.space, _ROWS, *some)))
        while (rows := asked(lambda: next(blocks, None))) is not None:
            for part in slices(len(rows), BLOCK):
                own = ids[start : start + len(rows[part])]
                start += len(rows[part])
                if start <= len(ids):
                    drawn.append(self._draw_rows(entropy, own, rows[part]))
        if start != len(ids):
            raise ParameterError("expected a context with a row of logits for each token")
        return np.concatenate([np.empty(0, dtype=np.int64), *drawn])

    def _draw_rows(self, entropy: Entropy, ids: Ids, logits: Floats) -> Ids:
        known = ids != UNKNOWN
        rows = np.full((len(ids), len(self.space)), -np.inf)
        if known.any():
            rows[known] = self.mechanism.log_probs(ids[known], self.space, logits[known])
        for place in np.flatnonzero(~known):
            outputs = self.mechanism.outputs(self.space, logits[place])
            rows[place, outputs] = -np.log(len(outputs))
        return np.array([t.draw(1, entropy)[0] for t in sampler.tables(rows)], dtype=np.int64)


@dataclass(frozen=True, eq=False, repr=False)
class _FromTexts(Drawer):
    """A mechanism's answers to whole texts."""

    mechanism: TextMechanism
    encoder: Encoder | None

    def draw(
        self, texts: Sequence[Sequence[str]], entropy: Entropy, releases: Public = None
    ) -> list[list[str]]:
        flat = [text for own in texts for text in own]
        respond = partial(self.mechanism.respond, flat, self.encoder, entropy)
        answers = iter(asked(respond, "encoder"))
        return [[next(answers) for _ in own] for own in texts]


def asked(question: Callable[[], T], whom: str = "context") -> T:
    """Asks a model of the caller's; its own exceptions may quote a text, and stay here."""
    with withheld(f"the {whom} failed with {{}}"):
        return question()


def _whole(ids: Ids, public: Ids) -> Ids:
    """A raw text, with its public tokens at their places."""
    text = public.copy()
    text[public == FRESH] = ids
    return text
