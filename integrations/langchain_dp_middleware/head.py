"""The head of a chain: releases the input before LangChain, and any tracer, sees it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NoReturn

from langchain_core.runnables import Runnable, RunnablePassthrough
from langchain_core.runnables.base import coerce_to_runnable
from langchain_core.runnables.config import RunnableConfig, merge_configs

from dp_middleware.errors import ParameterError
from langchain_dp_middleware._boundary import USAGE, Releaser, cross, refuse_outer_run

if TYPE_CHECKING:
    from langchain_core.runnables.graph import Graph
    from langchain_core.runnables.utils import ConfigurableFieldSpec
    from langchain_core.utils.pydantic import TypeBaseModel


# A plain Runnable, not a RunnableSerializable: pydantic would copy the session into configured
# copies and offer it to serializers; a frozen dataclass hands on the same object.
@dataclass(frozen=True, eq=False, repr=False)
class PrivateHead(Runnable[Any, Any]):
    """First step of a chain; what stands to its right receives released text only.

    ``PrivateHead(sanitizer, keys=["question"]) | prompt | model | parser`` is again a
    PrivateHead. Every call releases its input in a plain function call, without callbacks, and
    then runs the rest of the chain; callbacks, tracers, events and the model see the rest.

    Human and tool messages are released, block by block, without their metadata, artifact and
    author's name; system and AI messages pass as they are. Ids, roles, names of tools, and the
    numbers of messages, blocks and tokens are public, and so are ``config`` and keyword
    arguments of a call.

    Binding, retries, fallbacks and listeners apply to the rest: a retry sends the same release
    again and costs nothing. Do not put the head into a RunnableSequence, RunnableParallel,
    graph node or traced function: these record its input before it can release it. It refuses
    to run there.

    Attributes:
        session: Releases the texts, one by one in reading order.
        keys: Keys of a dict input that are private (text or messages), which declares the
            others public; None: on a dict, every value is private and must be text.
        then: The rest of the chain, set by ``|``; None: the released input is the output.
        config: Merged into the config of every call; set by :meth:`with_config`.

    Raises:
        ParameterError: From a call, before anything is charged or sent: an input that cannot be
            released, a missing key, or a head inside another run.
        DPMiddlewareError: From a call: the release failed, and nothing was sent. Holds no text.
    """

    session: Releaser
    keys: Collection[str] | None = None
    then: Runnable[Any, Any] | None = field(default=None, kw_only=True)
    config: RunnableConfig = field(default_factory=RunnableConfig, kw_only=True)

    def __post_init__(self) -> None:
        if not callable(getattr(self.session, "release", None)):
            raise ParameterError(f"expected a dp.Sanitizer, got {type(self.session).__name__}")
        if isinstance(self.then, PrivateHead):
            raise ParameterError(f"expected one head, got two; {USAGE}")
        if self.keys is None:
            return
        if isinstance(self.keys, str) or not self.keys:
            raise ParameterError(f"expected keys=['question', ...], got keys={self.keys!r}")
        object.__setattr__(self, "keys", tuple(self.keys))

    def __repr__(self) -> str:
        rest = "" if self.then is None else f"\n| {self.then!r}"
        return f"PrivateHead({self.session!r}, keys={self.keys!r}){rest}"

    # composition -----------------------------------------------------------------------------

    def __or__(self, other: Any) -> PrivateHead:  # type: ignore[override]
        """The head with ``other`` behind everything it holds."""
        step = coerce_to_runnable(other)
        if isinstance(step, PrivateHead):
            raise ParameterError(f"expected one head, got two; {USAGE}")
        return replace(self, then=step if self.then is None else self.then | step)

    def __ror__(self, other: Any) -> NoReturn:
        raise ParameterError(f"got {type(other).__name__} | PrivateHead; {USAGE}")

    def pipe(self, *others: Any, name: str | None = None) -> PrivateHead:  # type: ignore[override]
        """The head with ``others`` behind it; ``name`` is what the run of the rest is called."""
        head = self
        for other in others:
            head = head | other
        return head if name is None else head.with_config(run_name=name)

    def with_config(self, config: RunnableConfig | None = None, **kwargs: Any) -> PrivateHead:
        """The head with a config for every call, and for what is appended later."""
        merged: Any = {**self.config, **(config or {}), **kwargs}
        return replace(self, config=merged)

    def bind(self, **kwargs: Any) -> PrivateHead:
        """As :meth:`Runnable.bind`, on the rest."""
        return replace(self, then=self._rest.bind(**kwargs))

    def with_retry(self, **kwargs: Any) -> PrivateHead:
        """As :meth:`Runnable.with_retry`, on the rest: the same release is sent again."""
        return replace(self, then=self._rest.with_retry(**kwargs))

    def with_fallbacks(self, *args: Any, **kwargs: Any) -> PrivateHead:  # type: ignore[override]
        """As :meth:`Runnable.with_fallbacks`, on the rest: a fallback gets the same release."""
        return replace(self, then=self._rest.with_fallbacks(*args, **kwargs))

    def with_listeners(self, **kwargs: Any) -> PrivateHead:
        """As :meth:`Runnable.with_listeners`, on the rest."""
        return replace(self, then=self._rest.with_listeners(**kwargs))

    def with_alisteners(self, **kwargs: Any) -> PrivateHead:
        """As :meth:`Runnable.with_alisteners`, on the rest."""
        return replace(self, then=self._rest.with_alisteners(**kwargs))

    def with_types(self, **kwargs: Any) -> PrivateHead:
        """As :meth:`Runnable.with_types`, on the rest: a release keeps the type of its input."""
        return replace(self, then=self._rest.with_types(**kwargs))

    def map(self) -> NoReturn:
        """Refused: LangChain would trace the list of raw inputs."""
        raise ParameterError("map() would trace raw inputs; call batch() on the head")

    def as_tool(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refused: LangChain would trace the raw arguments of the tool."""
        raise ParameterError("as_tool() would trace raw arguments; call the head inside no tool")

    # calls -----------------------------------------------------------------------------------

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

    def batch(self, inputs: list[Any], config: Any = None, **kwargs: Any) -> list[Any]:
        """One release and one run of the rest per input, ``max_concurrency`` at a time."""
        return Runnable.batch(*self._unbound(inputs, config), **kwargs)

    async def abatch(self, inputs: list[Any], config: Any = None, **kwargs: Any) -> list[Any]:
        """As :meth:`batch`."""
        return await Runnable.abatch(*self._unbound(inputs, config), **kwargs)

    def batch_as_completed(
        self, inputs: Sequence[Any], config: Any = None, **kwargs: Any
    ) -> Iterator[tuple[int, Any]]:
        """As :meth:`batch`, with the index of each input."""
        return Runnable.batch_as_completed(*self._unbound(inputs, config), **kwargs)

    def abatch_as_completed(
        self, inputs: Sequence[Any], config: Any = None, **kwargs: Any
    ) -> AsyncIterator[tuple[int, Any]]:
        """As :meth:`batch_as_completed`."""
        return Runnable.abatch_as_completed(*self._unbound(inputs, config), **kwargs)

    def astream_events(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Any:
        """The events of the rest: LangChain's own implementation puts the raw input in the first.

        ``version="v3"`` returns an awaitable, as LangChain does.
        """
        if kwargs.get("version") == "v3":
            return self._typed_events(input, config, **kwargs)
        return self._events(input, config, **kwargs)

    def stream_events(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """The events of the rest."""
        return self._rest.stream_events(*self._enter(input, config), **kwargs)

    # description -----------------------------------------------------------------------------

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

    # the boundary ----------------------------------------------------------------------------

    @property
    def _rest(self) -> Runnable[Any, Any]:
        return self.then if self.then is not None else RunnablePassthrough()

    def _enter(self, value: Any, config: RunnableConfig | None) -> tuple[Any, RunnableConfig]:
        """The released input and the config of the call: all that the rest is given."""
        merged = merge_configs(*filter(None, (self.config, config)))
        refuse_outer_run(merged)
        keys = None if self.keys is None else tuple(self.keys)
        return cross(self.session, value, keys), merged

    async def _aenter(
        self, value: Any, config: RunnableConfig | None
    ) -> tuple[Any, RunnableConfig]:
        return await asyncio.to_thread(self._enter, value, config)

    def _unbound(self, inputs: Any, config: Any) -> tuple[PrivateHead, Any, Any]:
        """A head without config and the merged configs: a batch reads max_concurrency in them."""
        if isinstance(config, Sequence):
            merged: Any = [merge_configs(self.config, each) for each in config]
        else:
            merged = merge_configs(*filter(None, (self.config, config)))
        return replace(self, config=RunnableConfig()), inputs, merged

    async def _events(
        self, input: Any, config: RunnableConfig | None, **kwargs: Any
    ) -> AsyncIterator[Any]:
        events: Any = self._rest.astream_events(*await self._aenter(input, config), **kwargs)
        async with aclosing(events):
            async for event in events:
                yield event

    async def _typed_events(self, input: Any, config: RunnableConfig | None, **kwargs: Any) -> Any:
        return await self._rest.astream_events(*await self._aenter(input, config), **kwargs)
