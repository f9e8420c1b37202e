"""Where a model runs, as it is declared or as its client's URL says, and who may see raw text."""

from __future__ import annotations

import inspect
import ipaddress
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

from dp_middleware.errors import ParameterError, UntrustedHost
from dp_middleware.models._wires import host_of, is_host, wire_of
from dp_middleware.models.parts import (
    fields_of,
    inherits,
    inner_models,
    is_local,
    is_model,
    is_open,
    is_vendors,
    parts_of,
    runs_in_process,
    values_of,
    walk,
)

_HANDLERS = (("langchain_core", "BaseCallbackHandler"), ("llama_index", "BaseCallbackHandler"))
_MANAGERS = (("langchain_core", "BaseCallbackManager"), ("llama_index", "CallbackManager"))


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

    def __or__(self, other: Location) -> Location:
        return Location(
            hosts=self.hosts | other.hosts,
            proxies=self.proxies | other.proxies,
            unknown=self.unknown | other.unknown,
        )


_OURS = ("dp_middleware", "langchain_dp_middleware", "llama_index_dp_middleware")
_INDEXES = frozenset(
    {
        *(f"langchain_community.{name}Retriever" for name in ("BM25", "TFIDF", "KNN", "SVM")),
        *("langchain_community.FAISS", "langchain_community.InMemoryDocstore"),
        *("llama_index.BM25Retriever", "llama_index.FaissVectorStore"),
        "llama_index.FaissMapVectorStore",
    }
)
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
    place, unknown = _places(model, _is_ours_or_silenced, frozenset())
    return place if local else place | Location(unknown=unknown)


def locate_retriever(retriever: Any) -> Location:
    """Finds where anything runs that sees what a retriever, LangChain's or LlamaIndex's, is given.

    As :func:`locate`, but a framework's object with callback handlers is unknown, and some classes
    of indexes are known to stay in process.
    """
    place, unknown = _places(retriever, _releases, _INDEXES)
    return place | Location(unknown=unknown)


def require_local(retriever: Any, trusted_hosts: Iterable[str]) -> None:
    """Refuses a retriever of which any part could take the raw query out of this computer.

    Raises:
        UntrustedHost: A part of it may send the query elsewhere than to the ``trusted_hosts``.
        ParameterError: ``trusted_hosts`` is not a collection of host names.
    """
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


def _places(
    root: Any, releases: Callable[[object], bool], local: frozenset[str]
) -> tuple[Location, frozenset[str]]:
    """Returns where the parts of ``root`` run by their addresses, and names of what is unknown."""
    places, unknown = [IN_PROCESS], set[str]()

    def inside(x: Any) -> list[Any]:
        """Notes where a part runs, and lists its own parts that count."""
        said, is_as_its_parts = said_by(x), is_open(x, local)
        is_recorder = said is None and _is_told(x) and not _is_one(x, _MANAGERS)
        is_settled = said is None and (releases(x) or is_local(x))
        if not is_settled:
            wire = Location() if said is None and is_as_its_parts else _of_wire(x)
            places.append((said or IN_PROCESS) | wire)
            is_known = said is not None or is_as_its_parts or _is_vendors_known(x)
            if is_recorder or not is_known:
                unknown.add(_name_of(x))
        if inherits(x, "dp_middleware.embedding", "Given"):
            return [x.inner]
        if is_settled or is_recorder or _is_ours(x):
            return []
        if said is None and is_as_its_parts:
            return parts_of(x)
        values = [part for _, field in fields_of(x) for part in values_of(field)]
        return [part for part in values if is_model(part) or _is_told(part)]

    for _ in walk(root, inside):
        pass  # each part is noted on the way
    return reduce(or_, places), frozenset(unknown)


def _is_vendors_known(x: Any) -> bool:
    """Tells whether its address, its inner models or its class say where it runs."""
    return is_vendors(x) and bool(wire_of(x)[0] or inner_models(x) or runs_in_process(x))


def _name_of(x: Any) -> str:
    is_named = isinstance(x, FunctionType | BuiltinFunctionType | ModuleType)
    return str(x.__name__ if is_named else type(x).__name__)


def _is_one(x: object, kinds: tuple[tuple[str, str], ...]) -> bool:
    return any(inherits(x, *kind) for kind in kinds)


def _is_told(x: object) -> bool:
    """Tells whether it is a callback handler, or a manager of some."""
    return _is_one(x, (*_HANDLERS, *_MANAGERS))


def _is_ours(x: object) -> bool:
    return type(x).__module__.startswith("dp_middleware.")


def _releases(x: object) -> bool:
    """Tells whether it is of this library or of an adapter, which release what they send."""
    return type(x).__module__.partition(".")[0] in _OURS


def _is_ours_or_silenced(x: object) -> bool:
    """Tells whether it releases what it sends, or is told nothing of a private call."""
    is_given = inherits(x, "dp_middleware.embedding", "Given")
    return not is_given and (_is_ours(x) or _is_told(x))


def _of_wire(x: Any) -> Location:
    urls, proxies, unknown = wire_of(x)
    hosts, behind = ({host_of(url) for url in given} for given in (urls, proxies))
    if None in hosts | behind:
        unknown |= {"a model or a proxy with a malformed URL"}
    named = frozenset(filter(None, hosts)), frozenset(filter(None, behind))
    return Location(hosts=named[0], proxies=named[1], unknown=frozenset(unknown))


def _trusted(hosts: Any) -> frozenset[str]:
    if isinstance(hosts, str):
        raise ParameterError("expected trusted_hosts to be a collection of names, got one str")
    names = list(hosts)
    for name in names:
        if not isinstance(name, str) or not is_host(name.lower()):
            raise ParameterError(
                "expected host names without scheme or port in trusted_hosts, got another form"
            )
    return frozenset(name.lower().rstrip(".") for name in names)
