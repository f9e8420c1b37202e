"""A lint for agents: which models bypass the middleware and would be sent raw text."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from itertools import dropwhile
from types import FunctionType
from typing import Any

from dp_middleware.errors import ParameterError, needs
from dp_middleware.models.trust import locate
from langchain_dp_middleware._findings import (
    WRAP,
    Finding,
    bare,
    is_local,
    is_model,
    is_ours,
    reachable,
)
from langchain_dp_middleware._wrappers import PrivateBinding
from langchain_dp_middleware.agents import DPAgentMiddleware
from langchain_dp_middleware.chain_check import check_chain

with needs("agents"):
    from langchain.agents.middleware import AgentMiddleware
    from langgraph.prebuilt import ToolNode
    from langgraph.pregel import Pregel

_REDIRECTS = "ModelFallbackMiddleware"  # its models are called in the agent's own call
_BORROWS = "LLMToolSelectorMiddleware"  # without a model of its own it calls the agent's
_ON_THIS_MACHINE = (
    *("InMemorySaver", "MemorySaver", "SqliteSaver", "AsyncSqliteSaver", "InMemoryStore"),
    *("SqliteStore", "AsyncSqliteStore"),
)
_NOTICES = {  # middleware that writes AI messages, which later turns would have to send
    "ModelRetryMiddleware": ("on_failure", "continue", "error"),
    "ModelCallLimitMiddleware": ("exit_behavior", "end", "error"),
    "ToolCallLimitMiddleware": ("exit_behavior", "end", "continue"),
}


def check_agent(agent: Any, *, local: Collection[Any] = ()) -> list[Finding]:
    """Finds what in an agent bypasses :class:`DPAgentMiddleware`, without running it.

    Looks at the agent's model, at the order of its middleware, at its checkpointer and store, and
    at the models and agents that middleware, tools and other nodes hold in their fields, closures
    and partials. Globals and what a tool builds when it is called are not seen: no finding is no
    proof. A model is fine in an adapter of this package; elsewhere than the agent's own if it runs
    in process or on loopback; and wherever it is, if it is named in ``local``.

    Args:
        agent: What ``create_agent`` or ``StateGraph.compile`` returned, also behind a head.
        local: Models, checkpointers and stores that may see raw text.

    Raises:
        ParameterError: Not an agent.
    """
    graph = _graph_in(agent)
    if graph is None:
        raise ParameterError(f"expected a compiled agent, got {type(agent).__name__}")
    return list(_Check(local, _own_model(graph)).graph(graph, ""))


class _Check:
    """Args: models declared local; the model of the agent, which is remote wherever it runs."""

    def __init__(self, local: Collection[Any], remote: Any) -> None:
        self._local = [bare(model) for model in local]
        self._remote = bare(remote)
        self._seen: list[Any] = []

    def graph(self, graph: Any, above: str) -> Iterator[Finding]:
        """Yields the findings of an agent and those inside of it."""
        if any(graph is known for known in self._seen):
            return
        self._seen.append(graph)
        if graph.debug:
            yield _found(f"{above}agent", "debug=True prints the state", "leave it out")
        for kept in (graph.checkpointer, graph.store):
            known = isinstance(kept, bool | None) or type(kept).__name__ in _ON_THIS_MACHINE
            if not known and not any(kept is allowed for allowed in self._local):
                what = f"{type(kept).__name__} keeps raw messages, perhaps elsewhere"
                yield _found(f"{above}memory", what, "keep them here, or name it in local=")
        wraps, model = _layers(_free(_function(graph, "model"), _HANDLER)), _own_model(graph)
        covered = model is None or any(isinstance(layer, DPAgentMiddleware) for layer in wraps)
        if not covered and not self._is_fine(model, own=not above):
            what = f"{type(model).__name__} is sent raw messages"
            yield _found(
                f"{above}model", what, "put DPAgentMiddleware(session) last in middleware="
            )
        for name in _behind_ours(graph, wraps):
            what = "comes after DPAgentMiddleware, and can put raw text in behind it"
            yield _found(f"{above}middleware {name}", what, "put DPAgentMiddleware last")
        roots = [getattr(node, "bound", None) for node in graph.nodes.values()]
        others = reachable(roots, lambda x: isinstance(x, AgentMiddleware))
        for layer in {id(layer): layer for layer in (*wraps, *others)}.values():
            yield from self._middleware(layer, wraps, f"{above}middleware {layer.name}")
        for name, part in _other_parts(graph):
            yield from self._inside(part, f"{above}{name}")

    def _middleware(self, layer: Any, wraps: list[Any], where: str) -> Iterator[Finding]:
        name = type(layer).__name__
        inner = [*dropwhile(lambda other: other is not layer, wraps)][1:]
        if name == _REDIRECTS and any(isinstance(x, DPAgentMiddleware) for x in inner):
            return
        if name == _BORROWS and layer.model is None:
            what = "sends raw messages to the agent's own model"
            yield _found(where, what, f"{WRAP}: pass model=")
        field, bad, good = _NOTICES.get(name, ("", None, None))
        if field and getattr(layer, field, None) == bad:
            what = f"{field}={bad!r} writes AI messages, which later turns refuse to send"
            yield _found(where, what, f"use {field}={good!r}")
        if not isinstance(layer, DPAgentMiddleware):
            yield from self._inside(layer, where)

    def _inside(self, part: Any, where: str) -> Iterator[Finding]:
        for held in reachable(part, lambda x: is_model(x) or isinstance(x, Pregel) or is_ours(x)):
            inner = _graph_in(held)
            if inner is not None:
                yield from self.graph(inner, f"{where} > ")
            elif isinstance(held, PrivateBinding):  # may hand on private answers
                findings = check_chain(held, local=self._local)
                yield from (replace(finding, where=where) for finding in findings)
            elif not self._is_fine(held, own=False):
                yield _found(where, f"{type(bare(held)).__name__} would be sent what it sees", WRAP)

    def _is_fine(self, model: Any, *, own: bool) -> bool:
        model = bare(model)
        if is_ours(model) or any(model is allowed for allowed in self._local):
            return True
        if own or not is_model(model) or not is_local(model):
            return False
        is_remote = model is self._remote or locate(model).hosts & locate(self._remote).hosts
        return is_ours(self._remote) or not is_remote


def _found(where: str, what: str, remedy: str) -> Finding:
    return Finding(where=where, what=what, remedy=remedy)


def _behind_ours(graph: Any, wraps: list[Any]) -> list[str]:
    """Names of middleware inside of ours: what it puts into a request is not released."""
    names = [name for name in graph.nodes if name.endswith(".before_model")]
    behind = []
    for layers in (wraps, [_function(graph, name).__self__ for name in names]):
        ours = [i for i, layer in enumerate(layers) if isinstance(layer, DPAgentMiddleware)]
        behind += [layer.name for layer in layers[max(ours) + 1 :]] if ours else []
    return list(dict.fromkeys(behind))


# how create_agent puts models, middleware and tools into a graph ---------------------------------

_HANDLER = "wrap_model_call_handler"


def _graph_in(agent: Any) -> Any:
    """The compiled graph in an agent: behind bound arguments or a head; None if there is none."""
    while not isinstance(agent, Pregel | None):
        agent = getattr(agent, "bound", None) or getattr(agent, "then", None)
    return agent


def _function(graph: Any, node: str) -> Any:
    bound = getattr(graph.nodes.get(node), "bound", None)
    return getattr(bound, "func", None) or getattr(bound, "afunc", None)


def _free(function: Any, name: str) -> Any:
    """A variable of a function's closure, or None."""
    if not isinstance(function, FunctionType):
        return None
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return next((cell.cell_contents for variable, cell in cells if variable == name), None)


def _own_model(graph: Any) -> Any:
    """The model that the agent calls; None in another graph."""
    return _free(_function(graph, "model"), "model")


def _layers(handler: Any) -> list[Any]:
    """Middleware around calls of the model, outermost first."""
    if handler is None:
        return []
    outer, inner = _free(handler, "outer"), _free(handler, "inner")
    if outer is not None and inner is not None:
        return [*_layers(outer), *_layers(inner)]
    return reachable(handler, lambda x: isinstance(x, AgentMiddleware))[:1]


def _other_parts(graph: Any) -> Iterator[tuple[str, Any]]:
    """Tools, and nodes that are neither the model's nor of middleware, by name."""
    for name, node in graph.nodes.items():
        bound = getattr(node, "bound", None)
        if isinstance(bound, ToolNode):
            yield from ((f"tool {k}", tool) for k, tool in bound.tools_by_name.items())
        elif _own_model(graph) is None or (name != "model" and "." not in name):
            yield f"node {name}", bound
