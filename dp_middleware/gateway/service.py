"""What all requests to a gateway have in common: who asks, and what one may take."""

from __future__ import annotations

import asyncio
import base64
import gc
import hmac
import logging
import math
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Literal

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

import dp_middleware as dp
from dp_middleware.gateway.failures import NO_RETRY, Failure, failure_of
from dp_middleware.gateway.fields import body_of
from dp_middleware.gateway.measures import Measures
from dp_middleware.gateway.releasing import Releases, Sessions, open_ledger
from dp_middleware.gateway.settings import ANTHROPIC, DEFAULT, Client, Limits, Policy, Settings
from dp_middleware.gateway.upstream import Upstream
from dp_middleware.models.chat import ChatModel
from dp_middleware.privacy.releases import Receipt

_THREADS = 32  # that release, each mostly waiting for the ledger
_MAC = 16  # bytes
_LONGEST = 2000  # characters of an id
_LONGEST_KEY = 200  # characters of a key that are looked at
_CHARGED_AGAIN = ("/v1/completions", "/v1/embeddings")  # where a client tries again
_PREFIXES = {"release": "rel-", "response": "resp_"}
_log = logging.getLogger("dp_middleware.gateway")


def new_key() -> str:
    """Makes a key for a client: 256 random bits, shown once and kept nowhere."""
    return "dpk-" + secrets.token_urlsafe(32)


def hash_of(secret: str, key: str) -> str:
    """Returns the HMAC-SHA256 in hex of a key, which is random: a fast hash helps no guessing."""
    return hmac.new(secret.encode(), b"client key " + key.encode(), "sha256").hexdigest()


def client_of(headers: Mapping[str, str], secret: str, clients: Iterable[Client]) -> Client | None:
    """Returns whose key a request has: it is OpenAI's, or LiteLLM's for its guardrails."""
    given = headers.get("authorization") or f"Bearer {headers.get('x-api-key', '')}"
    scheme, _, key = given.partition(" ")
    if scheme.lower() != "bearer" or not 0 < len(key) <= _LONGEST_KEY:
        return None
    hashed = hash_of(secret, key.strip())
    asking = [client for client in clients if hmac.compare_digest(client.key_hash, hashed)]
    return asking[-1] if asking else None


class Gate:
    """Counts requests of one worker, and limits them; raises :class:`Failure`: too many."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits, self._clock = limits, clock
        self._inside, self._tokens = 0, dict[str, tuple[float, float]]()  # what is left, and when

    def __enter__(self) -> None:
        if self._inside >= self.limits.concurrent:
            raise _too_many("at once")
        self._inside += 1

    def __exit__(self, *details: object) -> None:
        self._inside -= 1

    def count(self, client: str) -> None:
        """Counts a request of a client: a bucket fills evenly, up to a minute's requests."""
        most, now = float(self.limits.requests_per_minute), self._clock()
        left, then = self._tokens.get(client, (most, now))
        left = min(most, left + (now - then) * most / 60)
        self._tokens[client] = (left - 1 if left >= 1 else left, now)
        if left < 1:
            raise _too_many("in a minute", **{"retry-after": str(int((1 - left) * 60 / most) + 1)})


def _too_many(when: str, **headers: str) -> Failure:
    message = f"too many requests {when}"
    return Failure(429, message, "rate_limit_exceeded", kind="requests", headers=headers)


class Gateway:
    """Made once per worker; opened before the first request, which may take minutes."""

    def __init__(self, settings: Settings, releases: Releases) -> None:
        self.sessions: Sessions  # once it is open
        self.ledger: dp.PrivacyLedger | None = None
        self.releases, self.secret = releases, settings.secret.get_secret_value()
        self.gate, self.measures = Gate(settings.limits), Measures()
        self.take(settings)
        self.upstream = Upstream(settings, self.measures)

    def take(self, settings: Settings) -> None:
        """Has these settings from the next request on."""
        self.settings, self.gate.limits = settings, settings.limits

    async def open(self) -> None:
        """Opens the ledger and makes the sessions."""
        threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="dp-gateway")
        asyncio.get_running_loop().set_default_executor(threads)  # it has as many as processors
        self.ledger = await asyncio.to_thread(open_ledger, self.settings)
        terms = self.settings, self.ledger, self.releases
        self.sessions = await asyncio.to_thread(Sessions, *terms)
        gc.freeze()  # to look at a quarter of a million objects would stop all for 0.1 s

    async def close(self) -> None:
        """Closes connections; what was charged is in the ledger already."""
        gc.unfreeze()
        await self.upstream.close()
        if self.ledger is not None:
            self.ledger.close()

    def client_of(self, headers: Mapping[str, str]) -> Client | None:
        """Returns whose key a request has."""
        return client_of(headers, self.secret, self.settings.clients)

    async def let_in(self, request: Request, path: str) -> Call:
        """Reads a request of a client; the key is looked at before the body is read."""
        client = self.client_of(request.headers)
        if client is None:
            message = "expected a key of this gateway: Authorization: Bearer KEY"
            raise Failure(401, message, "invalid_api_key")
        self.gate.count(client.id)
        if request.scope.get("query_string"):  # not request.url: Host has a part in that
            raise Failure(400, "expected no query behind the path", "unknown_field")
        settings, sessions = self.settings, self.sessions
        body = await body_of(request, settings.limits) if request.method == "POST" else {}
        asked = path, body.get("model"), client.id
        policy = settings.policy_of(*asked) if settings.rules else DEFAULT
        return Call(
            gateway=self,
            client=client,
            request=request,
            body=body,
            policy_name=policy,
            policy=settings.policies[policy],
            session=sessions.sessions[policy, client.id],
            extractor=sessions.extractors.get(policy),
        )


@dataclass(frozen=True, kw_only=True)
class Call:
    """A request of a client that was let in, with the policy of the rule that fits."""

    gateway: Gateway
    client: Client
    request: Request  # its body was read
    body: dict[str, Any]  # private
    policy_name: str
    policy: Policy
    session: dp.Session  # releases in the name of the client's subject
    extractor: ChatModel | None  # the policy's local model
    facts: dict[str, float] = field(default_factory=dict)  # public numbers, for a span

    def count(self, receipt: Receipt, nats: float, seconds: float) -> None:
        """Counts what it drew and what was found in it, for the metrics and its span."""
        measures, draws = self.gateway.measures, len(receipt.charged)
        self.facts.update({f"dp.found.{kind}": number for kind, number in receipt.found.items()})
        self.facts.update({"dp.draws": draws, "dp.release_seconds": seconds})
        self.facts["dp.detection_seconds"] = receipt.detection
        measures.release_seconds.observe(seconds)
        measures.releases.inc(draws)
        if math.isfinite(nats):
            measures.nats.inc(nats)
        if receipt.detection:
            measures.detection.observe(receipt.detection)
        for kind, number in receipt.found.items():
            measures.found.labels(kind).inc(number)

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
        except ValueError:
            return None
        signed = hmac.compare_digest(data[:_MAC], self._mac(kind, data[_MAC:]))
        return data[_MAC:] if signed else None

    def _mac(self, kind: str, data: bytes) -> bytes:
        about = f"{kind} {self.client.id}".encode()
        key = hmac.digest(self.gateway.secret.encode(), about, "sha256")
        return hmac.digest(key, data, "sha256")[:_MAC]


Handler = Callable[[Call], Awaitable[Response]]


class Door:
    """Lets a client in, and out: with an answer, or a failure without text."""

    def __init__(self, gateway: Gateway, path: str, method: str, handler: Handler) -> None:
        self._gateway, self._path, self._method, self._handler = gateway, path, method, handler

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        measures, started = self._gateway.measures, time.perf_counter()
        response: Response | None = None
        span, facts = measures.tracer.start_span("dp.gateway.request"), dict[str, float]()
        with measures.inside.track_inprogress():
            try:
                with self._gateway.gate:
                    call = await self._gateway.let_in(Request(scope, receive), self._path)
                    facts = call.facts
                    response = await self._handler(call)
                    await response(scope, receive, send)
            except Exception as error:
                if response is None or not getattr(response, "begun", True):
                    response = self._failed(error)
                    await response(scope, receive, send)
        seconds, status = time.perf_counter() - started, response.status_code
        measures.requests.labels(self._path, str(status)).inc()
        measures.seconds.labels(self._path).observe(seconds)
        told = {"http.route": self._path, "http.response.status_code": status}
        span.set_attributes({**told, **facts})
        span.end()
        _log.info("%s %s %d %.0f ms", self._method, self._path, status, 1000 * seconds)

    def _failed(self, error: Exception) -> Response:
        failure = failure_of(error)
        self._gateway.measures.refusals.labels(failure.code).inc()
        if failure.status >= 500:
            what = (self._method, self._path, failure.code, type(error).__name__)
            _log.error("%s %s failed: %s (%s)", *what)
        if self._path in _CHARGED_AGAIN and failure.code.startswith("upstream"):
            failure.headers = {**failure.headers, **NO_RETRY}
        is_anthropic = self._path.removeprefix("/v1").startswith(ANTHROPIC)
        return failure.response(failure.anthropic() if is_anthropic else None)


class Quiet:
    """Logs nothing but the type of what goes wrong outside of all doors."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        try:
            await self._app(scope, receive, send)
        except Exception as error:
            if scope["type"] != "http":
                raise
            _log.error("failed with %s", type(error).__name__)
