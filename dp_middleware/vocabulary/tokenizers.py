"""Text to token strings with character offsets, and back: blanks, tiktoken, WordPiece."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

LONGEST_WORD = 100

_TOO_LONG = re.compile(rf"\S{{{LONGEST_WORD + 1},}}")
_BLANKS = {i: " " for i in range(0x3001) if unicodedata.category(chr(i)) in ("Cc", "Zs")}
_SURROGATES = dict.fromkeys(range(0xD800, 0xE000), "\u25a1")  # no UTF-8 form: shown as a box
_TIGHT = re.compile(r"(?<=\w) (['’]) (?=\w)|([(\[{]) | ([)\]};:%])")  # don ' t, ( x ), 5 %
_LONGER_UTF8 = np.array([0x80, 0x800, 0x10000], dtype=np.uint32)  # a byte more from here on
_CLEAN = _BLANKS | _SURROGATES


class Piece(NamedTuple):
    """A token of a text: its string (``None`` if the tokenizer has none) and offsets."""

    token: str | None
    start: int
    end: int


class Tokenizer(Protocol):
    """What a vocabulary needs of a tokenizer.

    Attributes:
        name: Identifies the tokenizer in fingerprints and messages.
        continuation: Prefix of a token that continues a word, "" if there is none.
    """

    name: str
    continuation: str

    def pieces(self, text: str) -> list[Piece]:
        """Token strings in reading order; deterministic; nothing truncated."""

    def join(self, tokens: Sequence[str]) -> str:
        """The text that the tokens stand for; a function of the tokens alone."""


def clean(text: str) -> str:
    """Control characters and all blanks as one kind of blank, lone surrogates as a box."""
    return text.translate(_CLEAN)


def sections(text: str) -> Iterator[tuple[int, str]]:
    """The text cut so that no run without blanks exceeds 100 characters: (offset, section)."""
    cuts = [0]
    for run in _TOO_LONG.finditer(text):
        cuts.extend(range(run.start() + LONGEST_WORD, run.end(), LONGEST_WORD))
    for start, end in itertools.pairwise([*cuts, len(text)]):
        yield start, text[start:end]


class BlankTokenizer:
    """Words split at blanks; joined with one blank."""

    name = "blanks"
    continuation = ""

    def pieces(self, text: str) -> list[Piece]:
        """Tokens of a text with their places."""
        return [
            Piece(word.group(), offset + word.start(), offset + word.end())
            for offset, section in sections(clean(text))
            for word in re.finditer(r"\S+", section)
        ]

    def join(self, tokens: Sequence[str]) -> str:
        """A text of these tokens."""
        return " ".join(tokens)


class TiktokenTokenizer:
    """A byte-pair encoding of tiktoken; token strings keep their leading blank."""

    continuation = ""

    def __init__(self, encoding: Any) -> None:
        self.name = f"tiktoken:{encoding.name}"
        self._encoding = encoding

    def pieces(self, text: str) -> list[Piece]:
        """Tokens of a text with their places."""
        spelling_of, pieces = spellings(self._encoding), []
        for offset, section in sections(clean(text)):
            numbers = self._encoding.encode_ordinary(section)
            words = [word for n in numbers if (word := spelling_of[n]) is not None]
            if len(words) < len(numbers):
                pieces += self._pieces_by_bytes(offset, section, numbers)
                continue
            ends = itertools.accumulate(map(len, words), initial=offset)
            places = zip(words, itertools.pairwise(ends), strict=True)
            # blanks carry no word and are never copied
            pieces += [Piece(word, i, k) for word, (i, k) in places if word.strip(" ")]
        return pieces

    def _pieces_by_bytes(self, offset: int, section: str, numbers: list[int]) -> list[Piece]:
        """For tokens that hold a part of a character's bytes: these are mapped to characters."""
        tokens = self._encoding.decode_tokens_bytes(numbers)
        ends = np.cumsum([0, *map(len, tokens)])
        starts = _byte_offsets(section)
        first = np.searchsorted(starts, ends[:-1], side="right") - 1 + offset
        last = np.searchsorted(starts, ends[1:]) + offset
        return [
            Piece(_decode(token), start, end)
            for token, start, end in zip(tokens, first.tolist(), last.tolist(), strict=True)
            if token.strip()
        ]

    def join(self, tokens: Sequence[str]) -> str:
        """A text of these tokens."""
        return "".join(tokens).strip()


@lru_cache(maxsize=4)
def spellings(encoding: Any) -> list[str | None]:
    """The string of each token of an encoding of tiktoken; ``None`` where it has none of its own.

    Of all tokens at once: which ones were read tells what was typed.
    """
    return [_spelling(encoding, number) for number in range(encoding.n_vocab)]


def _spelling(encoding: Any, number: int) -> str | None:
    try:
        return _decode(encoding.decode_single_token_bytes(number))
    except KeyError:  # a gap between the tokens
        return None


def _byte_offsets(text: str) -> NDArray[np.int64]:
    """Where each character begins in UTF-8, and where the last one ends."""
    numbers = np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32)
    lengths = 1 + (numbers[:, None] >= _LONGER_UTF8).sum(axis=1)
    return np.concatenate([[0], np.cumsum(lengths)])


def _decode(token: bytes) -> str | None:
    try:
        return token.decode()
    except UnicodeDecodeError:
        return None


class WordPieceTokenizer:
    """The WordPieces of an encoder; see :func:`dp_middleware._files.encoder_tokenizer`."""

    continuation = "##"

    def __init__(self, name: str, tokenizer: Any) -> None:
        self.name = f"wordpiece:{name}"
        self._tokenizer = tokenizer
        self._unknown = tokenizer.token_to_id(tokenizer.model.unk_token)

    def pieces(self, text: str) -> list[Piece]:
        """Tokens of a text with their places."""
        offsets, parts = zip(*sections(clean(text)), strict=True)
        encodings = self._tokenizer.encode_batch(parts, add_special_tokens=False)
        return [
            Piece(None if number == self._unknown else token, offset + start, offset + end)
            for offset, encoding in zip(offsets, encodings, strict=True)
            for token, number, (start, end) in zip(
                encoding.tokens, encoding.ids, encoding.offsets, strict=True
            )
        ]

    def join(self, tokens: Sequence[str]) -> str:
        """A text of these tokens."""
        from tokenizers.decoders import WordPiece

        text: str = WordPiece(prefix="##", cleanup=True).decode(list(tokens))
        return _TIGHT.sub(r"\1\2\3", text.removeprefix("##"))
