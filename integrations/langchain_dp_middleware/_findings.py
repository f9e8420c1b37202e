"""What the checks find."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from langchain_core.runnables import RunnableBinding

from dp_middleware.errors import UntrustedHost
from dp_middleware.models.trust import locate, require_trusted
from langchain_dp_middleware._parts import code_of, is_ours, parts_in

WRAP = "give it DPChatModel(session, model), or, if it may see raw text, name it in local="


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


def is_local(model: Any) -> bool:
    """Tells whether a model runs in process or on loopback."""
    try:
        require_trusted(locate(model))
    except UntrustedHost:
        return False
    return True


def bare(model: Any) -> Any:
    """Returns what arguments and config are bound to; what releases by itself is left as it is."""
    while isinstance(model, RunnableBinding) and not is_ours(model):
        model = model.bound
    return model


def held_by(root: Any, is_found: Callable[[Any], bool]) -> list[Any]:
    """Returns what is looked for among the declared parts of an object, not what is inside it."""

    def is_whole(part: Any) -> bool:
        kind = code_of(type(part).__module__)
        return is_found(part) or kind in ("computes", "network")

    return [part for part in parts_in(root, is_whole) if is_found(part)]
