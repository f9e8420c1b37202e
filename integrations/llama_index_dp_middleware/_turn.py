"""What a chat engine is asked, and what came before it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.schema import BaseNode, NodeWithScore

from dp_middleware.conversation.exchange import Exchange
from dp_middleware.conversation.messages import Message
from dp_middleware.frameworks import inferdpt
from llama_index_dp_middleware._extraction import for_extractor


@dataclass(frozen=True, kw_only=True)
class Turn:
    """A message and what came before it. Private.

    Attributes:
        subject: In whose name it was released.
        exchange: What goes out for all of it.
        items: Its messages, as the session is told.
        before: The history.
        message: What the user said.
        passages: Raw nodes that were found for it.
        sources: Their released copies.
        receipt: What was released and charged. Public.
    """

    subject: str | None
    exchange: Exchange
    items: list[Message] = field(repr=False)
    before: list[ChatMessage] = field(repr=False)
    message: str = field(repr=False)
    passages: list[BaseNode] = field(repr=False)
    sources: list[NodeWithScore]
    receipt: dict[str, Any] = field(default_factory=dict)

    def for_extractor(self, remote: str) -> inferdpt.Messages:
        """What the local model is asked."""
        history = [
            {"role": "user" if each.role == "tool" else each.role, "content": each.text}
            for each in self.items[:-1]
        ]
        return [*history, *for_extractor(self.message, self.passages, remote)]
