"""A page to see a release happen, for a browser on this computer alone: its routes."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from dp_middleware._waits import going_on
from dp_middleware.gateway.failures import Failure, failure_of
from dp_middleware.gateway.fields import body_of
from dp_middleware.gateway.playground.releasing import Playground, default_choices, policy_choices
from dp_middleware.gateway.service import Gate, Gateway
from dp_middleware.gateway.turns import read
from dp_middleware.models.trust import is_loopback

__all__ = ["Playground", "default_choices", "gateway_routes", "routes"]

# of every answer: nothing but our own files runs or is asked for, and nothing is kept
_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
_FORWARDED = ("forwarded", "via", "x-forwarded-", "x-real-ip")  # what a proxy adds begins so
_FILES = {
    "/": ("index.html", "text/html"),
    "/playground/page.css": ("page.css", "text/css"),
    "/playground/page.js": ("page.js", "text/javascript"),
}

_Answers = Callable[[dict[str, Any]], Any]  # of the body of a request; awaited for a POST


def gateway_routes(gateway: Gateway) -> list[Route]:
    """Makes the page of a gateway: its policies come first, then the library's defaults."""
    model = gateway.settings.upstream.models[0]

    async def ask(text: str) -> str:
        body = {"model": model, "messages": [{"role": "user", "content": text}]}
        answer = await gateway.upstream.ask("/chat/completions", body)
        content: str = read(lambda: "" + answer["choices"][0]["message"]["content"])
        return content

    def make() -> Playground:
        others = default_choices(ledger=gateway.ledger)
        return Playground([*policy_choices(gateway), *others], ask, model)

    return routes(make, gateway.gate)


def routes(make: Callable[[], Playground], gate: Gate) -> list[Route]:
    """Makes the page's routes; ``make`` is called at the first request, when a ledger is open."""
    playground = cache(make)
    shown: dict[str, _Answers] = {path: partial(_file, *file) for path, file in _FILES.items()}
    shown["/playground/form"] = lambda _: playground().form
    shown["/playground/progress"] = lambda _: {"doing": going_on()}
    asked: dict[str, _Answers] = {
        "/playground/preview": lambda body: playground().preview(body),
        "/playground/release": lambda body: playground().release(body),
    }
    return [
        Route(path, partial(_guarded, gate, answers), methods=[method])
        for method, paths in (("GET", shown), ("POST", asked))
        for path, answers in paths.items()
    ]


async def _guarded(gate: Gate, answers: _Answers, request: Request) -> Response:
    """An answer; or what stands for an error, without a text of anybody's."""
    try:
        _require_local(request)
        gate.count("playground")
        with gate:
            is_post = request.method == "POST"
            body = await body_of(request, gate.limits) if is_post else {}
            answer = await answers(body) if is_post else answers(body)
            response = answer if isinstance(answer, Response) else JSONResponse(answer)
    except Exception as error:
        response = failure_of(error).response()
    response.headers.update(_HEADERS)
    return response


def _file(name: str, kind: str, _: dict[str, Any]) -> Response:
    return Response(files(__package__).joinpath("static", name).read_bytes(), media_type=kind)


def _require_local(request: Request) -> None:
    """Refuses who is not a browser on this computer that shows our own page.

    A site that gives this computer a name of its own (DNS rebinding) sends that name as Host; one
    that makes a browser post to us is told by its Origin; a proxy says for whom it asks.
    """
    peer = request.client.host if request.client is not None else ""
    hosts = request.headers.getlist("host")
    is_passed = any(name.startswith(_FORWARDED) for name in request.headers)
    own = (f"http://{hosts[0]}", f"https://{hosts[0]}") if hosts else ()
    for is_fine, expected in (
        (is_loopback(peer), "a caller on this computer"),
        (not is_passed, "a caller on this computer, no proxy"),
        (len(hosts) == 1 and is_loopback(_name(hosts[0])), "Host: localhost, 127.0.0.1 or [::1]"),
        (request.method != "POST" or request.headers.get("origin") in own, "the page's own Origin"),
    ):
        if not is_fine:
            raise Failure(403, f"expected {expected}, got another", "not_local")


def _name(host: str) -> str:
    """Of a Host header; empty for what is none."""
    try:
        parts = urlsplit(f"//{host}")
        return (parts.hostname or "") if parts.netloc == host and "@" not in host else ""
    except ValueError:
        return ""
