"""What releases: one session per policy, whose twins charge the subjects of clients."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Any

import dp_middleware as dp
from dp_middleware.gateway.extraction import Extraction
from dp_middleware.gateway.settings import Client, Policy, Settings
from dp_middleware.privacy.releases import Ledger

_NOBODY = "gateway"  # nothing is released in this name

Releases = Callable[[Policy, Ledger | None, str], Any]
"""A ``dp.Sanitizer`` or ``dp.Pseudonyms`` for a policy, with a ledger and a subject."""


def releases_of(policy: Policy, ledger: Ledger | None, subject: str) -> Any:
    """What a policy asks for, on the default space; calibrated, which takes minutes once.

    Raises:
        DPMiddlewareError: It cannot be had.
    """
    terms: dict[str, Any] = {"ledger": ledger, "subject": subject}
    sanitizer = None
    if policy.mode != "pseudonyms":
        sanitizer = dp.sanitizer(policy.epsilon, policy.mechanism, **terms)
    if policy.mode == "sanitizer":
        return sanitizer
    kinds = policy.kinds or None
    return dp.Pseudonyms(kinds=kinds, sanitizer=sanitizer, on_empty=policy.on_empty, **terms)


def open_ledger(settings: Settings) -> dp.PrivacyLedger | None:
    """The ledger, with the budgets of clients that have their own.

    Raises:
        LedgerError: It cannot be used.
        ParameterError: It was created with other terms.
    """
    terms = settings.ledger
    if terms.url is None:
        return None
    ledger = dp.PrivacyLedger(terms.url, budget=terms.budget, window=terms.window)
    for client in settings.clients:
        if client.budget is not None:
            ledger.set_budget(client.subject, client.budget)
    return ledger


def prepare(settings: Settings) -> None:
    """Calibrate and certify for all policies, and keep that on disk for the workers.

    Also opens the ledger, so that what is wrong with it is said before they begin.

    Raises:
        DPMiddlewareError: Something cannot be had.
    """
    for policy in settings.policies.values():
        _ = releases_of(policy, None, _NOBODY).certificate
    ledger = open_ledger(settings)
    if ledger is not None:
        ledger.close()


class Sessions:
    """The session of every policy, and their twins in the names of clients.

    Args:
        settings: Of the gateway.
        ledger: Charged before any draw.
        releases: Makes what releases.
    """

    def __init__(self, settings: Settings, ledger: Ledger | None, releases: Releases) -> None:
        key = sha256(b"session " + settings.secret.get_secret_value().encode()).digest()
        kept: dict[str, Any] = {"key": key}
        if settings.memo is not None:
            kept["memo"] = settings.memo
        self._sessions: dict[str, dp.Session] = {}
        for name, policy in settings.policies.items():
            made = releases(policy, ledger, _NOBODY)
            pseudonyms = isinstance(made, dp.Pseudonyms)
            self._sessions[name] = made.session(**kept) if pseudonyms else dp.Session(made, **kept)
        extracting = {name: p for name, p in settings.policies.items() if p.extractor}
        self._extractions = {name: Extraction(policy) for name, policy in extracting.items()}
        self._twins: dict[tuple[str, str], dp.Session] = {}

    def of(self, policy: str, client: Client) -> dp.Session:
        """The session of a policy in the name of a client's subject."""
        name = (policy, client.subject)
        if name not in self._twins:
            twin = self._sessions[policy].for_subject(client.subject)
            self._twins.setdefault(name, twin)
        return self._twins[name]

    def extraction(self, policy: str) -> Extraction | None:
        """What fits answers under a policy to the private text, if anything does."""
        return self._extractions.get(policy)

    def prepare(self) -> None:
        """Compute all certificates, so that no request waits for one."""
        for session in self._sessions.values():
            _ = session.sanitizer.certificate
