"""A lint for agents: which models bypass the middleware and would be sent raw text."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from langchain_core.language_models import BaseLanguageModel
from langchain_core.runnables import RunnableBinding

import dp_middleware as dp
from dp_middleware.errors import ParameterError
from dp_middleware.frameworks import trust
from langchain_dp_middleware._agent_graph import (
    compiled,
    hooks_of,
    is_agent,
    middleware_of,
    other_parts,
    own_model,
    wraps_of,
)
from langchain_dp_middleware._reachable import reachable
from langchain_dp_middleware.agents import DPAgentMiddleware

_WRAP = "give it DPChatModel(session, model), or, if it may see raw text, name it in local="
_REDIRECTS = "ModelFallbackMiddleware"  # its models are called in the agent's own call
_BORROWS = "LLMToolSelectorMiddleware"  # without a model of its own it calls the agent's
_ELSEWHERE = ("_ConfigurableModel", "RemoteGraph")  # where they run is not known before a call
_CLIENTS = {"openai", "anthropic", "groq", "mistralai", "cohere", "ollama", "google"}
_CLIENT_NAMES = {
    *("OpenAI", "AsyncOpenAI", "AzureOpenAI", "AsyncAzureOpenAI"),
    *("Anthropic", "AsyncAnthropic", "Groq", "AsyncGroq", "Mistral"),
}
_NOTICES = {  # middleware that writes AI messages, which later turns would have to send
    "ModelRetryMiddleware": ("on_failure", "continue", "error"),
    "ModelCallLimitMiddleware": ("exit_behavior", "end", "error"),
    "ToolCallLimitMiddleware": ("exit_behavior", "end", "continue"),
}


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Something in an agent that sends raw text out, or keeps the middleware from working.

    Attributes:
        where: Names the part: nodes, middleware, tools.
        what: What is wrong with it.
        remedy: What to do.
    """

    where: str
    what: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}; {self.remedy}"


def check_agent(agent: Any, *, local: Collection[Any] = ()) -> list[Finding]:
    """What in an agent bypasses :class:`DPAgentMiddleware`, without running it.

    Looks at the agent's model, at the order of its middleware, and at the models and agents that
    middleware, tools and other nodes hold: in their fields, closures, and globals that their code
    names. What a tool builds or imports when it is called is not seen, so no finding is no proof.

    A model is fine inside a :class:`DPChatModel` or another adapter of this package; elsewhere
    than the agent's own if it runs in process or on loopback; and wherever it is, if it is named
    in ``local``.

    Args:
        agent: What ``create_agent`` or ``StateGraph.compile`` returned, also behind a
            :class:`PrivateHead`.
        local: Models that may see raw text.

    Raises:
        ParameterError: Not an agent.

    Example:
        ``assert not check_agent(create_agent(model, middleware=[DPAgentMiddleware(session)]))``
    """
    graph = compiled(agent)
    if graph is None:
        raise ParameterError(f"expected a compiled agent, got {type(agent).__name__}")
    return list(_Check(local, own_model(graph)).graph(graph, ""))


class _Check:
    """Args: models declared local; the model of the agent, as an example of a remote one."""

    def __init__(self, local: Collection[Any], remote: Any) -> None:
        self._local = [_bare(model) for model in local]
        self._remote = remote
        self._seen: list[Any] = []

    def graph(self, graph: Any, above: str) -> Iterator[Finding]:
        """Findings of an agent and those inside of it."""
        if any(graph is each for each in self._seen):
            return
        self._seen.append(graph)
        if graph.debug:
            yield Finding(
                where=f"{above}agent", what="debug=True prints the state", remedy="leave it out"
            )
        wraps, hooks = wraps_of(graph), hooks_of(graph)
        covered = any(isinstance(each, DPAgentMiddleware) for each in wraps)
        yield from self._own(own_model(graph), covered, above)
        yield from _order(wraps, hooks, above)
        for each in middleware_of(graph):
            yield from self._middleware(each, wraps, above)
        for name, part in other_parts(graph):
            yield from self._inside(part, f"{above}{name}")

    def _own(self, model: Any, covered: bool, above: str) -> Iterator[Finding]:
        if model is None or covered or self._is_fine(model, own=not above):
            return
        yield Finding(
            where=f"{above}model",
            what=f"{type(model).__name__} is sent raw messages",
            remedy="put DPAgentMiddleware(session) last in middleware=",
        )

    def _middleware(self, each: Any, wraps: list[Any], above: str) -> Iterator[Finding]:
        name, where = type(each).__name__, f"{above}middleware {each.name}"
        inner = wraps[_place(wraps, each) + 1 :]
        if name == _REDIRECTS and any(isinstance(x, DPAgentMiddleware) for x in inner):
            return
        if name == _BORROWS and each.model is None:
            what = "sends raw messages to the agent's own model"
            yield Finding(where=where, what=what, remedy=f"{_WRAP}: pass model=")
        field, bad, good = _NOTICES.get(name, ("", None, None))
        if field and getattr(each, field, None) == bad:
            what = f"{field}={bad!r} writes AI messages, which later turns refuse to send"
            yield Finding(where=where, what=what, remedy=f"use {field}={good!r}")
        if not isinstance(each, DPAgentMiddleware):
            yield from self._inside(each, where)

    def _inside(self, part: Any, where: str) -> Iterator[Finding]:
        for each in reachable(part, _is_of_interest):
            inner = compiled(each)
            if inner is not None:
                yield from self.graph(inner, f"{where} > ")
            elif not self._is_fine(each, own=False):
                what = f"{type(_bare(each)).__name__} would be sent what {where} sees"
                yield Finding(where=where, what=what, remedy=_WRAP)

    def _is_fine(self, model: Any, *, own: bool) -> bool:
        model = _bare(model)
        if _is_ours(model) or any(model is each for each in self._local):
            return True
        known = isinstance(model, BaseLanguageModel) or _is_client(model)
        return known and not own and _is_local(model) and not self._is_like_remote(model)

    def _is_like_remote(self, model: Any) -> bool:
        """At the agent's own model's address, or of its class where both have none."""
        remote = _bare(self._remote)
        if _is_ours(remote):
            return False
        theirs, mine = trust.locate(remote).hosts, trust.locate(model).hosts
        return bool(theirs & mine) or (not mine and not theirs and type(model) is type(remote))


def _is_local(model: Any) -> bool:
    place = trust.locate(model)
    return not place.unknown and all(trust.is_loopback(h) for h in place.hosts | place.proxies)


def _is_of_interest(x: Any) -> bool:
    known = isinstance(x, BaseLanguageModel) or is_agent(x) or _is_ours(x)
    return known or type(x).__name__ in _ELSEWHERE or _is_client(x)


def _is_client(x: Any) -> bool:
    """Whether it is a vendor's own client, which sends what it is given."""
    kind = type(x)
    vendor = kind.__module__.partition(".")[0] in _CLIENTS
    return vendor and (kind.__name__ in _CLIENT_NAMES or kind.__name__.endswith("Client"))


def _is_ours(x: Any) -> bool:
    """Whether it releases before it sends: the models inside of it are no findings."""
    packages = {each.__module__.partition(".")[0] for each in type(x).__mro__}
    return isinstance(x, dp.InferDPT | dp.PrivRewrite) or "langchain_dp_middleware" in packages


def _bare(model: Any) -> Any:
    while isinstance(model, RunnableBinding):
        model = model.bound
    return model


def _place(layers: list[Any], each: Any) -> int:
    return next((i for i, layer in enumerate(layers) if layer is each), len(layers))


def _order(wraps: list[Any], hooks: list[Any], above: str) -> Iterator[Finding]:
    """Middleware inside of ours: what it puts into a request is not released."""
    behind = []
    for layers in (wraps, hooks):
        ours = [i for i, each in enumerate(layers) if isinstance(each, DPAgentMiddleware)]
        behind += [each.name for each in layers[max(ours) + 1 :]] if ours else []
    for name in dict.fromkeys(behind):
        yield Finding(
            where=f"{above}middleware {name}",
            what="comes after DPAgentMiddleware, and can put raw text in behind it",
            remedy="put DPAgentMiddleware last in middleware=",
        )
