"""``/v1/completions`` and ``/v1/embeddings``: texts that belong to no transcript."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import Any

from starlette.responses import JSONResponse, Response

from dp_middleware.conversation.messages import ONCE, Message
from dp_middleware.gateway import fields
from dp_middleware.gateway.chat import ShownChat
from dp_middleware.gateway.fields import Check, either, many, one_of, record, text, whole
from dp_middleware.gateway.service import Call
from dp_middleware.gateway.settings import Policy
from dp_middleware.gateway.turns import Plan, answered, named, released


async def completions(call: Call) -> Response:
    """Releases the prompts, asks the upstream, shows what it wrote."""
    given = _completion(call.policy, call.gateway.settings.upstream.models)(call.body, "")
    turn = await released(call, partial(_plan_of, given, "prompt"))
    return await answered(turn, "/completions", ShownTexts(turn.exchange))


async def embeddings(call: Call) -> Response:
    """Releases the texts, and has what was released embedded: a function of public text."""
    given = _embedding(call.gateway.settings.upstream.models)(call.body, "")
    turn = await released(call, partial(_plan_of, given, "input"))
    answer = await call.gateway.upstream.ask("/embeddings", turn.body)
    return JSONResponse(answer, headers=turn.headers)


def _plan_of(given: dict[str, Any], name: str, call: Call) -> Plan:
    """Texts, each an event of its own.

    In a conversation that the client has named, a text at the same place is the same event;
    without a name every request is a new one, whose originals no other answer may show.
    """
    is_one = isinstance(given[name], str)
    conversation, transcript = named(call), list[Message]()
    for k, each in enumerate([given[name]] if is_one else given[name]):
        known = f"{name}\x1f{call.session.digest(each)}\x1f{k}"
        event = ONCE if conversation is None else known
        transcript.append(Message(role="user", texts=(each,), id=event))

    def build(sent: Sequence[Message]) -> dict[str, Any]:
        released = [message.text for message in sent]
        return {**given, name: released[0] if is_one else released}

    return Plan(transcript=transcript, conversation=conversation, build=build)


class ShownTexts(ShownChat):
    """Completions of prompts, which are no messages: nothing is noted; echoes are restored too."""

    def shown(self, answer: dict[str, Any]) -> dict[str, Any]:
        """Returns what is sent for whole completions."""
        shown = [{**c, "text": self.exchange.restore(c["text"])} for c in answer["choices"]]
        return {**answer, "choices": shown}

    def _fed(
        self, choice: dict[str, Any], place: int, before: list[dict[str, Any]]
    ) -> dict[str, Any]:
        said = {"content": choice.get("text") or ""}
        shown = self._shown(place, said, whole=place in self._ended)
        return {**choice, "text": shown["content"]}

    def note(self, *, left: bool = False) -> bool:
        """Tells whether all that began have ended."""
        return bool(self._ended) and self._ended == self.replies.keys()


# arrays of token ids are refused: they are text in another spelling
_TEXTS = either(str, text, many(text, most=2048))


@cache
def _completion(policy: Policy, models: tuple[str, ...]) -> Check:
    return record(
        {
            "model": one_of(*models),
            "prompt": _TEXTS,
            **fields.SAMPLING,
            "stream_options": fields.STREAM_OPTIONS,
            "max_tokens": whole(0, 10_000_000),
            "logprobs": whole(0, 20),
            "stop": fields.stop(policy),
        },
        ("model", "prompt"),
    )


@cache
def _embedding(models: tuple[str, ...]) -> Check:
    return record(
        {
            "model": one_of(*models),
            "input": _TEXTS,
            "dimensions": whole(1, 100_000),
            "encoding_format": one_of("float", "base64"),
        },
        ("model", "input"),
    )
