"""What all routes of a gateway share: ledger, sessions and upstream; and a call of one of them."""

from __future__ import annotations

import asyncio
import base64
import binascii
import gc
import hmac
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal

from starlette.requests import Request

import dp_middleware as dp
from dp_middleware.errors import DPMiddlewareError
from dp_middleware.gateway.admission import Clients, Gate
from dp_middleware.gateway.extraction import Extraction
from dp_middleware.gateway.failures import Failure
from dp_middleware.gateway.measures import Measures
from dp_middleware.gateway.settings import Client, Policy, Settings
from dp_middleware.gateway.upstream import Upstream
from dp_middleware.privacy.releases import Ledger

Releases = Callable[[Policy, Ledger | None, str], Any]
"""A ``dp.Sanitizer`` or ``dp.Pseudonyms`` for a policy, with a ledger and a subject."""

_NOBODY = "gateway"  # nothing is released in this name
_THREADS = 32  # that release, each mostly waiting for the ledger
_READY = 2.0  # seconds for the ledger, of a gateway that is ready
_FRESH = 1.0  # seconds for which that counts
_MAC = 16  # bytes
_LONGEST = 2000  # characters of an id


def releases_of(policy: Policy, ledger: Ledger | None, subject: str) -> Any:
    """Makes what a policy asks for, on the default space; calibrating takes minutes once.

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
    """Opens the ledger, with the budgets of clients that have their own.

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
    """Calibrates and certifies for all policies, on disk for the workers; tries the ledger.

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
    would be charged for them again. All certificates are computed and all memos opened at once,
    so that no request waits for one.

    Raises:
        DPMiddlewareError: As of ``releases``, or a memo that was written with another secret.
    """

    def __init__(
        self, settings: Settings, ledger: dp.PrivacyLedger | None, releases: Releases
    ) -> None:
        policies = settings.policies
        self._settings = settings
        self._key = sha256(b"session " + settings.secret.get_secret_value().encode()).digest()
        self._releasers = {n: releases(p, ledger, _NOBODY) for n, p in policies.items()}
        self.extractions = {n: Extraction(p) for n, p in policies.items() if p.extractor}
        self._sessions = {
            (name, client.id): self._session(releaser, client)
            for name, releaser in self._releasers.items()
            if releaser.certificate
            for client in settings.clients
        }

    def releaser(self, policy: str, subject: str) -> Any:
        """Returns what releases under a policy, in the name of a subject; without a memo."""
        return self._releasers[policy].for_subject(subject)

    def of(self, policy: str, client: Client) -> dp.Session:
        """Returns a client's session under a policy."""
        return self._sessions[policy, client.id]

    def _session(self, releaser: Any, client: Client) -> dp.Session:
        file = self._settings.memo
        options: dict[str, Any] = {"key": self._key, "capacity": self._settings.memo_entries}
        if file is not None:
            options["memo"] = file.with_name(f"{file.stem}-{client.id}{file.suffix}")
        is_own = isinstance(releaser, dp.Pseudonyms)
        session = releaser.session(**options) if is_own else dp.Session(releaser, **options)
        return session.for_subject(client.subject)


class Gateway:
    """Made once per worker; opened before the first request, in threads that may take minutes."""

    def __init__(self, settings: Settings, releases: Releases) -> None:
        self.settings, self._releases = settings, releases
        self.secret = settings.secret.get_secret_value()
        self.clients = Clients(self.secret, settings.clients)
        self.gate, self.measures = Gate(settings.limits), Measures()
        self.upstream = Upstream(settings, self.measures)
        self.ledger: dp.PrivacyLedger | None = None
        self._sessions: Sessions | None = None
        self._asked: asyncio.Task[bool] | None = None  # whether the ledger answers ...
        self._asked_at = 0.0  # ... and when it was asked

    async def open(self) -> None:
        """Opens the ledger and makes the sessions.

        What was loaded until then is left alone by collections of garbage until :meth:`close`: to
        look at a quarter of a million objects takes 0.1 s, in which no request is answered.

        Raises:
            DPMiddlewareError: They cannot be had.
        """
        threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="dp-gateway")
        asyncio.get_running_loop().set_default_executor(threads)  # it has as many as processors
        await asyncio.to_thread(self._open)
        self.upstream.open()
        gc.freeze()

    def _open(self) -> None:
        self.ledger = open_ledger(self.settings)
        self._sessions = Sessions(self.settings, self.ledger, self._releases)

    async def close(self) -> None:
        """Closes connections; what was charged is in the ledger already."""
        gc.unfreeze()
        await self.upstream.close()
        if self.ledger is not None:
            self.ledger.close()

    @property
    def sessions(self) -> Sessions:
        """Of all policies.

        Raises:
            Failure: The gateway is not open yet.
        """
        if self._sessions is None:
            raise Failure(503, "the gateway is not ready yet", "not_ready", kind="server_error")
        return self._sessions

    async def ready(self) -> bool:
        """Tells whether it can release: the ledger answers, within its time.

        It is asked in a thread, once at a time and once a second at most.
        """
        if self._sessions is None:
            return False
        asked, now = self._asked, time.monotonic()
        if asked is None or (asked.done() and now - self._asked_at > _FRESH):
            asked = asyncio.create_task(asyncio.to_thread(self._ledger_answers))
            self._asked, self._asked_at = asked, now
        done, _ = await asyncio.wait({asked}, timeout=_READY)
        return bool(done) and asked.result()

    def _ledger_answers(self) -> bool:
        try:
            if self.ledger is not None:
                self.ledger.account("gateway")
        except DPMiddlewareError:
            return False
        return True


@dataclass(frozen=True, kw_only=True)
class Call:
    """A request of a client that was let in.

    Attributes:
        gateway: What all calls share.
        client: Who asks.
        request: Its headers; the body was read.
        body: Private: a JSON object.
        policy_name: Of this route.
        policy: Of this route.
        session: Releases in the name of the client's subject.
    """

    gateway: Gateway
    client: Client
    request: Request
    body: dict[str, Any]
    policy_name: str
    policy: Policy
    session: dp.Session

    def sign(self, kind: Literal["release", "response"], data: bytes) -> str:
        """Returns an id that holds public data: every worker reads it, nobody else makes one."""
        signed = base64.urlsafe_b64encode(self._mac(kind, data) + data)
        return _PREFIXES[kind] + signed.decode().rstrip("=")

    def signed(self, kind: Literal["release", "response"], name: str) -> bytes | None:
        """Returns what an id of :meth:`sign` holds; ``None``: this client was not given it."""
        if not name.startswith(_PREFIXES[kind]) or len(name) > _LONGEST:
            return None
        coded = name.removeprefix(_PREFIXES[kind])
        try:
            data = base64.b64decode(coded + "=" * (-len(coded) % 4), b"-_", validate=True)
        except (ValueError, binascii.Error):
            return None
        signed = hmac.compare_digest(data[:_MAC], self._mac(kind, data[_MAC:]))
        return data[_MAC:] if signed else None

    def _mac(self, kind: str, data: bytes) -> bytes:
        about = f"{kind} {self.client.id}".encode()
        key = hmac.digest(self.gateway.secret.encode(), about, "sha256")
        return hmac.digest(key, data, "sha256")[:_MAC]


_PREFIXES = {"release": "rel-", "response": "resp_"}
