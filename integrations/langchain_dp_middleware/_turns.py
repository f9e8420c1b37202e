"""Turns of a conversation with InferDPT: what the models are asked, and what is noted of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import uuid4

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from dp_middleware.conversation.exchange import Exchange
from dp_middleware.conversation.messages import Message
from dp_middleware.errors import ParameterError
from dp_middleware.frameworks import inferdpt
from langchain_dp_middleware._messages import message_of, messages_in


def messages_of(value: object) -> list[BaseMessage]:
    """Makes messages of a text, prompt value or list; a bare text is new at every call."""
    messages = [
        HumanMessage(x, id=str(uuid4()))
        if isinstance(x, str)
        else message_of(x, f"the input, message {i}")
        for i, x in enumerate(messages_in(value))
    ]
    for i, message in enumerate(messages):
        if not isinstance(message, HumanMessage | SystemMessage | AIMessage):
            raise ParameterError(
                f"the input, message {i}: expected a human, system or ai message, got "
                f"{type(message).__name__}"
            )
    last = messages[-1] if messages else None
    if not isinstance(last, HumanMessage) or not last.text.strip():
        raise ParameterError("expected a human message with text at the end of the transcript")
    return messages


def turn_of(
    messages: Sequence[BaseMessage], instruction: str
) -> tuple[inferdpt.Messages, str, str]:
    """Splits a transcript: its history, its last text, and its system messages or instruction."""
    rules = [message.text for message in messages if isinstance(message, SystemMessage)]
    *before, last = [message for message in messages if not isinstance(message, SystemMessage)]
    history = [
        {"role": "assistant" if isinstance(m, AIMessage) else "user", "content": str(m.text)}
        for m in before
    ]
    return history, str(last.text), "\n\n".join(rules) or instruction


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A turn for which the remote model wrote a draft, under the name of the answer to come."""

    exchange: Exchange
    question: inferdpt.Messages = field(repr=False)
    draft: str
    name: str = field(default_factory=lambda: f"dp-{uuid4()}")

    def note(self) -> None:
        """Lets the draft out again for an answer of this id."""
        remote = Message(role="assistant", texts=(self.draft,), id=self.name)
        self.exchange.note(remote, remote)

    def note_place(self, answer: str) -> None:
        """Lets it out again for this answer without an id, behind its turn. Never waits."""
        remote, local = (Message(role="assistant", texts=(x,)) for x in (self.draft, answer))
        self.exchange.note_extracted((remote, local), left=True)
