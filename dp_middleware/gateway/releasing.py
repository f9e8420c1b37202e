"""What a gateway releases with: the ledger, and a session of every policy for each client."""

from __future__ import annotations

import os
from collections.abc import Callable
from hashlib import sha256
from typing import Any

import dp_middleware as dp
from dp_middleware.gateway.settings import Client, Policy, Settings
from dp_middleware.models.chat import local_model, open_model
from dp_middleware.privacy.releases import Ledger

# makes a dp.Sanitizer or dp.Pseudonyms for a policy, with a ledger and a subject
Releases = Callable[[Policy, Ledger | None, str], Any]
PSEUDONYM_KEY = "DP_GATEWAY_PSEUDONYM_KEY"  # the variable of the law "keyed", in its very signs

_NOBODY = "gateway"  # nothing is released in this name


def releases_of(policy: Policy, ledger: Ledger | None, subject: str) -> Any:
    """Makes what a policy asks for, on the default space; calibrating takes minutes once."""
    terms: dict[str, Any] = {"ledger": ledger, "subject": subject}
    sanitizer = None
    if policy.mode != "pseudonyms":
        by_sentence = dp.Adjacency.sentences() if policy.unit == "sentence" else None
        sanitizer = dp.sanitizer(policy.epsilon, policy.mechanism, adjacency=by_sentence, **terms)
    if policy.mode == "sanitizer":
        return sanitizer
    terms |= {name: getattr(policy, name) for name in ("on_empty", "on_language", "rest", "law")}
    terms["kinds"] = policy.kinds or None
    terms["key"] = os.environ.get(PSEUDONYM_KEY, "").encode() if policy.law else None
    return dp.Pseudonyms(sanitizer=sanitizer, **terms)


def open_ledger(settings: Settings) -> dp.PrivacyLedger | None:
    """Opens the ledger, if there is one."""
    terms = settings.ledger
    if terms.url is None:
        return None
    return dp.PrivacyLedger(terms.url, budget=terms.budget, window=terms.window)


def prepare(settings: Settings) -> None:
    """Calibrates and certifies for all policies, on disk for the workers; tries the ledger."""
    for policy in settings.policies.values():
        _ = releases_of(policy, None, _NOBODY).certificate
    ledger = open_ledger(settings)
    if ledger is not None:
        ledger.close()


class Sessions:
    """A session of every policy for each client, in the name of the client's subject.

    Each has a memo of its own, so that no client drops the releases of another. All is loaded at
    once: no request waits. Of earlier sessions those stay whose policy and subject are the same.
    """

    def __init__(
        self,
        settings: Settings,
        ledger: dp.PrivacyLedger | None,
        releases: Releases,
        before: Sessions | None = None,
    ) -> None:
        self._settings, policies = settings, settings.policies
        self._key = sha256(b"session " + settings.secret.get_secret_value().encode()).digest()
        old = before or self
        same = {n for n in policies if before and old._settings.policies.get(n) == policies[n]}
        self._releasers: dict[str, Any] = {
            n: old._releasers[n] if n in same else releases(p, ledger, _NOBODY)
            for n, p in policies.items()
        }
        self.extractors = {  # by policies
            n: local_model(open_model(p.extractor, private=True), p.trusted_hosts)
            for n, p in policies.items()
            if p.extractor
        }
        for releaser in self._releasers.values():
            if releaser.certificate and isinstance(releaser, dp.Pseudonyms):
                releaser.read("Nobody is here.")
        known = {(client.id, client.subject) for client in old._settings.clients if before}
        self.sessions: dict[tuple[str, str], dp.Session] = {}  # by policies and ids of clients
        for client in settings.clients:
            if ledger is not None and client.budget is not None:
                ledger.set_budget(client.subject, client.budget)
            for name, releaser in self._releasers.items():
                at = name, client.id
                stays = name in same and (client.id, client.subject) in known
                self.sessions[at] = old.sessions[at] if stays else self._session(releaser, client)

    def releaser(self, policy: str, subject: str) -> Any:
        """Returns what releases under a policy, in the name of a subject; without a memo."""
        return self._releasers[policy].for_subject(subject)

    def _session(self, releaser: Any, client: Client) -> dp.Session:
        file = self._settings.memo
        options: dict[str, Any] = {"key": self._key, "capacity": self._settings.memo_entries}
        if file is not None:
            options["memo"] = file.with_name(f"{file.stem}-{client.id}{file.suffix}")
        is_own = isinstance(releaser, dp.Pseudonyms)
        session = releaser.session(**options) if is_own else dp.Session(releaser, **options)
        return session.for_subject(client.subject)
