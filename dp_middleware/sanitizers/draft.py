"""A private text cut into public strings and private tokens: read, drawn for, then written."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar, NamedTuple, TypeVar

import numpy as np

from dp_middleware._forks import StaysHere
from dp_middleware.embedding import EmbeddingSpace
from dp_middleware.embedding.arrays import Ids
from dp_middleware.errors import DPMiddlewareError, ParameterError
from dp_middleware.mechanisms.lockstep import FRESH
from dp_middleware.sanitizers.policies import KeepPolicy
from dp_middleware.sanitizers.spans import Scope, Span, encode_with, spans_of
from dp_middleware.vocabulary.vocabulary import UNKNOWN, Occurrence, Vocabulary

T = TypeVar("T")

_SCOPE_NOTE = "text outside the given spans is public, and so are their places and token counts"
_VERSION_NOTE = "that a text replaces an earlier version is public; each is a release of its own"
_EDIT_NOTE = (
    "that a text replaces an earlier version, and which tokens a comparison of the two finds "
    "equal, is public"
)


class PrivateSpan(NamedTuple):
    """Where the tokens of a span stand in the columns of a draft, and how it is written.

    Attributes:
        tokens: Their slice.
        encode: See :class:`Span`.
    """

    tokens: slice
    encode: Callable[[str], str] | None


@dataclass(frozen=True, kw_only=True)
class Draft(StaysHere):
    """A text cut into public strings and private tokens, in reading order.

    Attributes:
        public: The strings before, between and behind the s private spans; s + 1 of them.
        private: The private spans.
        ids: Of the private tokens in the vocabulary, -1 for an unknown one.
        kept: Public spellings of those that the policy keeps, ``None`` for others.
        outputs: Ids that were released for them, ``None`` before the draw and for kept ones.
        public_tokens: Number of tokens of the public strings.
        scoped: Whether a scope said what is private.
        edited: Whether the text replaces an earlier version, of which something was released.
    """

    public: tuple[str, ...] = field(repr=False)
    private: tuple[PrivateSpan, ...] = field(repr=False)
    ids: tuple[int, ...] = field(repr=False)
    kept: tuple[str | None, ...] = field(repr=False)
    outputs: tuple[int | None, ...] = field(repr=False)
    public_tokens: int
    scoped: bool
    edited: bool = False

    @property
    def tokens_total(self) -> int:
        """Public and private ones."""
        return self.public_tokens + len(self.ids)

    @property
    def tokens_verbatim(self) -> int:
        """Public ones, and those that the policy keeps."""
        return self.tokens_total - len(self.perturbed)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the certificate of its release says beside that of the mechanism."""
        return (_SCOPE_NOTE,) * self.scoped + (_EDIT_NOTE,) * self.edited

    @property
    def perturbed(self) -> list[int]:
        """Ids of the tokens that are drawn for, or were."""
        return [number for number, word in zip(self.ids, self.kept, strict=True) if word is None]

    @cached_property
    def fresh(self) -> Ids:
        """Ids of the tokens that are to be drawn for."""
        columns = zip(self.ids, self.kept, self.outputs, strict=True)
        ids = [number for number, word, output in columns if word is None and output is None]
        return np.array(ids, dtype=np.int64)

    def releases(self, vocabulary: Vocabulary) -> Ids:
        """Ids in reading order of what is public before the draw, and ``FRESH`` for the others.

        A kept word or a token of the public strings that is not in the vocabulary has no id, and
        is left out.
        """
        columns = zip(self.ids, self.kept, self.outputs, strict=True)
        inside = [
            (FRESH if output is None else output) if word is None else number
            for number, word, output in columns
        ]
        is_seen = [
            word is None or number != UNKNOWN
            for number, word in zip(self.ids, self.kept, strict=True)
        ]
        ids = _known(self.public[0], vocabulary)
        for span, behind in zip(self.private, self.public[1:], strict=True):
            ids += itertools.compress(inside[span.tokens], is_seen[span.tokens])
            ids += _known(behind, vocabulary)
        return np.array(ids, dtype=np.int64)

    def fill(self, drawn: Ids) -> Draft:
        """The same with an id released for each fresh token."""
        ids, columns = iter(drawn.tolist()), zip(self.kept, self.outputs, strict=True)
        outputs = (next(ids) if word is None and k is None else k for word, k in columns)
        return replace(self, outputs=tuple(outputs))

    def write(self, vocabulary: Vocabulary) -> str:
        """The text that goes out, once all is drawn.

        Raises:
            ParameterError: An encoder failed.
        """
        columns = zip(self.kept, self.outputs, strict=True)
        words = [word if k is None else vocabulary.tokens[k] for word, k in columns]
        parts = [self.public[0]]
        for span, behind in zip(self.private, self.public[1:], strict=True):
            released = [word for word in words[span.tokens] if word is not None]
            parts += [encode_with(span.encode, vocabulary.tokenizer.join(released)), behind]
        return "".join(parts)


@dataclass(frozen=True, kw_only=True)
class TextDraft(StaysHere):
    """A text for which a text is released as a whole; it has no public part.

    Attributes:
        text: Private.
        released: What was released for it; ``None`` before the draw.
        edited: Whether the text replaces an earlier version, of which something was released.
    """

    text: str = field(repr=False)
    released: str | None = None
    edited: bool = False

    tokens_total: ClassVar[int] = 1
    tokens_verbatim: ClassVar[int] = 0

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the certificate of its release says beside that of the mechanism."""
        return (_VERSION_NOTE,) * self.edited

    @property
    def fresh(self) -> tuple[str, ...]:
        """What is to be drawn for: the text, also an empty one."""
        return (self.text,) if self.released is None else ()

    def fill(self, drawn: Sequence[str]) -> TextDraft:
        """The same with what was released."""
        return replace(self, released=drawn[0]) if drawn else self

    def write(self, vocabulary: Vocabulary) -> str:
        """The text that goes out, once it is drawn."""
        assert self.released is not None  # a draft is filled first
        return self.released


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
    ids: list[int] = []
    kept: list[str | None] = []
    public: list[str] = []
    private: list[PrivateSpan] = []
    position = 0
    for span in [Span(0, len(text))] if scope is None else spans_of(text, scope):
        encode_with(span.encode, "")  # a broken one fails here, before any charge
        source, start = span.private(text), len(ids)
        if policy.kept:
            tokens = tokenize_with(vocabulary.occurrences, source)
            ids += [token.id for token in tokens]
            kept += [_spelling(source, token, space, policy) for token in tokens]
        else:
            ids += tokenize_with(vocabulary.ids, source)
            kept += [None] * (len(ids) - start)
        public.append(text[position : span.start])
        private.append(PrivateSpan(slice(start, len(ids)), span.encode))
        position = span.end
    public.append(text[position:])
    return Draft(
        public=tuple(public),
        private=tuple(private),
        ids=tuple(ids),
        kept=tuple(kept),
        outputs=(None,) * len(ids),
        # known or unknown: public text needs no vocabulary
        public_tokens=sum(
            len(tokenize_with(vocabulary.tokenizer.pieces, part)) for part in public if part
        ),
        scoped=scope is not None,
    )


def _known(text: str, vocabulary: Vocabulary) -> list[int]:
    """Ids of the tokens of a public text that are in the vocabulary."""
    pieces = tokenize_with(vocabulary.tokenizer.pieces, text) if text else []
    ids = (vocabulary.id_of(piece.token) for piece in pieces if piece.token is not None)
    return [number for number in ids if number != UNKNOWN]


def _spelling(
    text: str, token: Occurrence, space: EmbeddingSpace, policy: KeepPolicy
) -> str | None:
    """Of a token that the policy keeps: those of the vocabulary that its certificate tells."""
    if token.id != UNKNOWN:
        return space.vocabulary.tokens[token.id] if policy.kept_tokens(space)[token.id] else None
    word = text[token.start : token.end].strip().lower()
    return word if word in policy.kept else None


def tokenize_with(tokenize: Callable[[str], T], text: str) -> T:
    """What a tokenizer makes of a text; one of the user's may quote it in its error."""
    try:
        return tokenize(text)
    except DPMiddlewareError:
        raise
    except Exception as error:
        failure = type(error).__name__
    raise ParameterError(f"the tokenizer failed with {failure}")
