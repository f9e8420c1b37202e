"""Clients of the openai package, against OpenAI or any server that speaks its chat protocol."""
# ruff: noqa: D102 - the calls are documented in Adapter

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from typing import Any

from dp_middleware.models import bridge
from dp_middleware.models._wires import stay
from dp_middleware.models.adapters.base import Adapter, Messages, text_of


class _OpenAI(Adapter):
    """Speaks to a model of a client."""

    def __init__(self, client: Any, model: str) -> None:
        self._client = client
        self._completions = client.chat.completions
        self._model = model

    def private(self) -> Adapter:
        stay(self._client)
        return self


class OpenAIAdapter(_OpenAI):
    """``openai.OpenAI`` and its subclasses."""

    def ask(self, messages: Messages) -> str:
        completion = self._completions.create(model=self._model, messages=messages)
        return text_of(completion.choices[0].message.content)

    def chunks(self, messages: Messages) -> Generator[str, None, None]:
        with self._completions.create(model=self._model, messages=messages, stream=True) as events:
            for event in events:
                yield _delta(event)


class AsyncOpenAIAdapter(_OpenAI):
    """``openai.AsyncOpenAI`` and its subclasses."""

    def ask(self, messages: Messages) -> str:
        return bridge.run(self.aask(messages))

    async def aask(self, messages: Messages) -> str:
        completion = await self._completions.create(model=self._model, messages=messages)
        return text_of(completion.choices[0].message.content)

    def chunks(self, messages: Messages) -> Generator[str, None, None]:
        return bridge.iterate(self._chunks(messages))

    async def _chunks(self, messages: Messages) -> AsyncGenerator[str, None]:
        stream = await self._completions.create(model=self._model, messages=messages, stream=True)
        async with stream:
            async for event in stream:
                yield _delta(event)


def _delta(event: Any) -> str:
    return text_of(event.choices[0].delta.content) if event.choices else ""
