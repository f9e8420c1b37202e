"""The calls of an adapter: the input is released in a plain function, then the rest runs."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self, cast

from langchain_core.runnables import (
    Runnable,
    RunnableBinding,
    RunnableConfig,
    RunnablePassthrough,
)
from langchain_core.runnables.base import coerce_to_runnable
from langchain_core.runnables.config import merge_configs
from pydantic import Field

from dp_middleware.errors import ParameterError
from langchain_dp_middleware._answers import Entered
from langchain_dp_middleware._boundary import USAGE

if TYPE_CHECKING:
    from langchain_core.runnables.graph import Graph
    from langchain_core.runnables.utils import ConfigurableFieldSpec
    from langchain_core.utils.pydantic import TypeBaseModel

_REMEDIES = {
    "map": "call batch()",
    "as_tool": "call it inside no tool",
    "with_retry": "retry around the call, or put the part that fails behind a PrivateHead",
    "with_fallbacks": "fall back around the call, or put the part that fails behind a PrivateHead",
    "configurable_alternatives": "choose before you wrap",
}
_HANDS_ON = ("with_fallbacks", "configurable_alternatives")  # raw input to other Runnables


_WAYS = {
    "_wrapped": "refused, unless its input is public",
    "_derived": "refuses the same wrappers",
    "_with_rest": "made of the rest",
    "_batched": "a release for each input",
}


def _by(way: str, name: str) -> Any:
    """A method of a Runnable that goes by another method of the adapter, which gets its name."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(self, way)(name, *args, **kwargs)

    method.__name__, method.__doc__ = name, f"As :meth:`Runnable.{name}`: {_WAYS[way]}."
    return method


class RefusedWrappers:
    """Refuses what would see raw input before the adapter does, also on all that derives from it.

    LangChain would trace it, unless what is recorded was declared public, or hand it to others.
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

    map = _by("_wrapped", "map")
    with_retry = _by("_wrapped", "with_retry")
    pipe = _by("_wrapped", "pipe")
    __or__ = _by("_wrapped", "__or__")
    with_fallbacks = _by("_wrapped", "with_fallbacks")
    configurable_alternatives = _by("_wrapped", "configurable_alternatives")

    bind = _by("_derived", "bind")
    with_config = _by("_derived", "with_config")
    with_types = _by("_derived", "with_types")
    with_listeners = _by("_derived", "with_listeners")
    with_alisteners = _by("_derived", "with_alisteners")
    configurable_fields = _by("_derived", "configurable_fields")

    def as_tool(self, *args: Any, **kwargs: Any) -> Any:
        """Refused, unless its input is public: LangChain would trace the raw arguments."""
        self._require_public("as_tool")
        return self._plain("as_tool", *args, **kwargs)

    def _plain(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        return getattr(super(), name)(*args, **kwargs)

    def _derived(self, name: str, /, *args: Any, **kwargs: Any) -> PrivateBinding:
        return PrivateBinding(bound=self._plain(name, *args, **kwargs), component=self._component)

    def _wrapped(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        self._require_public(name)
        return self._derived(name, *args, **kwargs)

    def _require_public(self, name: str) -> None:
        if ("send" if name in _HANDS_ON else "record") not in self._allowed:
            raise ParameterError(
                f"{name}() of {type(self._component).__name__} would trace raw inputs or hand "
                f"them on; {_REMEDIES.get(name, 'put a PrivateHead first')}"
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

    @abstractmethod
    def _enter(self, value: Any, config: RunnableConfig | None) -> Entered:
        """Releases the input: what runs behind the boundary, and all that it is given."""

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Release the input, then run the rest."""
        entered = self._enter(input, config)
        return entered.whole(entered.rest.invoke(entered.input, entered.config, **kwargs))

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """As :meth:`invoke`; the release runs in a thread."""
        entered = await asyncio.to_thread(self._enter, input, config)
        return entered.whole(await entered.rest.ainvoke(entered.input, entered.config, **kwargs))

    def stream(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Iterator[Any]:
        """Release the whole input when first iterated, then stream the rest."""
        entered = self._enter(input, config)
        yield from entered.pieces(entered.rest.stream(entered.input, entered.config, **kwargs))

    async def astream(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncIterator[Any]:
        """As :meth:`stream`; the release runs in a thread."""
        entered = await asyncio.to_thread(self._enter, input, config)
        source = entered.rest.astream(entered.input, entered.config, **kwargs)
        async with aclosing(cast("Any", entered.apieces(source))) as pieces:
            async for piece in pieces:
                yield piece

    def stream_events(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """The events of the rest, in which nothing is restored."""
        entered = self._enter(input, config)
        return entered.rest.stream_events(entered.input, entered.config, **kwargs)

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
        entered = await asyncio.to_thread(self._enter, input, config)
        source: Any = entered.rest.astream_events(entered.input, entered.config, **kwargs)
        async with aclosing(source) as events:
            async for event in events:
                yield event

    async def _typed_events(self, input: Any, config: RunnableConfig | None, **kwargs: Any) -> Any:
        entered = await asyncio.to_thread(self._enter, input, config)
        rest: Any = entered.rest
        return await rest.astream_events(entered.input, entered.config, **kwargs)


# A plain Runnable, not a RunnableSerializable: pydantic would copy the session into configured
# copies and offer it to serializers; a frozen dataclass hands on the same object.
@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Head(ReleasedCalls, Runnable[Any, Any]):
    """First step of a chain: ``head | a | b`` is again a head, which runs ``a | b`` itself.

    Attributes:
        goes_first: Whether it can stand behind nothing, as what stands in front records the input.
        then: The rest of the chain, set by ``|``; None: the released input is the output.
        config: Merged into the config of every call; set by :meth:`with_config`.
    """

    goes_first: ClassVar[bool] = True

    then: Runnable[Any, Any] | None = None
    config: RunnableConfig = field(default_factory=RunnableConfig)

    def __post_init__(self) -> None:
        if isinstance(self.then, Head) and self.then.goes_first:
            raise ParameterError(f"expected one head, got two; {USAGE}")

    def __or__(self, other: Any) -> Self:  # type: ignore[override]
        """The head with ``other`` behind everything it holds."""
        step = coerce_to_runnable(other)
        if isinstance(step, Head) and step.goes_first:
            raise ParameterError(f"expected one head, got two; {USAGE}")
        return replace(self, then=step if self.then is None else self.then | step)

    def __ror__(self, other: Any) -> NoReturn:
        raise ParameterError(f"got {type(other).__name__} | {type(self).__name__}; {USAGE}")

    def pipe(self, *others: Any, name: str | None = None) -> Self:  # type: ignore[override]
        """The head with ``others`` behind it; ``name`` is what the run of the rest is called."""
        head = self
        for other in others:
            head = head | other
        return head if name is None else head.with_config(run_name=name)

    def with_config(self, config: RunnableConfig | None = None, **kwargs: Any) -> Self:
        """The head with a config for every call, and for what is appended later."""
        merged: Any = {**self.config, **(config or {}), **kwargs}
        return replace(self, config=merged)

    bind = _by("_with_rest", "bind")
    with_retry = _by("_with_rest", "with_retry")
    with_fallbacks = _by("_with_rest", "with_fallbacks")
    with_listeners = _by("_with_rest", "with_listeners")
    with_alisteners = _by("_with_rest", "with_alisteners")
    with_types = _by("_with_rest", "with_types")

    batch = _by("_batched", "batch")
    abatch = _by("_batched", "abatch")
    batch_as_completed = _by("_batched", "batch_as_completed")
    abatch_as_completed = _by("_batched", "abatch_as_completed")

    def get_input_schema(self, config: RunnableConfig | None = None) -> TypeBaseModel:
        """The schema of what the rest takes."""
        return self._rest.get_input_schema(config)

    def get_output_schema(self, config: RunnableConfig | None = None) -> TypeBaseModel:
        """The schema of what the rest returns."""
        return self._rest.get_output_schema(config)

    @property
    def config_specs(self) -> list[ConfigurableFieldSpec]:
        """What can be configured in the rest."""
        return self._rest.config_specs

    def get_graph(self, config: RunnableConfig | None = None) -> Graph:
        """The head, then the graph of the rest."""
        graph = super().get_graph(config)
        if self.then is None:
            return graph
        graph.trim_last_node()
        head = graph.last_node()
        rest = self.then.get_graph(config)
        rest.trim_first_node()
        first, _ = graph.extend(rest)
        if head is not None and first is not None:
            graph.add_edge(head, first)
        return graph

    @property
    def _rest(self) -> Runnable[Any, Any]:
        return RunnablePassthrough() if self.then is None else self.then

    def _with_rest(self, name: str, /, *args: Any, **kwargs: Any) -> Self:
        return replace(self, then=getattr(self._rest, name)(*args, **kwargs))

    def _batched(self, name: str, /, inputs: Any, config: Any = None, **kwargs: Any) -> Any:
        """A batch reads ``max_concurrency`` in the config that it is given."""
        is_one = not isinstance(config, Sequence)
        merged = self._merged(config) if is_one else [self._merged(own) for own in config]
        bare = replace(self, config=RunnableConfig())
        return getattr(Runnable, name)(bare, inputs, merged, **kwargs)

    def _merged(self, config: RunnableConfig | None) -> RunnableConfig:
        return merge_configs(*filter(None, (self.config, config)))
