"""The routes of the playground: one page with its style and script, and what these ask for."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from functools import cache, partial
from importlib.resources import files
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from dp_middleware.gateway.admission import Gate
from dp_middleware.gateway.failures import failure_of
from dp_middleware.gateway.playground.guard import HEADERS, require_local
from dp_middleware.gateway.playground.releasing import Playground

_FILES = {
    "/": ("index.html", "text/html"),
    "/playground/page.css": ("page.css", "text/css"),
    "/playground/page.js": ("page.js", "text/javascript"),
}

_Endpoint = Callable[[Request], Awaitable[Response]]


def routes(make: Callable[[], Playground], gate: Gate) -> list[Route]:
    """The page and what it asks for; only for browsers on this computer.

    Args:
        make: Called at the first request: the ledger of a gateway is opened after its routes.
        gate: Limits requests and their bodies.
    """
    playground = cache(make)

    async def form(_: Request) -> Response:
        return _json(playground().form)

    async def release(request: Request) -> Response:
        return _json(await playground().release(await gate.body(request)))

    def route(path: str, endpoint: _Endpoint, method: str = "GET") -> Route:
        return Route(path, partial(_guarded, gate, endpoint), methods=[method])

    return [
        *(route(path, partial(_file, *which)) for path, which in _FILES.items()),
        route("/playground/form", form),
        route("/playground/release", release, "POST"),
    ]


async def _guarded(gate: Gate, endpoint: _Endpoint, request: Request) -> Response:
    """An answer; or what stands for an error, without a text of anybody's."""
    try:
        require_local(request)
        gate.count("playground")
        with gate:
            response = await endpoint(request)
    except Exception as error:
        response = failure_of(error).response()
    response.headers.update(HEADERS)
    return response


async def _file(name: str, kind: str, _: Request) -> Response:
    return Response(files(__package__).joinpath("static", name).read_bytes(), media_type=kind)


def _json(value: Any) -> Response:
    """In ASCII: a text may hold lone surrogates."""
    return Response(json.dumps(value), media_type="application/json")
