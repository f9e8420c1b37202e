"""A chat model that is sent released text only, for whatever takes a model."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from langchain_core import runnables as lcr
from langchain_core.language_models import BaseChatModel
from langchain_core.outputs import ChatGeneration, ChatResult, LLMResult
from langchain_core.runnables.base import coerce_to_runnable
from langchain_core.runnables.config import merge_configs
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import AfterValidator, Field

from dp_middleware.conversation.events import checked_tools, with_outputs
from dp_middleware.conversation.session import session_of
from dp_middleware.errors import ParameterError
from langchain_dp_middleware._boundary import (
    MODEL_CONFIG,
    Answers,
    System,
    cross,
    with_notes,
)
from langchain_dp_middleware._calls import Entered, PrivateBinding, ReleasedCalls
from langchain_dp_middleware._messages import copy_transcript
from langchain_dp_middleware.head import Head


class DPChatModel(ReleasedCalls, BaseChatModel):
    """Stands for a remote chat model and hands it released messages, at every public method.

    Tools, structured output, streaming and the model's own settings keep working. Its answers are
    noted in the session, so that a later transcript may hold them. Callbacks of the inner model's
    runs get released text.
    Those of an enclosing sequence, graph or agent record what that is given, raw; put a
    :class:`PrivateHead`, whose options and errors these are, in front of it where they may not.

    Attributes:
        session: A ``dp.Session``, or a ``dp.Sanitizer`` for which one is made.
        inner: The remote chat model.
        system: ``"pass"`` or ``"release"``.
        ai: ``"noted"`` or ``"pass"``.
        tools: Names of the tools that are called with originals, or ``"all"``.
    """

    model_config = MODEL_CONFIG

    session: Any = Field(exclude=True, repr=False)
    inner: BaseChatModel = Field(exclude=True)
    system: System = "pass"
    ai: Answers = "noted"
    tools: Annotated[Any, AfterValidator(checked_tools)] = ()

    def __init__(self, session: Any, inner: Any, **options: Any) -> None:
        if not isinstance(inner, BaseChatModel):
            raise ParameterError(f"expected inner= a chat model, got {type(inner).__name__}")
        fields: dict[str, Any] = {"session": session_of(session), "inner": inner}
        super().__init__(**options, **fields)

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | Any],
        *,
        tool_choice: Any = None,
        **kwargs: Any,
    ) -> lcr.Runnable[Any, Any]:
        """Binds tools as the inner model does; they are public."""
        options = kwargs if tool_choice is None else {**kwargs, "tool_choice": tool_choice}
        bound = self.inner.bind_tools(tools, **options)
        if not isinstance(bound, lcr.RunnableBinding) or not isinstance(bound.bound, BaseChatModel):
            kind = type(bound).__name__
            raise ParameterError(f"expected tools bound as arguments of calls, got {kind}")
        model = self.model_copy(update={"inner": bound.bound})
        return BoundModel(bound=model, kwargs=bound.kwargs)

    def with_structured_output(self, schema: Any, **kwargs: Any) -> lcr.Runnable[Any, Any]:
        """Returns the inner model's own, behind the same boundary, as are further steps."""
        model = self
        with contextlib.suppress(Exception):  # the inner model says what is wrong with a schema
            name = convert_to_openai_tool(schema)["function"]["name"]
            model = self.model_copy(update={"tools": with_outputs(self.tools, [name])})
        return ModelHead(model=model, then=self.inner.with_structured_output(schema, **kwargs))

    def _derived(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        """What is made of the model is made of the inner one, behind the boundary."""
        if name in ("bind", "with_config"):
            return getattr(BoundModel(bound=self), name)(*args, **kwargs)
        if name == "configurable_fields":
            return super()._derived(name, *args, **kwargs)
        return getattr(ModelHead(model=self, then=self.inner), name)(*args, **kwargs)

    _wrapped = _derived  # retries and fallbacks send the same release, pipes get its answers

    def generate(
        self, messages: Any, stop: Any = None, callbacks: Any = None, **kw: Any
    ) -> LLMResult:
        """Answers every transcript in a call of its own."""
        return _result(self.batch(messages, _config_of(callbacks, kw), stop=stop, **kw))

    async def agenerate(
        self, messages: Any, stop: Any = None, callbacks: Any = None, **kw: Any
    ) -> LLMResult:
        return _result(await self.abatch(messages, _config_of(callbacks, kw), stop=stop, **kw))

    def _generate(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kw: Any
    ) -> ChatResult:
        [message] = self.batch([messages], stop=stop, **kw)
        return ChatResult(generations=[ChatGeneration(message=message)])

    @property
    def _llm_type(self) -> str:
        return f"dp-{self.inner._llm_type}"

    @property
    def _identifying_params(self) -> Any:
        return self.inner._identifying_params

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> Any:
        return self.inner._get_ls_params(stop=stop, **kwargs)

    def _resolve_model_profile(self) -> Any:
        return self.inner.profile

    def _enter(self, value: Any, config: lcr.RunnableConfig | None) -> Entered:
        return ModelHead(model=self, then=self.inner)._enter(value, config)


def _config_of(callbacks: Any, options: dict[str, Any]) -> Any:
    """Takes what a config has out of the options of ``generate``."""
    names = ("tags", "metadata", "run_name", "run_id")
    config = {name: options.pop(name) for name in names if name in options}
    return {"callbacks": callbacks, **{name: value for name, value in config.items() if value}}


def _result(answers: Sequence[Any]) -> LLMResult:
    return LLMResult(generations=[[ChatGeneration(message=message)] for message in answers])


@dataclass(frozen=True, eq=False, kw_only=True)
class ModelHead(Head):
    """The boundary of a chat model in front of what is made of it; may run in other runs."""

    goes_first: ClassVar[bool] = False

    model: Any

    def __ror__(self, other: Any) -> Any:
        return lcr.RunnableSequence(coerce_to_runnable(other), self)

    def _with_rest(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        """Refuses a fallback that would release again what this boundary has released."""
        fallbacks = (*args, kwargs.get("fallbacks"))[0] if name == "with_fallbacks" else ()
        if any(isinstance(fallback, ReleasedCalls | BoundModel) for fallback in fallbacks):
            raise ParameterError("expected plain models as fallbacks: they get what was released")
        return super()._with_rest(name, *args, **kwargs)

    @property
    def _component(self) -> Any:
        return self.model

    def _enter(self, value: Any, config: lcr.RunnableConfig | None) -> Entered:
        model, asked = self.model, self._merged(config)
        released, exchange = cross(model, value, copy_transcript, asked, tools=model.tools)
        fields = {name: getattr(model, name) for name in ("callbacks", "tags", "metadata")}
        own: Any = {name: field for name, field in fields.items() if field}
        return Entered(
            rest=with_notes(self._rest, exchange),
            input=released,
            config=merge_configs(own, lcr.ensure_config(asked)),
            exchange=exchange,
            receipt=exchange.receipt,
        )


class BoundModel(PrivateBinding):
    """A DPChatModel with arguments and config of its calls: still a model, as LangChain expects."""

    component: Any = Field(default=None, exclude=True, repr=False)

    @property
    def _component(self) -> Any:
        return self.bound

    @property
    def head(self) -> ModelHead:
        model: Any = self.bound
        return ModelHead(model=model, then=model.inner.bind(**self.kwargs), config=self.config)

    bind = lcr.RunnableBinding.bind
    with_config = lcr.RunnableBinding.with_config

    def _derived(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        return getattr(self.head, name)(*args, **kwargs)

    _wrapped = _derived
