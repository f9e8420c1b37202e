"""What the user is shown of a remote answer: under a session with pseudonyms, the originals."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, TypeVar, cast

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

import dp_middleware as dp
from dp_middleware.conversation.boundary import guarded

Response = TypeVar("Response", ChatResponse, CompletionResponse)

Shown = Callable[[Hashable, str, bool], str]
"""What is shown of a text at a named place of an answer; with ``True`` it is JSON."""

_ARGUMENTS = ("arguments", "args", "partial_json")  # of a call, in what providers keep besides
_WORDS, _THOUGHTS = "delta", "thinking_delta"
WHAT = "the restoration"


class Restorer(Protocol):
    """Restores one text that comes in pieces."""

    def feed(self, piece: str) -> str:
        """What is certain after a further piece."""

    def close(self) -> str:
        """The rest."""


@dataclass(frozen=True)
class Restoring:
    """Restores what a remote model answered in one conversation.

    Attributes:
        session: With pseudonyms or without, which changes nothing.
        conversation: Its public name.
        structured: Whether answers are objects: JSON in their text, ``raw`` made of it.
        is_fixed: Whether they are public texts, shown as they are, and not the remote model's.
    """

    session: dp.Session
    conversation: str
    structured: bool = False
    is_fixed: bool = False

    @property
    def changes(self) -> bool:
        """Whether what is shown differs from what was answered."""
        return self.session.restores and not self.is_fixed

    def whole(self, response: Response) -> Response:
        """A copy of an answer with the originals."""
        if not self.changes:
            return response
        shown: Response = guarded(self.copy, response, self._text, what=WHAT)
        return shown

    def text(self, text: str) -> str:
        """As :meth:`whole`, for its text."""
        return guarded(
            partial(self.session.restore, text, conversation=self.conversation), what=WHAT
        )

    def pieces(self) -> Pieces:
        """For an answer in pieces."""
        return Pieces(self)

    def model(self, value: BaseModel) -> BaseModel:
        """As :meth:`whole`, for an object that was made of an answer."""
        if not self.changes:
            return value
        return guarded(self._model, value, value.model_dump_json(), self._text, what=WHAT)

    def restorer(self, *, json: bool) -> Restorer:
        """For a text of the answer."""
        session: Any = self.session  # with pseudonyms
        return cast("Restorer", session.restorer(conversation=self.conversation, json=json))

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

    def _block(self, block: ContentBlock, place: int, shown: Shown) -> ContentBlock:
        if isinstance(block, TextBlock):
            return block.model_copy(update={"text": self._said(place, block.text, shown)})
        if isinstance(block, ThinkingBlock):
            said = block.content and shown(place, block.content, False)
            return block.model_copy(update={"content": said})
        if isinstance(block, ToolCallBlock):
            arguments = self._arguments(place, block.tool_kwargs, shown)
            return block.model_copy(update={"tool_kwargs": arguments})
        return block

    def _said(self, place: Hashable, text: str, shown: Shown) -> str:
        return shown(place, text, self.structured)

    def _calls(self, value: Any, shown: Shown, path: tuple[Hashable, ...] = ()) -> Any:
        """What a provider keeps besides: of calls of tools the arguments are restored."""
        if path and path[-1] in _ARGUMENTS:
            return self._arguments(path, value, shown)
        if isinstance(value, BaseModel):
            fields = {name: getattr(value, name) for name in type(value).model_fields}
            return value.model_copy(update=self._calls(fields, shown, path))
        if isinstance(value, dict):
            return {key: self._calls(each, shown, (*path, key)) for key, each in value.items()}
        if isinstance(value, list):
            return [self._calls(each, shown, (*path, k)) for k, each in enumerate(value)]
        return value

    def _arguments(self, place: Hashable, value: Any, shown: Shown) -> Any:
        if isinstance(value, str):
            return shown(place, value, True)
        return self.session.restore_value(value, conversation=self.conversation)

    def _model(self, value: BaseModel, text: str, shown: Shown) -> BaseModel:
        return type(value).model_validate_json(shown("model", text, True))

    def _text(self, place: Hashable, text: str, json: bool) -> str:
        restorer = self.restorer(json=json)
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
            known = self._growing[place, json] = _Growing(self.restoring.restorer(json=json))
        return known.grow(text)

    def _delta(self, name: str, text: str) -> str:
        if name not in self._deltas:
            self._deltas[name] = self.restoring.restorer(json=False)
        return self._deltas[name].feed(text)


def _with(piece: Response, delta: str | None, thought: str | None) -> Response:
    """The piece with what is new in it, in words and in thoughts."""
    more = {k: v for k, v in piece.additional_kwargs.items() if k != _THOUGHTS}
    if thought:
        more[_THOUGHTS] = thought
    return piece.model_copy(update={"delta": delta, "additional_kwargs": more})


def _said(response: ChatResponse | CompletionResponse) -> ChatMessage | str:
    return response.message if isinstance(response, ChatResponse) else response.text
