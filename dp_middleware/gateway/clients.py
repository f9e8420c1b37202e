"""Who asks: keys of 256 random bits, of which only keyed hashes are kept."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Iterable, Mapping
from typing import Final

from dp_middleware.gateway.settings import Client

_PREFIX: Final = "dpk-"
_LONGEST = 200  # characters of a key that are looked at


def new_key() -> str:
    """A key for a client; it is shown once and kept nowhere."""
    return _PREFIX + secrets.token_urlsafe(32)


def hash_of(secret: str, key: str) -> str:
    """What the configuration holds of a key: HMAC-SHA256 under the gateway's secret, in hex.

    A key is as random as the secret, so guessing it is no easier with a fast hash.
    """
    return hmac.new(secret.encode(), b"client key " + key.encode(), "sha256").hexdigest()


class Clients:
    """The clients by their keys.

    Args:
        secret: Of the gateway.
        clients: As configured.
    """

    def __init__(self, secret: str, clients: Iterable[Client]) -> None:
        self._secret = secret
        self._clients = tuple(clients)

    def asking(self, headers: Mapping[str, str]) -> Client | None:
        """The client of a request: its key is OpenAI's, or LiteLLM's for its guardrails."""
        key = headers.get("x-api-key")
        return self.of(headers.get("authorization") or (key and f"Bearer {key}"))

    def of(self, authorization: str | None) -> Client | None:
        """The client with the key in a header; compared in constant time, with all of them."""
        scheme, _, key = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not 0 < len(key) <= _LONGEST:
            return None
        hashed, found = hash_of(self._secret, key.strip()), None
        for client in self._clients:
            if hmac.compare_digest(client.key_hash, hashed):
                found = client
        return found
