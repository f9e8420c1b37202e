"""Released ids for the tokens of texts: one way of drawing for each shape of mechanism."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import TypeVar

import numpy as np

from dp_middleware.contexts import Context
from dp_middleware.embedding.arrays import Ids
from dp_middleware.embedding.space import BLOCK, EmbeddingSpace
from dp_middleware.errors import DPMiddlewareError, ParameterError
from dp_middleware.mechanisms import prepared
from dp_middleware.mechanisms.base import (
    ChannelMechanism,
    ContextualMechanism,
    Mechanism,
    NoiseMechanism,
    rows_of,
)
from dp_middleware.sampling import sampler
from dp_middleware.vocabulary.vocabulary import UNKNOWN

T = TypeVar("T")

_ROWS = 8 * BLOCK  # of logits held at a time


class Drawer(ABC):
    """Draws for one mechanism on one space.

    Attributes:
        entropy: What to draw releases with.
    """

    entropy = staticmethod(sampler.os_entropy)

    @abstractmethod
    def draw(self, texts: Sequence[Ids], entropy: sampler.Entropy) -> list[Ids]:
        """Released ids of each text.

        Args:
            texts: int64 (n,) each, -1 for an unknown token. Private.
            entropy: Source of random bytes.
        """


def drawer(mechanism: Mechanism, space: EmbeddingSpace, context: Context | None = None) -> Drawer:
    """How this mechanism draws.

    Args:
        mechanism: A channel, noise or contextual mechanism.
        space: V tokens with vectors.
        context: Where a contextual mechanism has its logits from; for others none.

    Raises:
        ParameterError: A context is missing, or given where none is used.
    """
    check_context(type(mechanism), context)
    if isinstance(mechanism, ContextualMechanism) and context is not None:
        return _FromContext(mechanism, space, context)
    if isinstance(mechanism, ChannelMechanism):
        return _FromTables(mechanism, space)
    if isinstance(mechanism, NoiseMechanism):
        return _FromNoise(mechanism, space)
    raise ParameterError(f"expected a mechanism, got {type(mechanism).__name__}")


def check_context(kind: type[Mechanism], context: Context | None) -> None:
    """Refuse a context that is missing, or of no use."""
    if issubclass(kind, ContextualMechanism):
        if context is None:
            raise ParameterError(
                f"expected context= for {kind.name}: dp.MaskedContext(model) or "
                "dp.CausalContext(model)"
            )
    elif context is not None:
        name = getattr(kind, "name", kind.__name__)
        raise ParameterError(f"expected no context=: {name} has no use for one")


class _FromTables(Drawer):
    """Integer tables, prepared or kept for tokens already seen; see :class:`sampler.Sampler`.

    All drawers of a process whose rows are the same share what they keep.
    """

    def __init__(self, mechanism: ChannelMechanism, space: EmbeddingSpace) -> None:
        self._mechanism, self._space = mechanism, space

    @cached_property
    def _sampler(self) -> sampler.Sampler:
        """Made at the first draw: the fingerprint of a space takes a pass over its vectors."""
        mechanism, space = self._mechanism, self._space
        return sampler.Sampler(
            lambda ids: rows_of(mechanism, ids, space),
            batch=space.block,
            cache=sampler.shared_cache(prepared.key_in_memory(mechanism, space)),
            prepared=prepared.opened(mechanism, space),
        )

    def draw(self, texts: Sequence[Ids], entropy: sampler.Entropy) -> list[Ids]:
        lengths = [len(ids) for ids in texts]
        everything = np.concatenate([np.empty(0, dtype=np.int64), *texts])
        drawn = self._sampler.draw(everything, entropy)
        return np.split(drawn, np.cumsum(lengths)[:-1]) if lengths else []


class _FromNoise(Drawer):
    """The mechanism's own program; an unknown token becomes a uniformly drawn one before it.

    A uniform *output* would not do: a token that is nobody's nearest is never released, and so
    would tell that the input was unknown.
    """

    entropy = staticmethod(sampler.bulk_entropy)

    def __init__(self, mechanism: NoiseMechanism, space: EmbeddingSpace) -> None:
        self._mechanism, self._space = mechanism, space
        self._uniform = sampler.tables(np.full((1, len(space)), -np.log(len(space))))[0]

    def draw(self, texts: Sequence[Ids], entropy: sampler.Entropy) -> list[Ids]:
        return [
            self._mechanism.perturb(self._known(t, entropy), self._space, entropy) for t in texts
        ]

    def _known(self, ids: Ids, entropy: sampler.Entropy) -> Ids:
        unknown = ids == UNKNOWN
        known = ids.copy()
        known[unknown] = self._uniform.draw(int(unknown.sum()), entropy)
        return known


class _FromContext(Drawer):
    """Integer tables of rows given their logits; an unknown token is released uniformly."""

    def __init__(
        self, mechanism: ContextualMechanism, space: EmbeddingSpace, context: Context
    ) -> None:
        self._mechanism, self._space, self._context = mechanism, space, context

    def draw(self, texts: Sequence[Ids], entropy: sampler.Entropy) -> list[Ids]:
        one = self._from_raw if self._mechanism.context == "raw" else self._from_released
        return [one(ids, entropy) for ids in texts]

    def _from_raw(self, ids: Ids, entropy: sampler.Entropy) -> Ids:
        released = np.empty(len(ids), dtype=np.int64)
        start = 0
        for logits in self._logits(ids):
            part = slice(start, start + len(logits))
            if part.stop <= len(ids):
                released[part] = self._drawn(ids[part], logits, entropy)
            start = part.stop
        if start != len(ids):
            raise ParameterError("expected a context with a row of logits for each token")
        return released

    def _logits(self, ids: Ids) -> Iterator[sampler.Floats]:
        """The context's rows of a raw text, BLOCK of them at a time or fewer."""
        parts = _asked(lambda: iter(self._context.blocks(ids, self._space, _ROWS)))
        while (rows := _asked(lambda: next(parts, None))) is not None:
            for start in range(0, len(rows), BLOCK):
                yield rows[start : start + BLOCK]

    def _from_released(self, ids: Ids, entropy: sampler.Entropy) -> Ids:
        stream = _asked(lambda: self._context.start(self._space))
        released = np.empty(len(ids), dtype=np.int64)
        for position in range(len(ids)):
            one = ids[position : position + 1]
            drawn = int(self._drawn(one, _asked(stream.logits), entropy)[0])
            _asked(partial(stream.append, drawn))
            released[position] = drawn
        return released

    def _drawn(self, ids: Ids, logits: sampler.Floats, entropy: sampler.Entropy) -> Ids:
        known = ids != UNKNOWN
        rows = np.full((len(ids), len(self._space)), -np.log(len(self._space)))
        if known.any():
            rows[known] = self._mechanism.log_probs(ids[known], self._space, logits[known])
        drawn = [table.draw(1, entropy)[0] for table in sampler.tables(rows)]
        return np.array(drawn, dtype=np.int64)


def _asked(question: Callable[[], T]) -> T:
    """What a context answers; its own exceptions may quote a text, and are not passed on."""
    try:
        return question()
    except DPMiddlewareError:
        raise
    except Exception as error:
        failed = type(error).__name__
    raise ParameterError(f"the context failed with {failed}")
