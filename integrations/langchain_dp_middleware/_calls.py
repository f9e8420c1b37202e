"""The calls of a Runnable, each as: release the input in a plain function, then run the rest."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from typing import Any

from langchain_core.runnables import Runnable, RunnableBinding, RunnableConfig
from pydantic import Field

from dp_middleware.errors import ParameterError

_REMEDIES = {
    "map": "call batch()",
    "as_tool": "call it inside no tool",
    "pipe": "put a PrivateHead first",
    "__or__": "put a PrivateHead first",
    "with_retry": "retry around the call, or put the part that fails behind a PrivateHead",
    "with_fallbacks": "fall back around the call, or put the part that fails behind a PrivateHead",
    "configurable_alternatives": "choose before you wrap",
}


class RefusedWrappers:
    """Refuses what would see raw input before the adapter does, also on all that derives from it.

    Raises:
        ParameterError: From ``with_fallbacks`` and ``configurable_alternatives``: the others would
            be given raw input. From ``map``, ``as_tool``, ``with_retry`` and ``|``: LangChain would
            trace it, unless what is recorded was declared public.
    """

    @property
    def _may_be_recorded(self) -> bool:
        """Whether a run around the call may record its input."""
        return False

    @property
    def _may_be_sent(self) -> bool:
        """Whether the input is public, so that fallbacks may be given it."""
        return False

    @property
    def _component(self) -> Any:
        """The adapter that the answers to these come from."""
        return self

    @property
    def _behind(self) -> Any:
        """What stands for the adapter where the input was released already."""
        return self

    # refused ---------------------------------------------------------------------------------

    def map(self) -> Any:
        """Refused: LangChain would trace the list of raw inputs."""
        return self._wrapped("map", self._may_be_recorded)

    def as_tool(self, *args: Any, **kwargs: Any) -> Any:
        """Refused: LangChain would trace the raw arguments of the tool."""
        self._require("as_tool", self._may_be_recorded)
        return self._plain("as_tool", *args, **kwargs)

    def with_retry(self, **kwargs: Any) -> Any:
        """Refused: LangChain would trace the raw input of the tries."""
        return self._wrapped("with_retry", self._may_be_recorded, **kwargs)

    def with_fallbacks(self, *args: Any, **kwargs: Any) -> Any:
        """Refused: whatever fails, a refusal too, would hand the raw input to the fallbacks."""
        return self._wrapped("with_fallbacks", self._may_be_sent, *args, **kwargs)

    def configurable_alternatives(self, *args: Any, **kwargs: Any) -> Any:
        """Refused: an alternative would be given the raw input."""
        return self._wrapped("configurable_alternatives", self._may_be_sent, *args, **kwargs)

    def pipe(self, *others: Any, **kwargs: Any) -> Any:
        """Refused: LangChain would trace the raw input of the sequence."""
        return self._wrapped("pipe", self._may_be_recorded, *others, **kwargs)

    def __or__(self, other: Any) -> Any:
        """Refused: LangChain would trace the raw input of the sequence."""
        return self._wrapped("__or__", self._may_be_recorded, other)

    # derived ---------------------------------------------------------------------------------

    def bind(self, **kwargs: Any) -> Any:
        """As :meth:`Runnable.bind`; refuses the same wrappers."""
        return self._derived("bind", **kwargs)

    def with_config(self, config: Any = None, **kwargs: Any) -> Any:
        """As :meth:`Runnable.with_config`; refuses the same wrappers."""
        return self._derived("with_config", config, **kwargs)

    def with_types(self, **kwargs: Any) -> Any:
        """As :meth:`Runnable.with_types`; refuses the same wrappers."""
        return self._derived("with_types", **kwargs)

    def with_listeners(self, **kwargs: Any) -> Any:
        """As :meth:`Runnable.with_listeners`; refuses the same wrappers."""
        return self._derived("with_listeners", **kwargs)

    def with_alisteners(self, **kwargs: Any) -> Any:
        """As :meth:`Runnable.with_alisteners`; refuses the same wrappers."""
        return self._derived("with_alisteners", **kwargs)

    def configurable_fields(self, **kwargs: Any) -> Any:
        """As :meth:`RunnableSerializable.configurable_fields`; refuses the same wrappers."""
        return self._derived("configurable_fields", **kwargs)

    def _plain(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        return getattr(super(), name)(*args, **kwargs)

    def _derived(self, name: str, /, *args: Any, **kwargs: Any) -> PrivateBinding:
        return PrivateBinding(bound=self._plain(name, *args, **kwargs), component=self._component)

    def _wrapped(self, name: str, is_public: bool, /, *args: Any, **kwargs: Any) -> PrivateBinding:
        self._require(name, is_public)
        return self._derived(name, *args, **kwargs)

    def _require(self, name: str, is_public: bool) -> None:
        if not is_public:
            raise ParameterError(
                f"{name}() of {type(self._component).__name__} would trace raw inputs or hand "
                f"them on; {_REMEDIES[name]}"
            )


class PrivateBinding(RefusedWrappers, RunnableBinding[Any, Any]):  # type: ignore[misc]
    """Something made of an adapter, with what the adapter refuses.

    Attributes:
        component: The adapter.
    """

    component: Any = Field(exclude=True, repr=False)

    @property
    def _component(self) -> Any:
        return self.component

    @property
    def _may_be_recorded(self) -> bool:
        return bool(self._component._may_be_recorded)

    @property
    def _may_be_sent(self) -> bool:
        return bool(self._component._may_be_sent)

    def _plain(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        return getattr(self.bound, name)(*args, **kwargs)


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
