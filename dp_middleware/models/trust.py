"""Where a chat model runs, and whether it may see raw text there."""

from __future__ import annotations

import inspect
import ipaddress
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from types import FunctionType, ModuleType
from typing import Any, Protocol

from dp_middleware.errors import ParameterError, UntrustedHost
from dp_middleware.models._wires import Wire, host_of, is_host, wires_of
from dp_middleware.models.object_graph import objects_in
from dp_middleware.models.origin import is_data, is_foreign, is_own
from dp_middleware.models.parts import by_class, inherits, is_model, is_vendors, one_walk, values_in

_CONTAINERS = frozenset(map(id, (dict, list, tuple, set, frozenset)))  # a class may say it equals


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


def require_trusted(model: Located | Location, trusted_hosts: Iterable[str] = ()) -> None:
    """Refuse a model that would take raw text out of this computer.

    Args:
        model: A :class:`~dp_middleware.models.chat.ChatModel`, or where something else runs.
        trusted_hosts: Host names, without scheme or port, that may see raw text.

    Raises:
        UntrustedHost: It is not in process, on loopback or on a trusted host.
        ParameterError: ``trusted_hosts`` is not a collection of host names.
    """
    trusted = _trusted(trusted_hosts)
    location = model if isinstance(model, Location) else model.location
    if location.unknown:
        raise UntrustedHost(
            f"cannot tell where {', '.join(sorted(location.unknown))} runs; if raw text may go "
            "there, declare it: dp.chat_model(function, local=True), with a function of yours that "
            "calls it"
        )
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


def is_loopback(host: str) -> bool:
    """``localhost``, 127.0.0.0/8 or ::1, in these spellings only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@one_walk()
def locate(model: Any) -> Location:
    """Where an openai client, or a chat or embedding model of LangChain or LlamaIndex, runs.

    Addresses and proxies are read from its fields, the clients in any of them and the models it
    is made of: of a vendor's class those in its fields, of your own and a framework's those
    anywhere inside. It may name more itself, with a :class:`Location` as its ``location``: a
    property or field of its own, not one of what it wraps. A model without any of these is in
    process if it is known to be or if it is your own code; a vendor's is unknown.
    """
    return _locate(model, frozenset())


@one_walk()
def locate_all(
    root: Any, *, local: frozenset[str] = frozenset(), releases: Callable[[object], bool]
) -> Location:
    """Where anything runs that an object holds: what could send on the text that it is given.

    Your own code and that of the frameworks is looked into; an object of another package must be
    known to be in process, or have an address. An object that says where it runs is believed. Data
    of your own that has no methods may name any address.

    Args:
        root: Such as a retriever.
        local: Classes that are known to stay in process, as ``package.Name``.
        releases: Whether an object releases by itself what it sends.
    """
    place = IN_PROCESS
    for part in objects_in(root, whole=partial(_is_settled, local=local, releases=releases)):
        if id(type(part)) not in _CONTAINERS and not isinstance(part, type):
            place |= _locate_part(part, local, releases)
    return place


def locate_function(function: Any, *, local: bool) -> Location:
    """Where a function runs: unknown, unless it is declared.

    Args:
        function: Any callable. Its fields count as those of a model.
        local: Declared to run where raw text may go; else its own ``location`` may say so.
    """
    said = said_by(function) or (IN_PROCESS if local else None)
    place = _locate_one(function, frozenset(), said)
    return place if said else place | Location(unknown=frozenset({type(function).__name__}))


def said_by(x: Any) -> Location | None:
    """What an object says of itself: a wrapper's ``__getattr__`` would speak for another."""
    named = _names_location(type(x)) or "location" in (getattr(x, "__dict__", None) or ())
    if not named or inspect.getattr_static(x, "location", None) is None:
        return None
    said = getattr(x, "location", None)
    return said if isinstance(said, Location) else None


def _locate(model: Any, above: frozenset[int]) -> Location:
    if inherits(model, "dp_middleware.embedding", "Given"):  # around an object of any class
        return _locate(model.inner, above | {id(model)}) | (said_by(model) or IN_PROCESS)
    place = IN_PROCESS
    for part in objects_in(model, whole=_is_settled):
        speaks = part is model or is_model(part) or said_by(part) is not None
        if speaks and id(part) not in above:
            place |= _locate_one(part, above, said_by(part))
    return place


def _is_ours(x: object) -> bool:
    return f"{type(x).__module__}.".startswith("dp_middleware.")


def _is_settled(
    x: object,
    local: frozenset[str] = frozenset(),
    releases: Callable[[object], bool] = _is_ours,  # this package releases what it sends
) -> bool:
    """Whether a part is judged by its fields alone, and not looked into."""
    if id(type(x)) in _CONTAINERS:
        return False
    is_vendors_own = is_foreign(x, local=local) and not is_own(x)
    return releases(x) or said_by(x) is not None or is_vendors_own


def _locate_part(x: Any, local: frozenset[str], releases: Callable[[object], bool]) -> Location:
    said, foreign = said_by(x), is_foreign(x, local=local)
    is_known = said is not None or is_model(x)
    if releases(x) and said is None:
        return IN_PROCESS
    if not (is_known or foreign or (is_own(x) and not is_data(type(x)))):
        return IN_PROCESS
    place = _locate_one(x, frozenset(), said)
    if is_known or not foreign or place != IN_PROCESS:
        return place
    named = x if isinstance(x, FunctionType | ModuleType) else type(x)
    return Location(unknown=frozenset({named.__name__}))


def _locate_one(x: Any, above: frozenset[int], said: Location | None) -> Location:
    """Where it runs itself, and the models in its fields if it is not walked."""
    parts = [part for part in values_in(x) if is_model(part) and id(part) not in above]
    place = said or IN_PROCESS
    if said is not None or _is_settled(x):
        for part in parts:
            place |= _locate(part, above | {id(x)})
    for wire in wires_of(x):
        place |= _of_wire(wire)
    if said is None and not parts and not place.hosts and is_vendors(x):
        place |= Location(unknown=frozenset({type(x).__name__}))
    return place


@by_class
def _names_location(kind: type) -> bool:
    return any("location" in vars(each) for each in kind.__mro__)


def _of_wire(wire: Wire) -> Location:
    hosts = {url: host_of(url) for url in (*wire.urls, *wire.proxies)}
    unknown = frozenset(wire.unknown)
    if None in hosts.values():
        unknown |= {"a model or a proxy with a malformed URL"}
    return Location(
        hosts=frozenset(host for url in wire.urls if (host := hosts[url])),
        proxies=frozenset(host for url in wire.proxies if (host := hosts[url])),
        unknown=unknown,
    )


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
