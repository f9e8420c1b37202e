"""Where a model runs, as it is declared or as its client's URL says, and who may see raw text."""

from __future__ import annotations

import inspect
import ipaddress
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any
from urllib.parse import urlsplit

import httpx

from dp_middleware.errors import ParameterError, UntrustedHost
from dp_middleware.models import parts
from dp_middleware.models.parts import OPENAI, fields_of, is_httpx, is_one, values_of, walk

_HANDLERS = (("langchain_core", "BaseCallbackHandler"), ("llama_index", "BaseCallbackHandler"))
_MANAGERS = (("langchain_core", "BaseCallbackManager"), ("llama_index", "CallbackManager"))
_TOLD = (*_HANDLERS, *_MANAGERS)
_OURS = ("dp_middleware", "langchain_dp_middleware", "llama_index_dp_middleware")
_OF_RETRIEVERS = (
    "use a local index and embedding model, or give a class of your own that calls it a property "
    "location, a dp_middleware Location, that says where it runs; make LlamaIndex's handlers "
    "discreet by quiet_recorders(callback_manager)"
)
_DECLARE = (
    "if raw text may go there, declare it: dp.chat_model(model, local=True), or, if it is no chat "
    "model, a property `location` that returns a Location(), of dp_middleware.models.trust"
)
_ADDRESS = re.compile(r"(^|_)(url|uri|endpoint|host|api_base)$")
_PROXY = re.compile(r"(^|_)(proxy|proxies)$")
_CLIENT = re.compile(r"(^|_)(a?client|session|connector)$")
_LIBRARIES = (("requests", "Session"), ("aiohttp", "ClientSession"), ("urllib3", "PoolManager"))
_TRANSPORTS = ("HTTPTransport", "AsyncHTTPTransport", "MockTransport", "WSGITransport",
               "ASGITransport")  # fmt: skip
_HOST = re.compile(r"[a-z0-9._-]+|[0-9a-f:.]+(%[a-z0-9]+)?")
_NOWHERE = "http://localhost"  # where a client's proxies are looked up that knows of no address


@dataclass(frozen=True, kw_only=True)
class Location:
    """Says where a model runs: hosts, proxies in the clear, unknown classes; none: in process."""

    hosts: frozenset[str] = field(default=frozenset())
    proxies: frozenset[str] = field(default=frozenset())
    unknown: frozenset[str] = field(default=frozenset())

    def __str__(self) -> str:
        proxies = (f"{host} (proxy)" for host in sorted(self.proxies))
        unknown = (f"unknown ({name})" for name in sorted(self.unknown))
        return ", ".join([*sorted(self.hosts), *proxies, *unknown]) or "in process"


IN_PROCESS = Location()


def require_trusted(
    model: Any, trusted_hosts: Iterable[str] = (), *, remedy: str = _DECLARE
) -> None:
    """Refuses a :class:`Location`, or what has one, that would take raw text out of this computer.

    Raises:
        UntrustedHost: It is not in process, on loopback or on a trusted host, or it is unknown.
        ParameterError: ``trusted_hosts`` is not a collection of names, without scheme or port.
    """
    trusted = _trusted(trusted_hosts)
    location: Location = model if isinstance(model, Location) else model.location
    for host in sorted(location.hosts - trusted):
        if not is_loopback(host):
            raise UntrustedHost(
                f"raw text would go to {host}; use a model in process or on loopback, or, if it "
                "may see raw text, name it in trusted_hosts="
            )
    for proxy in sorted(location.proxies - trusted):  # one on loopback forwards anywhere, too
        raise UntrustedHost(
            f"raw text would pass through the proxy {proxy}; take it out of the client, or "
            "set NO_PROXY for the model's host if it is the environment's, or, if it may see "
            "raw text, name it in trusted_hosts="
        )
    if location.unknown:
        names = ", ".join(sorted(location.unknown))
        raise UntrustedHost(f"cannot tell where {names} runs; {remedy}")


def is_loopback(host: str) -> bool:
    """Tells whether it is ``localhost``, 127.0.0.0/8 or ::1, in these spellings only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def locate(model: Any, *, local: bool = False) -> Location:
    """Finds where a model runs: an openai client, a model of LangChain or LlamaIndex, a function.

    Addresses and proxies are read from the fields of an installed package's model and of its
    clients. The frameworks' own classes are looked into, by their fields. Any object may say itself
    where it runs, with a :class:`Location` as its ``location``. All else is unknown, unless it is
    declared ``local``: your own classes and functions, which may call anything, and a vendor's
    model without an address.
    """
    # it releases what it sends, or is told nothing of a private call
    return _located(model, lambda x: _is_ours(x) or is_one(x, _TOLD), local)


def require_local(retriever: Any, trusted_hosts: Iterable[str]) -> None:
    """Refuses a retriever of which a part could take the raw query elsewhere than is trusted."""
    require_trusted(locate_retriever(retriever), trusted_hosts, remedy=_OF_RETRIEVERS)


def locate_retriever(retriever: Any) -> Location:
    """Finds where anything runs that sees what a retriever is given, callback handlers too."""
    return _located(retriever, lambda x: _is_ours(x, _OURS))


def said_by(x: Any) -> Location | None:
    """Returns what an object says itself; a wrapper's ``__getattr__`` would speak for another."""
    is_named = any("location" in vars(kind) for kind in type(x).__mro__)
    if not is_named and "location" not in (getattr(x, "__dict__", None) or ()):
        return None
    if inspect.getattr_static(x, "location", None) is None:
        return None
    said = getattr(x, "location", None)
    return said if isinstance(said, Location) else None


def _located(root: Any, releases: Callable[[object], bool], local: bool = False) -> Location:
    places = list[Location]()

    def inside(x: Any) -> list[Any]:
        """Notes where a part runs, and lists its own parts that count."""
        said, standing = said_by(x), parts.standing(x)
        is_as_its_parts = said is None and standing in ("inert", "open")
        if is_as_its_parts and parts.inherits(x, "dp_middleware.embedding", "Given"):
            return [x.inner]
        if said is None and (releases(x) or standing == "inert"):
            return []
        is_recorder = said is None and is_one(x, _HANDLERS) and not is_one(x, _MANAGERS)
        wire = IN_PROCESS if is_as_its_parts else _wire_of(x)
        is_known = said is not None or is_as_its_parts
        if standing == "vendors":  # its address, its inner models or its class may tell
            has_address = bool(wire.hosts or wire.unknown)
            inner = parts.inner_models(x)
            is_known = is_known or has_address or bool(inner) or parts.runs_in_process(x)
        is_stranger = (is_recorder or not is_known) and not local
        name = Location(unknown=frozenset({_name_of(x)}) if is_stranger else frozenset())
        places.extend((said or IN_PROCESS, wire, name))
        if _is_ours(x) or is_recorder:
            return []
        if is_as_its_parts:
            return parts.parts_of(x)
        values = [part for _, field in fields_of(x) for part in values_of(field)]
        return [part for part in values if parts.is_model(part) or is_one(part, _TOLD)]

    for _ in walk(root, inside):
        pass  # each part is noted on the way
    return Location(
        hosts=frozenset().union(*(place.hosts for place in places)),
        proxies=frozenset().union(*(place.proxies for place in places)),
        unknown=frozenset().union(*(place.unknown for place in places)),
    )


def _name_of(x: Any) -> str:
    is_named = isinstance(x, FunctionType | BuiltinFunctionType | ModuleType)
    return str(x.__name__ if is_named else type(x).__name__)


def _is_ours(x: object, packages: tuple[str, ...] = _OURS[:1]) -> bool:
    return parts.is_in(type(x).__module__, packages) and parts.is_held(type(x))


def _trusted(hosts: Any) -> frozenset[str]:
    names = list(hosts)
    are_names = all(isinstance(name, str) and _is_host(name.lower()) for name in names)
    if isinstance(hosts, str) or not are_names:
        raise ParameterError(
            "expected trusted_hosts as a collection of host names without scheme or port"
        )
    return frozenset(name.lower().rstrip(".") for name in names)


def _wire_of(x: Any) -> Location:
    """Returns where an object's own fields, and those of its clients, say that it calls."""
    holders = holders_of(x)
    inner = [id(client._client) for client in holders if is_one(client, OPENAI)]
    named = [holder for holder in holders if id(holder) not in inner]  # these name another URL
    urls, proxies, unknown = set[str](), set[str](), set[str]()
    for name, value in [item for holder in named for item in fields_of(holder)]:
        if _PROXY.search(name):  # a URL may be a tuple
            values = [value] if _is_address(value) else values_of(value)
            proxies |= {str(each) for each in values if _is_address(each)}
        elif _ADDRESS.search(name) and _is_address(value):
            urls.add(str(value))
    clients = [client for client in holders if is_httpx(client)]
    own = [each for each in holders if _is_client(each) and not is_one(each, OPENAI)]
    kinds = {type(each).__name__.startswith("Async") for each in own}
    is_whole = _is_client(x) or len(kinds) == 2  # else one is made when it is asked
    if urls and not (is_whole and all(getattr(each, "_trust_env", 1) is False for each in own)):
        clients.append(httpx.Client(verify=False))  # asks nobody: it knows the environment
    for client in clients:
        for url in urls or {_NOWHERE}:
            passed, strange = _passed(client, url)
            proxies, unknown = proxies | passed, unknown | strange
    hosts, behind = ({_host_of(url) for url in given} for given in (urls, proxies))
    if None in hosts | behind:
        unknown.add("a model or a proxy with a malformed URL")
    names = (frozenset(filter(None, found)) for found in (hosts, behind, unknown))
    return Location(**dict(zip(("hosts", "proxies", "unknown"), names, strict=True)))


def _host_of(url: str) -> str | None:
    """A URL's host, lower case; ``None`` where parsers might not agree on it."""
    try:
        name = urlsplit(url if "://" in url else f"//{url}").hostname or ""
    except ValueError:
        return None
    return name.rstrip(".") if _is_host(name) and "\\" not in url else None


def _is_host(name: str) -> bool:
    return _HOST.fullmatch(name) is not None


def holders_of(x: Any) -> list[Any]:
    """Lists an object, and clients in its fields, in theirs and so on."""

    def clients(holder: Any) -> list[Any]:
        parts = [(name, part) for name, value in fields_of(holder) for part in values_of(value)]
        return [part for name, part in parts if _CLIENT.search(name) or _is_client(part)]

    return [*walk(x, clients)]


def _is_client(x: Any) -> bool:
    return is_httpx(x) or is_one(x, (*OPENAI, *_LIBRARIES))


def _is_address(value: Any) -> bool:
    is_url = isinstance(value, str) or type(value).__name__.endswith(("URL", "Url"))
    return is_url and bool(str(value))


def _passed(client: Any, url: str) -> tuple[set[str], set[str]]:
    """Proxies that read what a client of httpx sends to a URL, and a transport not of httpx."""
    if _host_of(url) is None:
        return set(), set()
    packages = [kind.__module__.partition(".")[0] for kind in type(client).__mro__]
    library: Any = sys.modules["httpx" if "httpx" in packages else "httpx2"]
    address = library.URL(url if "://" in url else f"http://{url}")
    transport = client._transport_for_url(address)
    if type(transport) not in [getattr(library, name, None) for name in _TRANSPORTS]:
        return set(), {type(transport).__name__}
    pool = dict(fields_of(getattr(transport, "_pool", None)))
    proxy = pool.get("_proxy_url") or getattr(pool.get("_proxy"), "url", None)
    host = "" if proxy is None else proxy.host.decode()
    is_read = host and address.scheme != "https"
    return ({f"http://[{host}]" if ":" in host else f"http://{host}"} if is_read else set()), set()
