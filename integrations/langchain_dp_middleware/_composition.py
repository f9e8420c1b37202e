"""Heads of chains: what is piped into one stays behind its boundary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self

from langchain_core.runnables import Runnable
from langchain_core.runnables.base import coerce_to_runnable
from langchain_core.runnables.config import RunnableConfig, merge_configs

from dp_middleware.errors import ParameterError
from langchain_dp_middleware._boundary import USAGE
from langchain_dp_middleware._calls import ReleasedCalls

if TYPE_CHECKING:
    from langchain_core.runnables.graph import Graph
    from langchain_core.runnables.utils import ConfigurableFieldSpec
    from langchain_core.utils.pydantic import TypeBaseModel


def _on_rest(name: str, why: str) -> Any:
    """A method of :class:`Head` that makes something of the rest, and stays in front of it."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return replace(self, then=getattr(self._rest, name)(*args, **kwargs))

    method.__name__, method.__doc__ = name, f"As :meth:`Runnable.{name}`, on the rest{why}."
    return method


def _batched(name: str) -> Any:
    """A method of :class:`Head` that has one release and one run of the rest for each input."""

    def method(self: Any, inputs: Any, config: Any = None, **kwargs: Any) -> Any:
        merged = self._merged(None if isinstance(config, Sequence) else config)
        if isinstance(config, Sequence):
            merged = [self._merged(own) for own in config]
        bare = replace(self, config=RunnableConfig())  # a batch reads max_concurrency in `merged`
        return getattr(Runnable, name)(bare, inputs, merged, **kwargs)

    method.__name__, method.__doc__ = name, f"As :meth:`Runnable.{name}`: a release for each input."
    return method


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

    bind = _on_rest("bind", "")
    with_retry = _on_rest("with_retry", ": the same release is sent again")
    with_fallbacks = _on_rest("with_fallbacks", ": a fallback gets the same release")
    with_listeners = _on_rest("with_listeners", "")
    with_alisteners = _on_rest("with_alisteners", "")
    with_types = _on_rest("with_types", ": a release keeps the type of its input")

    # calls: see ReleasedCalls ----------------------------------------------------------------

    batch = _batched("batch")
    abatch = _batched("abatch")
    batch_as_completed = _batched("batch_as_completed")
    abatch_as_completed = _batched("abatch_as_completed")

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
        return super()._rest if self.then is None else self.then

    def _merged(self, config: RunnableConfig | None) -> RunnableConfig:
        return merge_configs(*filter(None, (self.config, config)))
