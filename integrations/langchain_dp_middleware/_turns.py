"""Turns of a conversation with InferDPT: what the remote model and the extractor are sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from uuid import uuid4

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from dp_middleware.conversation.exchange import Exchange
from dp_middleware.conversation.messages import Message
from dp_middleware.errors import ParameterError
from dp_middleware.frameworks import inferdpt
from dp_middleware.privacy import Unit
from langchain_dp_middleware._boundary import messages_in
from langchain_dp_middleware._messages import message_of


def messages_of(value: object) -> list[BaseMessage]:
    """A text, prompt value or list as messages; a bare text is a new event at every call.

    Raises:
        ParameterError: Not a transcript of system, human and AI messages with a human one last.
    """
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


@dataclass(frozen=True, kw_only=True)
class Turn:
    """The last message of a transcript and what came before it.

    Attributes:
        history: Messages before it as role and content, system messages left out.
        text: Its text.
        instruction: Public, but for an extractor: it may hold raw documents.
    """

    history: inferdpt.Messages = field(repr=False)
    text: str = field(repr=False)
    instruction: str = field(repr=False)

    def for_remote(self, unit: Unit) -> inferdpt.Messages:
        """If this is a turn of released messages: what the remote model is sent."""
        return [*self.history, *inferdpt.for_remote(self.text, self.instruction, unit)]

    def for_extractor(self, draft: str) -> inferdpt.Messages:
        """If this is a turn of raw messages: what the extractor is given."""
        return [*self.history, *inferdpt.for_extractor(self.text, draft, self.instruction)]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A turn for which the remote model wrote a draft.

    Attributes:
        exchange: Of the turn.
        question: For the extractor. Private.
        draft: Public.
        name: Id of the answer to come.
    """

    exchange: Exchange
    question: inferdpt.Messages = field(repr=False)
    draft: str
    name: str = field(default_factory=lambda: f"dp-{uuid4()}")

    def note(self) -> None:
        """Lets the draft out again for an answer of this id."""
        remote = replace(_said(self.draft), id=self.name)
        self.exchange.note(remote, remote)

    def note_place(self, answer: str) -> None:
        """Lets it out again for this answer without an id, behind its turn. Never waits."""
        self.exchange.note_extracted((_said(self.draft), _said(answer)), left=True)


def _said(text: str) -> Message:
    return Message(role="assistant", texts=(text,))


def turn_of(messages: Sequence[BaseMessage], instruction: str) -> Turn:
    """The turn at the end of a transcript; its system messages are the instruction, if any."""
    rules = [message.text for message in messages if isinstance(message, SystemMessage)]
    *before, last = [message for message in messages if not isinstance(message, SystemMessage)]
    history = [
        {"role": "assistant" if isinstance(m, AIMessage) else "user", "content": str(m.text)}
        for m in before
    ]
    return Turn(history=history, text=str(last.text), instruction="\n\n".join(rules) or instruction)
