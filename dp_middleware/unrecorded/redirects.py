"""Where HTTP clients follow redirects: a private text goes to no address but the model's own."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import sys
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, NamedTuple

from dp_middleware.errors import UntrustedHost

_BODILESS = ("GET", "HEAD", "OPTIONS")  # files of models are fetched so, and redirected
_REFUSED = "the server redirects the call, and raw text follows no redirect"


class Redirected(UntrustedHost):
    """A server redirects a call with raw text. Its message holds none."""


class Following(NamedTuple):
    """A method of an HTTP client that follows redirects.

    Attributes:
        module: Where its class is.
        kind: Name of the class.
        name: Of the method. Its first argument is the request, or the request's method.
        option: The argument that says whether it follows; ``None``: it is called to follow.
        raises: Whether a redirect raises: its callers might take one for an answer.
    """

    module: str
    kind: str
    name: str
    option: str | None
    raises: bool


_ALL = (
    Following("httpx", "Client", "send", "follow_redirects", raises=False),
    Following("httpx", "AsyncClient", "send", "follow_redirects", raises=False),
    Following("httpx2", "Client", "send", "follow_redirects", raises=False),
    Following("httpx2", "AsyncClient", "send", "follow_redirects", raises=False),
    Following("requests", "Session", "send", "allow_redirects", raises=True),
    Following("aiohttp", "ClientSession", "_request", "allow_redirects", raises=True),
    Following("urllib3", "PoolManager", "urlopen", "redirect", raises=True),
    Following("urllib.request", "HTTPRedirectHandler", "redirect_request", None, raises=True),
)


def load_clients() -> None:
    """Import what is installed: a client that is imported during a call would go unnoticed."""
    for following in _ALL:
        with contextlib.suppress(Exception):
            importlib.import_module(following.module)


def clients() -> Iterator[tuple[type, Following]]:
    """Classes that are imported, and their methods that follow redirects."""
    for following in _ALL:
        client = getattr(sys.modules.get(following.module), following.kind, None)
        if client is not None:
            yield client, following


def stay(
    method: Callable[..., Any],
    client: Any,
    /,
    *args: Any,
    following: Following,
    is_private: Callable[[], bool],
    **kwargs: Any,
) -> Any:
    """Call the method, which sends a private body on to no other address.

    It returns the redirect itself, or raises.

    Raises:
        Redirected: Its callers might take the redirect for an answer.
    """
    if not is_private() or not _has_body(*args, **kwargs):
        return method(client, *args, **kwargs)
    if following.option is None:
        raise Redirected(_REFUSED)
    positional = args[:2] if following.option == "redirect" else args  # it may be the third
    response = method(client, *positional, **{**kwargs, following.option: False})
    if not following.raises:
        return response
    return _acheck(response) if inspect.isawaitable(response) else _check(response)


def _has_body(*args: Any, **kwargs: Any) -> bool:
    """Whether a request has a body, or a method that usually comes with one."""
    request = args[0] if args else kwargs.get("request", kwargs.get("method"))
    asked = getattr(request, "get_method", None)  # urllib's
    verb = str(asked() if asked else getattr(request, "method", request)).upper()
    headers = {name.lower(): value for name, value in getattr(request, "headers", {}).items()}
    bodies = [getattr(request, name, None) for name in ("body", "data")]  # requests', urllib's
    bodies += [kwargs.get(name) for name in ("data", "json", "body", "fields")]
    length = headers.get("content-length", "0")
    is_sent = length != "0" or "transfer-encoding" in headers
    return verb not in _BODILESS or is_sent or any(body not in (None, b"", "") for body in bodies)


def _check(response: Any) -> Any:
    status = getattr(response, "status_code", None) or getattr(response, "status", None)
    if status in (301, 302, 303, 307, 308):
        response.close()
        raise Redirected(_REFUSED)
    return response


async def _acheck(response: Awaitable[Any]) -> Any:
    return _check(await response)
