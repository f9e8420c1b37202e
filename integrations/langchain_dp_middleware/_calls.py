"""The calls of a Runnable, each as: release the input in a plain function, then run the rest."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from typing import Any

from langchain_core.runnables import Runnable, RunnableConfig

from langchain_dp_middleware._wrappers import RefusedWrappers


class ReleasedCalls(RefusedWrappers):
    """Call paths that LangChain traces no sooner than in the rest, which is given released text."""

    @property
    @abstractmethod
    def _rest(self) -> Runnable[Any, Any]:
        """What runs behind the boundary."""

    @abstractmethod
    def _enter(self, value: Any, config: RunnableConfig | None) -> tuple[Any, RunnableConfig]:
        """The released input and the config of the call: all that the rest is given."""

    async def _aenter(
        self, value: Any, config: RunnableConfig | None
    ) -> tuple[Any, RunnableConfig]:
        return await asyncio.to_thread(self._enter, value, config)

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Release the input, then run the rest."""
        return self._rest.invoke(*self._enter(input, config), **kwargs)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """As :meth:`invoke`; the release runs in a thread."""
        return await self._rest.ainvoke(*await self._aenter(input, config), **kwargs)

    def stream(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Iterator[Any]:
        """Release the whole input when first iterated, then stream the rest."""
        yield from self._rest.stream(*self._enter(input, config), **kwargs)

    async def astream(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncIterator[Any]:
        """As :meth:`stream`; the release runs in a thread."""
        chunks: Any = self._rest.astream(*await self._aenter(input, config), **kwargs)
        async with aclosing(chunks):
            async for chunk in chunks:
                yield chunk

    def stream_events(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """The events of the rest."""
        return self._rest.stream_events(*self._enter(input, config), **kwargs)

    def astream_events(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Any:
        """The events of the rest: LangChain's own implementation puts the raw input in the first.

        ``version="v3"`` returns an awaitable, as LangChain does.
        """
        if kwargs.get("version") == "v3":
            return self._typed_events(input, config, **kwargs)
        return self._events(input, config, **kwargs)

    async def _events(
        self, input: Any, config: RunnableConfig | None, **kwargs: Any
    ) -> AsyncIterator[Any]:
        events: Any = self._rest.astream_events(*await self._aenter(input, config), **kwargs)
        async with aclosing(events):
            async for event in events:
                yield event

    async def _typed_events(self, input: Any, config: RunnableConfig | None, **kwargs: Any) -> Any:
        return await self._rest.astream_events(*await self._aenter(input, config), **kwargs)
