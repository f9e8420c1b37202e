"""Calls of an agent's model: what is sent in place of its messages, and what is kept of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
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
from dp_middleware.conversation.saved import Saved
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


@dataclass(frozen=True, kw_only=True)
class PublicResults:
    """Tells what a public tool returned from what others wrote in its name.

    A reviewer's rejection, an emulated tool and a notice in front of a result have the tool's name
    too, and may be private. The mark is keyed and holds for one content: it can neither be written
    by others nor outlive an edit.
    """

    session: dp.Session
    tools: Collection[str]

    def mark(self, result: Any, tool: str) -> Any:
        """Marks what a call of a tool returned, a message or a ``Command``, if it is public.

        Errors get no mark: they quote the arguments.
        """
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
    """What is sent to an agent's model in one call, and the exchange that restores its answer.

    The answer is noted in ``own``, the exchange of the agent's own messages; ``extracts``: a local
    model's words will stand for it.
    """

    exchange: Exchange
    own: Exchange
    extracts: bool
    messages: list[Any] = field(repr=False)
    system: SystemMessage | None = field(default=None, repr=False)

    def answers(self, result: Sequence[BaseMessage]) -> tuple[list[BaseMessage], list[BaseMessage]]:
        """Notes a result; returns it, with ids for the remote model's, and what is shown of it."""
        remote = [
            m if m.id or not isinstance(m, AIMessage) else m.model_copy(update={"id": str(uuid4())})
            for m in result
        ]
        shown = [restored(self.exchange, message) for message in remote]
        for said, seen in zip(remote, shown, strict=True):
            if isinstance(said, AIMessage):
                answer = answer_of(said)
                self.own.note(answer, answer if self.extracts else answer_of(seen))
        return remote, shown

    def saved(
        self, remote: Sequence[BaseMessage], known: Mapping[str, Saved], names: Collection[Any]
    ) -> dict[str, Saved]:
        """Returns entries for the state: of the answers, and of new messages with these ids."""
        late = {name: row for name, row in self.exchange.saved.items() if name in names}
        answers = [answer_of(said) for said in remote if isinstance(said, AIMessage)]
        rows = {str(answer.id): self.own.saved_answer(answer) for answer in answers}
        return {**changed(late, known), **rows}


@dataclass(frozen=True, kw_only=True)
class CallReleaser:
    """Releases the messages of one run of an agent; ``extracts``: a local model writes answers."""

    session: dp.Session
    conversation: str | None
    rules: MessageRules
    public: PublicResults
    tools: Tools
    extracts: bool

    def exchange(
        self,
        messages: Sequence[AnyMessage],
        saved: Mapping[str, Saved],
        *,
        system: SystemMessage | None = None,
        conversation: str | None = None,
    ) -> tuple[Exchange, list[Any]]:
        """Releases a transcript, behind a system prompt if there is one: what goes out."""
        passes = self._passes(messages, saved)

        def work() -> tuple[Exchange, list[Any]]:
            readings = [self._read(message, k) for k, message in enumerate(messages)]
            if system is not None:
                prompt = read_message(system.model_copy(update={"id": None}), self.rules, "system")
                aside = replace(prompt.message, aside=True)
                readings = [replace(prompt, message=aside), *readings]
            private = Input(readings=readings)
            with remedied():
                exchange = self.session.exchange(
                    private.transcript,
                    conversation=conversation or self.conversation,
                    unknown=passes,
                    tools=self.tools,
                    saved=saved,
                )
            return exchange, private.copy(exchange.sent)

        return guarded(work)

    def call(
        self,
        messages: Sequence[AnyMessage],
        state: Mapping[str, Any],
        system: SystemMessage | None,
    ) -> ModelCall:
        """Makes what one call sends; other middleware may have changed the agent's messages."""
        own, saved = None, saved_in(state)
        before: list[AnyMessage] = list(state.get("messages") or ())
        if self.conversation is None and before and before != list(messages):
            own, _ = self.exchange(with_ids(before), saved)
        private = None if self.rules.system == "pass" else system
        name = None if own is None else own.conversation
        exchange, sent = self.exchange(with_ids(messages), saved, system=private, conversation=name)
        if private is not None:
            system, *sent = sent
        own, extracts = own or exchange, self.extracts
        return ModelCall(
            exchange=exchange, own=own, extracts=extracts, messages=sent, system=system
        )

    def _passes(
        self, messages: Sequence[AnyMessage], saved: Mapping[str, Saved]
    ) -> Callable[[str], bool]:
        """Answers under pseudonyms that are lost get new ones, as what the state shows of them."""
        seen = set[str]()
        if self.session.restores and not self.extracts:
            answers = [m for m in messages if isinstance(m, AIMessage) and m.id in saved]
            seen = {answer_of(message).words() for message in answers}
        return lambda words: words in seen or self.rules.passes(words)

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


# the state ---------------------------------------------------------------------------------------


def merge(
    left: Mapping[str, Saved | None] | None, right: Mapping[str, Saved | None] | None
) -> dict[str, Saved]:
    """Reducer: newer entries replace older ones, ``None`` takes one out."""
    both = {**(left or {}), **(right or {})}
    return {name: entry for name, entry in both.items() if entry is not None}


def saved_in(state: Any) -> Mapping[str, Saved]:
    """Returns the entries in an agent's state."""
    return state.get("dp_releases") or {}


def changed(rows: Mapping[str, Saved], known: Mapping[str, Saved]) -> dict[str, Saved]:
    """Returns the entries that are not in the state."""
    return {name: row for name, row in rows.items() if known.get(name) != row}


def with_ids(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """Returns messages, those without an id named by their place: behind which, and how far.

    So a retry finds the releases of messages that another middleware put in.
    """
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
