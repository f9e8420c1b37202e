"""Reads private texts: which tokens they have, and which of them a policy keeps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from dp_middleware.embedding import EmbeddingSpace
from dp_middleware.errors import DPMiddlewareError, ParameterError
from dp_middleware.sanitizers.draft import Plan, Private, Scope, Span, encoded, spans_of
from dp_middleware.sanitizers.policies import KeepPolicy
from dp_middleware.vocabulary.vocabulary import UNKNOWN, Occurrence

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
        if self._words:
            found = _guarded(self._vocabulary.occurrences, text)
            ids = tuple(each.id for each in found)
            kept = tuple(self._kept(text, each) for each in found)
        else:
            ids = tuple(_guarded(self._vocabulary.ids, text))
            kept = (None,) * len(ids)
        return Private(ids=ids, kept=kept, outputs=(None,) * len(ids), encode=span.encode)

    def _kept(self, text: str, token: Occurrence) -> str | None:
        """The public spelling of a token that the policy keeps."""
        if token.id != UNKNOWN:
            return self._vocabulary.tokens[token.id] if self.kept[token.id] else None
        word = text[token.start : token.end].strip().lower()
        return word if word in self._words else None

    def _pieces(self, public: str) -> Sequence[object]:
        """Known or unknown: public text needs no vocabulary."""
        return _guarded(self._vocabulary.tokenizer.pieces, public) if public else ()


def _guarded(read: Callable[[str], Read], text: str) -> Read:
    try:
        return read(text)
    except DPMiddlewareError:
        raise
    except Exception as error:  # a tokenizer of the user's may quote the text
        failed = type(error).__name__
    raise ParameterError(f"the tokenizer failed with {failed}")
