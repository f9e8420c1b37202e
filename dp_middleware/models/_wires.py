"""The addresses that a model calls, the proxies on the way, and redirects, which stay."""

from __future__ import annotations

import re
import sys
import urllib.request
from typing import Any
from urllib.parse import urlsplit

import httpx

from dp_middleware._quiet import is_unrecorded
from dp_middleware.models.parts import OPENAI, fields_of, is_httpx, is_one, values_of, walk

_ADDRESS = re.compile(r"(^|_)(url|uri|endpoint|host|api_base)$")
_PROXY = re.compile(r"(^|_)(proxy|proxies)$")
_CLIENT = re.compile(r"(^|_)(a?client|session|connector)$")
_LIBRARIES = (("requests", "Session"), ("aiohttp", "ClientSession"), ("urllib3", "PoolManager"))
_TRANSPORTS = (
    *("HTTPTransport", "AsyncHTTPTransport", "MockTransport", "WSGITransport", "ASGITransport"),
)
_HOST = re.compile(r"[a-z0-9._-]+|[0-9a-f:.]+(%[a-z0-9]+)?")
_NOWHERE = "http://localhost"  # where a client's proxies are looked up that knows of no address


def wire_of(x: Any) -> tuple[set[str], set[str], set[str]]:
    """Returns URLs that an object calls, proxies that may read them, and classes not known."""
    holders = _holders(x)
    urls, proxies = set[str](), set[str]()
    inner = [id(client._client) for client in holders if is_one(client, OPENAI)]
    named = [holder for holder in holders if id(holder) not in inner]  # these name another URL
    for name, value in [field for holder in named for field in fields_of(holder)]:
        if _PROXY.search(name):
            values = [value] if _is_address(value) else values_of(value)  # a URL may be a tuple
            proxies |= {str(each) for each in values if _is_address(each)}
        elif _ADDRESS.search(name) and _is_address(value):
            urls.add(str(value))
    if not _is_direct(x, holders):
        proxies |= {proxy for url in urls for proxy in _environments(url)}
    unknown = set[str]()
    for client in filter(is_httpx, holders):
        for url in urls or {_NOWHERE}:
            passed, strange = _passed(client, url)
            proxies, unknown = proxies | passed, unknown | strange
    return urls, proxies, unknown


def host_of(url: str) -> str | None:
    """Returns a URL's host, lower case; ``None`` where parsers might not agree on it."""
    try:
        name = urlsplit(url if "://" in url else f"//{url}").hostname or ""
    except ValueError:
        return None
    return name.rstrip(".") if is_host(name) and "\\" not in url else None


def is_host(name: str) -> bool:
    """Tells whether it is a host's name or address, in lower case."""
    return _HOST.fullmatch(name) is not None


def _holders(x: Any) -> list[Any]:

    def clients(holder: Any) -> list[Any]:
        parts = [(name, part) for name, value in fields_of(holder) for part in values_of(value)]
        return [part for name, part in parts if _CLIENT.search(name) or _is_client(part)]

    return [*walk(x, clients)]


def _is_client(x: Any) -> bool:
    return is_httpx(x) or is_one(x, (*OPENAI, *_LIBRARIES))


def _is_address(value: Any) -> bool:
    is_url = isinstance(value, str) or type(value).__name__.endswith(("URL", "Url"))
    return is_url and bool(str(value))


def _is_direct(x: Any, holders: list[Any]) -> bool:
    """Tells whether no client passes the environment's proxies, nor one that is made when asked."""
    if getattr(x, "_trust_env", True) is False:
        return True
    clients = [each for each in holders if _is_client(each) and "_client" not in vars(each)]
    kinds = {type(each).__name__.startswith("Async") for each in clients}
    is_whole = len(kinds) == 2 or _is_client(x)
    return is_whole and bool(clients) and not any(getattr(c, "_trust_env", True) for c in clients)


def _environments(url: str) -> list[str]:
    host = host_of(url)
    if host is None or url.lower().startswith("https:"):
        return []
    proxies = urllib.request.getproxies()
    proxy = proxies.get("http") or proxies.get("all")
    return [proxy] if proxy and not urllib.request.proxy_bypass(host) else []


def _passed(client: Any, url: str) -> tuple[set[str], set[str]]:
    """Returns proxies by which an httpx client calls a URL; over https a proxy reads nothing."""
    if host_of(url) is None:
        return set(), set()
    packages = [kind.__module__.partition(".")[0] for kind in type(client).__mro__]
    library: Any = sys.modules["httpx" if "httpx" in packages else "httpx2"]
    address = library.URL(url if "://" in url else f"http://{url}")
    proxies, unknown = _behind(client._transport_for_url(address), library)
    return (set() if address.scheme == "https" else proxies), unknown


def _behind(transport: Any, library: Any) -> tuple[set[str], set[str]]:
    """Returns proxies of a transport, or of the one that it is around; else that it is unknown."""
    kind = type(transport)
    if any(kind is getattr(library, name, None) for name in _TRANSPORTS):  # none derived from it
        pool = dict(fields_of(getattr(transport, "_pool", None)))
        url = pool.get("_proxy_url") or getattr(pool.get("_proxy"), "url", None)
        host = "" if url is None else url.host.decode()
        return ({f"http://[{host}]" if ":" in host else f"http://{host}"} if host else set()), set()
    bases = (library.BaseTransport, library.AsyncBaseTransport)
    inner = [value for _, value in fields_of(transport) if isinstance(value, bases)]
    found = [_behind(each, library) for each in inner]
    is_known = bool(found) and not any(unknown for _, unknown in found)
    return {p for proxies, _ in found for p in proxies}, set() if is_known else {kind.__name__}


_MADE_LATER = {"_http_client": httpx.Client, "_async_http_client": httpx.AsyncClient}


def stay(model: Any) -> None:
    """Lets private calls of a model's httpx clients, as it has them now, follow no redirect."""
    names = [name for name, value in fields_of(model) if value is None]
    for name, make in _MADE_LATER.items():
        if name in names:
            setattr(model, name, make(follow_redirects=False))
    for client in filter(is_httpx, _holders(model)):
        hook: Any = _astay if isinstance(client, httpx.AsyncClient) else _stay
        hooks = client.event_hooks["response"]
        if hook not in hooks:
            hooks.append(hook)


def _stay(response: httpx.Response) -> None:
    if is_unrecorded():
        response.headers.pop("location", None)


async def _astay(response: httpx.Response) -> None:
    _stay(response)
