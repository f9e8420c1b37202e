"""Tokens at their places in a text, and unknown ones as the longest known tokens inside them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from dp_middleware.vocabulary.tokenizers import Piece

UNKNOWN = -1


class Occurrence(NamedTuple):
    """A token of a text: its id (-1 if unknown) and character offsets. Private."""

    id: int
    start: int
    end: int


def split(
    text: str, piece: Piece, ids: Mapping[str | None, int], longest: int, continuation: str
) -> Iterator[Occurrence]:
    """Longest known token first, from the left; a character no token covers is unknown.

    Args:
        text: Private.
        piece: A token of it that is not in the vocabulary.
        ids: The id of each token of the vocabulary.
        longest: Number of characters of its longest token.
        continuation: Prefix of a token that continues a word.
    """
    word = text[piece.start : piece.end] if piece.token is None else piece.token
    inside = piece.token is not None and word.startswith(continuation)
    word = word.removeprefix(continuation) if inside else word
    # a token of other characters than the text's has the place of the whole piece
    in_place = piece.token is None or len(word) == piece.end - piece.start
    left = 0
    while left < len(word):
        prefix = continuation if left or inside else ""
        for right in range(min(len(word), left + longest), left, -1):
            number = ids.get(prefix + word[left:right], UNKNOWN)
            if number != UNKNOWN:
                break
        start, end = (left, right) if in_place else (0, piece.end - piece.start)
        yield Occurrence(number, piece.start + start, piece.start + end)
        left = right
