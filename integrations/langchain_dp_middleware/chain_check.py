"""A lint for chains: where raw input reaches a model, retriever, recorder or fallback."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import (
    Runnable,
    RunnableBranch,
    RunnableParallel,
    RunnableSequence,
    RunnableWithFallbacks,
)
from langchain_core.runnables.base import RunnableBindingBase, RunnableEachBase
from langchain_core.runnables.configurable import DynamicRunnable
from langchain_core.runnables.passthrough import RunnableAssign
from langsmith.utils import tracing_is_enabled

from dp_middleware.errors import ParameterError, UntrustedHost
from dp_middleware.models.parts import inherits, reachable
from langchain_dp_middleware._calls import PrivateBinding
from langchain_dp_middleware._composition import Head
from langchain_dp_middleware._findings import WRAP, Finding, bare, is_local, is_model, is_ours
from langchain_dp_middleware._retriever_trust import require_local
from langchain_dp_middleware.inferdpt import InferDPTChatModel

_TRACED = "LangSmith records raw text, as the environment or a context says"
_HEAD = "put a PrivateHead first, or leave it out"


def check_chain(runnable: Any, *, local: Collection[Any] = ()) -> list[Finding]:
    """Where raw input reaches what is not of this package, without running the chain.

    Follows the input through sequences, parallel steps, branches and fallbacks. It is raw until
    a component of this package releases it; documents of a retriever, results of tools and answers
    of local models are raw wherever they come from. Looks into functions' closures, partials and
    what they wrap; globals, and what a function builds or imports when it is called, are not
    seen, so no finding is no proof.

    Args:
        runnable: A chain; its input is taken to be private.
        local: Models and retrievers that may see raw text. Others may if they run in process or on
            loopback.

    Raises:
        ParameterError: Not a Runnable.

    Example:
        ``assert not check_chain(PrivateHead(session, keys=["question"]) | prompt | model)``
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
        if is_model(x):
            return self._model(x, raw, where)
        if isinstance(x, BaseRetriever):
            return self._retriever(x, raw, where)
        return self._other(x, raw, where)

    def _model(self, model: Any, raw: bool, where: str) -> bool:
        if any(model is allowed for allowed in self._local) or is_local(model):
            return raw
        if raw:
            self._add(where, f"{type(model).__name__} is sent raw text", WRAP)
        return False

    def _retriever(self, retriever: BaseRetriever, raw: bool, where: str) -> bool:
        name = type(retriever).__name__
        if raw and not any(retriever is allowed for allowed in self._local):
            try:
                require_local(retriever, ())
            except UntrustedHost:
                what = f"{name} may send the raw query to another computer"
                self._add(where, what, "release the query first, or name it in local=")
        return True

    def _other(self, x: Any, raw: bool, where: str) -> bool:
        """A function, tool, parser or prompt: what it holds may be given its input."""

        def may_use_input(y: Any) -> bool:
            known = is_ours(y) or is_model(y) or inherits(y, "langchain_core", "Runnable")
            return known and y is not x

        held = reachable(x, may_use_input)
        out = [
            self.visit(part, raw, f"{where}, {type(x).__name__}")
            for part in held
            if isinstance(part, Runnable) or is_model(part)
        ]
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
    """Parts of a step that are each given its input."""
    if isinstance(x, RunnableParallel):
        return [(f"key {name}", step) for name, step in x.steps__.items()]
    if isinstance(x, RunnableWithFallbacks):
        others = [(f"fallback {i}", fallback) for i, fallback in enumerate(x.fallbacks)]
        return [("first choice", x.runnable), *others]
    if isinstance(x, RunnableBranch):
        conditions = [("condition", condition) for condition, _ in x.branches]
        return [
            *conditions,
            *(("branch", branch) for _, branch in x.branches),
            ("default", x.default),
        ]
    if isinstance(x, RunnableBindingBase | RunnableEachBase):
        return [("bound", x.bound)]
    if isinstance(x, DynamicRunnable):
        other = getattr(x, "alternatives", {})
        rest = [(f"alternative {n}", e) for n, e in other.items() if isinstance(e, Runnable)]
        return [("default", x.default), *rest]
    return []
