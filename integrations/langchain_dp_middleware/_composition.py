"""Heads of chains: what is piped into one stays behind its boundary."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self

from langchain_core.runnables import Runnable, RunnablePassthrough
from langchain_core.runnables.base import coerce_to_runnable
from langchain_core.runnables.config import RunnableConfig, merge_configs

from dp_middleware.errors import ParameterError
from langchain_dp_middleware._boundary import USAGE
from langchain_dp_middleware._calls import ReleasedCalls

if TYPE_CHECKING:
    from langchain_core.runnables.graph import Graph
    from langchain_core.runnables.utils import ConfigurableFieldSpec
    from langchain_core.utils.pydantic import TypeBaseModel


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

    # composition -----------------------------------------------------------------------------

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

    def bind(self, **kwargs: Any) -> Self:
        """As :meth:`Runnable.bind`, on the rest."""
        return replace(self, then=self._rest.bind(**kwargs))

    def with_retry(self, **kwargs: Any) -> Self:
        """As :meth:`Runnable.with_retry`, on the rest: the same release is sent again."""
        return replace(self, then=self._rest.with_retry(**kwargs))

    def with_fallbacks(self, *args: Any, **kwargs: Any) -> Self:  # type: ignore[override]
        """As :meth:`Runnable.with_fallbacks`, on the rest: a fallback gets the same release."""
        return replace(self, then=self._rest.with_fallbacks(*args, **kwargs))

    def with_listeners(self, **kwargs: Any) -> Self:
        """As :meth:`Runnable.with_listeners`, on the rest."""
        return replace(self, then=self._rest.with_listeners(**kwargs))

    def with_alisteners(self, **kwargs: Any) -> Self:
        """As :meth:`Runnable.with_alisteners`, on the rest."""
        return replace(self, then=self._rest.with_alisteners(**kwargs))

    def with_types(self, **kwargs: Any) -> Self:
        """As :meth:`Runnable.with_types`, on the rest: a release keeps the type of its input."""
        return replace(self, then=self._rest.with_types(**kwargs))

    # calls: see ReleasedCalls ----------------------------------------------------------------

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

    # for calls -------------------------------------------------------------------------------

    @property
    def _rest(self) -> Runnable[Any, Any]:
        return self.then if self.then is not None else RunnablePassthrough()

    def _merged(self, config: RunnableConfig | None) -> RunnableConfig:
        return merge_configs(*filter(None, (self.config, config)))

    def _unbound(self, inputs: Any, config: Any) -> tuple[Self, Any, Any]:
        """A head without config and the merged configs: a batch reads max_concurrency in them."""
        if isinstance(config, Sequence):
            merged: Any = [merge_configs(self.config, each) for each in config]
        else:
            merged = self._merged(config)
        return replace(self, config=RunnableConfig()), inputs, merged
