"""Items of the SDK as messages of a transcript, and back."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from agents.run_config import CallModelData, CallModelInputFilter, ModelInputData

from dp_middleware.conversation.events import checked_tools
from dp_middleware.conversation.exchange import Exchange, Tools
from dp_middleware.conversation.literals import as_json
from dp_middleware.conversation.messages import Message, Role
from dp_middleware.conversation.notebook import Unknown
from dp_middleware.conversation.public import public_texts
from dp_middleware.conversation.response_items import answer_of, item_of
from dp_middleware.conversation.session import Session, session_of
from dp_middleware.errors import ParameterError

_ROLES: dict[str, Role] = {"user": "user", "system": "system", "developer": "system"}
_SAID = ("output_text", "refusal")  # parts of an answer


def release_input(
    session: object,
    *,
    public_instructions: Collection[str] = (),
    conversation: str | None = None,
) -> CallModelInputFilter:
    """Makes a ``call_model_input_filter`` that releases instructions, messages, outputs of tools.

    For models that the SDK finds by name. It sees no answers, so **answers in the input are
    declared public**: they are sent as they are, or under new pseudonyms, and nothing is restored.
    It cannot see how the run is traced: give that ``trace_include_sensitive_data=False``, or spans
    of functions export what tools returned. :class:`DPModel` has none of these limits.

    Args:
        session: As of :class:`DPModel`, and so the rest.
    """
    released = ReleasedItems(session, public_instructions, conversation, "pass", ())

    async def filtered(data: CallModelData[Any]) -> ModelInputData:
        given = data.model_data
        _, instructions, items = await released.of(given.instructions, given.input)
        return ModelInputData(input=items, instructions=instructions)

    return filtered


class ReleasedItems:
    """Releases inputs of models; ``unknown``: what happens to answers that were not noted."""

    def __init__(
        self,
        session: object,
        public: Collection[str],
        conversation: str | None,
        unknown: Unknown,
        tools: Tools,
    ) -> None:
        self._session: Session = session_of(session)
        self._public, self._tools = (
            public_texts(public, "public_instructions"),
            checked_tools(tools),
        )
        self._options: Any = {"conversation": conversation, "unknown": unknown}

    async def of(
        self, instructions: str | None, given: str | Sequence[Any]
    ) -> tuple[Exchange, str | None, list[Any]]:
        """Releases instructions and input items; what may be sent are new objects."""
        items = [{"role": "user", "content": given}] if isinstance(given, str) else given
        calls: set[str] = set()
        transcript = [_message(item, f"input item {k}", calls) for k, item in enumerate(items)]
        if self._session.restores:  # the SDK prints what a function returned
            transcript = [_printed(message) for message in transcript]
        if instructions is not None:
            public = instructions in self._public
            told = Message(role="system", texts=(instructions,), aside=True, public=public)
            transcript.insert(0, told)
        exchange = await self._session.aexchange(transcript, tools=self._tools, **self._options)
        sent = list(exchange.sent)
        rules = None if instructions is None else sent.pop(0).text
        return exchange, rules, [item_of(*pair) for pair in zip(items, sent, strict=True)]


def _message(item: Any, where: str, calls: set[str]) -> Message:
    if not isinstance(item, Mapping):
        raise ParameterError(f"{where}: expected an item as a dict, got {type(item).__name__}")
    kind, role = item.get("type", "message"), item.get("role")
    if kind == "message" and role in _ROLES:
        return Message(role=_ROLES[role], texts=_texts(item.get("content"), where))
    if kind == "function_call_output" and item.get("call_id") in calls:
        return Message(role="tool", texts=_texts(item.get("output"), where))
    answer = answer_of(item)
    said = item.get("content") if kind == "message" else ()
    if not isinstance(said, str) and any(part.get("type") not in _SAID for part in said or ()):
        raise ParameterError("only text and refusals of an answer can be sent again")
    if answer is None:
        raise ParameterError(
            f"{where}: expected a message of text, a call of a function or its output behind it; "
            "other items cannot be released"
        )
    calls.update(call.id for call in answer.calls)
    return answer


def _printed(message: Message) -> Message:
    if message.role != "tool":
        return message
    return replace(message, texts=tuple(map(as_json, message.texts)))


def _texts(content: Any, where: str) -> tuple[str, ...]:
    if isinstance(content, str):
        return (content,)
    for part in content if isinstance(content, list) else [None]:
        if not isinstance(part, Mapping) or part.get("type") != "input_text":
            raise ParameterError(f"{where}: only text can be released; take other content out")
    return tuple(part["text"] for part in content)
