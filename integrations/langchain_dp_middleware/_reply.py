"""A fixed public answer in place of the remote model's, where a budget is exhausted."""

from __future__ import annotations

from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult


class FixedReply(BaseChatModel):
    """Says the same to everything; asks nobody.

    Attributes:
        text: Public.
    """

    text: str

    def _generate(self, messages: Any, *args: Any, **kwargs: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=AIMessage(self.text))])

    @property
    def _llm_type(self) -> str:
        return "dp-fixed-reply"
