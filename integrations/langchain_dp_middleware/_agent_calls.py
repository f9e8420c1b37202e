"""Calls of an agent's model: what is sent in place of its messages, and what is kept of it."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
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
from dp_middleware.conversation.exchange import Exchange, Tools
from dp_middleware.errors import guarded
from langchain_dp_middleware._answers import answer_of
from langchain_dp_middleware._boundary import remedied
from langchain_dp_middleware._calls import restored
from langchain_dp_middleware._messages import (
    Input,
    MessageReading,
    MessageRules,
    public_reading,
    read_message,
)

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


@dataclass(frozen=True, kw_only=True)
class ModelCall:
    """What is sent to a model, and its way back; noted in ``own``, of the agent's own messages."""

    exchange: Exchange
    own: Exchange
    extracts: bool
    messages: list[Any] = field(repr=False)
    system: SystemMessage | None = field(default=None, repr=False)

    def shown(self, result: Sequence[BaseMessage]) -> list[BaseMessage]:
        """Notes a result, and returns what is shown of it, answers with ids."""
        remote = [
            m if m.id or not isinstance(m, AIMessage) else m.model_copy(update={"id": str(uuid4())})
            for m in result
        ]
        shown = [restored(self.exchange, message) for message in remote]
        for said, seen in zip(remote, shown, strict=True):
            if isinstance(said, AIMessage):
                answer = answer_of(said)
                self.own.note(answer, answer if self.extracts else answer_of(seen))
        return shown


@dataclass(frozen=True, kw_only=True)
class CallReleaser:
    """Releases the messages of one run of an agent; ``extracts``: a local model writes answers."""

    session: dp.Session
    conversation: str | None
    rules: MessageRules
    public: PublicResults
    tools: Tools
    extracts: bool

    def call(
        self,
        messages: Sequence[AnyMessage],
        before: Sequence[AnyMessage],
        system: SystemMessage | None,
    ) -> ModelCall:
        """Makes what one call sends; ``before``: the state's, which middleware may have changed."""
        own, private = None, None if self.rules.system == "pass" else system
        if self.conversation is None and before and list(before) != list(messages):
            own, _ = self._exchange(before)
        name = None if own is None else own.conversation
        exchange, sent = self._exchange(messages, system=private, conversation=name)
        if private is not None:
            system, *sent = sent
        own, extracts = own or exchange, self.extracts
        return ModelCall(
            exchange=exchange, own=own, extracts=extracts, messages=sent, system=system
        )

    def _exchange(
        self,
        messages: Sequence[AnyMessage],
        *,
        system: SystemMessage | None = None,
        conversation: str | None = None,
    ) -> tuple[Exchange, list[Any]]:
        """Releases a transcript, behind a system prompt if there is one: what goes out."""

        def work() -> tuple[Exchange, list[Any]]:
            readings = [self._read(m, k) for k, m in enumerate(_with_ids(messages))]
            if system is not None:
                prompt = read_message(system.model_copy(update={"id": None}), self.rules, "system")
                aside = replace(prompt.message, aside=True)
                readings = [replace(prompt, message=aside), *readings]
            private = Input(readings=readings)
            with remedied():
                exchange = self.session.exchange(
                    private.transcript,
                    conversation=conversation or self.conversation,
                    unknown=self.rules.passes,
                    tools=self.tools,
                )
            return exchange, private.copy(exchange.sent)

        return guarded(work)

    def _read(self, message: AnyMessage, place: int) -> MessageReading:
        if not self.public.knows(message):
            return read_message(message, self.rules, f"message {place}")
        fields: Any = {name: getattr(message, name) for name in _PUBLIC}
        return public_reading(ToolMessage(**fields))


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
