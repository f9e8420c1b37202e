"""What an evaluation runs: a mechanism at an epsilon, or a pipeline, with its certificate."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

from dp_middleware.certification import calibrate
from dp_middleware.contexts import Context
from dp_middleware.embedding import EmbeddingSpace
from dp_middleware.errors import CannotCalibrate, ParameterError
from dp_middleware.mechanisms import MECHANISMS, Mechanism
from dp_middleware.mechanisms.cape import DEFAULT_LOGIT_BOUND, Cape, CapeStrict
from dp_middleware.mechanisms.kernels import units
from dp_middleware.mechanisms.rantext import RanText
from dp_middleware.mechanisms.text_mechanisms import TextMechanism
from dp_middleware.privacy import Certificate
from dp_middleware.sanitizers.certifier import Certifier
from dp_middleware.sanitizers.policies import KeepPolicy

Named = str | Mechanism

_NOT_CALIBRATED = "cannot be calibrated to this exact epsilon; drawn at the nominal one"
_KEPT = "kept, and not attacked: "
_SENTENCES = 32
_WORDS = 8  # of a unit that is a sentence, or a definition
_KNOWN: WeakKeyDictionary[Context, dict[str, float]] = WeakKeyDictionary()  # bounds by space


@dataclass(frozen=True, kw_only=True)
class Law:
    """Holds a mechanism with its certificate, why it is not what was asked for, and seconds."""

    mechanism: Mechanism
    certificate: Certificate
    note: str = ""
    seconds: float = 0.0


def law_of(
    chosen: Named,
    epsilon: float,
    space: EmbeddingSpace,
    *,
    asked: str,
    list_size: float | None,
    length: int,
    context: Context | None,
    policy: KeepPolicy,
) -> Law:
    """Sets a mechanism, or a name with public defaults, to this epsilon and certifies it.

    ``asked`` says whether epsilon is the ``"nominal"`` parameter or calibrated to, where that can
    be done: ``"exact"``, or ``"text"`` for what all ``length`` tokens of a text share.
    ``list_size`` is the share of the vocabulary in the lists of a named RANTEXT; a named CAPE has
    the bound of its logits from ``context``.

    Raises:
        ParameterError: A policy that keeps tokens, for a mechanism of whole texts.
    """
    started, notes = time.perf_counter(), [_KEPT + policy.label] if policy.kept else []
    kind = MECHANISMS[chosen] if isinstance(chosen, str) else type(chosen)
    if asked == "text" and not issubclass(kind, TextMechanism):
        epsilon /= length
    mechanism: Mechanism
    if isinstance(chosen, str) and list_size is not None and issubclass(kind, RanText):
        mechanism = kind.with_list_size(space, epsilon=epsilon, size=list_size)
    elif isinstance(chosen, str):
        mechanism = kind.with_defaults(epsilon, space)
        if context is not None and isinstance(mechanism, Cape | CapeStrict):
            mechanism = replace(mechanism, logit_bound=public_bound(space, context))
    else:
        mechanism = chosen if chosen.scale is None else chosen.at(epsilon)
    if policy.kept and isinstance(mechanism, TextMechanism):
        raise ParameterError(f"keeps no tokens: {mechanism.name} releases a text for a text")
    own = Certifier(mechanism=mechanism, space=space, context=None, policy=policy, adjacency=None)
    if asked != "nominal":
        try:
            mechanism = calibrate(mechanism, space, epsilon, adjacency=own.relation, length=length)
        except CannotCalibrate:
            notes.append(_NOT_CALIBRATED)
    certificate = replace(own, mechanism=mechanism).certificate(length)
    seconds = time.perf_counter() - started
    return Law(mechanism=mechanism, certificate=certificate, note="; ".join(notes), seconds=seconds)


def public_bound(space: EmbeddingSpace, context: Context) -> float:
    """Finds the largest logit over some public sentences, of Open English WordNet in the library.

    The default bound for a context that says nothing of them.
    """
    known = _KNOWN.setdefault(context, {})
    if space.fingerprint not in known:
        sentences = [unit for unit in units.english() if unit.count(" ") >= _WORDS - 1]
        known[space.fingerprint] = DEFAULT_LOGIT_BOUND
        with suppress(ParameterError):  # no logit is above zero
            found = context.logit_bound(sentences[:: len(sentences) // _SENTENCES], space)
            known[space.fingerprint] = found
    return known[space.fingerprint]
