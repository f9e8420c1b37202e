"""What the checks find, and what they take for a model: ours, local, or remote."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from langchain_core.runnables import RunnableBinding

import dp_middleware as dp
from dp_middleware.models import trust
from dp_middleware.models.parts import inherits

WRAP = "give it DPChatModel(session, model), or, if it may see raw text, name it in local="
_ELSEWHERE = ("_ConfigurableModel", "RemoteGraph")  # where they run is not known before a call
_CLIENTS = {"openai", "anthropic", "groq", "mistralai", "cohere", "ollama", "google"}
_CLIENT_NAMES = {
    *("OpenAI", "AsyncOpenAI", "AzureOpenAI", "AsyncAzureOpenAI"),
    *("Anthropic", "AsyncAnthropic", "Groq", "AsyncGroq", "Mistral"),
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


def is_local(model: Any) -> bool:
    place = trust.locate(model)
    return not place.unknown and all(trust.is_loopback(h) for h in place.hosts | place.proxies)


def is_model(x: Any) -> bool:
    """A model, or what stands for one: where some run is not known before a call."""
    known = inherits(x, "langchain_core", "BaseLanguageModel") or is_client(x)
    return known or type(x).__name__ in _ELSEWHERE


def is_client(x: Any) -> bool:
    """Whether it is a vendor's own client, which sends what it is given."""
    kind = type(x)
    vendor = kind.__module__.partition(".")[0] in _CLIENTS
    return vendor and (kind.__name__ in _CLIENT_NAMES or kind.__name__.endswith("Client"))


def is_ours(x: Any) -> bool:
    """Whether it releases before it sends: the models inside of it are no findings."""
    packages = {base.__module__.partition(".")[0] for base in type(x).__mro__}
    return isinstance(x, dp.InferDPT | dp.PrivRewrite) or "langchain_dp_middleware" in packages


def bare(model: Any) -> Any:
    """What arguments and config are bound to; what releases by itself is left as it is."""
    while isinstance(model, RunnableBinding) and not is_ours(model):
        model = model.bound
    return model
