"""Text to token strings with character offsets, and back: by blanks, signs or a library."""

from __future__ import annotations

import itertools
import re
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from dp_middleware import _validate
from dp_middleware.errors import ParameterError

T = TypeVar("T")

LONGEST_WORD = 100

_TOO_LONG = re.compile(rf"\S{{{LONGEST_WORD + 1},}}")
_BLANKS = {i: " " for i in range(0x3001) if unicodedata.category(chr(i)) in ("Cc", "Zs")}
_SURROGATES = dict.fromkeys(range(0xD800, 0xE000), "\u25a1")  # no UTF-8 form: shown as a box
_CLEAN = _BLANKS | _SURROGATES

# don't is do and n't, it's is it and 's; 3.5 and well-known are one token each
_LOWER_CASE = re.compile(
    r"n['’]t\b|['’](?:s|re|ve|ll|d|m)\b|\d+(?:[.,]\d+)*|\w+?(?=n['’]t\b)|\w+(?:-\w+)*|[^\w\s]",
    re.IGNORECASE,
)
_NO_BLANK_BEFORE = re.compile(r" (n['’]t\b|['’](?:s|re|ve|ll|d|m)\b|[.,;:!?%)\]}])")
_NO_BLANK_BEHIND = re.compile(r"([(\[{]) ")


class TextPiece(NamedTuple):
    """Names a token of a text: its string (``None`` if the tokenizer has none) and offsets."""

    token: str | None
    start: int
    end: int


class Tokenizer(Protocol):
    """Says what a vocabulary needs of a tokenizer."""

    name: str  # in fingerprints and messages
    continuation: str  # prefix of a token that continues a word, "" if there is none

    def pieces(self, text: str) -> list[TextPiece]:
        """Cuts a text into token strings in reading order; deterministic; nothing truncated."""

    def join(self, tokens: Sequence[str]) -> str:
        """Writes the text that the tokens stand for; a function of the tokens alone."""


class NumberedTokenizer(ABC):
    """Numbers its tokens, so that a text is read and written as one array."""

    name: str
    continuation = ""
    spellings: Sequence[str | None]  # by number, None if it has none; "" for blanks, no token

    @abstractmethod
    def numbers(self, text: str) -> NDArray[np.integer[Any]]:
        """Lists those of a text in reading order, (n,), also of blanks; deterministic."""

    @abstractmethod
    def places(self, section: str) -> Iterable[tuple[int, int, int]]:
        """Lists the tokens of a section, which is clean: number, start and end."""

    def pieces(self, text: str) -> list[TextPiece]:
        """Cuts a text into tokens with their places; blanks are left out."""
        spelt = self.spellings
        return [
            TextPiece(spelt[number], offset + start, offset + end)
            for offset, section in sections(clean(text))
            for number, start, end in self.places(section)
            if spelt[number] != ""
        ]

    def written(self, token: str) -> str:
        """Writes what a token adds to a text, whatever stands before it."""
        return token

    def finish(self, text: str) -> str:
        """Makes a text of what its tokens add to it."""
        return text.strip()

    def join(self, tokens: Sequence[str]) -> str:
        """Writes the text that the tokens stand for; a function of the tokens alone."""
        return self.finish("".join(map(self.written, tokens)))


def first(tokens: list[T], size: int | None, source: str) -> list[T]:
    """Takes so many of them, all for ``None``, or raises ParameterError if there are fewer."""
    if size is not None:
        _validate.at_least(1, size=size)
        if size > len(tokens):
            raise ParameterError(f"expected size <= {len(tokens)} for {source}, got size={size}")
    return tokens[:size]


def clean(text: str) -> str:
    """Writes control characters and all blanks as one kind of blank, lone surrogates as a box."""
    return text.translate(_CLEAN)


def sections(text: str) -> list[tuple[int, str]]:
    """Cuts a text so that no run without blanks exceeds 100 characters: (offset, section)."""
    start = 0  # from blank to blank, as far as each step goes: a look at each run takes longer
    while len(text) - start > LONGEST_WORD:
        blank = text.rfind(" ", start, start + LONGEST_WORD + 1)
        if blank < 0:
            break
        start = blank + 1
    else:
        return [(0, text)]
    cuts = [0]
    for run in _TOO_LONG.finditer(text):
        cuts.extend(range(run.start() + LONGEST_WORD, run.end(), LONGEST_WORD))
    return [(start, text[start:end]) for start, end in itertools.pairwise([*cuts, len(text)])]


class BlankTokenizer:
    """Splits words at blanks; joins with one blank."""

    name = "blanks"
    continuation = ""
    _words = re.compile(r"\S+")

    def pieces(self, text: str) -> list[TextPiece]:
        """Cuts a text into tokens with their places."""
        return [
            TextPiece(self._spelt(word.group()), offset + word.start(), offset + word.end())
            for offset, section in sections(clean(text))
            for word in self._words.finditer(section)
        ]

    def _spelt(self, word: str) -> str:
        return word

    def join(self, tokens: Sequence[str]) -> str:
        """Writes a text of these tokens."""
        return " ".join(tokens)


class LowerCaseTokenizer(BlankTokenizer):
    """Reads lower-case words, numbers and signs, in the manner of the Penn Treebank."""

    name = "lower-case words"
    _words = _LOWER_CASE

    def _spelt(self, word: str) -> str:
        return word.lower().replace("’", "'")

    def join(self, tokens: Sequence[str]) -> str:
        """Writes a text of these tokens."""
        return _NO_BLANK_BEHIND.sub(r"\1", _NO_BLANK_BEFORE.sub(r"\1", " ".join(tokens)))


class TiktokenTokenizer(NumberedTokenizer):
    """Reads a byte-pair encoding of tiktoken; token strings keep their leading blank."""

    def __init__(self, encoding: Any) -> None:
        self.name = f"tiktoken:{encoding.name}"
        self._encoding = encoding

    @property
    def spellings(self) -> list[str | None]:  # type: ignore[override]
        """Gives the string of each number; blanks carry no word and are never copied."""
        return spellings(self._encoding)

    def numbers(self, text: str) -> NDArray[np.uint32]:
        """Lists those of a text in reading order."""
        encode = partial(self._encoding.encode_to_numpy, disallowed_special=())
        parts = [encode(part) for _, part in sections(clean(text))]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def places(self, section: str) -> Iterable[tuple[int, int, int]]:
        """Lists the tokens of a section; one may hold a part of a character's bytes."""
        numbers = self._encoding.encode_ordinary(section)
        _, starts = self._encoding.decode_with_offsets(numbers)
        tokens = self._encoding.decode_tokens_bytes(numbers)
        inside = [0x80 <= token[0] < 0xC0 for token in tokens]  # begins within a character
        ends = [*map(sum, zip(starts[1:], inside[1:], strict=True)), len(section)]
        return zip(numbers, starts, ends, strict=False)


@lru_cache(maxsize=4)
def spellings(encoding: Any) -> list[str | None]:
    """Spells all tokens of an encoding of tiktoken; ``None`` where one has no string of its own."""
    spelt: list[str | None] = [None] * encoding.n_vocab
    for number in range(encoding.n_vocab):
        with suppress(KeyError, UnicodeDecodeError):  # a gap; a part of a character
            token = encoding.decode_single_token_bytes(number).decode()
            spelt[number] = token if token.strip(" ") else ""
    return spelt


class LibraryTokenizer(NumberedTokenizer):
    """Wraps a tokenizer of the ``tokenizers`` library that reads special tokens as text."""

    def __init__(self, name: str, tokenizer: Any, spellings: Sequence[str | None]) -> None:
        self.name, self._tokenizer, self.spellings = name, tokenizer, spellings

    @property
    def texts(self) -> dict[int, str]:
        """Lists the tokens that are text, by number: no special, added or unused ones."""
        return {number: token for number, token in enumerate(self.spellings) if token}

    def numbers(self, text: str) -> NDArray[np.int64]:
        """Lists those of a text in reading order."""
        parts = [part for _, part in sections(clean(text))]
        encodings = self._tokenizer.encode_batch_fast(parts, add_special_tokens=False)
        return np.concatenate([np.array(part.ids, dtype=np.int64) for part in encodings])

    def places(self, section: str) -> Iterable[tuple[int, int, int]]:
        """Lists the tokens of a section."""
        encoding = self._tokenizer.encode(section, add_special_tokens=False)
        return ((n, *span) for n, span in zip(encoding.ids, encoding.offsets, strict=True))
