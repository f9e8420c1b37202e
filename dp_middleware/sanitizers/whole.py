"""A private text for which a text is released as a whole, or one for each of its sentences."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, TypeVar

from dp_middleware._forks import StaysHere
from dp_middleware.errors import ParameterError
from dp_middleware.privacy import Adjacency
from dp_middleware.sanitizers.draft import VERSION_NOTE, Draft
from dp_middleware.sanitizers.spans import Scope
from dp_middleware.vocabulary.vocabulary import Vocabulary, check_text

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|[\n\r\u2028\u2029]+")


@dataclass(frozen=True, kw_only=True)
class TextDraft(StaysHere):
    """A text for which a text is released as a whole, or one for each sentence. Private."""

    text: str = field(repr=False)
    fresh: tuple[str, ...] = field(repr=False)  # the text, or its sentences, whose number is public
    released: tuple[str, ...] | None = None  # for each; ``None`` before the draw
    edited: bool = False  # whether something was released for an earlier version

    tokens_verbatim: ClassVar[int] = 0
    used: ClassVar[tuple[str, ...]] = ()

    @property
    def tokens_total(self) -> int:
        """Number of parts."""
        return len(self.fresh)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the certificate of its release says beside that of the mechanism."""
        return (VERSION_NOTE,) * self.edited

    def fill(self, drawn: Sequence[str]) -> TextDraft:
        """Returns the same with what was released."""
        return replace(self, released=tuple(drawn))

    def write(self, vocabulary: Vocabulary) -> str:
        """Returns the text that goes out, once it is drawn; a line for each sentence."""
        assert self.released is not None  # a draft is filled first
        return "\n".join(self.released)


D = TypeVar("D", Draft, TextDraft, Draft | TextDraft)


def sentences(text: str) -> tuple[str, ...]:
    """Cuts a text at each line's end and at signs of ``.!?`` before a blank: one part or more."""
    return tuple(filter(None, map(str.strip, _SENTENCE_END.split(text)))) or ("",)


def read_whole(text: str, scope: Scope | None, relation: Adjacency) -> TextDraft:
    """A text that is released as a whole, or by its sentences if these are what is replaced."""
    check_text(text)
    if scope is not None:
        raise ParameterError(
            "expected no scope= with a mechanism of whole texts: it releases a text for all of it"
        )
    return TextDraft(text=text, fresh=sentences(text) if relation.by_sentence else (text,))
