"""What all routes of a gateway share, and a call of one of them."""

from __future__ import annotations

import asyncio
import gc
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request

import dp_middleware as dp
from dp_middleware.errors import DPMiddlewareError
from dp_middleware.gateway.clients import Clients
from dp_middleware.gateway.failures import Failure
from dp_middleware.gateway.limits import Gate
from dp_middleware.gateway.measures import Measures
from dp_middleware.gateway.policies import Releases, Sessions, open_ledger
from dp_middleware.gateway.settings import Client, Policy, Settings
from dp_middleware.gateway.upstream import Upstream

_THREADS = 32  # that release, each mostly waiting for the ledger

_READY = 2.0  # seconds for the ledger, of a gateway that is ready
_FRESH = 1.0  # seconds for which that counts


class Gateway:
    """Made once per worker; opened before the first request, in threads that may take minutes.

    Args:
        settings: The operator's.
        releases: Makes what releases, from a policy.
    """

    def __init__(self, settings: Settings, releases: Releases) -> None:
        self.settings, self._releases = settings, releases
        self.secret = settings.secret.get_secret_value()
        self.clients = Clients(self.secret, settings.clients)
        self.gate = Gate(settings.limits)
        self.measures = Measures()
        self.upstream = Upstream(settings, self.measures)
        self.ledger: dp.PrivacyLedger | None = None
        self._sessions: Sessions | None = None
        self._asked: asyncio.Task[bool] | None = None  # whether the ledger answers ...
        self._asked_at = 0.0  # ... and when it was asked

    async def open(self) -> None:
        """Open the ledger and make the sessions.

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
        sessions = Sessions(self.settings, self.ledger, self._releases)
        sessions.prepare()
        self._sessions = sessions

    async def close(self) -> None:
        """Close connections; what was charged is in the ledger already."""
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
        """Whether it can release: the ledger answers, within its time.

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
        path: Of the route, as the table spells it; never one that a header can make up.
        request: Its headers; the body was read.
        body: Private: a JSON object.
    """

    gateway: Gateway
    client: Client
    path: str
    request: Request
    body: dict[str, Any]

    @property
    def policy_name(self) -> str:
        """Of this route."""
        return self.gateway.settings.policy(self.path)

    @property
    def policy(self) -> Policy:
        """Of this route."""
        return self.gateway.settings.policies[self.policy_name]

    @property
    def session(self) -> dp.Session:
        """Releases in the name of the client's subject."""
        return self.gateway.sessions.of(self.policy_name, self.client)
