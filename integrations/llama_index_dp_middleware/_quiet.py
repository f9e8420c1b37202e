"""The calls of an LLM that LlamaIndex builds on others, without their spans and events."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from typing import Any

from llama_index.core.llms.function_calling import FunctionCallingLLM

from llama_index_dp_middleware._boundary import unspanned
from llama_index_dp_middleware._silence import (
    asilenced,
    asilent_pieces,
    silenced,
    silent_pieces,
)


class QuietLLM(FunctionCallingLLM):
    """Runs what takes raw arguments of prompts or messages of users unrecorded.

    These put the raw arguments into spans, events and callbacks. The inner model's call, though it
    has released text only, is unrecorded there too; record ``chat`` and ``complete`` instead.
    """

    @unspanned
    def predict(self, *args: Any, **kwargs: Any) -> str:
        return silenced(super().predict, *args, **kwargs)

    @unspanned
    async def apredict(self, *args: Any, **kwargs: Any) -> str:
        return await asilenced(super().apredict, *args, **kwargs)

    @unspanned
    def stream(self, *args: Any, **kwargs: Any) -> Any:
        return silent_pieces(silenced(super().stream, *args, **kwargs))

    @unspanned
    async def astream(self, *args: Any, **kwargs: Any) -> Any:
        return asilent_pieces(await asilenced(super().astream, *args, **kwargs))

    @unspanned
    def structured_predict(self, *args: Any, **kwargs: Any) -> Any:
        return silenced(super().structured_predict, *args, **kwargs)

    @unspanned
    async def astructured_predict(self, *args: Any, **kwargs: Any) -> Any:
        return await asilenced(super().astructured_predict, *args, **kwargs)

    @unspanned
    def stream_structured_predict(self, *args: Any, **kwargs: Any) -> Generator[Any, None, None]:
        return silent_pieces(silenced(super().stream_structured_predict, *args, **kwargs))

    @unspanned
    async def astream_structured_predict(
        self, *args: Any, **kwargs: Any
    ) -> AsyncGenerator[Any, None]:
        pieces = await asilenced(super().astream_structured_predict, *args, **kwargs)
        return asilent_pieces(pieces)

    @unspanned
    def predict_and_call(self, *args: Any, **kwargs: Any) -> Any:
        return silenced(super().predict_and_call, *args, **kwargs)

    @unspanned
    async def apredict_and_call(self, *args: Any, **kwargs: Any) -> Any:
        return await asilenced(super().apredict_and_call, *args, **kwargs)
