"""Where a chat model runs, and whether it may see raw text there."""

from __future__ import annotations

import inspect
import ipaddress
import re
import sys
import urllib.request
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import urlsplit

from dp_middleware.embedding.encoders import Given
from dp_middleware.errors import ParameterError, UntrustedHost
from dp_middleware.frameworks._model_parts import (
    fields_of,
    inherits,
    is_model,
    is_vendors,
    values_in,
)

_ADDRESS_FIELD = re.compile(r"(^|_)(url|uri|endpoint|host|api_base|proxy)$")
_CLIENT_FIELD = re.compile(r"(^|_)a?client$")
_HOST = re.compile(r"[a-z0-9._-]+|[0-9a-f:.]+(%[a-z0-9]+)?")
_DEPTH = 4


@dataclass(frozen=True, kw_only=True)
class Location:
    """Where a model runs. With no field set: in process.

    Attributes:
        hosts: Names of the hosts that it calls.
        proxies: Hosts of environment proxies through which it may call one of them in the clear.
        unknown: Classes of which it is not known where they run.
    """

    hosts: frozenset[str] = field(default=frozenset())
    proxies: frozenset[str] = field(default=frozenset())
    unknown: frozenset[str] = field(default=frozenset())

    def __str__(self) -> str:
        named = [*sorted(self.hosts), *(f"{host} (proxy)" for host in sorted(self.proxies))]
        return ", ".join([*named, *(f"unknown ({each})" for each in sorted(self.unknown))]) or (
            "in process"
        )

    def __or__(self, other: Location) -> Location:
        return Location(
            hosts=self.hosts | other.hosts,
            proxies=self.proxies | other.proxies,
            unknown=self.unknown | other.unknown,
        )


IN_PROCESS = Location()


class Located(Protocol):
    """Anything that says where it runs."""

    @property
    def location(self) -> Location:
        """Where it runs."""


def require_trusted(model: Located, trusted_hosts: Iterable[str] = ()) -> None:
    """Refuse a model that would take raw text out of this computer.

    Args:
        model: A :class:`~dp_middleware.frameworks.chat.ChatModel`.
        trusted_hosts: Host names, without scheme or port, that may see raw text.

    Raises:
        UntrustedHost: It is not in process, on loopback or on a trusted host.
        ParameterError: ``trusted_hosts`` is not a collection of host names.
    """
    trusted = _trusted(trusted_hosts)
    location = model.location
    if location.unknown:
        raise UntrustedHost(
            f"cannot tell where {', '.join(sorted(location.unknown))} runs; if you know that it "
            "runs where raw text may go, pass a function of yours that calls it"
        )
    for host in sorted(location.hosts - trusted):
        if not is_loopback(host):
            raise UntrustedHost(
                f"raw text would go to {host}; use a model in process or on loopback, or, if it "
                "may see raw text, name it in trusted_hosts="
            )
    for proxy in sorted(location.proxies - trusted):
        if not is_loopback(proxy):
            raise UntrustedHost(
                f"raw text would pass through the proxy {proxy}; take it out of the client, or "
                "set NO_PROXY for the model's host if it is the environment's, or, if it may see "
                "raw text, name it in trusted_hosts="
            )


def is_loopback(host: str) -> bool:
    """``localhost``, 127.0.0.0/8 or ::1, in these spellings only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def locate(model: Any) -> Location:
    """Where an openai client, or a chat or embedding model of LangChain or LlamaIndex, runs.

    Addresses are read from its fields, its clients and the models it is made of. It may name more
    itself, with a :class:`Location` as its ``location``: a property or field of its own, not one
    of what it wraps. A model without any of these is in process if it is known to be or if it is
    your own code; a vendor's is unknown.
    """
    return _locate(model, frozenset())


def _locate(model: Any, above: frozenset[int]) -> Location:
    said = _said(model)
    if isinstance(model, Given):  # around an object of any class
        return _locate(model.inner, above | {id(model)}) | (said or IN_PROCESS)
    parts = [each for each in values_in(model) if is_model(each) and id(each) not in above]
    inner = [_locate(part, above | {id(model)}) for part in parts]
    own = [_of_url(*found) for found in _addresses(model, _DEPTH, uses_proxy=True)]
    found = said or IN_PROCESS
    for each in [*inner, *own]:
        found |= each
    if said is None and not inner and not own and is_vendors(model):
        return Location(unknown=frozenset({type(model).__name__}))
    return found


def _said(model: Any) -> Location | None:
    """What an object says of itself: a wrapper's ``__getattr__`` would speak for another."""
    if inspect.getattr_static(model, "location", None) is None:
        return None
    said = getattr(model, "location", None)
    return said if isinstance(said, Location) else None


def _addresses(x: Any, depth: int, *, uses_proxy: bool) -> Iterator[tuple[str, bool, str | None]]:
    """URLs in the fields of an object and of its clients.

    With whether a proxy of the environment may be used, and the proxy that the client itself has
    for the URL.
    """
    fields = dict(fields_of(x))
    transport = fields.get("_client", x)
    uses_proxy = uses_proxy and getattr(transport, "_trust_env", True)
    # An openai client takes the URL from itself; its connection may be shared and name another.
    goes_deeper = depth > 0 and not inherits(x, "openai", "BaseClient")
    for name, value in fields.items():
        if _ADDRESS_FIELD.search(name) and _is_address(value):
            yield str(value), uses_proxy, _client_proxy(transport, str(value))
        elif goes_deeper and _CLIENT_FIELD.search(name):
            yield from _addresses(value, depth - 1, uses_proxy=uses_proxy)


def _is_address(value: Any) -> bool:
    is_url = isinstance(value, str) or type(value).__name__.endswith(("URL", "Url"))
    return is_url and bool(str(value))


def _of_url(url: str, uses_proxy: bool, proxy: str | None) -> Location:
    host = _host(url)
    if host is None:
        return Location(unknown=frozenset({"a model with a malformed URL"}))
    if proxy is None and uses_proxy:
        proxy = _environment_proxy(url, host)
    if proxy is None:
        return Location(hosts=frozenset({host}))
    through = _host(proxy)
    if through is None:
        return Location(unknown=frozenset({"a proxy with a malformed URL"}))
    return Location(hosts=frozenset({host}), proxies=frozenset({through}))


def _host(url: str) -> str | None:
    """Host of a URL, lower case; ``None`` where parsers might not agree on it."""
    try:
        name = urlsplit(url if "://" in url else f"//{url}").hostname
    except ValueError:
        return None
    if name is None or "\\" in url or not _HOST.fullmatch(name):
        return None
    return name.rstrip(".")


def _client_proxy(client: Any, url: str) -> str | None:
    """The proxy that an httpx client was given for a plain http URL; over https it sees nothing."""
    chosen = getattr(client, "_transport_for_url", None)
    library = next((c.__module__ for c in type(client).__mro__ if "httpx" in c.__module__), None)
    if chosen is None or library is None or url.lower().startswith("https:"):
        return None
    address = sys.modules[library.partition(".")[0]].URL(url)
    proxy = getattr(getattr(chosen(address), "_pool", None), "_proxy_url", None)
    return None if proxy is None else f"http://{proxy.host.decode()}"


def _environment_proxy(url: str, host: str) -> str | None:
    """The proxy that reads what is sent to a plain http URL; over https it sees nothing."""
    if url.lower().startswith("https:"):
        return None
    proxies = urllib.request.getproxies()
    proxy = proxies.get("http") or proxies.get("all")
    return proxy if proxy and not urllib.request.proxy_bypass(host) else None


def _trusted(hosts: Any) -> frozenset[str]:
    if isinstance(hosts, str):
        raise ParameterError("expected trusted_hosts to be a collection of names, got one str")
    names = list(hosts)
    for name in names:
        if not isinstance(name, str) or not _HOST.fullmatch(name.lower()):
            raise ParameterError(
                "expected host names without scheme or port in trusted_hosts, got another form"
            )
    return frozenset(name.lower().rstrip(".") for name in names)
