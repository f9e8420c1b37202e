"""What documents keep of their metadata."""

from __future__ import annotations

from collections.abc import Collection

from dp_middleware.errors import ParameterError


def public_keys(metadata: Collection[str]) -> tuple[str, ...]:
    """Returns the keys of documents' metadata that are public and kept.

    Raises:
        ParameterError: One string, or not strings.
    """
    if isinstance(metadata, str) or not all(isinstance(key, str) for key in metadata):
        raise ParameterError("expected metadata=['source', ...], names of public keys")
    return tuple(metadata)
