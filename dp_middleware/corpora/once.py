"""A chunk is paid once and has one draw, wherever the process that releases it is killed.

From its seed, 32 random bytes, the rows and all that decides their release follow the names under
which a ledger is charged and the bytes that the draw is made of: who comes back after a crash finds
its charges paid and makes the same draw (docs/corpora.md: what follows where something differs).
"""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Callable
from hashlib import blake2b
from typing import Any, TypeVar

from dp_middleware import __version__
from dp_middleware.privacy import Certificate
from dp_middleware.privacy.ledger.ledger import PrivacyLedger
from dp_middleware.pseudonyms.pseudonyms import Pseudonyms
from dp_middleware.sampling.entropy import expanded
from dp_middleware.sanitizers.sanitizer import Sanitizer

R = TypeVar("R", bound=Sanitizer | Pseudonyms)

Seed = Callable[[], bytes]
"""Has 32 secret random bytes of a chunk kept until its release is, and returns them."""


def once(releaser: R, seed: Seed | None, told: Any) -> R:
    """What releases the rows of a chunk, once; without a seed or a ledger of ours, as it is.

    The draw has the law of its certificate where SHAKE-256 of a secret seed cannot be told from
    random bytes. ``told`` is JSON of the rows and of all that decides their release: private.
    """
    ledger = releaser.ledger
    if seed is None or not isinstance(ledger, PrivacyLedger):
        return releaser
    told = json.dumps([__version__, told]).encode()
    token = blake2b(told, key=seed(), digest_size=32).digest()
    twin = copy.copy(releaser)
    twin.ledger, twin.entropy = _Named(ledger, token), expanded(token)
    if isinstance(twin, Pseudonyms) and twin.sanitizer is not None:
        twin.sanitizer = copy.copy(twin.sanitizer)
        twin.sanitizer.entropy = twin.entropy
    return twin


class _Named:
    """A ledger whose charges have names: by what they are for, and equal ones by their number."""

    def __init__(self, ledger: PrivacyLedger, token: bytes) -> None:
        self._ledger, self._token, self._equal = ledger, token, Counter[str]()

    def charge(self, subject: str, certificate: Certificate, n: int) -> object:
        """As of the ledger."""
        bill = json.dumps([subject, certificate.fingerprint, n])
        self._equal[bill] += 1
        told = f"{self._equal[bill]} {bill}".encode()
        name = blake2b(told, key=self._token, digest_size=16, person=b"charge").hexdigest()
        return self._ledger.charge(subject, certificate, n, release=name)
