"""Calls of an agent's model: what is sent in place of its messages, and what is kept of it."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple
from uuid import uuid4

from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

import dp_middleware as dp
from dp_middleware.conversation.exchange import Exchange
from dp_middleware.errors import guarded
from langchain_dp_middleware._boundary import System
from langchain_dp_middleware._calls import restored
from langchain_dp_middleware._messages import Input, answer_of, public_reading, read_message

_MARK = "dp_public"
_PUBLIC = ("content", "tool_call_id", "name", "status", "id")  # an artifact stays here


@dataclass(frozen=True)
class PublicResults:
    """Marks what a public tool returned, by a key: others write in its name too, and edit."""

    session: dp.Session
    tools: Collection[str]

    def mark(self, result: Any, tool: str) -> Any:
        """Marks what a public tool returned, a message or a ``Command``, but for errors."""
        if tool not in self.tools:
            return result
        if isinstance(result, ToolMessage):
            return self._with_mark(result)
        update = getattr(result, "update", None)
        if not isinstance(update, dict) or not isinstance(update.get("messages"), list):
            return result
        messages = [self._with_mark(message) for message in update["messages"]]
        return replace(result, update={**update, "messages": messages})

    def knows(self, message: BaseMessage) -> bool:
        """Tells whether a public tool returned exactly this."""
        if not isinstance(message, ToolMessage) or message.name not in self.tools:
            return False
        return bool(message.additional_kwargs.get(_MARK) == guarded(self._mark, message))

    def _with_mark(self, message: Any) -> Any:
        if not isinstance(message, ToolMessage) or message.status != "success":
            return message
        extra = {**message.additional_kwargs, _MARK: guarded(self._mark, message)}
        return message.model_copy(update={"additional_kwargs": extra})

    def _mark(self, message: ToolMessage) -> str:
        content = json.dumps(message.content, sort_keys=True, default=str)
        parts = (str(message.name), message.tool_call_id, message.status, content)
        return self.session.digest(_MARK, *parts)


class ModelCall(NamedTuple):
    """What was sent to a model, and what notes its answers: of the agent's own messages."""

    exchange: Exchange
    own: Exchange

    def shown(self, result: Sequence[BaseMessage], *, extracts: bool) -> list[BaseMessage]:
        """Notes a result, and returns what is shown of it, answers with ids.

        ``extracts``: a local model will write the answers.
        """
        remote = [
            m if m.id or not isinstance(m, AIMessage) else m.model_copy(update={"id": str(uuid4())})
            for m in result
        ]
        shown = [restored(self.exchange, message) for message in remote]
        for said, seen in zip(remote, shown, strict=True):
            if isinstance(said, AIMessage):
                answer = answer_of(said)
                self.own.note(answer, answer if extracts else answer_of(seen))
        return shown


def read_state(
    messages: Sequence[AnyMessage],
    prompt: SystemMessage | None,
    public: PublicResults,
    system: System,
) -> Input:
    """Reads an agent's messages, behind a private system prompt if there is one."""
    readings = []
    if prompt is not None:
        reading = read_message(prompt.model_copy(update={"id": None}), system, "system")
        readings = [reading._replace(message=replace(reading.message, aside=True))]
    for place, message in enumerate(_with_ids(messages)):
        if public.knows(message):
            fields: Any = {name: getattr(message, name) for name in _PUBLIC}
            readings.append(public_reading(ToolMessage(**fields)))
        else:
            readings.append(read_message(message, system, f"message {place}"))
    return Input(readings)


def turn_of(messages: Sequence[AnyMessage]) -> str:
    """Returns the user's last message and what tools found for it, for a local model. Private."""
    texts: list[str] = []
    for message in reversed(messages):
        if isinstance(message, HumanMessage | ToolMessage):
            texts.append(str(message.text))
        if isinstance(message, HumanMessage):
            break
    return "\n\n".join(reversed(texts))


def _with_ids(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """Names messages without an id by their place, so that a retry finds their releases."""
    copies: list[AnyMessage] = []
    anchor, distance = "", 0
    for message in messages:
        if message.id is None:
            distance += 1
            message = message.model_copy(update={"id": f"{anchor}\x1f+{distance}"})
        else:
            anchor, distance = message.id, 0
        copies.append(message)
    return copies
