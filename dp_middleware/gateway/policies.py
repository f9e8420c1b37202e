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
    terms |= {"kinds": policy.kinds or None, "rest": policy.rest, "on_empty": policy.on_empty}
    return dp.Pseudonyms(sanitizer=sanitizer, **terms)


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
    """A session of every policy for each client, in the name of the client's subject.

    Each has a memo of its own: what one client sends never drops the releases of another, who
    would be charged for them again.

    Args:
        settings: Of the gateway.
        ledger: Charged before any draw.
        releases: Makes what releases.
    """

    def __init__(self, settings: Settings, ledger: Ledger | None, releases: Releases) -> None:
        self._key = sha256(b"session " + settings.secret.get_secret_value().encode()).digest()
        self._settings = settings
        self._made = {
            name: releases(policy, ledger, _NOBODY) for name, policy in settings.policies.items()
        }
        extracting = {name: p for name, p in settings.policies.items() if p.extractor}
        self._extractions = {name: Extraction(policy) for name, policy in extracting.items()}
        self._sessions: dict[tuple[str, str], dp.Session] = {}

    def releaser(self, policy: str, subject: str) -> Any:
        """What all sessions of a policy release with, charging a subject."""
        return self._made[policy].for_subject(subject)

    def of(self, policy: str, client: Client) -> dp.Session:
        """The session of a policy for a client."""
        name = (policy, client.id)
        if name not in self._sessions:
            self._sessions.setdefault(name, self._session(policy, client))
        return self._sessions[name]

    def _session(self, policy: str, client: Client) -> dp.Session:
        made, file = self._made[policy], self._settings.memo
        kept: dict[str, Any] = {"key": self._key, "capacity": self._settings.memo_entries}
        if file is not None:
            kept["memo"] = file.with_name(f"{file.stem}-{client.id}{file.suffix}")
        pseudonyms = isinstance(made, dp.Pseudonyms)
        session = made.session(**kept) if pseudonyms else dp.Session(made, **kept)
        return session.for_subject(client.subject)

    def extraction(self, policy: str) -> Extraction | None:
        """What fits answers under a policy to the private text, if anything does."""
        return self._extractions.get(policy)

    def prepare(self) -> None:
        """Compute all certificates and open all memos, so that no request waits for one.

        Raises:
            ParameterError: A memo that was written with another secret.
        """
        for name, made in self._made.items():
            _ = made.certificate
            for client in self._settings.clients:
                self.of(name, client)
