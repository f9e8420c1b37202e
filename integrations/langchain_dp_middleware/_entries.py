"""What an agent sends in place of its messages: entries of its state, by message id."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypedDict, TypeVar, cast

from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    SystemMessage,
    ToolMessage,
    messages_from_dict,
)

import dp_middleware as dp
from dp_middleware.conversation.boundary import guarded
from langchain_dp_middleware._boundary import release_messages
from langchain_dp_middleware._messages import MessageRules, note_answer

T = TypeVar("T")

_MARK = "dp_public"


@dataclass(frozen=True)
class PublicResults:
    """Tells what a public tool returned from what others wrote in its name.

    A reviewer's rejection, an emulated tool and a notice in front of a result are messages with
    the tool's name too, and may hold private text. The mark is keyed and holds for one content,
    so that it neither can be written by others nor outlives an edit.

    Attributes:
        session: Its key makes the marks.
        tools: Names of the tools whose results are public.
    """

    session: dp.Session
    tools: Collection[str]

    def mark(self, result: T, tool: str) -> T:
        """What a call of a tool returned, a message or a ``Command``, with marks if it is public.

        Errors get none: they quote the arguments.
        """
        if tool not in self.tools:
            return result
        if isinstance(result, ToolMessage):
            return cast("T", self._with_mark(result))
        update = getattr(result, "update", None)
        if not isinstance(update, dict) or not isinstance(update.get("messages"), list):
            return result
        messages = [self._with_mark(message) for message in update["messages"]]
        changed: Any = {**update, "messages": messages}
        return cast("T", replace(cast("Any", result), update=changed))

    def knows(self, message: BaseMessage) -> bool:
        """Whether a public tool returned exactly this."""
        if not isinstance(message, ToolMessage) or message.name not in self.tools:
            return False
        return bool(message.additional_kwargs.get(_MARK) == self._mark(message))

    def _with_mark(self, message: Any) -> Any:
        if not isinstance(message, ToolMessage) or message.status != "success":
            return message
        extra = {**message.additional_kwargs, _MARK: self._mark(message)}
        return message.model_copy(update={"additional_kwargs": extra})

    def _mark(self, message: ToolMessage) -> str:
        parts = (_MARK, str(message.name), message.tool_call_id, message.status)
        return _digest(self.session, message, *parts)


class StateEntry(TypedDict):
    """What goes out for a message. Public, and plain data, so that any checkpointer keeps it.

    Attributes:
        digest: Keyed mark of the message that it was released for; of no use for AI messages,
            which are sent as the remote model wrote them, whatever the state shows.
        sent: The released message.
    """

    digest: str
    sent: dict[str, Any]


StateEntries = Mapping[str, StateEntry]


def merge(
    left: Mapping[str, StateEntry | None] | None, right: Mapping[str, StateEntry | None] | None
) -> dict[str, StateEntry]:
    """Reducer: newer entries replace older ones, ``None`` takes one out."""
    both = {**(left or {}), **(right or {})}
    return {name: entry for name, entry in both.items() if entry is not None}


def entries_of(state: Any) -> StateEntries:
    """The entries in an agent's state."""
    return state.get("dp_releases") or {}


@dataclass(frozen=True)
class Releaser:
    """Releases the messages of one call of an agent.

    Attributes:
        session: Charges, draws and remembers.
        conversation: Public name of the thread.
        rules: For what is not the text of a human or of a tool.
        public: Knows the results of tools that are sent as they are.
    """

    session: dp.Session
    conversation: str
    rules: MessageRules
    public: PublicResults

    def update(
        self, messages: Sequence[AnyMessage], entries: StateEntries
    ) -> dict[str, StateEntry]:
        """Entries that are missing, or whose messages have changed.

        Raises:
            DPMiddlewareError: Text-free; see :func:`release_messages`.
        """
        pending = [message for message in messages if not self._is_settled(message, entries)]
        if not pending:
            return {}
        released = release_messages(
            self.session, pending, self.rules, conversation=self.conversation
        )
        return {
            str(raw.id): self.entry(raw, sent) for raw, sent in zip(pending, released, strict=True)
        }

    def sent(self, message: AnyMessage, entries: StateEntries) -> Any:
        """What goes out for a message; one that is not public must have its entry."""
        if not self._is_public(message):
            return messages_from_dict([dict(entries[str(message.id)]["sent"])])[0]
        if not isinstance(message, ToolMessage):
            return message
        names = ("content", "tool_call_id", "name", "status", "id")  # an artifact stays here
        return ToolMessage(**{name: getattr(message, name) for name in names})

    def readable(
        self, messages: Sequence[AnyMessage], passages: dp.Passages | None
    ) -> Sequence[AnyMessage]:
        """For a local model: raw documents where public tools returned released ones. Private."""
        if passages is None:
            return messages
        subject = self.session.sanitizer.subject
        return [
            m.model_copy(update={"content": passages.restore(subject, str(m.text))})
            if isinstance(m, ToolMessage) and self.public.knows(m)
            else m
            for m in messages
        ]

    def system(self, message: SystemMessage) -> SystemMessage:
        """What goes out for a call's system prompt: one event, as long as it stays the same."""
        if self.rules.system == "pass":
            return message
        event = message.model_copy(update={"id": f"\x1fsystem {self._digest(message)}"})
        [sent] = release_messages(self.session, [event], self.rules, conversation=self.conversation)
        return SystemMessage(content=sent.content)

    def note(self, remote: AIMessage) -> None:
        """Tell the session what the remote model wrote."""
        guarded(
            lambda: note_answer(self.session, remote, conversation=self.conversation),
            what="the memo",
        )

    def entry(self, raw: BaseMessage, sent: BaseMessage) -> StateEntry:
        """The entry of a message for which ``sent`` goes out."""
        data = {"type": sent.type, "data": sent.model_dump(mode="json", warnings=False)}
        return StateEntry(digest=self._digest(raw), sent=data)

    def _is_settled(self, message: AnyMessage, entries: StateEntries) -> bool:
        if self._is_public(message):
            return True
        entry = entries.get(str(message.id))
        if entry is None or isinstance(message, AIMessage):
            return entry is not None
        return entry["digest"] == self._digest(message)

    def _is_public(self, message: AnyMessage) -> bool:
        if isinstance(message, ToolMessage):
            return self.public.knows(message)
        return isinstance(message, SystemMessage) and self.rules.system == "pass"

    def _digest(self, message: BaseMessage) -> str:
        parts = (self.conversation, str(message.id), message.type)
        return _digest(self.session, message, *parts)


def _digest(session: dp.Session, message: BaseMessage, *parts: str) -> str:
    """Keyed mark of a message's content and of what else it is known by."""

    def work() -> str:
        content = json.dumps(message.content, sort_keys=True, default=str)
        return session.digest(*parts, content)

    return guarded(work)


def with_ids(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """The messages, those without an id named by their place: after which message, and how far.

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
