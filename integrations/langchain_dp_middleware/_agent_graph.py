"""The parts of a compiled agent: how ``create_agent`` puts models, middleware and tools in it."""

from __future__ import annotations

from collections.abc import Iterator
from types import FunctionType
from typing import Any

from dp_middleware.errors import MissingExtra
from dp_middleware.models.parts import reachable

try:
    from langchain.agents.middleware import AgentMiddleware
    from langgraph.prebuilt import ToolNode
    from langgraph.pregel import Pregel
except ModuleNotFoundError:
    raise MissingExtra("langchain", "agents") from None


def is_agent(x: Any) -> bool:
    """Whether it is a compiled graph."""
    return isinstance(x, Pregel)


def graph_in(agent: Any) -> Any:
    """The compiled graph in an agent: behind bound arguments or a head."""
    while not isinstance(agent, Pregel):
        agent = getattr(agent, "bound", None) or getattr(agent, "then", None)
        if agent is None:
            return None
    return agent


def free_variable(function: Any, name: str) -> Any:
    """A variable of a function's closure, or None."""
    if not isinstance(function, FunctionType):
        return None
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return next((cell.cell_contents for variable, cell in cells if variable == name), None)


def _function(graph: Any, node: str) -> Any:
    bound = getattr(graph.nodes.get(node), "bound", None)
    return getattr(bound, "func", None) or getattr(bound, "afunc", None)


def own_model(graph: Any) -> Any:
    """The model that the agent calls; None in another graph."""
    return free_variable(_function(graph, "model"), "model")


def wraps_of(graph: Any) -> list[Any]:
    """Middleware around calls of the model, outermost first."""
    return _layers(free_variable(_function(graph, "model"), "wrap_model_call_handler"))


def _layers(handler: Any) -> list[Any]:
    if handler is None:
        return []
    outer, inner = free_variable(handler, "outer"), free_variable(handler, "inner")
    if outer is not None and inner is not None:
        return [*_layers(outer), *_layers(inner)]
    return reachable(handler, lambda x: isinstance(x, AgentMiddleware))[:1]


def hooks_of(graph: Any) -> list[Any]:
    """Middleware with a hook before the model, in order."""
    names = [name for name in graph.nodes if name.endswith(".before_model")]
    return [_function(graph, name).__self__ for name in names]


def middleware_of(graph: Any) -> list[Any]:
    """All middleware that can be found."""
    roots = [getattr(node, "bound", None) for node in graph.nodes.values()]
    parts = [*wraps_of(graph), *reachable(roots, lambda x: isinstance(x, AgentMiddleware))]
    return list({id(part): part for part in parts}.values())


def other_parts(graph: Any) -> Iterator[tuple[str, Any]]:
    """Tools, and nodes that are neither the model's nor of middleware, by name."""
    for name, node in graph.nodes.items():
        bound = getattr(node, "bound", None)
        if isinstance(bound, ToolNode):
            yield from ((f"tool {k}", tool) for k, tool in bound.tools_by_name.items())
        elif own_model(graph) is None or (name != "model" and "." not in name):
            yield f"node {name}", bound
