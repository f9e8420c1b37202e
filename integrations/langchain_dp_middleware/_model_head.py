"""What a DPChatModel makes that is no chat model: structured output, retries, fallbacks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from langchain_core.runnables import RunnableConfig, RunnableSequence
from langchain_core.runnables.base import coerce_to_runnable

from langchain_dp_middleware._composition import Head

if TYPE_CHECKING:
    from langchain_dp_middleware.chat_model import DPChatModel


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ModelHead(Head):
    """The boundary of a chat model in front of what is not one; may run in other runs, as it may.

    Attributes:
        model: Its session and rules release.
    """

    model: DPChatModel

    def __repr__(self) -> str:
        return f"{self.model!r}\n| {self.then!r}"

    def __ror__(self, other: Any) -> Any:
        return RunnableSequence(coerce_to_runnable(other), self)

    def _enter(self, value: Any, config: RunnableConfig | None) -> tuple[Any, RunnableConfig]:
        return self.model._enter(value, self._merged(config))
