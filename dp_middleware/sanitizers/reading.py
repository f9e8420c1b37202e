"""A private text is cut into what is public and what is to be drawn for."""

from __future__ import annotations

import numpy as np

from dp_middleware.embedding import EmbeddingSpace
from dp_middleware.embedding.arrays import Ids
from dp_middleware.errors import ParameterError
from dp_middleware.mechanisms.lockstep import FRESH
from dp_middleware.sanitizers.draft import Draft, PrivateSpan, TextDraft, tokenize_with
from dp_middleware.sanitizers.policies import KeepPolicy
from dp_middleware.sanitizers.spans import (
    Scope,
    Span,
    encode_with,
    spans_of,
)
from dp_middleware.vocabulary.vocabulary import UNKNOWN


def read_whole(text: str, scope: Scope | None) -> TextDraft:
    """A text that is released as a whole, of which nothing is public.

    Raises:
        ParameterError: Not a text, or a scope.
    """
    if not isinstance(text, str):
        raise ParameterError(f"expected text of type str, got {type(text).__name__}")
    if scope is not None:
        raise ParameterError(
            "expected no scope= with a mechanism of whole texts: it releases a text for all of it"
        )
    return TextDraft(text=text)


def read(text: str, scope: Scope | None, space: EmbeddingSpace, policy: KeepPolicy) -> Draft:
    """Cut a text into what is public and what is to be drawn for.

    Args:
        text: Private.
        scope: Its private spans; ``None``: all of it.
        space: Its vocabulary tells the tokens.
        policy: Tokens released unchanged.

    Raises:
        UnknownTokenError: The vocabulary's policy is ``"raise"``.
        ParameterError: Not a text, a span outside of it, or a failing detector, encoder or
            tokenizer.
    """
    if not isinstance(text, str):
        raise ParameterError(f"expected text of type str, got {type(text).__name__}")
    vocabulary = space.vocabulary
    ids: list[Ids] = []
    kept: dict[int, str] = {}
    public: list[str] = []
    private: list[PrivateSpan] = []
    position = start = 0
    for span in [Span(0, len(text))] if scope is None else spans_of(text, scope):
        encode_with(span.encode, "")  # a broken one fails here, before any charge
        source = span.private(text)
        ids.append(tokenize_with(vocabulary.encode, source))
        if policy.kept:
            kept |= _spellings(source, ids[-1], start, space, policy)
        public.append(text[position : span.start])
        private.append(PrivateSpan(slice(start, start + len(ids[-1])), span.encode))
        position, start = span.end, start + len(ids[-1])
    public.append(text[position:])
    every = ids[0] if len(ids) == 1 else np.concatenate([np.empty(0, dtype=np.int64), *ids])
    return Draft(
        public=tuple(public),
        private=tuple(private),
        ids=every,
        kept=kept,
        outputs=np.full(len(every), FRESH),
        # known or unknown: public text needs no vocabulary
        public_tokens=sum(len(tokenize_with(vocabulary.look_up, part)) for part in public if part),
        scoped=scope is not None,
    )


def _spellings(
    text: str, ids: Ids, start: int, space: EmbeddingSpace, policy: KeepPolicy
) -> dict[int, str]:
    """Of the tokens that the policy keeps: those of the vocabulary that its certificate tells.

    By place in a draft, of which ``start`` is the first.
    """
    is_unknown = ids == UNKNOWN
    places = np.flatnonzero(~is_unknown & policy.kept_tokens(space)[ids])
    kept = dict(zip(places.tolist(), space.vocabulary.spell(ids[places]), strict=True))
    if is_unknown.any():
        tokens = tokenize_with(space.vocabulary.occurrences, text)
        for place in np.flatnonzero(is_unknown).tolist():
            word = text[tokens[place].start : tokens[place].end].strip().lower()
            if word in policy.kept:
                kept[place] = word
    return {start + place: word for place, word in kept.items()}
