"""Reads private texts: which tokens they have, and which of them a policy keeps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from dp_middleware._plan import Plan, Private, Scope, Span, Token, encoded, spans_of
from dp_middleware.embedding import EmbeddingSpace
from dp_middleware.errors import DPMiddlewareError, ParameterError
from dp_middleware.policies import KeepPolicy
from dp_middleware.vocabulary import UNKNOWN, Occurrence

Read = TypeVar("Read")


class Reader:
    """Plans releases of texts on one space.

    Args:
        space: Vocabulary and vectors.
        policy: Tokens released unchanged.

    Attributes:
        kept: Which tokens of the space those are, bool (V,).
    """

    def __init__(self, space: EmbeddingSpace, policy: KeepPolicy) -> None:
        self._vocabulary = space.vocabulary
        self._words = policy.kept
        self.kept = policy.kept_tokens(space)

    def plan(self, text: str, scope: Scope | None) -> Plan:
        """What is public in a text and what is to be drawn for.

        Raises:
            UnknownTokenError: The vocabulary's policy is ``"raise"``.
            ParameterError: Not a text, a span outside of it, or a failing detector, encoder or
                tokenizer.
        """
        if not isinstance(text, str):
            raise ParameterError(f"expected text of type str, got {type(text).__name__}")
        spans = [Span(0, len(text))] if scope is None else spans_of(text, scope)
        parts: list[str | Private] = []
        public_tokens, position = 0, 0
        for span in spans:
            parts += [text[position : span.start], self._private(span, text)]
            public_tokens += len(self._pieces(text[position : span.start]))
            position = span.end
        parts.append(text[position:])
        public_tokens += len(self._pieces(text[position:]))
        return Plan(parts=tuple(parts), public_tokens=public_tokens, scoped=scope is not None)

    def _private(self, span: Span, source: str) -> Private:
        encoded(span.encode, "")  # a broken one fails here, before any charge
        text = span.private(source)
        tokens = tuple(self._token(text, each) for each in self._occurrences(text))
        return Private(tokens, span.encode)

    def _occurrences(self, text: str) -> list[Occurrence]:
        return _guarded(self._vocabulary.occurrences, text)

    def _pieces(self, public: str) -> Sequence[object]:
        """Known or unknown: public text needs no vocabulary."""
        return _guarded(self._vocabulary.tokenizer.pieces, public) if public else ()

    def _token(self, text: str, occurrence: Occurrence) -> Token:
        """A token and, if the policy keeps it, its public spelling."""
        if occurrence.id != UNKNOWN:
            kept = bool(self.kept[occurrence.id])
            return Token(occurrence.id, self._vocabulary.tokens[occurrence.id] if kept else None)
        word = text[occurrence.start : occurrence.end].strip().lower()
        return Token(UNKNOWN, word if word in self._words else None)


def _guarded(read: Callable[[str], Read], text: str) -> Read:
    try:
        return read(text)
    except DPMiddlewareError:
        raise
    except Exception as error:  # a tokenizer of the user's may quote the text
        failed = type(error).__name__
    raise ParameterError(f"the tokenizer failed with {failed}")
