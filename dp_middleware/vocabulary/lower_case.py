"""Lower-case words, numbers and signs: what published word vectors have as tokens."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dp_middleware.vocabulary.tokenizers import Piece, clean, sections

# don't is do and n't, it's is it and 's; 3.5 and well-known are one token each
_TOKENS = re.compile(
    r"n['’]t\b|['’](?:s|re|ve|ll|d|m)\b|\d+(?:[.,]\d+)*|\w+?(?=n['’]t\b)|\w+(?:-\w+)*|[^\w\s]",
    re.IGNORECASE,
)
_LEFT = re.compile(r" (n['’]t\b|['’](?:s|re|ve|ll|d|m)\b|[.,;:!?%)\]}])")
_RIGHT = re.compile(r"([(\[{]) ")


class LowerCaseTokenizer:
    """Words in lower case, contractions and signs apart, in the manner of the Penn Treebank."""

    name = "lower-case words"
    continuation = ""

    def pieces(self, text: str) -> list[Piece]:
        """Tokens of a text with their places."""
        return [
            Piece(
                found.group().lower().replace("’", "'"),
                offset + found.start(),
                offset + found.end(),
            )
            for offset, section in sections(clean(text))
            for found in _TOKENS.finditer(section)
        ]

    def join(self, tokens: Sequence[str]) -> str:
        """A text of these tokens."""
        return _RIGHT.sub(r"\1", _LEFT.sub(r"\1", " ".join(tokens)))
