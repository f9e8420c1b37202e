"""LangChain chat models, and chat models with bound arguments."""
# ruff: noqa: D102 - the calls are documented in Adapter

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from dp_middleware.models._wires import stay
from dp_middleware.models.adapters.base import Adapter, Messages, text_of


class LangChainAdapter(Adapter):
    """Calls the public methods: the caller's callbacks and tracers see what is sent."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def ask(self, messages: Messages) -> str:
        return text_of(self._model.invoke(_convert(messages)).content)

    async def aask(self, messages: Messages) -> str:
        return text_of((await self._model.ainvoke(_convert(messages))).content)

    def chunks(self, messages: Messages) -> Generator[str, None, None]:
        for chunk in self._model.stream(_convert(messages)):
            yield text_of(chunk.content)

    def private(self) -> Adapter:
        return PrivateLangChainAdapter(self._model)


class PrivateLangChainAdapter(Adapter):
    """Calls a copy of the model below LangChain's callbacks and cache.

    ``config={"callbacks": []}`` is not enough: handlers set by the environment, by
    ``set_debug(True)`` or by an instrumentor that patches the callback manager would still be
    attached. The methods called here make no callback manager at all.
    """

    def __init__(self, model: Any) -> None:
        model, self._kwargs = _unbound(model)
        self._model = model.model_copy(update={"cache": False})
        stay(self._model)

    def ask(self, messages: Messages) -> str:
        result = self._model._generate_with_cache(_convert(messages), **self._kwargs)
        return text_of(result.generations[0].message.content)

    async def aask(self, messages: Messages) -> str:
        result = await self._model._agenerate_with_cache(_convert(messages), **self._kwargs)
        return text_of(result.generations[0].message.content)

    def chunks(self, messages: Messages) -> Generator[str, None, None]:
        from langchain_core.language_models import BaseChatModel

        has_own = type(self._model)._stream is not BaseChatModel._stream
        if not has_own or self._model.disable_streaming is True:
            yield self.ask(messages)
            return
        if self._model.rate_limiter is not None:
            self._model.rate_limiter.acquire(blocking=True)
        for chunk in self._model._stream(_convert(messages), **self._kwargs):
            yield text_of(chunk.message.content)


def _unbound(model: Any) -> tuple[Any, dict[str, Any]]:
    """The model inside of bindings, with the arguments bound to it."""
    bound: dict[str, Any] = {}
    while hasattr(model, "bound"):
        model, bound = model.bound, {**model.kwargs, **bound}
    return model, bound


def _convert(messages: Messages) -> Any:
    from langchain_core.messages import convert_to_messages

    return convert_to_messages(messages)
