"""Texts that somebody declares public, by a parameter."""

from __future__ import annotations

from collections.abc import Collection

from dp_middleware.errors import ParameterError


def public_texts(texts: Collection[str], name: str) -> tuple[str, ...]:
    """Returns texts that go out as they are, such as keys of documents' metadata.

    Args:
        texts: The value of a parameter.
        name: Of the parameter.

    Raises:
        ParameterError: One string, or not strings.
    """
    if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
        raise ParameterError(f"expected {name}=['...'], a collection of texts")
    return tuple(texts)
