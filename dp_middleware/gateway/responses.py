"""``/v1/responses``: whole or streamed, with tools; conversations by the ids of responses."""
# ruff: noqa: D102 - the calls are documented in Shown

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from starlette.responses import Response

from dp_middleware.conversation.exchange import Growing
from dp_middleware.conversation.messages import THOUGHT, Message, Role, answer_of, item_of
from dp_middleware.errors import EventRefused
from dp_middleware.gateway import fields as f
from dp_middleware.gateway.failures import Failure, garbage
from dp_middleware.gateway.service import Call
from dp_middleware.gateway.settings import Policy
from dp_middleware.gateway.turns import Plan, Shown, Turn, answered

_ARGUMENTS = "response.function_call_arguments"
_PIECES = {  # event -> which field of its end has the whole
    "response.output_text": "text",
    "response.refusal": "refusal",
    _ARGUMENTS: "arguments",
}
_ENDS = ("response.completed", "response.incomplete", "response.failed")
_WITHHELD = {"code": "server_error", "message": "the upstream's words are withheld"}
_PLACE = ("item_id", "output_index", "content_index", "sequence_number")
_WORDS = ("text", "refusal")


async def responses(call: Call) -> Response:
    """Releases instructions and input, asks the upstream, shows its response."""
    return await answered(call, plan_of, "/responses", ShownResponse)


def plan_of(call: Call) -> Plan:
    """Reads what is private in a request, and what is sent in its place."""
    policy = call.policy
    given = _request(policy, call.gateway.settings.upstream.models)(call.body, "")
    items, instructions = given.pop("input"), given.pop("instructions", None)
    before = given.pop("previous_response_id", None)
    f.require_choice(given)
    if isinstance(items, str):
        items = [{"role": "user", "content": items}]
        transcript = [Message(role="user", texts=(items[0]["content"],))]
    else:
        transcript, items = [_message(item) for item in items], call.body["input"]
    if before is not None:
        known, field = call.signed("response", before), "previous_response_id"
        if known is None:
            message = f"{field}: expected an id from this gateway"
            raise Failure(400, message, "not_found", param=field)
        before = given[field] = known.decode()
        transcript = [_after(before, k, message, call) for k, message in enumerate(transcript)]
    first = f.instructions((instructions,) if instructions is not None else None, policy)
    _check_results(call, items, before)

    def build(sent: Sequence[Message]) -> dict[str, Any]:
        told = {"instructions": sent[0].text} if first else {}
        return {**given, **told, "input": [*map(item_of, items, sent[len(first) :])]}

    return Plan(transcript=[*first, *transcript], build=build, after=before)


def _message(item: dict[str, Any]) -> Message:
    if item.get("type") == "function_call_output":
        return Message(role="tool", texts=f.texts_in(item["output"]))
    answer = answer_of(item)
    if answer is not None:
        return answer
    role: Role = "user" if item["role"] == "user" else "system"
    return Message(role=role, texts=f.texts_in(item["content"]))


def _after(response: str, place: int, message: Message, call: Call) -> Message:
    """A message behind a response that the upstream keeps: known by that, and by its text."""
    if message.role == "assistant":
        return message
    return replace(message, id=f"{response}\x1f{place}\x1f{call.session.digest(*message.texts)}")


def _check_results(call: Call, items: list[dict[str, Any]], before: str | None) -> None:
    """The id of a call is public if the call is here, or came from the upstream."""
    here = {item.get("call_id") for item in items if item.get("type") == "function_call"}
    for place, item in enumerate(items):
        if item.get("type") != "function_call_output" or item["call_id"] in here:
            continue
        try:
            if before is None:
                raise EventRefused
            call.session.exchange((), after=_call_event(before, item["call_id"]))
        except EventRefused:
            where = f"input[{place}].call_id"
            raise f.refuse(where, "that of a call in this conversation") from None


def _call_event(response: str, call_id: str) -> str:
    return f"{response}\x1fcall\x1f{call_id}"


class ShownResponse(Shown):
    """Responses; their ids are the gateway's own."""

    is_named = True

    def __init__(self, turn: Turn) -> None:
        super().__init__(turn)
        self._call = turn.call
        self._growing: dict[tuple[Any, ...], Growing] = {}
        self._tools: dict[Any, str] = {}  # by the places of their calls
        self._said: dict[str, Any] | None = None
        self._number = 0

    def whole(self, answer: dict[str, Any]) -> dict[str, Any]:
        shown, self._said = self._response(answer), answer
        self.note()
        return shown

    def note(self, *, left: bool = False) -> bool:
        if self._said is None or left:  # later requests would go on from it by its id
            return False
        name, output = self._said["id"], self._said["output"]
        items = [{"role": "assistant", **item} for item in output if isinstance(item, dict)]
        answers = [answer for item in items if (answer := answer_of(item)) is not None]
        for answer in answers:
            answer.words()  # of what is no answer there are none
        for answer in answers:
            self.exchange.answer(answer)
            for call in answer.calls:
                self.exchange.keep(_call_event(name, call.id))
        self.exchange.keep(name)
        return True

    def _response(self, response: dict[str, Any]) -> dict[str, Any]:
        output, name = response["output"], response["id"]
        if not isinstance(output, list) or not isinstance(name, str):
            raise garbage()
        shown = {**response, "output": [*map(self._item, output)]}
        shown["id"] = self._call.sign("response", name.encode())
        if "previous_response_id" in response:
            shown["previous_response_id"] = self._call.body.get("previous_response_id")
        if response.get("error"):
            shown["error"] = _WITHHELD
        return shown

    def _item(self, item: Any) -> Any:
        kind = item.get("type") if isinstance(item, dict) else None
        is_said = kind in ("message", "function_call")
        return self.exchange.restore_fields(item, _WORDS) if is_said else item

    def feed(self, event: dict[str, Any]) -> list[dict[str, Any]]:
        return [self._numbered(shown) for shown in self._fed(event)]

    def _fed(self, event: dict[str, Any]) -> list[dict[str, Any]]:
        kind = str(event["type"])
        stem, _, last = kind.rpartition(".")
        if stem in _PIECES and last in ("delta", "done"):
            return self._grown(event, stem, is_whole=last == "done")
        if isinstance(event.get("response"), dict):
            if kind in _ENDS:
                self._said = event["response"]
            return [{**event, "response": self._response(event["response"])}]
        if kind == "error":
            raise garbage()
        if "item" in event:
            self._tools[event.get("output_index")] = event["item"].get("name", "")
            return [{**event, "item": self._item(event["item"])}]
        if "part" in event:
            return [{**event, "part": self.exchange.restore_fields(event["part"], _WORDS)}]
        return [event]

    def _grown(self, event: dict[str, Any], stem: str, *, is_whole: bool) -> list[dict[str, Any]]:
        place = stem, *(event.get(name) for name in _PLACE[:3])
        tool = str(event.get("name") or self._tools.get(event.get("output_index"), ""))
        is_call, exchange = stem == _ARGUMENTS, self.exchange
        if not is_whole:
            if place not in self._growing:
                new = exchange.tool_restorer(tool) if is_call else exchange.restorer()
                self._growing[place] = new
            return [{**event, "delta": self._growing[place].feed(event["delta"])}]
        said, growing = event[_PIECES[stem]], self._growing.pop(place, Growing())
        shown = exchange.arguments(tool, said) if is_call else exchange.restore(said)
        ended = [{**event, _PIECES[stem]: shown}]
        if rest := growing.close():
            held = {name: event[name] for name in _PLACE if name in event}
            ended.insert(0, {**held, "type": f"{stem}.delta", "delta": rest, "logprobs": []})
        return ended

    def _numbered(self, event: dict[str, Any]) -> dict[str, Any]:
        """Numbers go on where an event was put in."""
        if "sequence_number" in event:
            event = {**event, "sequence_number": self._number}
        self._number += 1
        return event

    def broken(self, failure: Failure) -> dict[str, Any]:
        error = failure.body()["error"]
        told = {name: error[name] for name in ("code", "message", "param")}
        return {"type": "error", **told, "sequence_number": self._number, "error": error}


@cache
def _request(policy: Policy, models: tuple[str, ...]) -> f.Check:
    included = f.one_of("reasoning.encrypted_content", "message.output_text.logprobs")
    return f.record(
        {
            "model": f.one_of(*models),
            "input": f.either(str, f.text, f.many(_ITEM, most=f.MOST)),
            "instructions": f.text,
            "previous_response_id": f.text,
            "stream": f.flag,
            "stream_options": f.record({"include_obfuscation": f.flag}),
            "temperature": f.number(0, 2),
            "top_p": f.number(0, 1),
            "max_output_tokens": f.whole(1, 10_000_000),
            "max_tool_calls": f.whole(1, 1000),
            "parallel_tool_calls": f.flag,
            "store": f.flag,
            "background": f.one_of(False),
            "truncation": f.one_of("auto", "disabled"),
            "include": f.many(included, least=0),
            "top_logprobs": f.whole(0, 20),
            "service_tier": f.one_of("auto", "default", "flex", "priority"),
            "reasoning": f.record(
                {
                    "effort": f.one_of("none", "minimal", "low", "medium", "high", "xhigh"),
                    "summary": f.one_of("auto", "concise", "detailed"),
                }
            ),
            "text": f.record(
                {
                    "format": f.response_format(policy, flat=True),
                    "verbosity": f.one_of("low", "medium", "high"),
                }
            ),
            "tools": f.tools_of(policy, flat=True),
            "tool_choice": f.tool_choice(flat=True),
        },
        ("model", "input"),
    )


_INPUT = f.parts_of({"input_text": f.record({"type": f.text, "text": f.text}, ("text",))})
_OUTPUT_TEXT = {"type": f.text, "text": f.text, "annotations": f.anything, "logprobs": f.anything}
_SAID = f.parts_of(
    {
        "output_text": f.record(_OUTPUT_TEXT, ("text",)),
        "refusal": f.record({"type": f.text, "refusal": f.text}, ("refusal",)),
    }
)
_OF_ITEM = {
    "type": f.text,
    "id": f.text,
    "status": f.one_of("in_progress", "completed", "incomplete"),
}
_MESSAGE = f.record({"type": f.text, "role": f.text, "content": _INPUT}, ("content",))
_ASSISTANT = f.record(
    {**_OF_ITEM, "role": f.text, "content": _SAID, "phase": f.anything}, ("content",)
)
_CALL = {"call_id": f.text, "name": f.text, "arguments": f.text}
_RESULT = {"call_id": f.text, "output": _INPUT}
_ROLES = dict.fromkeys(("system", "developer", "user"), _MESSAGE)
_ITEM = f.by(
    "type",
    {
        "message": f.by("role", {**_ROLES, "assistant": _ASSISTANT}),
        "function_call": f.record({**_OF_ITEM, **_CALL}, tuple(_CALL)),
        "function_call_output": f.record({**_OF_ITEM, **_RESULT}, tuple(_RESULT)),
        "reasoning": f.record({**_OF_ITEM, **dict.fromkeys(THOUGHT, f.anything)}),
    },
    "message",
)
