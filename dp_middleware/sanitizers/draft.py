"""A private text is cut into public strings and private tokens: drawn for, then written."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from dp_middleware._forks import StaysHere
from dp_middleware.embedding import EmbeddingSpace
from dp_middleware.embedding.arrays import Ids
from dp_middleware.errors import DPMiddlewareError, ParameterError
from dp_middleware.mechanisms.drawing import FRESH
from dp_middleware.sanitizers.policies import KeepPolicy
from dp_middleware.sanitizers.spans import Scope, encode_with, private_parts
from dp_middleware.vocabulary.frequencies import is_english, word_set
from dp_middleware.vocabulary.vocabulary import UNKNOWN, Vocabulary, check_text

T = TypeVar("T")

_LEAST = 6  # words of a text that tell its language
_WORD = re.compile(r"[^\W\d_]+")
_SPREAD = "".join(chr(k).lower() if chr(k).isalpha() else " " for k in range(128))
_log = logging.getLogger("dp_middleware.sanitizers")

_SCOPE_NOTE = "text outside the given spans is public, and so are their places and token counts"
VERSION_NOTE = "that a text replaces an earlier version is public; each is a release of its own"


class PrivateSpan(NamedTuple):
    """Where the tokens of a span stand in the columns of a draft, and how it is written."""

    tokens: slice
    encode: Callable[[str], str] | None


@dataclass(frozen=True, kw_only=True, eq=False)
class Draft(StaysHere):
    """A text cut into s + 1 public strings and s private spans of n tokens, in reading order."""

    public: tuple[str, ...] = field(repr=False)  # before, between and behind the spans
    private: tuple[PrivateSpan, ...] = field(repr=False)
    ids: Ids = field(repr=False)  # of the private tokens, int64 (n,), -1 for an unknown one
    kept: Mapping[int, str] = field(repr=False)  # spellings that the policy keeps, by place
    outputs: Ids = field(repr=False)  # what was released, int64 (n,); else, and if kept, FRESH
    public_tokens: int  # of the public strings
    scoped: bool  # whether a scope said what is private
    edited: bool = False  # whether something was released for an earlier version

    used: ClassVar[tuple[str, ...]] = ()

    @property
    def tokens_total(self) -> int:
        """Public and private ones."""
        return self.public_tokens + len(self.ids)

    @property
    def tokens_verbatim(self) -> int:
        """Public ones, and those that the policy keeps."""
        return self.public_tokens + len(self.kept)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the certificate of its release says beside that of the mechanism."""
        return (_SCOPE_NOTE,) * self.scoped + (VERSION_NOTE,) * self.edited

    @property
    def perturbed(self) -> NDArray[np.bool_]:
        """Which tokens are drawn for, or were, bool (n,)."""
        perturbed = np.ones(len(self.ids), dtype=bool)
        perturbed[list(self.kept)] = False
        return perturbed

    @property
    def fresh(self) -> Ids:
        """Ids of the tokens that are drawn for."""
        return self.ids[self.perturbed] if self.kept else self.ids

    def releases(self, vocabulary: Vocabulary) -> Ids:
        """Returns ids in reading order, ``FRESH`` where drawn; without public unknown ones."""
        perturbed = self.perturbed
        inside = np.where(perturbed, FRESH, self.ids)
        is_seen = perturbed | (self.ids != UNKNOWN)
        parts = [_known(self.public[0], vocabulary)]
        for span, behind in zip(self.private, self.public[1:], strict=True):
            parts += [inside[span.tokens][is_seen[span.tokens]], _known(behind, vocabulary)]
        return np.concatenate(parts)

    def fill(self, drawn: Ids) -> Draft:
        """Returns the same with an id released for each fresh token."""
        outputs = self.outputs.copy()
        outputs[self.perturbed] = drawn
        return replace(self, outputs=outputs)

    def write(self, vocabulary: Vocabulary) -> str:
        """Returns the text that goes out, once all is drawn."""
        words, parts = self.words(vocabulary) if self.kept else [], [self.public[0]]
        for span, behind in zip(self.private, self.public[1:], strict=True):
            if self.kept:
                released = vocabulary.tokenizer.join(words[span.tokens])
            else:
                released = vocabulary.join(self.outputs[span.tokens])
            if span.encode is not None:
                released = encode_with(span.encode, released)
            parts += [released, behind]
        return "".join(parts)

    def words(self, vocabulary: Vocabulary) -> list[str]:
        """Returns what is written for each private token, once all is drawn."""
        words = vocabulary.spell(self.outputs)
        for place, word in self.kept.items():
            words[place] = word
        return words


def read(text: str, scope: Scope | None, space: EmbeddingSpace, policy: KeepPolicy) -> Draft:
    """Cuts a text into what is public and what is to be drawn for; no scope: all of it."""
    check_text(text)
    vocabulary = space.vocabulary
    ids, kept = list[Ids](), dict[int, str]()
    public, private = list[str](), list[PrivateSpan]()
    position = start = 0
    whole = [(0, len(text), text, None)]
    for first, end, source, encode in whole if scope is None else private_parts(text, scope):
        own = tokenize_with(vocabulary.encode, source)
        if policy.kept:
            kept |= _spellings(source, own, start, space, policy)
        ids.append(own)
        public.append(text[position:first])
        private.append(PrivateSpan(slice(start, start + len(own)), encode))
        position, start = end, start + len(own)
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
    """Of tokens that the policy keeps, by their places in a draft; ``start`` is the first."""
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


def _known(text: str, vocabulary: Vocabulary) -> Ids:
    ids = tokenize_with(vocabulary.look_up, text)
    return np.compress(ids != UNKNOWN, ids)


def tokenize_with(tokenize: Callable[[str], T], text: str) -> T:
    """What a tokenizer makes of a text; one of the user's may quote it in its error."""
    try:
        return tokenize(text)
    except DPMiddlewareError:  # holds no text
        raise
    except Exception as error:
        failure = ParameterError(f"the tokenizer failed with {type(error).__name__}")
    raise failure


def tell_foreign(text: str, vocabulary: Vocabulary) -> None:
    """Warns in the local log if a private text is mostly not English, but the vocabulary is.

    No release or certificate tells. Fewer than six words tell nothing.
    """
    ascii_only = text.isascii()  # then the same words, several times as fast
    found = text.translate(_SPREAD).split() if ascii_only else _WORD.findall(text.lower())
    if len(found) < _LEAST or not is_english(vocabulary):
        return
    if sum(map(word_set().__contains__, found)) < 0.5 * len(found):
        _log.warning(
            "most words of this text are no English, as the vocabulary is: little of it survives; "
            "the release and its certificate do not tell"
        )
