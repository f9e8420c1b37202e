"""What is made of a DPChatModel: made of its inner model, behind the same boundary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from langchain_core.runnables import Runnable, RunnableBinding, RunnableConfig, RunnableSequence
from langchain_core.runnables.base import coerce_to_runnable
from langchain_core.runnables.utils import ConfigurableFieldSpec
from pydantic import Field

from langchain_dp_middleware._boundary import EPSILON_SPEC
from langchain_dp_middleware._calls import Entered
from langchain_dp_middleware._wrappers import PrivateBinding, RefusedWrappers
from langchain_dp_middleware.head import Head


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ModelHead(Head):
    """The boundary of a chat model in front of what is made of it; may run in other runs.

    Attributes:
        model: Its session and rules release.
    """

    goes_first: ClassVar[bool] = False

    model: Any

    def __repr__(self) -> str:
        return f"{self.model!r}\n| {self.then!r}"

    def __ror__(self, other: Any) -> Any:
        return RunnableSequence(coerce_to_runnable(other), self)

    @property
    def config_specs(self) -> list[ConfigurableFieldSpec]:
        """The epsilon of a call, and what can be configured in the rest."""
        return [EPSILON_SPEC, *self._rest.config_specs]

    def _with_rest(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        """A fallback that is a DPChatModel is called behind this boundary."""
        if name == "with_fallbacks":
            fallbacks, *args = args or [kwargs.pop("fallbacks")]  # type: ignore[assignment]
            args = ([x._behind if isinstance(x, RefusedWrappers) else x for x in fallbacks], *args)
        return super()._with_rest(name, *args, **kwargs)

    @property
    def _behind(self) -> Runnable[Any, Any]:
        return self._rest.with_config(self.config) if self.config else self._rest

    def _enter(self, value: Any, config: RunnableConfig | None) -> Entered:
        entered: Entered = self.model.entered(value, self._merged(config), self._rest)
        return entered


class BoundModel(PrivateBinding):
    """A DPChatModel with arguments and config of its calls: still a model, as LangChain expects."""

    component: Any = Field(default=None, exclude=True, repr=False)

    @property
    def _component(self) -> Any:
        return self.bound

    @property
    def head(self) -> ModelHead:
        """What is made of it is made of the inner model, behind the boundary."""
        model: Any = self.bound
        head: ModelHead = model._head(model.inner.bind(**self.kwargs))
        return head.with_config(self.config)

    @property
    def _behind(self) -> Runnable[Any, Any]:
        return self.head._behind

    bind = RunnableBinding.bind
    with_config = RunnableBinding.with_config

    def _derived(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        return getattr(self.head, name)(*args, **kwargs)

    _wrapped = _derived
