"""Spans of regular expressions."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from dp_middleware.errors import ParameterError
from dp_middleware.sanitizers.spans import Span


def matches(*patterns: str | re.Pattern[str]) -> Callable[[str], list[Span]]:
    r"""Makes what regular expressions match private; **everything else goes out as it is**.

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


def _matches(patterns: list[re.Pattern[str]], text: str) -> list[Span]:
    return [Span(*match.span()) for pattern in patterns for match in pattern.finditer(text)]
