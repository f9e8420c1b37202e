"""A lint for chains and agents: where raw input reaches a model, retriever or recorder."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnableBinding, RunnableSequence
from langchain_core.runnables.base import RunnableBindingBase
from langchain_core.runnables.passthrough import RunnableAssign
from langsmith.utils import tracing_is_enabled

import dp_middleware as dp
from dp_middleware.errors import ParameterError, UntrustedHost
from dp_middleware.models.parts import inherits, reachable
from dp_middleware.models.trust import locate, locate_retriever, require_trusted
from langchain_dp_middleware._calls import PrivateBinding
from langchain_dp_middleware.head import Head
from langchain_dp_middleware.inferdpt import InferDPTChatModel

_TRACED = "LangSmith records raw text, as the environment or a context says"
_HEAD = "put a PrivateHead first, or leave it out"
_WRAP = "give it DPChatModel(session, model), or, if it may see raw text, name it in local="
_VENDORS = {"openai", "anthropic", "groq", "mistralai", "cohere", "ollama", "google"}


class Finding(NamedTuple):
    """Names what sends raw text out, or keeps the middleware from working, and what to do."""

    where: str
    what: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}; {self.remedy}"


def check_chain(runnable: Any, *, local: Collection[Any] = ()) -> list[Finding]:
    """Finds where raw input reaches what is not of this package, without running the chain.

    Input is raw until a component of this package releases it; documents of a retriever, results of
    tools and answers of local models are raw wherever they come from. In an agent or graph every
    node is given raw messages: its own model is fine behind a :class:`DPAgentMiddleware`, those
    that tools and other middleware hold are not. Looks into declared fields, closures and partials;
    globals, and what a function builds when it is called, are not seen: no finding is no proof.

    Args:
        runnable: A chain, an agent or a graph; its input is taken to be private.
        local: Models and retrievers that may see raw text. Others may if they run here.
    """
    if not isinstance(runnable, Runnable):
        raise ParameterError(f"expected a Runnable, got {type(runnable).__name__}")
    check = _Chain(local)
    check.visit(runnable, True, "chain")
    return check.findings


check_agent = check_chain


class _Chain:
    """Goes through a chain; ``local``: models and retrievers that may see raw text."""

    def __init__(self, local: Collection[Any]) -> None:
        self._local = [_bare(part) for part in local]
        self._is_traced = bool(tracing_is_enabled())
        self._allowed = 0  # adapters around this step that were told to let it be recorded
        self.findings: list[Finding] = []

    def visit(self, x: Any, raw: bool, where: str) -> bool:
        """Tells whether what comes out may be raw, if what goes in is ``raw``."""
        if raw and not _is_ours(x):
            self._recorders(x, where)
        out = self._inside(x, raw, where)
        if out and not raw and not _is_ours(x):
            self._recorders(x, where)
        return out

    def _inside(self, x: Any, raw: bool, where: str) -> bool:
        if isinstance(x, PrivateBinding):
            self._allowed += "record" in x._allowed
            is_raw = self.visit(x.bound, raw, where)
            self._allowed -= "record" in x._allowed
            return is_raw
        if isinstance(x, Head):
            return x.then is not None and self.visit(x.then, False, where)
        if _is_ours(x):
            return isinstance(x, InferDPTChatModel)
        if inherits(x, "langgraph", "Pregel"):
            return self._graph(x, where)
        if isinstance(x, RunnableSequence):
            for i, step in enumerate(x.steps):
                raw = self.visit(step, raw, f"{where}, step {i}")
            return raw
        if isinstance(x, RunnableAssign):
            return self.visit(x.mapper, raw, where) or raw
        if branches := _branches(x):
            out = [self.visit(part, raw, f"{where}, {name}") for name, part in branches]
            return any(out)
        if _is_model(x) or isinstance(x, BaseRetriever):
            return self._component(x, raw, where)
        return self._other(x, raw, where)

    def _graph(self, graph: Any, where: str) -> bool:
        """Looks into nodes, that of an agent's model last: it holds what others call."""
        seen = set[int]()
        for name, node in sorted(graph.nodes.items(), key=lambda item: item[0] == "model"):
            place, bound = f"{where}, {name}", getattr(node, "bound", None)
            if not inherits(bound, "langgraph", "RunnableCallable"):
                self.visit(bound, True, place)
                continue
            parts = _held(bound, lambda x: _is_middleware(x) or _uses_input(x))
            covered = any(_is_middleware(part) and _is_ours(part) for part in parts)
            new = [part for part in parts if id(part) not in seen]
            seen |= {id(bound), *map(id, parts)}
            for part in new:
                if _is_middleware(part) and not _is_ours(part):
                    self._other(part, True, place)
                elif not _is_middleware(part) and not (covered and _is_model(part)):
                    self.visit(part, True, place)
        return True

    def _component(self, x: Any, raw: bool, where: str) -> bool:
        """A model answers raw only here and what it is given; a retriever's documents are raw."""
        stays = any(x is allowed for allowed in self._local) or _is_local(x)
        if raw and not stays:
            remedy = _WRAP if _is_model(x) else "release the query first, or name it in local="
            self._add(where, f"{type(x).__name__} is sent raw text", remedy)
        return (raw and stays) if _is_model(x) else True

    def _other(self, x: Any, raw: bool, where: str) -> bool:
        """A function, tool, parser or prompt: what it holds may be given its input."""
        inside = _held(x, _uses_input)
        parts = {id(_bare(y)): y for y in inside if isinstance(y, Runnable) or _is_model(y)}
        out = [self.visit(part, raw, f"{where}, {type(x).__name__}") for part in parts.values()]
        is_tool = any(kind.__name__ == "BaseTool" for kind in type(x).__mro__)
        return raw or is_tool or any(out)

    def _recorders(self, x: Any, where: str) -> None:
        config = getattr(x, "config", None) if isinstance(x, RunnableBindingBase) else None
        callbacks = (config or {}).get("callbacks") or getattr(x, "callbacks", None) or []
        handlers = list(getattr(callbacks, "handlers", callbacks))
        handlers += getattr(x, "config_factories", ()) if config is not None else ()
        for handler in handlers:
            self._add(where, f"{type(handler).__name__} records raw text", _HEAD)
        if self._is_traced and not self._allowed:
            self._is_traced = False  # one finding is enough
            self._add(where, _TRACED, "put a PrivateHead first, or call it `with untraced():`")

    def _add(self, where: str, what: str, remedy: str) -> None:
        self.findings.append(Finding(where=where, what=what, remedy=remedy))


def _held(x: Any, is_wanted: Callable[[Any], bool]) -> list[Any]:
    """Lists what is wanted of the parts of an object, not the object itself."""
    return reachable(x, lambda part: part is not x and is_wanted(part))


def _is_middleware(x: Any) -> bool:
    return inherits(x, "langchain", "AgentMiddleware")


def _uses_input(x: Any) -> bool:
    """Tells whether something may be given the input of what holds it."""
    return _is_ours(x) or _is_model(x) or isinstance(x, Runnable)


def _branches(x: Any) -> list[tuple[str, Any]]:
    """The Runnables that one of LangChain's is made of, each of which is given its input."""
    if not type(x).__module__.startswith("langchain_core."):
        return []
    return [part for name, value in vars(x).items() for part in _named(name.strip("_"), value)]


def _named(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Runnable):
        yield name, value
    elif isinstance(value, dict | list | tuple):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            yield from _named(f"{name} {key}", item)


def _is_model(x: Any) -> bool:
    """Tells whether it is a model, a vendor's client, or what stands for one until it is called."""
    kind, names = type(x), ("Client", "OpenAI", "Anthropic", "Groq", "Mistral")
    is_client = kind.__module__.partition(".")[0] in _VENDORS and kind.__name__.endswith(names)
    stands_in = kind.__name__ in ("_ConfigurableModel", "RemoteGraph")
    return is_client or stands_in or inherits(x, "langchain_core", "BaseLanguageModel")


def _is_ours(x: Any) -> bool:
    """Tells whether it releases before it sends: the models inside of it are no findings."""
    packages = {base.__module__.partition(".")[0] for base in type(x).__mro__}
    return isinstance(x, dp.InferDPT | dp.PrivRewrite) or "langchain_dp_middleware" in packages


def _is_local(x: Any) -> bool:
    """Tells whether a model, or a retriever with all that it is made of, runs on this machine."""
    with suppress(UntrustedHost):
        require_trusted(locate(x) if _is_model(x) else locate_retriever(x))
        return True
    return False


def _bare(model: Any) -> Any:
    """Returns what arguments and config are bound to; what releases by itself is left as it is."""
    while isinstance(model, RunnableBinding) and not _is_ours(model):
        model = model.bound
    return model
