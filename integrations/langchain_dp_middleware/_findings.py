"""What the checks find, and what they take for a model: ours, local, or remote."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from langchain_core.runnables import RunnableBinding

import dp_middleware as dp
from dp_middleware.errors import UntrustedHost
from dp_middleware.models.parts import inherits, reachable as reachable
from dp_middleware.models.trust import locate, locate_retriever, require_trusted

WRAP = "give it DPChatModel(session, model), or, if it may see raw text, name it in local="
_VENDORS = {"openai", "anthropic", "groq", "mistralai", "cohere", "ollama", "google"}


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Names something that sends raw text out, or keeps the middleware from working.

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


def is_model(x: Any) -> bool:
    """Tells whether it is a model, a vendor's client, or what stands for one until it is called."""
    kind, names = type(x), ("Client", "OpenAI", "Anthropic", "Groq", "Mistral")
    is_client = kind.__module__.partition(".")[0] in _VENDORS and kind.__name__.endswith(names)
    stands_in = kind.__name__ in ("_ConfigurableModel", "RemoteGraph")
    return is_client or stands_in or inherits(x, "langchain_core", "BaseLanguageModel")


def is_ours(x: Any) -> bool:
    """Tells whether it releases before it sends: the models inside of it are no findings."""
    packages = {base.__module__.partition(".")[0] for base in type(x).__mro__}
    return isinstance(x, dp.InferDPT | dp.PrivRewrite) or "langchain_dp_middleware" in packages


def is_local(x: Any) -> bool:
    """Tells whether a model, or a retriever with all that it is made of, runs on this machine."""
    try:
        require_trusted(locate(x) if is_model(x) else locate_retriever(x))
    except UntrustedHost:
        return False
    return True


def bare(model: Any) -> Any:
    """Returns what arguments and config are bound to; what releases by itself is left as it is."""
    while isinstance(model, RunnableBinding) and not is_ours(model):
        model = model.bound
    return model
