"""CAPE's bound of the logits for evaluations: from sentences that ship with the library."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from weakref import WeakKeyDictionary

from dp_middleware.contexts import Context
from dp_middleware.embedding import EmbeddingSpace
from dp_middleware.errors import ParameterError
from dp_middleware.evaluation._cases import Chosen
from dp_middleware.mechanisms import MECHANISMS
from dp_middleware.mechanisms.cape import DEFAULT_LOGIT_BOUND, Cape, CapeStrict
from dp_middleware.mechanisms.kernels import units

_SENTENCES = 32
_WORDS = 8  # of a unit that is a sentence, or a definition

_KNOWN: WeakKeyDictionary[Context, dict[str, float]] = WeakKeyDictionary()  # by space


def with_public_bound(
    chosen: Chosen, epsilon: float, space: EmbeddingSpace, context: Context | None
) -> Chosen:
    """A name of the two with a logit bound for this context; all others as they are.

    The bound is the largest logit over public sentences, those of Open English WordNet that ship
    with the library, evenly spaced. A context that says nothing of them leaves the default.

    Args:
        chosen: A name of ``MECHANISMS``, or a mechanism, which has a bound of its own.
        epsilon: Nats per token.
        space: V tokens with vectors.
        context: Where logits come from.
    """
    kind = MECHANISMS[chosen] if isinstance(chosen, str) else None
    if context is None or kind is None or not issubclass(kind, Cape | CapeStrict):
        return chosen
    known = _KNOWN.setdefault(context, {})
    if space.fingerprint not in known:
        known[space.fingerprint] = _bound(space, context)
    return replace(kind.with_defaults(epsilon, space), logit_bound=known[space.fingerprint])


def _bound(space: EmbeddingSpace, context: Context) -> float:
    sentences = [unit for unit in units.english() if unit.count(" ") >= _WORDS - 1]
    with suppress(ParameterError):  # no logit is above zero
        return context.logit_bound(sentences[:: len(sentences) // _SENTENCES], space)
    return DEFAULT_LOGIT_BOUND
