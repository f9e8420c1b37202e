"""The ASGI application: one table of routes, and a door that all of them have in common."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from dp_middleware.errors import needs

with needs("gateway"):
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response
    from starlette.routing import BaseRoute, Route
    from starlette.types import ASGIApp

from dp_middleware.gateway import anthropic
from dp_middleware.gateway.accounts import budget, model, models, release
from dp_middleware.gateway.chat import chat
from dp_middleware.gateway.failures import Failure
from dp_middleware.gateway.guardrail import guardrail
from dp_middleware.gateway.playground import gateway_routes
from dp_middleware.gateway.releasing import Releases, releases_of
from dp_middleware.gateway.reloading import reload_on_signal
from dp_middleware.gateway.responses import responses
from dp_middleware.gateway.rules import GUARDRAIL
from dp_middleware.gateway.service import Door, Gateway, Handler, Quiet
from dp_middleware.gateway.settings import Settings
from dp_middleware.gateway.texts import completions, embeddings

CONFIG = "DP_GATEWAY_CONFIG"
"""Names the variable that tells workers their file."""

_LOOPBACK = ("127.0.0.1", "::1")


def create_app(
    settings: Settings, *, releases: Releases = releases_of, config: str | None = None
) -> ASGIApp:
    """Makes the gateway as an ASGI application.

    Args:
        settings: The operator's.
        releases: Makes what releases, from a policy, a ledger and a subject; default: as the
            policy says, on the default space.
        config: A file that is read again on SIGHUP.

    Raises:
        MissingExtra: A package of the extra ``gateway`` is missing.
    """
    gateway = Gateway(settings, releases)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        await gateway.open()
        if config is not None:
            reload_on_signal(gateway, config)
        try:
            yield
        finally:
            await gateway.close()

    app = Starlette(
        routes=_routes(gateway),
        lifespan=lifespan,
        exception_handlers={HTTPException: _http_failure},
    )
    app.router.redirect_slashes = False  # a redirect would repeat the query
    app.state.gateway = gateway
    return Quiet(app)


def from_environment() -> ASGIApp:
    """The gateway of the file in ``$DP_GATEWAY_CONFIG``: what every worker of uvicorn makes."""
    return create_app(Settings.read(os.environ[CONFIG]), config=os.environ[CONFIG])


def server_options() -> dict[str, Any]:
    """What uvicorn must be told: no log line has a query, no header tells what runs here.

    A WebSocket's handshake would be logged with its query; no route has any. A head that never
    ends is not waited for.
    """
    heads = "dp_middleware.gateway.serving:TimedHeads"  # by name: a worker imports it once it lives
    return {"access_log": False, "server_header": False, "ws": "none", "http": heads}


def _routes(gateway: Gateway) -> list[BaseRoute]:
    routes: list[BaseRoute] = [
        Route("/healthz", _healthz, methods=["GET"]),
        Route("/readyz", _readyz, methods=["GET"]),
        Route("/metrics", _metrics, methods=["GET"]),
    ]
    for path, method, handler in _table():
        routes.append(Route(path, Door(gateway, path, method, handler), methods=[method]))
    if gateway.settings.playground:
        routes += gateway_routes(gateway)
    return routes


def _table() -> list[tuple[str, str, Handler]]:
    return [
        ("/v1/chat/completions", "POST", chat),
        ("/v1/responses", "POST", responses),
        ("/v1/messages", "POST", anthropic.messages),
        ("/v1/messages/count_tokens", "POST", anthropic.count_tokens),
        ("/v1/completions", "POST", completions),
        ("/v1/embeddings", "POST", embeddings),
        (GUARDRAIL, "POST", guardrail),
        ("/v1/models", "GET", models),
        ("/v1/models/{id:path}", "GET", model),
        ("/v1/dp/budget", "GET", budget),
        ("/v1/dp/releases/{id}", "GET", release),
    ]


async def _healthz(_: Request) -> Response:
    return JSONResponse({"status": "ok"})


async def _readyz(request: Request) -> Response:
    missing = await request.app.state.gateway.waits_for()
    if missing:
        return JSONResponse({"status": "not ready", "waits_for": missing}, 503)
    return JSONResponse({"status": "ready"})


async def _metrics(request: Request) -> Response:
    """For this machine, and for those who have a key."""
    gateway: Gateway = request.app.state.gateway
    local = request.client is not None and request.client.host in _LOOPBACK
    if not local and gateway.clients.asking(request.headers) is None:
        return Failure(401, "expected a key of this gateway", "invalid_api_key").response()
    return Response(gateway.measures.text(), media_type="text/plain; version=0.0.4")


async def _http_failure(_: Request, error: Any) -> Response:
    """No such path, or no such method: said without repeating it."""
    said = {404: "no such path", 405: "no such method here"}
    message = said.get(error.status_code, "the request was refused")
    return Failure(error.status_code, message, "not_found").response()
