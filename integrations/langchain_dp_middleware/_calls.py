"""The calls of a Runnable, each as: release the input in a plain function, then run the rest."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import aclosing
from typing import Any, cast

from langchain_core.runnables import (
    Runnable,
    RunnableBinding,
    RunnableConfig,
    RunnablePassthrough,
)
from pydantic import Field

from dp_middleware.conversation.exchange import Exchange
from dp_middleware.errors import BudgetExhausted, ParameterError
from langchain_dp_middleware._answers import Entered

_REMEDIES = {
    "map": "call batch()",
    "as_tool": "call it inside no tool",
    "pipe": "put a PrivateHead first",
    "__or__": "put a PrivateHead first",
    "with_retry": "retry around the call, or put the part that fails behind a PrivateHead",
    "with_fallbacks": "fall back around the call, or put the part that fails behind a PrivateHead",
    "configurable_alternatives": "choose before you wrap",
}


def _refuse_wrapper(name: str, why: str) -> Any:
    """A method of :class:`RefusedWrappers` that refuses, unless what it tells is public."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self._wrapped(name, *args, **kwargs)

    method.__name__, method.__doc__ = name, f"Refused: {why}"
    return method


def _keep_refusing(name: str) -> Any:
    """A method of :class:`RefusedWrappers` that gives something which refuses the same."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self._derived(name, *args, **kwargs)

    method.__name__ = name
    method.__doc__ = f"As :meth:`RunnableSerializable.{name}`; refuses the same wrappers."
    return method


class RefusedWrappers:
    """Refuses what would see raw input before the adapter does, also on all that derives from it.

    Raises:
        ParameterError: From ``with_fallbacks`` and ``configurable_alternatives``: the others would
            be given raw input. From ``map``, ``as_tool``, ``with_retry`` and ``|``: LangChain would
            trace it, unless what is recorded was declared public.
    """

    @property
    def _allowed(self) -> Collection[str]:
        """For raw input: "record", runs around the call may; "send", fallbacks may be given it."""
        return ()

    @property
    def _component(self) -> Any:
        """The adapter that the answers to these come from."""
        return self

    @property
    def _behind(self) -> Any:
        """What stands for the adapter where the input was released already."""
        return self

    map = _refuse_wrapper("map", "LangChain would trace the list of raw inputs.")
    with_retry = _refuse_wrapper("with_retry", "LangChain would trace the raw input of the tries.")
    pipe = _refuse_wrapper("pipe", "LangChain would trace the raw input of the sequence.")
    __or__ = _refuse_wrapper("__or__", "LangChain would trace the raw input of the sequence.")
    with_fallbacks = _refuse_wrapper(
        "with_fallbacks",
        "whatever fails, a refusal too, would hand the raw input to the fallbacks.",
    )
    configurable_alternatives = _refuse_wrapper(
        "configurable_alternatives", "an alternative would be given the raw input."
    )

    def as_tool(self, *args: Any, **kwargs: Any) -> Any:
        """Refused: LangChain would trace the raw arguments of the tool."""
        self._require_public("as_tool")
        return self._plain("as_tool", *args, **kwargs)

    bind = _keep_refusing("bind")
    with_config = _keep_refusing("with_config")
    with_types = _keep_refusing("with_types")
    with_listeners = _keep_refusing("with_listeners")
    with_alisteners = _keep_refusing("with_alisteners")
    configurable_fields = _keep_refusing("configurable_fields")

    def _plain(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        return getattr(super(), name)(*args, **kwargs)

    def _derived(self, name: str, /, *args: Any, **kwargs: Any) -> PrivateBinding:
        return PrivateBinding(bound=self._plain(name, *args, **kwargs), component=self._component)

    def _wrapped(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        self._require_public(name)
        return self._derived(name, *args, **kwargs)

    def _require_public(self, name: str) -> None:
        hands_on = name in ("with_fallbacks", "configurable_alternatives")
        if ("send" if hands_on else "record") not in self._allowed:
            raise ParameterError(
                f"{name}() of {type(self._component).__name__} would trace raw inputs or hand "
                f"them on; {_REMEDIES[name]}"
            )


class PrivateBinding(RefusedWrappers, RunnableBinding[Any, Any]):
    """Something made of an adapter, with what the adapter refuses.

    Attributes:
        component: The adapter.
    """

    component: Any = Field(exclude=True, repr=False)

    @property
    def _component(self) -> Any:
        return self.component

    @property
    def _allowed(self) -> Collection[str]:
        return cast("Collection[str]", self._component._allowed)

    def _plain(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        return getattr(self.bound, name)(*args, **kwargs)


class ReleasedCalls(RefusedWrappers):
    """Call paths that LangChain traces no sooner than in the rest, which is given released text."""

    @property
    def _rest(self) -> Runnable[Any, Any]:
        """What runs behind the boundary; nothing, if the released input is the output."""
        return RunnablePassthrough()

    @abstractmethod
    def _enter(self, value: Any, config: RunnableConfig | None) -> Entered:
        """The released input and the config of the call: all that the rest is given."""

    def _noted(self, exchange: Exchange | None) -> Runnable[Any, Any]:
        """What runs behind the boundary, and what of it is noted."""
        return self._rest

    @property
    def _reply(self) -> Runnable[Any, Any] | None:
        """What answers in place of the rest where the budget is exhausted."""
        return None

    def _entered(
        self, value: Any, config: RunnableConfig | None
    ) -> tuple[Runnable[Any, Any], Entered]:
        """What runs behind the boundary, and all that it is given."""
        try:
            entered = self._enter(value, config)
        except BudgetExhausted:
            if (reply := self._reply) is None:
                raise
            return reply, Entered(input="", config=config or RunnableConfig())
        return self._noted(entered.exchange), entered

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Release the input, then run the rest."""
        rest, entered = self._entered(input, config)
        return entered.whole(rest.invoke(entered.input, entered.config, **kwargs))

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """As :meth:`invoke`; the release runs in a thread."""
        rest, entered = await asyncio.to_thread(self._entered, input, config)
        return entered.whole(await rest.ainvoke(entered.input, entered.config, **kwargs))

    def stream(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Iterator[Any]:
        """Release the whole input when first iterated, then stream the rest."""
        rest, entered = self._entered(input, config)
        yield from entered.pieces(rest.stream(entered.input, entered.config, **kwargs))

    async def astream(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncIterator[Any]:
        """As :meth:`stream`; the release runs in a thread."""
        rest, entered = await asyncio.to_thread(self._entered, input, config)
        pieces: Any = entered.apieces(rest.astream(entered.input, entered.config, **kwargs))
        async with aclosing(pieces):
            async for piece in pieces:
                yield piece

    def stream_events(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """The events of the rest, in which nothing is restored."""
        rest, entered = self._entered(input, config)
        return rest.stream_events(entered.input, entered.config, **kwargs)

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
        rest, entered = await asyncio.to_thread(self._entered, input, config)
        events: Any = rest.astream_events(entered.input, entered.config, **kwargs)
        async with aclosing(events):
            async for event in events:
                yield event

    async def _typed_events(self, input: Any, config: RunnableConfig | None, **kwargs: Any) -> Any:
        rest, entered = await asyncio.to_thread(self._entered, input, config)
        return await cast("Any", rest).astream_events(entered.input, entered.config, **kwargs)
