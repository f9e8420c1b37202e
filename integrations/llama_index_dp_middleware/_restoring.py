"""What the user is shown of a remote answer: under a session with pseudonyms, the originals."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    CompletionResponse,
    ContentBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from pydantic import BaseModel

from dp_middleware.conversation.boundary import guarded
from dp_middleware.conversation.exchange import Exchange, Plain, Restorer

Response = TypeVar("Response", ChatResponse, CompletionResponse)

Shown = Callable[[Hashable, str, bool], str]
"""What is shown of a text at a named place of an answer; with ``True`` it is JSON."""

CALL = "call"
"""Begins the places of arguments of calls, which nobody reads."""

_ARGUMENTS = ("arguments", "args", "partial_json")  # of a call, in what providers keep besides
_WORDS, _THOUGHTS = "delta", "thinking_delta"
WHAT = "the restoration"


@dataclass(frozen=True)
class Restoring:
    """Restores what a remote model answered to one request.

    Attributes:
        exchange: Of the request; ``None``: the answer is a public text, shown as it is.
        structured: Whether answers are objects: JSON in their text, ``raw`` made of it.
    """

    exchange: Exchange | None
    structured: bool = False

    @property
    def changes(self) -> bool:
        """Whether what is shown differs from what was answered."""
        return self.exchange is not None and self.exchange.restores

    def whole(self, response: Response) -> Response:
        """A copy of an answer with the originals."""
        if not self.changes:
            return response
        shown: Response = guarded(self.copy, response, self._text, what=WHAT)
        return shown

    def text(self, text: str) -> str:
        """As :meth:`whole`, for its text."""
        return text if self.exchange is None else self.exchange.restore(text)

    def pieces(self) -> Pieces:
        """For an answer in pieces."""
        return Pieces(self)

    def model(self, value: BaseModel) -> BaseModel:
        """As :meth:`whole`, for an object that was made of an answer."""
        if not self.changes:
            return value
        return guarded(self._model, value, value.model_dump_json(), self._text, what=WHAT)

    def restorer(self, place: Hashable, *, json: bool) -> Restorer:
        """For a text of the answer."""
        if self.exchange is None:
            return Plain()
        is_call = isinstance(place, tuple) and place[0] == CALL
        return self.exchange.restorer(json=json, shown=not is_call)

    def copy(self, response: Response, shown: Shown) -> Response:
        """A response in which all is shown that is; ``delta`` and what is public are as before."""
        update: dict[str, Any]
        if isinstance(response, ChatResponse):
            update = {"message": self._message(response.message, shown)}
            text = response.message.content or ""
        else:
            calls = self._calls(response.additional_kwargs, shown)
            text = response.text
            update = {"text": self._said("text", text, shown), "additional_kwargs": calls}
        if self.structured and isinstance(response.raw, BaseModel):
            update["raw"] = self._model(response.raw, text, shown)
        return response.model_copy(update=update)

    def _message(self, message: ChatMessage, shown: Shown) -> ChatMessage:
        blocks = [self._block(block, place, shown) for place, block in enumerate(message.blocks)]
        calls = self._calls(message.additional_kwargs, shown)
        return message.model_copy(update={"blocks": blocks, "additional_kwargs": calls})

    def _block(self, block: ContentBlock, place: Hashable, shown: Shown) -> ContentBlock:
        if isinstance(block, TextBlock):
            return block.model_copy(update={"text": self._said(place, block.text, shown)})
        if isinstance(block, ThinkingBlock):
            said = block.content and shown(place, block.content, False)
            return block.model_copy(update={"content": said})
        if isinstance(block, ToolCallBlock):
            place = (CALL, place)
            arguments = self._arguments(place, block.tool_name, block.tool_kwargs, shown)
            return block.model_copy(update={"tool_kwargs": arguments})
        return block

    def _said(self, place: Hashable, text: str, shown: Shown) -> str:
        return shown(place, text, self.structured)

    def _calls(
        self, value: Any, shown: Shown, path: tuple[Hashable, ...] = (), tool: str = ""
    ) -> Any:
        """What a provider keeps besides: of calls of tools the arguments are restored."""
        if path and path[-1] in _ARGUMENTS:
            return self._arguments((CALL, *path), tool, value, shown)
        if isinstance(value, BaseModel):
            fields = {name: getattr(value, name) for name in type(value).model_fields}
            return value.model_copy(update=self._calls(fields, shown, path, tool))
        if isinstance(value, dict):
            tool = str(value.get("name") or value.get("tool_name") or tool)
            return {k: self._calls(each, shown, (*path, k), tool) for k, each in value.items()}
        if isinstance(value, list):
            return [self._calls(each, shown, (*path, k), tool) for k, each in enumerate(value)]
        return value

    def _arguments(self, place: Hashable, tool: str, value: Any, shown: Shown) -> Any:
        if self.exchange is None or not self.exchange.gives_originals(tool):
            return value
        if isinstance(value, str):
            return shown(place, value, True)
        return self.exchange.restore_value(value, shown=False)

    def _model(self, value: BaseModel, text: str, shown: Shown) -> BaseModel:
        return type(value).model_validate_json(shown("model", text, True))

    def _text(self, place: Hashable, text: str, json: bool) -> str:
        restorer = self.restorer(place, json=json)
        return restorer.feed(text) + restorer.close()


@dataclass
class _Growing:
    """A text that grows from piece to piece, as it is shown."""

    restorer: Restorer
    said: str = ""
    shown: str = ""

    def grow(self, text: str) -> str:
        self.shown += self.restorer.feed(text[len(self.said) :])
        self.said = text
        return self.shown


@dataclass
class Pieces:
    """The pieces of one answer; what could still become a pseudonym is held back.

    Attributes:
        restoring: Its conversation.
    """

    restoring: Restoring
    _growing: dict[Hashable, _Growing] = field(default_factory=dict)
    _deltas: dict[str, Restorer] = field(default_factory=dict)
    _last: tuple[Any, Any] | None = None

    def feed(self, piece: Response) -> Response:
        """What is shown of a piece."""
        if not self.restoring.changes:
            return piece
        shown: Response = guarded(self._feed, piece, what=WHAT)
        return shown

    def close(self) -> list[Any]:
        """A last piece, if anything was held back: it has the whole answer, as the last one has."""
        return [] if self._last is None else guarded(self._close, *self._last, what=WHAT)

    def _feed(self, piece: Response) -> Response:
        copy = self.restoring.copy(piece, self._grown)
        delta = None if piece.delta is None else self._delta(_WORDS, piece.delta)
        thought = piece.additional_kwargs.get(_THOUGHTS)
        shown = _with(copy, delta, thought and self._delta(_THOUGHTS, thought))
        self._last = piece, shown
        return shown

    def _close(self, piece: Any, shown: Any) -> list[Any]:
        rests = {name: restorer.close() for name, restorer in self._deltas.items()}
        whole = self.restoring.whole(piece)
        if not any(rests.values()) and _said(whole) == _said(shown):
            return []
        return [_with(whole, rests.get(_WORDS), rests.get(_THOUGHTS))]

    def _grown(self, place: Hashable, text: str, json: bool) -> str:
        known = self._growing.get((place, json))
        if known is None or not text.startswith(known.said):
            known = self._growing[place, json] = _Growing(self.restoring.restorer(place, json=json))
        return known.grow(text)

    def _delta(self, name: str, text: str) -> str:
        if name not in self._deltas:
            self._deltas[name] = self.restoring.restorer(name, json=False)
        return self._deltas[name].feed(text)


def _with(piece: Response, delta: str | None, thought: str | None) -> Response:
    """The piece with what is new in it, in words and in thoughts."""
    more = {k: v for k, v in piece.additional_kwargs.items() if k != _THOUGHTS}
    if thought:
        more[_THOUGHTS] = thought
    return piece.model_copy(update={"delta": delta, "additional_kwargs": more})


def _said(response: ChatResponse | CompletionResponse) -> ChatMessage | str:
    return response.message if isinstance(response, ChatResponse) else response.text
