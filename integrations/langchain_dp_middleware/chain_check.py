"""A lint for chains: where raw input reaches a model, retriever, recorder or fallback."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnableSequence
from langchain_core.runnables.base import RunnableBindingBase
from langchain_core.runnables.passthrough import RunnableAssign
from langsmith.utils import tracing_is_enabled

from dp_middleware.errors import ParameterError
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
from langchain_dp_middleware.head import Head
from langchain_dp_middleware.inferdpt import InferDPTChatModel

_TRACED = "LangSmith records raw text, as the environment or a context says"
_HEAD = "put a PrivateHead first, or leave it out"


def check_chain(runnable: Any, *, local: Collection[Any] = ()) -> list[Finding]:
    """Finds where raw input reaches what is not of this package, without running the chain.

    Follows the input through sequences, parallel steps, branches and fallbacks. It is raw until
    a component of this package releases it; documents of a retriever, results of tools and answers
    of local models are raw wherever they come from. Looks into declared fields, closures and
    partials; globals, and what a function builds when it is called, are not seen: no finding is no
    proof.

    Args:
        runnable: A chain; its input is taken to be private.
        local: Models and retrievers that may see raw text. Others may if they run here.

    Raises:
        ParameterError: Not a Runnable.
    """
    if not isinstance(runnable, Runnable):
        raise ParameterError(f"expected a Runnable, got {type(runnable).__name__}")
    check = _Chain(local)
    check.visit(runnable, True, "chain")
    return check.findings


class _Chain:
    """Args: models and retrievers declared local."""

    def __init__(self, local: Collection[Any]) -> None:
        self._local = [bare(part) for part in local]
        self._is_traced = bool(tracing_is_enabled())
        self._allowed = 0  # adapters around this step that were told to let it be recorded
        self.findings: list[Finding] = []

    def visit(self, x: Any, raw: bool, where: str) -> bool:
        """Whether what comes out may be raw, if what goes in is ``raw``."""
        if raw and not is_ours(x):
            self._recorders(x, where)
        out = self._inside(x, raw, where)
        if out and not raw and not is_ours(x):
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
        if is_ours(x):
            return isinstance(x, InferDPTChatModel)
        if isinstance(x, RunnableSequence):
            for i, step in enumerate(x.steps):
                raw = self.visit(step, raw, f"{where}, step {i}")
            return raw
        if isinstance(x, RunnableAssign):
            return self.visit(x.mapper, raw, where) or raw
        if branches := _branches(x):
            out = [self.visit(part, raw, f"{where}, {name}") for name, part in branches]
            return any(out)
        if is_model(x) or isinstance(x, BaseRetriever):
            return self._component(x, raw, where)
        return self._other(x, raw, where)

    def _component(self, x: Any, raw: bool, where: str) -> bool:
        """A model answers raw only here and what it is given; a retriever's documents are raw."""
        stays = any(x is allowed for allowed in self._local) or is_local(x)
        if raw and not stays:
            remedy = WRAP if is_model(x) else "release the query first, or name it in local="
            self._add(where, f"{type(x).__name__} is sent raw text", remedy)
        return (raw and stays) if is_model(x) else True

    def _other(self, x: Any, raw: bool, where: str) -> bool:
        """A function, tool, parser or prompt: what it holds may be given its input."""

        def may_use_input(y: Any) -> bool:
            return y is not x and (is_ours(y) or is_model(y) or isinstance(y, Runnable))

        parts = [y for y in reachable(x, may_use_input) if isinstance(y, Runnable) or is_model(y)]
        out = [self.visit(part, raw, f"{where}, {type(x).__name__}") for part in parts]
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
