"""Sanitizers whose certified epsilon is the one asked for: of any mechanism, or within classes."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any, Literal

from dp_middleware import _validate, embedding
from dp_middleware.certification import calibrate
from dp_middleware.contexts import Context
from dp_middleware.embedding import EmbeddingSpace
from dp_middleware.errors import ParameterError
from dp_middleware.mechanisms import MECHANISMS, PublicCode, WeightedResponse, WithinClasses
from dp_middleware.mechanisms.drawing import check_context
from dp_middleware.mechanisms.text_mechanisms import Encoder
from dp_middleware.mechanisms.token_exponential import TokenExponential
from dp_middleware.privacy import Adjacency
from dp_middleware.privacy.releases import Ledger
from dp_middleware.sanitizers.policies import KeepPolicy, refuse_meaningless, relation_of
from dp_middleware.sanitizers.sanitizer import Sanitizer
from dp_middleware.vocabulary.classes import token_classes

DEFAULT_MECHANISM = "nearest-response"


def sanitizer(
    epsilon: float = 10,
    mechanism: str = DEFAULT_MECHANISM,
    space: EmbeddingSpace | None = None,
    *,
    context: Context | None = None,
    encoder: Encoder | None = None,
    policy: KeepPolicy | None = None,
    adjacency: Adjacency | None = None,
    ledger: Ledger | None = None,
    subject: str | None = None,
) -> Sanitizer:
    """Makes a sanitizer whose *certified* epsilon per token is the one asked for.

    Args:
        epsilon: Nats per token occurrence, or per text for a mechanism of whole texts; the
            mechanism's own parameter is calibrated to it.
        mechanism: A name from :data:`dp_middleware.MECHANISMS`.
        space: Default :func:`default_space`.
        context: For a contextual mechanism; calibrated for texts as long as its window.
        encoder: For a mechanism of whole texts.
        policy: As for :class:`Sanitizer`, as the rest.
        adjacency: What the certificate compares.
        ledger: Charged before any draw.
        subject: Whose budget is charged.

    Raises:
        ParameterError: Unknown mechanism, or an epsilon at which nothing is hidden.
        CannotCalibrate: The mechanism cannot reach this epsilon; see :func:`calibrate`.
    """
    _validate.one_of(tuple(MECHANISMS), mechanism=mechanism)
    kind = MECHANISMS[mechanism]
    check_context(kind, context)
    where = space if space is not None else embedding.default_space()
    refuse_meaningless(kind, where, epsilon)
    bare = kind.with_defaults(epsilon, where)
    relation = relation_of(bare, where, policy or KeepPolicy.nothing(), adjacency)
    length = None if context is None else context.window
    made = Sanitizer(
        calibrate(bare, where, epsilon, adjacency=relation, length=length),
        where,
        context=context,
        encoder=encoder,
        policy=policy,
        adjacency=adjacency,
        ledger=ledger,
        subject=subject,
    )
    made.has_defaults = True
    return copy.copy(made)  # which draws from what the certificate has left on disk


def document_sanitizer(
    epsilon: float = 25,
    space: EmbeddingSpace | None = None,
    *,
    encoder: Encoder | None = None,
    unit: Literal["text", "sentence"] = "text",
    code: PublicCode | None = None,
    ledger: Ledger | None = None,
    subject: str | None = None,
) -> Sanitizer:
    """Makes a sanitizer that releases words for a whole text, of which nothing is public.

    epsilon is for any text against any other, however long. From 40 nats on a release is mostly
    some rare words of the text itself, below them public words and phrases that come near it. Who
    holds a list of a thousand texts with yours in it most likely finds yours, at 25 nats as at 50.

    Args:
        epsilon: Nats for a text or a sentence; a word costs 6 to 12.
        space: For what works on releases, as :class:`PrivRewrite`; default :func:`default_space`.
        encoder: What scores the private text, where raw text may go. Default the model of the
            default space on NumPy; without one the rarest words are taken from 40 nats on. Any
            other, or units of your own, have all units encoded at first use, 40,000 in two minutes
            on two cores, and kept on disk.
        unit: What epsilon is for. For a ``"sentence"`` the number of sentences is public, each has
            a release of its own, a line, and a text of n costs n epsilon as a whole.
        code: A public distribution of your own, as ``dp.KeywordCode.tuned(texts)``.
        ledger: Charged before any draw.
        subject: Whose budget is charged.
    """
    _validate.one_of(("text", "sentence"), unit=unit)
    relation = Adjacency.sentences() if unit == "sentence" else Adjacency.texts()
    terms: dict[str, Any] = {"encoder": encoder, "ledger": ledger, "subject": subject}
    terms["adjacency"] = relation
    if code is None:
        return sanitizer(epsilon, WeightedResponse.name, space, **terms)
    where = space if space is not None else embedding.default_space()
    return Sanitizer(WeightedResponse(epsilon=epsilon, code=code), where, **terms)


def class_preserving(
    epsilon: float = 10,
    space: EmbeddingSpace | None = None,
    classes: Sequence[Hashable] | None = None,
) -> Sanitizer:
    """Makes a sanitizer that releases every token as one of its class, calibrated within classes.

    **The class of every token is public**: that a position holds a month or a given name goes out
    as it is, and epsilon is about which one; of seven weekdays one is guessed once in seven anyway.

    Args:
        epsilon: Nats per token occurrence, between two tokens of a class.
        space: Default :func:`default_space`.
        classes: A public label per token, and the unknown symbol's last or not at all; default
            :func:`token_classes` of the space's vocabulary.

    Raises:
        ParameterError: Labels for another number of tokens, or a token that is alone in its class,
            without unknown words, and would be released unchanged.
        CannotCalibrate: See :func:`calibrate`.
    """
    where = space if space is not None else embedding.default_space()
    labels = tuple(classes) if classes is not None else token_classes(where.vocabulary)
    size, vocabulary = Counter(labels[: len(where)]), where.vocabulary
    # an unknown token may be dropped, or never come: then it hides none of its class
    unknown = labels[len(where) :] if vocabulary.unknown in ("uniform", "split") else ()
    alone = sum(size[label] == 1 for label in size if label not in unknown)
    if alone:
        raise ParameterError(
            f"expected classes of two tokens or more, got {alone} with one: a token alone in its "
            "class is released unchanged; join its class with another"
        )
    nominal = WithinClasses(mechanism=TokenExponential(epsilon=epsilon), classes=labels)
    mechanism = calibrate(nominal, where, epsilon, adjacency=nominal.adjacency)
    return Sanitizer(mechanism, where, adjacency=nominal.adjacency)
