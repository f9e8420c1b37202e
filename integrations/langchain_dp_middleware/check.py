"""A lint for agents: which models bypass the middleware and would be sent raw text."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from itertools import dropwhile
from typing import Any

from langchain_core.language_models import BaseLanguageModel

from dp_middleware.errors import ParameterError
from dp_middleware.models import trust
from dp_middleware.models.parts import reachable
from langchain_dp_middleware._agent_graph import (
    graph_in,
    hooks_of,
    is_agent,
    middleware_of,
    other_parts,
    own_model,
    wraps_of,
)
from langchain_dp_middleware._calls import PrivateBinding
from langchain_dp_middleware._findings import (
    WRAP,
    Finding,
    bare,
    is_client,
    is_local,
    is_model,
    is_ours,
)
from langchain_dp_middleware.agents import DPAgentMiddleware
from langchain_dp_middleware.chain_check import check_chain

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
    """What in an agent bypasses :class:`DPAgentMiddleware`, without running it.

    Looks at the agent's model, at the order of its middleware, at its checkpointer and store, and
    at the models and agents that middleware, tools and other nodes hold: in their fields, closures,
    arguments of partials and what they wrap. Globals and what a tool builds or imports when it is
    called are not seen, so no finding is no proof.

    A model is fine inside a :class:`DPChatModel` or another adapter of this package; elsewhere
    than the agent's own if it runs in process or on loopback; and wherever it is, if it is named
    in ``local``.

    Args:
        agent: What ``create_agent`` or ``StateGraph.compile`` returned, also behind a
            :class:`PrivateHead`.
        local: Models, checkpointers and stores that may see raw text.

    Raises:
        ParameterError: Not an agent.

    Example:
        ``assert not check_agent(create_agent(model, middleware=[DPAgentMiddleware(session)]))``
    """
    graph = graph_in(agent)
    if graph is None:
        raise ParameterError(f"expected a compiled agent, got {type(agent).__name__}")
    return list(_Check(local, own_model(graph)).graph(graph, ""))


class _Check:
    """Args: models declared local; the model of the agent, as an example of a remote one."""

    def __init__(self, local: Collection[Any], remote: Any) -> None:
        self._local = [bare(model) for model in local]
        self._remote = remote
        self._seen: list[Any] = []

    def graph(self, graph: Any, above: str) -> Iterator[Finding]:
        """Findings of an agent and those inside of it."""
        if any(graph is known for known in self._seen):
            return
        self._seen.append(graph)
        if graph.debug:
            what = "debug=True prints the state"
            yield Finding(where=f"{above}agent", what=what, remedy="leave it out")
        yield from self._memory(graph, above)
        wraps, hooks = wraps_of(graph), hooks_of(graph)
        covered = any(isinstance(layer, DPAgentMiddleware) for layer in wraps)
        model = own_model(graph)
        if model is not None and not covered and not self._is_fine(model, own=not above):
            what = f"{type(model).__name__} is sent raw messages"
            remedy = "put DPAgentMiddleware(session) last in middleware="
            yield Finding(where=f"{above}model", what=what, remedy=remedy)
        yield from _order(wraps, hooks, above)
        for layer in middleware_of(graph):
            yield from self._middleware(layer, wraps, above)
        for name, part in other_parts(graph):
            yield from self._inside(part, f"{above}{name}")

    def _memory(self, graph: Any, above: str) -> Iterator[Finding]:
        for kept in (graph.checkpointer, graph.store):
            known = isinstance(kept, bool | None) or type(kept).__name__ in _ON_THIS_MACHINE
            if not known and not any(kept is allowed for allowed in self._local):
                yield Finding(
                    where=f"{above}memory",
                    what=f"{type(kept).__name__} keeps raw messages, perhaps elsewhere",
                    remedy="keep them on this machine, or name it in local= if it does",
                )

    def _middleware(self, layer: Any, wraps: list[Any], above: str) -> Iterator[Finding]:
        name, where = type(layer).__name__, f"{above}middleware {layer.name}"
        inner = [*dropwhile(lambda other: other is not layer, wraps)][1:]
        if name == _REDIRECTS and any(isinstance(x, DPAgentMiddleware) for x in inner):
            return
        if name == _BORROWS and layer.model is None:
            what = "sends raw messages to the agent's own model"
            yield Finding(where=where, what=what, remedy=f"{WRAP}: pass model=")
        field, bad, good = _NOTICES.get(name, ("", None, None))
        if field and getattr(layer, field, None) == bad:
            what = f"{field}={bad!r} writes AI messages, which later turns refuse to send"
            yield Finding(where=where, what=what, remedy=f"use {field}={good!r}")
        if not isinstance(layer, DPAgentMiddleware):
            yield from self._inside(layer, where)

    def _inside(self, part: Any, where: str) -> Iterator[Finding]:
        for held in reachable(part, lambda x: is_model(x) or is_agent(x) or is_ours(x)):
            inner = graph_in(held)
            if inner is not None:
                yield from self.graph(inner, f"{where} > ")
            elif isinstance(held, PrivateBinding):  # may hand on private answers
                findings = check_chain(held, local=self._local)
                yield from (replace(finding, where=where) for finding in findings)
            elif not self._is_fine(held, own=False):
                what = f"{type(bare(held)).__name__} would be sent what {where} sees"
                yield Finding(where=where, what=what, remedy=WRAP)

    def _is_fine(self, model: Any, *, own: bool) -> bool:
        model = bare(model)
        if is_ours(model) or any(model is allowed for allowed in self._local):
            return True
        known = isinstance(model, BaseLanguageModel) or is_client(model)
        return known and not own and is_local(model) and not self._is_like_remote(model)

    def _is_like_remote(self, model: Any) -> bool:
        """At the agent's own model's address, or of its class where both have none."""
        remote = bare(self._remote)
        if is_ours(remote):
            return False
        theirs, mine = trust.locate(remote).hosts, trust.locate(model).hosts
        return bool(theirs & mine) or (not mine and not theirs and type(model) is type(remote))


def _order(wraps: list[Any], hooks: list[Any], above: str) -> Iterator[Finding]:
    """Middleware inside of ours: what it puts into a request is not released."""
    behind = []
    for layers in (wraps, hooks):
        ours = [i for i, layer in enumerate(layers) if isinstance(layer, DPAgentMiddleware)]
        behind += [layer.name for layer in layers[max(ours) + 1 :]] if ours else []
    for name in dict.fromkeys(behind):
        yield Finding(
            where=f"{above}middleware {name}",
            what="comes after DPAgentMiddleware, and can put raw text in behind it",
            remedy="put DPAgentMiddleware last in middleware=",
        )
