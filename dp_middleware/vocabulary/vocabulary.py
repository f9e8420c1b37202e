"""Tokens to ids and back, and what happens to a token that has no id."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dp_middleware import _files, _validate
from dp_middleware.errors import ParameterError, UnknownTokenError, library
from dp_middleware.vocabulary import tokenizers
from dp_middleware.vocabulary.bert import WordPieceTokenizer, default_bert
from dp_middleware.vocabulary.tokenizers import NumberedTokenizer, TextPiece, Tokenizer

_WORD = re.compile(r" ?[A-Za-z]+")
UNKNOWN = -1
_BLANK = -2
Unknown = Literal["uniform", "split", "drop", "raise"]


class Occurrence(NamedTuple):
    """Names a token of a text: its id (-1 if unknown) and character offsets. Private."""

    id: int
    start: int
    end: int


class Vocabulary:
    """Lists distinct tokens in order, with a tokenizer; public.

    Args:
        tokens: Distinct non-empty strings; ParameterError: others, or none.
        tokenizer: Splits and joins text; default: words split at blanks.
        unknown: What becomes of an unknown token; none passes through unchanged. ``"uniform"``: it
            has id -1, and a sanitizer releases a uniform draw. ``"split"``: it is broken into the
            longest known tokens; what is left has id -1. ``"drop"``: it is left out, as InferDPT
            does; that the token count tells it is certified as a leak. ``"raise"``:
            :class:`UnknownTokenError` with the position.
    """

    def __init__(
        self,
        tokens: Sequence[str],
        *,
        tokenizer: Tokenizer | None = None,
        unknown: Unknown = "uniform",
    ) -> None:
        _validate.one_of(("uniform", "split", "drop", "raise"), unknown=unknown)
        self.tokens, self.unknown = tuple(tokens), unknown
        if isinstance(tokens, str) or not all(isinstance(token, str) for token in self.tokens):
            raise ParameterError("expected a sequence of strings as tokens")
        self.tokenizer: Tokenizer = (
            tokenizer if tokenizer is not None else tokenizers.BlankTokenizer()
        )
        self._ids: dict[str | None, int] = {t: number for number, t in enumerate(self.tokens)}
        if not self.tokens or "" in self._ids or len(self._ids) != len(self.tokens):
            raise ParameterError(
                f"expected distinct, non-empty tokens, got {len(self.tokens)} tokens of which "
                f"{len(self._ids)} are distinct and {self.tokens.count('')} empty"
            )
        self._longest = max(map(len, self.tokens))

    @classmethod
    def from_tiktoken(
        cls, encoding: str, size: int | None = 11_000, *, unknown: Unknown = "uniform"
    ) -> Vocabulary:
        """Takes the first ``size`` tokens that are ASCII letters with an optional leading blank.

        ``encoding`` is the name of one of tiktoken, such as ``"cl100k_base"``; no size: all that
        qualify. ParameterError: it has fewer such tokens.
        """
        _files.use_bundled_tiktoken_files()
        source = library("tiktoken", "models").get_encoding(encoding)
        spelt = tokenizers.spellings(source)
        words = [token for token in spelt if token and _WORD.fullmatch(token)]
        chosen = tokenizers.first(words, size, encoding)
        return cls(chosen, tokenizer=tokenizers.TiktokenTokenizer(source), unknown=unknown)

    @classmethod
    def from_encoder(
        cls,
        name: str = "all-MiniLM-L6-v2",
        size: int | None = None,
        *,
        unknown: Unknown = "uniform",
    ) -> Vocabulary:
        """Takes the encoder's own WordPieces, special and unused tokens left out, in its order.

        ``name`` is that of a WordPiece encoder, or its folder; no size: all. With
        ``unknown="split"`` rarer words are spelt by pieces, so that a third of the tokens still
        covers nearly every text. ParameterError: no WordPieces, or fewer.
        """
        own = name == _files.DEFAULT_ENCODER
        source: Any = default_bert() if own else _files.encoder_tokenizer(name)
        if not own and type(source.model).__name__ != "WordPiece":
            raise ParameterError(f"expected a WordPiece encoder, got {name!r}; pass a word list")
        tokenizer = WordPieceTokenizer(name, source)
        words = tokenizers.first([*tokenizer.texts.values()], size, name)
        return cls(words, tokenizer=tokenizer, unknown=unknown)

    def __len__(self) -> int:
        return len(self.tokens)

    def __repr__(self) -> str:
        kind = f"{self.tokenizer.name}, unknown={self.unknown!r}"
        return f"Vocabulary({len(self)} tokens, {kind}, {self.fingerprint[:8]})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    @cached_property
    def fingerprint(self) -> str:
        """Digests tokens, tokenizer and policy, SHA-256, hexadecimal."""
        digest = hashlib.sha256(f"{self.tokenizer.name}\0{self.unknown}".encode())
        for token in self.tokens:
            encoded = token.encode("utf-8", "surrogatepass")
            digest.update(len(encoded).to_bytes(8, "little") + encoded)
        return digest.hexdigest()

    @cached_property
    def whole_words(self) -> NDArray[np.bool_]:
        """Tells which tokens are words of their own, of three letters or more; all if none is.

        A vocabulary with leading blanks marks its words by them; bool (V,).
        """
        blanks = any(token.startswith(" ") for token in self.tokens)
        prefix = self.tokenizer.continuation
        words = [
            len(word := token.removeprefix(" ")) >= 3
            and word.isalpha()
            and token.startswith(" ") == blanks
            and not (prefix and token.startswith(prefix))
            for token in self.tokens
        ]
        return np.array(words) if any(words) else np.ones(len(self), dtype=bool)

    @property
    def has_unknown_symbol(self) -> bool:
        """Tells whether the unknown symbol is a possible input next to the V tokens."""
        return self.unknown != "raise"

    def id_of(self, token: str) -> int:
        """Finds the id of a token, -1 if it is not in the vocabulary."""
        return self._ids.get(token, UNKNOWN)

    def encode(self, text: str) -> NDArray[np.int64]:
        """Reads the ids of a text's tokens, int64 (n,), -1 for an unknown one.

        No special tokens, truncation or padding; words of over 100 characters are split; control
        characters count as blanks. UnknownTokenError: an unknown token under ``unknown="raise"``.
        """
        ids = self.look_up(text)
        if self.unknown == "uniform" or not (ids == UNKNOWN).any():
            return ids
        return np.array([token.id for token in self.occurrences(text)], dtype=np.int64)

    def look_up(self, text: str) -> NDArray[np.int64]:
        """Does :meth:`encode` before the unknown policy: an id for each token of the tokenizer."""
        check_text(text)
        if not isinstance(self.tokenizer, NumberedTokenizer):
            pieces = self.tokenizer.pieces(text)
            return np.array([self._ids.get(p.token, UNKNOWN) for p in pieces], dtype=np.int64)
        ids = self._id_of_number[self.tokenizer.numbers(text)]
        return np.compress(ids != _BLANK, ids)

    @cached_property
    def _id_of_number(self) -> NDArray[np.int64]:
        """The id of each number of a tokenizer that has numbers."""
        assert isinstance(self.tokenizer, NumberedTokenizer)
        ids = {**self._ids, "": _BLANK}
        return np.array([ids.get(word, UNKNOWN) for word in self.tokenizer.spellings])

    def occurrences(self, text: str) -> list[Occurrence]:
        """Reads a text's tokens with ids and character offsets, after the unknown policy."""
        check_text(text)
        pieces = self.tokenizer.pieces(text)
        known: list[Occurrence] = []
        for position, piece in enumerate(pieces, start=1):
            number = self._ids.get(piece.token, UNKNOWN)
            if number != UNKNOWN or self.unknown == "uniform":
                known.append(Occurrence(number, piece.start, piece.end))
            elif self.unknown == "split":
                known.extend(self._split(text, piece))
            elif self.unknown == "raise":
                raise UnknownTokenError(
                    f"token {position} of {len(pieces)} is not in vocabulary "
                    f"{self.tokenizer.name}:{self.fingerprint[:8]}; see unknown="
                )
        return known

    def _split(self, text: str, piece: TextPiece) -> Iterator[Occurrence]:
        """Longest known token first, from the left; a character no token covers is unknown."""
        continuation = self.tokenizer.continuation
        word = text[piece.start : piece.end] if piece.token is None else piece.token
        inside = piece.token is not None and word.startswith(continuation)
        word = word.removeprefix(continuation) if inside else word
        # a token of other characters than the text's has the place of the whole piece
        in_place = piece.token is None or len(word) == piece.end - piece.start
        left = 0
        while left < len(word):
            prefix = continuation if left or inside else ""
            for right in range(min(len(word), left + self._longest), left, -1):
                number = self._ids.get(prefix + word[left:right], UNKNOWN)
                if number != UNKNOWN:
                    break
            start, end = (left, right) if in_place else (0, piece.end - piece.start)
            yield Occurrence(number, piece.start + start, piece.start + end)
            left = right

    def decode(self, ids: ArrayLike) -> str:
        """Writes the text of ids, a function of these alone; ParameterError: one outside."""
        return self.join(self.checked(np.ravel(ids)))

    def checked(self, ids: ArrayLike) -> NDArray[np.int64]:
        """Returns ids as int64 (n,); ParameterError: not a sequence of integers in 0 .. V - 1."""
        numbers = np.asarray(ids)
        if numbers.ndim != 1 or (numbers.size and numbers.dtype.kind not in "iu"):
            raise ParameterError("expected ids as a one-dimensional sequence of integers")
        if numbers.size and not 0 <= numbers.min() <= numbers.max() < len(self):
            raise ParameterError(f"expected ids in 0 .. {len(self) - 1}, got ids outside of it")
        return numbers.astype(np.int64, copy=False)

    def join(self, ids: NDArray[np.int64]) -> str:
        """Does :meth:`decode` for ids that are in the vocabulary."""
        if not isinstance(self.tokenizer, NumberedTokenizer):
            return self.tokenizer.join(self.spell(ids))
        return self.tokenizer.finish("".join(self._written[ids].tolist()))

    @cached_property
    def _written(self) -> NDArray[np.object_]:
        """What each token adds to a text, where the tokenizer says it."""
        assert isinstance(self.tokenizer, NumberedTokenizer)
        return np.array([*map(self.tokenizer.written, self.tokens)], dtype=object)

    def spell(self, ids: NDArray[np.int64]) -> list[str]:
        """Lists the tokens of ids that are in the vocabulary."""
        return [self.tokens[number] for number in ids.tolist()]


def check_text(text: str) -> None:
    """Refuses what is no text, by ParameterError."""
    if not isinstance(text, str):
        raise ParameterError(f"expected text of type str, got {type(text).__name__}")
