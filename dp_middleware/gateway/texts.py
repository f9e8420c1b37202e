"""``/v1/completions`` and ``/v1/embeddings``: texts that belong to no transcript."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from starlette.responses import JSONResponse, Response

from dp_middleware.conversation.exchange import Exchange
from dp_middleware.conversation.messages import ONCE, Message
from dp_middleware.gateway import declared, fields
from dp_middleware.gateway.chat import ChatStream
from dp_middleware.gateway.failures import garbage
from dp_middleware.gateway.fields import Check, one_of, record, text, whole
from dp_middleware.gateway.service import Call
from dp_middleware.gateway.settings import Policy
from dp_middleware.gateway.turns import DONE, EventStream, Plan, in_thread, named, released

COMPLETIONS, EMBEDDINGS = "/completions", "/embeddings"
_MOST = 2048  # texts


async def completions(call: Call) -> Response:
    """Release the prompts, ask the upstream, show what it wrote."""
    models = call.gateway.settings.upstream.models
    given = _completion(call.policy, models)(call.body, "")
    turn = await released(call, lambda call: plan_of(call, given, "prompt"))
    if turn.body.get("stream"):
        return EventStream(turn, COMPLETIONS, TextStream(turn.exchange), ends=DONE)
    answer = await call.gateway.upstream.ask(COMPLETIONS, turn.body)
    shown = await in_thread(lambda: shown_texts(turn.exchange, answer))
    return JSONResponse(shown, headers=turn.headers)


async def embeddings(call: Call) -> Response:
    """Release the texts, and have what was released embedded: a function of public text."""
    given = _embedding(call.gateway.settings.upstream.models)(call.body, "")
    turn = await released(call, lambda call: plan_of(call, given, "input"))
    answer = await call.gateway.upstream.ask(EMBEDDINGS, turn.body)
    return JSONResponse(answer, headers=turn.headers)


def plan_of(call: Call, given: dict[str, Any], name: str) -> Plan:
    """Texts, each an event of its own.

    In a conversation that the client has named, a text at the same place is the same event, so
    that a repeated request costs nothing; without a name every request is a new one, with
    pseudonyms of its own, whose originals no other answer may show.
    """
    texts = [given[name]] if isinstance(given[name], str) else given[name]
    conversation = named(call)
    transcript = [
        Message(
            role="user",
            texts=(text,),
            id=ONCE if conversation is None else f"{name}\x1f{call.session.digest(text)}\x1f{k}",
        )
        for k, text in enumerate(texts)
    ]

    def build(sent: Sequence[Message]) -> dict[str, Any]:
        released = [message.text for message in sent]
        return {**given, name: released[0] if isinstance(given[name], str) else released}

    return Plan(transcript=transcript, conversation=conversation, build=build)


def shown_texts(exchange: Exchange, answer: dict[str, Any]) -> dict[str, Any]:
    """Returns whole completions of prompts as the client is shown them; an echo of a prompt too."""
    choices = answer.get("choices")
    if not isinstance(choices, list) or not all(
        isinstance(c, dict) and isinstance(c.get("text"), str) for c in choices
    ):
        raise garbage()
    return {**answer, "choices": [{**c, "text": exchange.restore(c["text"])} for c in choices]}


class TextStream(ChatStream):
    """The events of streamed completions of prompts, which are no messages."""

    def _shown(
        self, choice: dict[str, Any], place: int, before: list[dict[str, Any]]
    ) -> dict[str, Any]:
        reply = self._reply(choice, place)
        text = reply.text(choice.get("text") or "")
        rest = "" if place in self._open else reply.close("text")
        return {**choice, "text": text + rest}

    def note(self, *, left: bool = False) -> None:
        """Notes nothing."""


def _texts(value: Any, where: str) -> Any:
    """A text or several; arrays of token ids are refused: they are text in another spelling."""
    return fields.either(str, text, fields.many(text, most=_MOST))(value, where)


@cache
def _completion(policy: Policy, models: tuple[str, ...]) -> Check:
    return record(
        {
            "model": one_of(*models),
            "prompt": _texts,
            **fields.SAMPLING,
            "stream_options": fields.STREAM_OPTIONS,
            "max_tokens": whole(0, 10_000_000),
            "logprobs": whole(0, 20),
            "stop": declared.stop(policy),
        },
        ("model", "prompt"),
    )


@cache
def _embedding(models: tuple[str, ...]) -> Check:
    return record(
        {
            "model": one_of(*models),
            "input": _texts,
            "dimensions": whole(1, 100_000),
            "encoding_format": one_of("float", "base64"),
        },
        ("model", "input"),
    )
