"""Where a model runs, as it is declared or as its client's URL says, and who may see raw text."""

from __future__ import annotations

import inspect
import ipaddress
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

from dp_middleware.errors import ParameterError, UntrustedHost
from dp_middleware.models import parts
from dp_middleware.models._wires import host_of, is_host, wire_of

_HANDLERS = (("langchain_core", "BaseCallbackHandler"), ("llama_index", "BaseCallbackHandler"))
_MANAGERS = (("langchain_core", "BaseCallbackManager"), ("llama_index", "CallbackManager"))
_TOLD = (*_HANDLERS, *_MANAGERS)


@dataclass(frozen=True, kw_only=True)
class Location:
    """Says where a model runs: its hosts, proxies in the clear, and classes of which it is unknown.

    With no field set: in process.
    """

    hosts: frozenset[str] = field(default=frozenset())
    proxies: frozenset[str] = field(default=frozenset())
    unknown: frozenset[str] = field(default=frozenset())

    def __str__(self) -> str:
        proxies = (f"{host} (proxy)" for host in sorted(self.proxies))
        unknown = (f"unknown ({name})" for name in sorted(self.unknown))
        return ", ".join([*sorted(self.hosts), *proxies, *unknown]) or "in process"


_OURS = ("dp_middleware", "langchain_dp_middleware", "llama_index_dp_middleware")
_OF_RETRIEVERS = (
    "use a local index and embedding model, or give a class of your own that calls it a property "
    "location, a dp_middleware Location, that says where it runs; make LlamaIndex's handlers "
    "discreet by quiet_recorders(callback_manager)"
)

IN_PROCESS = Location()
_DECLARE = (
    "if raw text may go there, declare it: dp.chat_model(model, local=True), or, if it is no chat "
    "model, a property `location` that returns a Location(), of dp_middleware.models.trust"
)


def require_trusted(
    model: Any, trusted_hosts: Iterable[str] = (), *, remedy: str = _DECLARE
) -> None:
    """Refuses a model, or a location, that would take raw text out of this computer.

    Args:
        model: A :class:`Location`, or what has one as its ``location``.
        trusted_hosts: Host names, without scheme or port, that may see raw text.
        remedy: What to do where one cannot tell.

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
    where it runs, with a :class:`Location` as its ``location``. All else is unknown: your own
    classes and functions, which may call anything, and a vendor's model without an address.

    Args:
        model: The model.
        local: Declares that what would be unknown runs where raw text may go. Addresses count.
    """
    # it releases what it sends, or is told nothing of a private call
    silent = lambda x: not _is_given(x) and (_is_ours(x) or parts.is_one(x, _TOLD))  # noqa: E731
    return _located(model, silent, local)


def locate_retriever(retriever: Any) -> Location:
    """Finds where anything runs that sees what a retriever, LangChain's or LlamaIndex's, is given.

    As :func:`locate`, but a framework's object with callback handlers is unknown, and what is of
    our adapters releases what it sends.
    """
    return _located(retriever, lambda x: type(x).__module__.partition(".")[0] in _OURS)


def require_local(retriever: Any, trusted_hosts: Iterable[str]) -> None:
    """Refuses a retriever of which a part could take the raw query elsewhere than is trusted."""
    require_trusted(locate_retriever(retriever), trusted_hosts, remedy=_OF_RETRIEVERS)


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
    hosts, proxies, unknown, undeclared = set[str](), set[str](), set[str](), set[str]()

    def inside(x: Any) -> list[Any]:
        """Notes where a part runs, and lists its own parts that count."""
        said, is_as_its_parts = said_by(x), parts.is_open(x)
        is_handler = parts.is_one(x, _HANDLERS) and not parts.is_one(x, _MANAGERS)
        is_recorder = said is None and is_handler
        is_settled = said is None and (releases(x) or parts.is_local(x))
        if not is_settled:
            wire = Location() if said is None and is_as_its_parts else _of_wire(x)
            for place in (said or IN_PROCESS, wire):
                hosts.update(place.hosts)
                proxies.update(place.proxies)
                unknown.update(place.unknown)
            is_known = said is not None or is_as_its_parts
            if is_recorder or not (is_known or _is_vendors_known(x)):
                undeclared.add(_name_of(x))
        if _is_given(x):
            return [x.inner]
        if is_settled or is_recorder or _is_ours(x):
            return []
        if said is None and is_as_its_parts:
            return parts.parts_of(x)
        values = [part for _, field in parts.fields_of(x) for part in parts.values_of(field)]
        return [part for part in values if parts.is_model(part) or parts.is_one(part, _TOLD)]

    for _ in parts.walk(root, inside):
        pass  # each part is noted on the way
    names = frozenset(unknown if local else unknown | undeclared)
    return Location(hosts=frozenset(hosts), proxies=frozenset(proxies), unknown=names)


def _is_vendors_known(x: Any) -> bool:
    """Tells whether its address, its inner models or its class say where it runs."""
    return parts.is_vendors(x) and bool(
        wire_of(x)[0] or parts.inner_models(x) or parts.runs_in_process(x)
    )


def _name_of(x: Any) -> str:
    is_named = isinstance(x, FunctionType | BuiltinFunctionType | ModuleType)
    return str(x.__name__ if is_named else type(x).__name__)


def _is_given(x: object) -> bool:
    return parts.inherits(x, "dp_middleware.embedding", "Given")


def _is_ours(x: object) -> bool:
    return type(x).__module__.startswith("dp_middleware.")


def _of_wire(x: Any) -> Location:
    urls, proxies, unknown = wire_of(x)
    hosts, behind = ({host_of(url) for url in given} for given in (urls, proxies))
    if None in hosts | behind:
        unknown |= {"a model or a proxy with a malformed URL"}
    named = frozenset(filter(None, hosts)), frozenset(filter(None, behind))
    return Location(hosts=named[0], proxies=named[1], unknown=frozenset(unknown))


def _trusted(hosts: Any) -> frozenset[str]:
    names = list(hosts)
    are_names = all(isinstance(name, str) and is_host(name.lower()) for name in names)
    if isinstance(hosts, str) or not are_names:
        raise ParameterError(
            "expected trusted_hosts as a collection of host names without scheme or port"
        )
    return frozenset(name.lower().rstrip(".") for name in names)
