"""Copies of chat messages, in which all private text crosses; and the answers to them."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Collection, Generator, Hashable, Iterator
from contextlib import aclosing, contextmanager, suppress
from typing import Any, TypeVar

from llama_index.core.base.llms import types as llms
from llama_index.core.llms.llm import LLM
from llama_index.core.llms.structured_llm import StructuredLLM
from pydantic import BaseModel

from dp_middleware._quiet import afed, fed
from dp_middleware.conversation.exchange import RESTORATION, Exchange, Growing, Show
from dp_middleware.conversation.messages import Cross, Message, Role, ToolCall, is_json, role_of
from dp_middleware.errors import ParameterError, guarded

Response = TypeVar("Response", llms.ChatResponse, llms.CompletionResponse)

_WORDS = ("text", "content")  # of blocks
_THOUGHTS = "thinking_delta"
_ANSWERS = ("assistant", "chatbot", "model")


def copy_message(
    message: Any, where: str, public: Collection[str], cross: Cross
) -> llms.ChatMessage:
    """Copies a message; of a system message ``public`` texts are sent as they are."""
    if not isinstance(message, llms.ChatMessage):
        raise ParameterError(f"{where}: expected a ChatMessage, got {type(message).__name__}")
    kind, role = message.role, _role_of(message.role)
    if role == "assistant":
        return _said_again(cross(answer_of(message)), kind)
    if role is None:
        raise ParameterError(f"{where}: the role {kind} cannot be released")
    said = [block.text for block in message.blocks if isinstance(block, llms.TextBlock)]
    if len(said) < len(message.blocks):
        raise ParameterError(f"{where}: only text blocks can be released, got others")
    passes = {text for text in said if role == "system" and text in public}
    texts = tuple(text for text in said if text not in passes)
    sent = iter(cross(Message(role=role, texts=texts, public=not texts)).texts)
    copies = [text if text in passes else next(sent) for text in said]
    call = message.additional_kwargs.get("tool_call_id")
    kept = {"tool_call_id": call} if role == "tool" and isinstance(call, str) else {}
    return llms.ChatMessage(
        role=kind,
        blocks=[llms.TextBlock(text=text) for text in copies],
        additional_kwargs=kept,
    )


def _role_of(kind: llms.MessageRole) -> Role | None:
    return "assistant" if kind.value in _ANSWERS else role_of(kind.value)


def answer_of(message: llms.ChatMessage) -> Message:
    """Returns all that a remote model is told again of its answer, or raises."""
    calls, thoughts = list[ToolCall](), list[Any]()
    for block in message.blocks:
        if isinstance(block, llms.ToolCallBlock):
            arguments: Any = block.tool_kwargs
            if not isinstance(arguments, str) or not is_json(arguments):
                arguments = json.dumps(arguments, default=str)
            calls.append(ToolCall(block.tool_call_id or "", block.tool_name, arguments))
        elif isinstance(block, llms.ThinkingBlock):
            thoughts.append(block.model_dump(mode="json"))
        elif not isinstance(block, llms.TextBlock):
            raise ParameterError("only text, thinking and tool calls of an answer can go again")
    extra = {"thoughts": thoughts} if calls and thoughts else {}
    text = message.content or ""
    return Message(role="assistant", texts=(text,), calls=tuple(calls), extra=extra)


def _said_again(sent: Message, role: llms.MessageRole) -> llms.ChatMessage:
    """Makes an answer again, from what goes out for it and nothing else."""
    if not sent.calls:
        return llms.ChatMessage(role=role, content=sent.text)
    blocks: list[Any] = [
        llms.ThinkingBlock.model_validate(thought) for thought in sent.extra.get("thoughts", ())
    ]
    blocks += [llms.TextBlock(text=sent.text)] if sent.text else []
    for call in sent.calls:
        arguments = json.loads(call.arguments)
        blocks.append(
            llms.ToolCallBlock(tool_call_id=call.id, tool_name=call.name, tool_kwargs=arguments)
        )
    return llms.ChatMessage(role=role, blocks=blocks)


class AnswerCall:
    """What a model is sent, and its answer, of a structured model an object: JSON, and ``raw``."""

    def __init__(self, exchange: Exchange, model: LLM, sent: Any) -> None:
        self.model, self.sent = model, sent
        self._exchange, self._structured = exchange, isinstance(model, StructuredLLM)
        self._growing: dict[Hashable, Growing] = {}
        self._words, self._thoughts = (exchange.restorer(**self._form(False)) for _ in range(2))
        self._last: tuple[Any, Any] | None = None  # piece, and what was shown of it

    def note(self, response: Response) -> Response:
        """Notes an answer, which may go out again, and returns what is shown of it."""
        shown = self._whole(response)
        self._note(response, shown, left=False)
        return self._signed(shown)

    def note_pieces(
        self, pieces: Generator[Response, None, None]
    ) -> Generator[Response, None, None]:
        """Does as :meth:`note`, of an answer in pieces, as far as it went when it is left."""
        with self._noting():
            yield from fed(pieces, self._feed, self._close)

    async def anote_pieces(
        self, pieces: AsyncGenerator[Response, None]
    ) -> AsyncGenerator[Response, None]:
        async with aclosing(afed(pieces, self._feed, self._close)) as shown:
            with self._noting():
                async for piece in shown:
                    yield piece

    @contextmanager
    def _noting(self) -> Iterator[None]:
        """Notes the last piece; where the reader went, garbage is collected: it never waits."""
        left = False
        try:
            yield
        except GeneratorExit:
            left = True
            raise
        finally:
            if self._last is not None:
                self._note(*self._last, left=left)

    def _note(self, remote: Response, shown: Response, *, left: bool) -> None:
        with suppress(ParameterError):  # an answer that cannot be sent again
            for own, other in zip(_forms(remote), _forms(shown), strict=True):
                self._exchange.note(own, other, left=left)

    def _signed(self, response: Response) -> Response:
        if receipt := self._exchange.receipt.to_dict():
            response.additional_kwargs["dp"] = receipt
        return response

    def _whole(self, response: Response) -> Response:
        if not self._exchange.restores:
            return response
        shown: Response = guarded(self._copy, response, self._complete, what=RESTORATION)
        return shown

    def _feed(self, piece: Response) -> Response:
        shown = guarded(self._grow, piece, what=RESTORATION) if self._exchange.restores else piece
        self._last = piece, shown
        return self._signed(shown)

    def _grow(self, piece: Any) -> Any:
        copy = self._copy(piece, self._grown)
        words = None if piece.delta is None else self._words.feed(piece.delta)
        thought = self._thoughts.feed(piece.additional_kwargs.get(_THOUGHTS) or "")
        return _with(copy, words, thought)

    def _close(self) -> Iterator[Any]:
        """Yields a last piece, which has the whole answer, if anything was held back."""
        if self._last is None:
            return
        remote, shown = self._last
        words, thought = self._words.close(), self._thoughts.close()
        whole = self._whole(remote)
        said, before = (getattr(x, "message", None) or x.text for x in (whole, shown))
        if words or thought or said != before:
            self._last = remote, _with(whole, words, thought)
            yield self._signed(self._last[1])

    def _form(self, is_call: bool) -> dict[str, bool]:
        return {"json": is_call or self._structured, "shown": not is_call}

    def _complete(self, place: Hashable, text: str, is_call: bool) -> str:
        return self._exchange.restore(text, **self._form(is_call))

    def _grown(self, place: Hashable, text: str, is_call: bool) -> str:
        """Shows a text that has grown since the last piece, or is another one."""
        growing = self._growing.get(place)
        if growing is None or not text.startswith(growing.said):
            growing = self._growing[place] = self._exchange.restorer(**self._form(is_call))
        growing.feed(text[len(growing.said) :])
        return growing.shown

    def _copy(self, response: Any, show: Show) -> Any:
        """Copies a response: ``delta`` and what is public are as before."""

        def restored(value: Any, words: tuple[str, ...], place: str) -> Any:
            return self._exchange.restore_fields(value, words, place, show=show)

        said: Any = getattr(response, "message", response)
        update: dict[str, Any] = {"additional_kwargs": restored(said.additional_kwargs, (), "kept")}
        if said is response:
            text = update["text"] = show("text", response.text, False)
        else:
            blocks = restored(said.blocks, _WORDS, "blocks")
            shown = said.model_copy(update={**update, "blocks": blocks})
            update, text = {"message": shown}, shown.content or ""
        if self._structured and isinstance(response.raw, BaseModel):
            update["raw"] = type(response.raw).model_validate_json(text)
        return response.model_copy(update=update)


def _with(piece: Any, words: str | None, thought: str) -> Any:
    more = {name: value for name, value in piece.additional_kwargs.items() if name != _THOUGHTS}
    if thought:
        more[_THOUGHTS] = thought
    return piece.model_copy(update={"delta": words, "additional_kwargs": more})


def _forms(response: Any) -> list[Message]:
    """Returns what an answer may be when it is sent again: chat engines keep stripped text."""
    message = getattr(response, "message", None) or llms.ChatMessage(response.text)
    own = answer_of(message)
    stripped = Message(role="assistant", texts=((message.content or "").strip(),))
    return [own, stripped] if own.words() != stripped.words() else [own]
