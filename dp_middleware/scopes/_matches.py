"""Spans of regular expressions, and of a Presidio analyzer."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from dp_middleware.errors import ParameterError
from dp_middleware.sanitizers.spans import Span


def matches(*patterns: str | re.Pattern[str]) -> Callable[[str], list[Span]]:
    r"""What regular expressions match is private, **everything else goes out as it is**.

    Example:
        >>> from dp_middleware import scopes
        >>> [(s.start, s.end) for s in scopes.matches(r"\d{4,}")("PIN 12345")]
        [(4, 9)]

    Args:
        patterns: Python's regular expressions, at least one.

    Raises:
        ParameterError: No pattern, or one that is no regular expression.
    """
    if not patterns:
        raise ParameterError("expected at least one pattern: without any, all text is public")
    try:
        compiled = [re.compile(pattern) for pattern in patterns]
    except (re.error, TypeError) as error:
        raise ParameterError(f"expected regular expressions, got a pattern with {error}") from None
    return partial(_matches, compiled)


def presidio(
    analyzer: Any, *, language: str = "en", entities: Iterable[str] | None = None
) -> Callable[[str], list[Span]]:
    """What a Presidio ``AnalyzerEngine`` finds is private.

    **What the analyzer misses goes out as it is.** The guarantee holds for the spans that it
    finds; no recogniser finds all, and where it found something is public.

    Args:
        analyzer: Has ``analyze(text=..., language=..., entities=...)``, as Presidio's engine. It
            reads raw text, so it must run where raw text may go, and log nothing of it.
        language: Of the texts.
        entities: Kinds to look for such as ``"PERSON"``; default all that it knows.

    Raises:
        ParameterError: There is no such method, or ``entities`` is one str.
    """
    if not callable(getattr(analyzer, "analyze", None)):
        raise ParameterError(
            f"expected an analyzer with analyze(), got {type(analyzer).__name__}; build a "
            "presidio_analyzer.AnalyzerEngine"
        )
    if isinstance(entities, str):
        raise ParameterError("expected a collection of entities, got one str")
    kinds = None if entities is None else list(entities)
    return partial(_presidio, analyzer, language, kinds)


def _matches(patterns: list[re.Pattern[str]], text: str) -> list[Span]:
    return [Span(*match.span()) for pattern in patterns for match in pattern.finditer(text)]


def _presidio(analyzer: Any, language: str, kinds: list[str] | None, text: str) -> list[Span]:
    results = analyzer.analyze(text=text, language=language, entities=kinds)
    return [Span(result.start, result.end) for result in results]
