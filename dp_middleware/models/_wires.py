"""The addresses that a model calls, and the proxies that it may pass on the way."""

from __future__ import annotations

import re
import sys
import urllib.request
from collections.abc import Iterator
from itertools import chain
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from dp_middleware.models.parts import by_class, fields_of, inherits, values_of

_ADDRESS = re.compile(r"(^|_)(url|uri|endpoint|host|api_base)$")
_PROXY = re.compile(r"(^|_)(proxy|proxies)$")
_CLIENT = re.compile(r"(^|_)(a?client|session|connector)$")
_HTTPX = ("httpx", "httpx2")
_HTTPX_CLIENTS = ("Client", "AsyncClient")
_CLIENTS = {
    **dict.fromkeys(_HTTPX, _HTTPX_CLIENTS),
    "openai": ("OpenAI", "AsyncOpenAI"),
    "requests": ("Session",),
    "aiohttp": ("ClientSession",),
    "urllib3": ("PoolManager",),
}
_TRANSPORTS = ("BaseTransport", "AsyncBaseTransport")
_OWN_TRANSPORTS = (
    *("HTTPTransport", "AsyncHTTPTransport", "MockTransport", "WSGITransport", "ASGITransport"),
)
_HOST = re.compile(r"[a-z0-9._-]+|[0-9a-f:.]+(%[a-z0-9]+)?")
_DEPTH = 4
_NOWHERE = "http://localhost"  # where a client's proxies are looked up that knows of no address


class Wire(NamedTuple):
    """What one client, or a model with its clients, may speak to.

    Attributes:
        urls: Addresses.
        proxies: URLs of proxies that may read what is sent to one of them.
        unknown: Names of classes that send where one cannot tell.
    """

    urls: list[str]
    proxies: list[str]
    unknown: list[str]


def wires_of(model: Any) -> Iterator[Wire]:
    """Of the model's fields and of clients found in them, whatever the fields are called.

    An openai client takes the URL from itself: its connection may be shared and name another. Any
    other client may be used for every URL of the model.
    """
    near, apart = _holders(model)
    inner = [[value for _, value in fields_of(each)] for each in apart]
    yield _wire(near, near, [*near, *chain(*inner)])
    for each, parts in zip(apart, inner, strict=True):
        yield _wire([each], parts, parts)


def host_of(url: str) -> str | None:
    """Host of a URL, lower case; ``None`` where parsers might not agree on it."""
    try:
        name = urlsplit(url if "://" in url else f"//{url}").hostname
    except ValueError:
        return None
    if name is None or "\\" in url or not is_host(name):
        return None
    return name.rstrip(".")


def is_host(name: str) -> bool:
    """Whether it is a host's name or address, in lower case."""
    return _HOST.fullmatch(name) is not None


def _holders(model: Any) -> tuple[list[Any], list[Any]]:
    """The model and the clients in its fields, and apart from these openai's clients."""
    near, apart, seen = list[Any](), list[Any](), set[int]()
    waiting = [(model, _DEPTH)]
    while waiting:
        holder, depth = waiting.pop()
        if id(holder) in seen or holder is None:
            continue
        seen.add(id(holder))
        if _is_openais(holder):
            apart.append(holder)
            continue
        near.append(holder)
        if depth:
            waiting += [(client, depth - 1) for client in _clients_in(holder)]
    return near, apart


def _is_openais(x: Any) -> bool:
    return inherits(x, "openai", "BaseClient")


def _clients_in(x: Any) -> Iterator[Any]:
    for name, value in fields_of(x):
        is_named = _CLIENT.search(name) is not None
        yield from (part for part in values_of(value) if is_named or _is_client(part))


def _is_client(x: Any) -> bool:
    kinds = (type(x), x.__class__)  # a proxy has the class of what it is around
    return any(_is_clients(kind) for kind in kinds)


@by_class
def _is_clients(kind: type) -> bool:
    return any(issubclass(kind, _kinds(library, *names)) for library, names in _CLIENTS.items())


def _kinds(library: str, *names: str) -> tuple[type, ...]:
    """The library's own classes, found in it: another may have changed their ``__module__``."""
    kinds = (getattr(sys.modules.get(library), name, None) for name in names)
    return tuple(kind for kind in kinds if isinstance(kind, type))


def _wire(holders: list[Any], parts: list[Any], known: list[Any]) -> Wire:
    """The URLs in the fields of ``holders``, which the HTTP clients in ``parts`` call.

    The clients in ``known`` decide whether a call may pass the environment's proxies.
    """
    wire, is_direct = Wire([], [], []), _is_direct(known)
    for holder in holders:
        fields = dict(fields_of(holder))
        client = fields.get("_client", holder)
        uses_environment = not is_direct and getattr(client, "_trust_env", True)
        for name, value in fields.items():
            if _PROXY.search(name):
                values = [value] if _is_address(value) else values_of(value)  # a URL may be a tuple
                wire.proxies.extend(str(each) for each in values if _is_address(each))
            elif _ADDRESS.search(name) and _is_address(value):
                wire.urls.append(str(value))
                wire.proxies.extend(_environments(str(value)) if uses_environment else ())
    for part in parts:
        if _is_httpx(part, *_HTTPX_CLIENTS):
            for url in wire.urls or [_NOWHERE]:
                _add_transport(part, url, wire)
    return wire


def _is_direct(parts: list[Any]) -> bool:
    """Whether the clients pass no proxy of the environment, and no other will be made.

    A model that has but one of the two, for threads or for tasks, makes the other when asked.
    """
    clients = [each for each in parts if _is_client(each) and not _is_openais(each)]
    kinds = {_is_httpx(each, "AsyncClient") for each in clients}
    return len(kinds) == 2 and not any(getattr(each, "_trust_env", True) for each in clients)


def _is_address(value: Any) -> bool:
    is_url = isinstance(value, str) or type(value).__name__.endswith(("URL", "Url"))
    return is_url and bool(str(value))


def _environments(url: str) -> list[str]:
    """The environment's proxy that reads what is sent to a plain http URL."""
    host = host_of(url)
    if host is None or url.lower().startswith("https:"):
        return []
    proxies = urllib.request.getproxies()
    proxy = proxies.get("http") or proxies.get("all")
    return [proxy] if proxy and not urllib.request.proxy_bypass(host) else []


def _add_transport(client: Any, url: str, wire: Wire) -> None:
    """Add the proxies by which an httpx client calls a URL; over https a proxy reads nothing."""
    if host_of(url) is None:
        return
    library = next(name for name in _HTTPX if isinstance(client, _kinds(name, *_HTTPX_CLIENTS)))
    address = sys.modules[library].URL(url if "://" in url else f"http://{url}")
    transport = client._transport_for_url(address)
    proxies, is_known = _behind(transport, _DEPTH)
    if not is_known:
        wire.unknown.append(type(transport).__name__)
    if address.scheme != "https":
        wire.proxies.extend(proxies)


def _behind(transport: Any, depth: int) -> tuple[list[str], bool]:
    """Proxies of a transport or of those that it is around, and whether it is known to be httpx's.

    A class of another origin is known by what it is around.
    """
    pool = dict(fields_of(dict(fields_of(transport)).get("_pool")))
    url = pool.get("_proxy_url") or getattr(pool.get("_proxy"), "url", None)
    host = "" if url is None else url.host.decode()
    proxies = [] if url is None else [f"http://[{host}]" if ":" in host else f"http://{host}"]
    is_known = type(transport).__name__ in _OWN_TRANSPORTS  # one derived from it is not
    is_known = is_known and _is_httpx(transport, *_OWN_TRANSPORTS)
    held = [each for _, each in fields_of(transport)] if depth else []
    inner = [each for each in held if _is_httpx(each, *_TRANSPORTS)]
    behind = [_behind(each, depth - 1) for each in inner]
    proxies += [proxy for inner_proxies, _ in behind for proxy in inner_proxies]
    return proxies, is_known or (bool(behind) and all(known for _, known in behind))


def _is_httpx(x: Any, *names: str) -> bool:
    return any(isinstance(x, _kinds(library, *names)) for library in _HTTPX)
