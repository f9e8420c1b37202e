"""Encryption of what is kept of a conversation's pseudonyms."""

from __future__ import annotations

import secrets

from dp_middleware.errors import ParameterError, needs

TAG = 16
"""Bytes at the end of what is sealed, of all of it and of what was before."""

_NONCE = 12  # bytes


class Seal:
    """Authenticated encryption (AES-GCM) under a key that is never written.

    Raises:
        MissingExtra: The package ``cryptography`` is not installed.
    """

    def __init__(self, key: bytes) -> None:
        with needs("detect"):
            from cryptography.exceptions import InvalidTag
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        self._cipher = AESGCM(key)
        self._refusals = (InvalidTag, ValueError)  # the latter where next to nothing is left

    def closed(self, data: bytes, conversation: bytes) -> bytes:
        """What may be written."""
        nonce = secrets.token_bytes(_NONCE)
        return nonce + self._cipher.encrypt(nonce, data, conversation)

    def opened(self, sealed: bytes, conversation: bytes) -> bytes:
        """Inverse of :meth:`closed`.

        Raises:
            ParameterError: A byte was changed, or the key is another.
        """
        try:
            return self._cipher.decrypt(sealed[:_NONCE], sealed[_NONCE:], conversation)
        except self._refusals:
            raise ParameterError(
                "expected a mapping as it was written with this key, got one that does not "
                "decrypt: its file was changed, or the key is another; take a copy of the file"
            ) from None
