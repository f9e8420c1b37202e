"""The ASGI application: one table of routes, and a door that all of them have in common."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from dp_middleware.errors import DPMiddlewareError, ParameterError, needs

with needs("gateway"):
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route
    from starlette.types import ASGIApp

from dp_middleware.gateway import anthropic
from dp_middleware.gateway.chat import chat
from dp_middleware.gateway.failures import Failure
from dp_middleware.gateway.playground import gateway_routes
from dp_middleware.gateway.releasing import Releases, Sessions, releases_of
from dp_middleware.gateway.responses import responses
from dp_middleware.gateway.service import Call, Door, Gateway, Handler, Quiet
from dp_middleware.gateway.settings import GUARDRAIL, Client, Settings
from dp_middleware.gateway.texts import completions, embeddings, guardrail
from dp_middleware.models.trust import is_loopback
from dp_middleware.privacy.certificate import json_number

CONFIG = "DP_GATEWAY_CONFIG"  # names the variable that tells workers their file

_READY = 2.0  # seconds for the ledger, of a gateway that is ready
_KEPT = "the settings stay as they were: %s"
_FIXED = "expected other policies, rules, clients, limits and models alone; restart for more"
_log = logging.getLogger("dp_middleware.gateway")


def create_app(
    settings: Settings, *, releases: Releases = releases_of, config: str | None = None
) -> ASGIApp:
    """Makes the gateway as an ASGI application.

    ``releases`` makes what releases, from a policy, a ledger and a subject; default: as the policy
    says, on the default space. ``config`` is a file that is read again on SIGHUP. MissingExtra: a
    package of the extra ``gateway`` is missing.
    """
    gateway = Gateway(settings, releases)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        await gateway.open()
        reading = None if config is None else asyncio.create_task(_listen(gateway, config))
        try:
            yield
        finally:
            if reading is not None:
                reading.cancel()
            await gateway.close()

    routes = [Route(path, get, methods=["GET"]) for path, get in _OPEN.items()]
    routes += [
        Route(path, Door(gateway, path, method, handler), methods=[method])
        for (path, method), handler in ROUTES.items()
    ]
    if settings.playground:
        routes += gateway_routes(gateway)
    refused = {HTTPException: _http_failure}
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers=refused)
    app.router.redirect_slashes = False  # a redirect would repeat the query
    app.state.gateway, app.state.asked = gateway, None
    return Quiet(app)


async def _listen(gateway: Gateway, config: str) -> None:
    """Reads a file again on every SIGHUP, one time after the other; in the main thread."""
    heard = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, heard.set)
    while await heard.wait():
        heard.clear()
        await reload(gateway, config)


async def reload(gateway: Gateway, file: str) -> None:
    """Has the settings of a file from the next request on; what is wrong is logged, no value."""
    try:
        settings = await asyncio.to_thread(Settings.read, file)
        if settings.fixed != gateway.settings.fixed:
            raise ParameterError(_FIXED)
    except ParameterError as error:
        return _log.error(_KEPT, error)
    try:
        terms = settings, gateway.ledger, gateway.releases, gateway.sessions
        gateway.sessions = await asyncio.to_thread(Sessions, *terms)
    except Exception as error:
        return _log.error(_KEPT, type(error).__name__)
    gateway.take(settings)
    return _log.info("the settings were read again")


def from_environment() -> ASGIApp:
    """The gateway of the file in ``$DP_GATEWAY_CONFIG``: what every worker of uvicorn makes."""
    return create_app(Settings.read(os.environ[CONFIG]), config=os.environ[CONFIG])


def server_options() -> dict[str, Any]:
    """What uvicorn must be told: no log line has a query, no header tells what runs here."""
    # a WebSocket's handshake would be logged with its query
    return {"access_log": False, "server_header": False, "ws": "none", "http": "h11"}


async def _healthz(_: Request) -> Response:
    return JSONResponse({"status": "ok"})


async def _readyz(request: Request) -> Response:
    """Names what is missing: the policies, with their detectors, or the ledger."""
    state = request.app.state
    gateway: Gateway = state.gateway
    if not hasattr(gateway, "sessions"):
        return JSONResponse({"status": "not ready", "waits_for": ["policies"]}, 503)
    if state.asked is None or state.asked.done():  # in a thread, once at a time
        state.asked = asyncio.create_task(asyncio.to_thread(_answers, gateway))
    done, _ = await asyncio.wait({state.asked}, timeout=_READY)
    if done and state.asked.result():
        return JSONResponse({"status": "ready"})
    return JSONResponse({"status": "not ready", "waits_for": ["ledger"]}, 503)


def _answers(gateway: Gateway) -> bool:
    try:
        return gateway.ledger is None or bool(gateway.ledger.account("gateway"))
    except DPMiddlewareError:
        return False


async def _metrics(request: Request) -> Response:
    gateway: Gateway = request.app.state.gateway
    is_local = request.client is not None and is_loopback(request.client.host)
    if not is_local and gateway.client_of(request.headers) is None:
        return Failure(401, "expected a key of this gateway", "invalid_api_key").response()
    return Response(gateway.measures.text(), media_type="text/plain; version=0.0.4")


_OPEN = {"/healthz": _healthz, "/readyz": _readyz, "/metrics": _metrics}


async def _http_failure(_: Request, error: Any) -> Response:
    said = {404: "no such path", 405: "no such method here"}
    message = said.get(error.status_code, "the request was refused")
    return Failure(error.status_code, message, "not_found").response()


async def release(call: Call) -> Response:
    """``/v1/dp/releases/{id}``: what a request released, with the certificate, without text."""
    data = call.signed("release", call.request.path_params["id"])
    account = json.loads(data) if data is not None else {}
    if account.get("policy") not in call.gateway.settings.policies:
        raise Failure(404, "no such release of this client", "not_found")
    session = call.gateway.sessions.sessions[account["policy"], call.client.id]
    certificate = session.sanitizer.certificate.to_dict()
    return JSONResponse({"object": "dp.release", **account, "certificate": certificate})


async def budget(call: Call) -> Response:
    """``/v1/dp/budget``: what the client's subject was charged, and may be."""
    return JSONResponse(await asyncio.to_thread(budget_of, call.gateway, call.client))


def budget_of(gateway: Gateway, client: Client) -> dict[str, Any]:
    """Without a ledger nothing is charged and nothing limited."""
    said: dict[str, Any] = {"object": "dp.budget", "unit": "nats"}
    if gateway.ledger is None:
        return {**said, "limited": False}
    account = gateway.ledger.account(client.subject)
    sums = {"charged": json_number(account.spent), "remaining": json_number(account.remaining)}
    return {**said, "limited": True, **sums, "window_seconds": gateway.ledger.window}


async def models(call: Call) -> Response:
    """``/v1/models``: what clients may ask for, from the configuration, or one of them."""
    names, asked = call.gateway.settings.upstream.models, call.request.path_params.get("id")
    known = [{"id": n, "object": "model", "created": 0, "owned_by": "upstream"} for n in names]
    if asked is None:
        return JSONResponse({"object": "list", "data": known})
    if asked not in names:
        raise Failure(404, "no such model", "model_not_found")
    return JSONResponse(known[names.index(asked)])


ROUTES: dict[tuple[str, str], Handler] = {  # what answers, by path and method
    ("/v1/chat/completions", "POST"): chat,
    ("/v1/responses", "POST"): responses,
    ("/v1/messages", "POST"): anthropic.messages,
    ("/v1/messages/count_tokens", "POST"): anthropic.count_tokens,
    ("/v1/completions", "POST"): completions,
    ("/v1/embeddings", "POST"): embeddings,
    (GUARDRAIL, "POST"): guardrail,
    ("/v1/models", "GET"): models,
    ("/v1/models/{id:path}", "GET"): models,
    ("/v1/dp/budget", "GET"): budget,
    ("/v1/dp/releases/{id}", "GET"): release,
}
