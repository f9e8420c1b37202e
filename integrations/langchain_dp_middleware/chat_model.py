"""A chat model that is sent released text only, for whatever takes a model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Literal

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.outputs import LLMResult
from langchain_core.runnables import (
    Runnable,
    RunnableBinding,
    RunnableConfig,
    ensure_config,
)
from langchain_core.runnables.config import merge_configs
from langchain_core.runnables.utils import ConfigurableFieldSpec
from pydantic import Field

import dp_middleware as dp
from dp_middleware.boundary import guarded, session_of
from dp_middleware.errors import ParameterError
from langchain_dp_middleware._boundary import cross
from langchain_dp_middleware._calls import ReleasedCalls, with_notes
from langchain_dp_middleware._messages import Rules
from langchain_dp_middleware._model_head import ModelHead
from langchain_dp_middleware._session import (
    EPSILON_SPEC,
    conversation_of,
    require_ceiling,
    session_for,
)
from langchain_dp_middleware._values import read_messages


class DPChatModel(ReleasedCalls, BaseChatModel):
    """Stands for a remote chat model and hands it released messages, at every public method.

    For whatever takes a model: agents, third-party chains, summarizers. Tools, structured
    output, streaming and the model's own settings keep working. The inner model's answers are
    noted in the session, so that a later transcript may hold them; one whose stream was given up
    is not, see :func:`note_answer`.

    Callbacks and tracers of the inner model's runs get released text. Those of an enclosing
    sequence, graph or agent record what that is given, raw; put a :class:`PrivateHead` in front
    of it where they may not. Structured output, retries and fallbacks stand behind the boundary
    and so may be traced; wrappers of a model with bound tools do not.

    Messages, epsilon and conversations are as for :class:`PrivateHead`. With the memo of its
    session, a retry of messages sends the same release again and costs nothing.

    Attributes:
        session: A ``dp.Session``, or a ``dp.Sanitizer`` for which one is made.
        inner: The remote chat model.
        max_epsilon: Nats per token occurrence, the most that a call's config gets; None: the
            sanitizer's own epsilon.
        system: See :class:`Rules`, as for the next two.
        ai: ``"noted"`` or ``"pass"``.
        on_other: ``"raise"``, ``"drop"`` or ``"pass"``.

    Raises:
        DPMiddlewareError: From a call, as from a :class:`PrivateHead`.

    Example:
        >>> import dp_middleware as dp
        >>> from langchain_core.language_models import FakeListChatModel
        >>> space = dp.EmbeddingSpace(dp.Vocabulary(["red", "blue"]), [[1, 0], [0, 1]])
        >>> sanitizer = dp.Sanitizer(dp.TokenExponential(epsilon=2.0), space)
        >>> model = DPChatModel(sanitizer, FakeListChatModel(responses=["fine"]))
        >>> model.invoke([("human", "red blue")]).text
        'fine'
    """

    session: Any = Field(exclude=True, repr=False)
    inner: BaseChatModel = Field(exclude=True)
    max_epsilon: float | None = None
    system: Literal["pass", "release"] = "pass"
    ai: Literal["noted", "pass"] = "noted"
    on_other: Literal["raise", "drop", "pass"] = "raise"

    def __init__(self, session: Any, inner: Any, **options: Any) -> None:
        if not isinstance(inner, BaseChatModel):
            raise ParameterError(f"expected inner= a chat model, got {type(inner).__name__}")
        require_ceiling(options.get("max_epsilon"))
        given: dict[str, Any] = {"session": session_of(session), "inner": inner, **options}
        super().__init__(**given)

    # composition -----------------------------------------------------------------------------

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | Any],
        *,
        tool_choice: Any = None,
        **kwargs: Any,
    ) -> Runnable[Any, Any]:
        """As the inner model binds them; tools are public."""
        options = kwargs if tool_choice is None else {**kwargs, "tool_choice": tool_choice}
        bound = self.inner.bind_tools(tools, **options)
        if not isinstance(bound, RunnableBinding) or not isinstance(bound.bound, BaseChatModel):
            raise ParameterError(
                f"expected tools bound to {type(self.inner).__name__} as arguments of its calls, "
                f"got {type(bound).__name__}"
            )
        return self.model_copy(update={"inner": bound.bound}).bind(**bound.kwargs)

    def with_structured_output(self, schema: Any, **kwargs: Any) -> Runnable[Any, Any]:
        """The inner model's own, behind the same boundary: ``|`` keeps further steps there."""
        return ModelHead(model=self, then=self.inner.with_structured_output(schema, **kwargs))

    def with_retry(self, **kwargs: Any) -> Runnable[Any, Any]:
        """The inner model's own, behind the boundary: the same release is sent again."""
        return ModelHead(model=self, then=self.inner.with_retry(**kwargs))

    def with_fallbacks(  # type: ignore[override]
        self, fallbacks: Sequence[Runnable[Any, Any]], **kwargs: Any
    ) -> Runnable[Any, Any]:
        """The inner model's own, behind the boundary: a fallback gets the same release."""
        others = [_behind(each) for each in fallbacks]
        return ModelHead(model=self, then=self.inner.with_fallbacks(others, **kwargs))

    @property
    def config_specs(self) -> list[ConfigurableFieldSpec]:
        """The epsilon of a call."""
        return [EPSILON_SPEC]

    # calls of chat models --------------------------------------------------------------------

    def generate(
        self, messages: list[list[BaseMessage]], stop: Any = None, callbacks: Any = None, **kw: Any
    ) -> LLMResult:
        """Release every transcript, then generate."""
        _require_messages(messages)
        released = [self._released(each) for each in messages]
        return self.inner.generate(released, stop, self._noting(callbacks), **kw)

    async def agenerate(
        self, messages: list[list[BaseMessage]], stop: Any = None, callbacks: Any = None, **kw: Any
    ) -> LLMResult:
        """As :meth:`generate`; the release runs in a thread."""
        _require_messages(messages)
        released = [await asyncio.to_thread(self._released, each) for each in messages]
        return await self.inner.agenerate(released, stop, self._noting(callbacks), **kw)

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> Any:
        return self.inner._generate(self._released(messages), *args, **kwargs)

    def _generate_with_cache(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> Any:
        return self.inner._generate_with_cache(self._released(messages), *args, **kwargs)

    async def _agenerate_with_cache(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> Any:
        released = await asyncio.to_thread(self._released, messages)
        return await self.inner._agenerate_with_cache(released, *args, **kwargs)

    # description -----------------------------------------------------------------------------

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

    # the boundary ----------------------------------------------------------------------------

    @property
    def _rest(self) -> BaseChatModel:
        return self.inner

    def _enter(self, value: Any, config: RunnableConfig | None) -> tuple[Any, RunnableConfig]:
        released = self._released(value, config)
        given = {"callbacks": self.callbacks, "tags": self.tags, "metadata": self.metadata}
        own: Any = {name: value for name, value in given.items() if value}
        merged = merge_configs(own, ensure_config(config))
        return released, with_notes(merged, self.session, conversation_of(config))

    def _released(self, value: Any, config: RunnableConfig | None = None) -> Any:
        session: dp.Session = self.session
        at = guarded(lambda: session_for(session, config, self.max_epsilon))
        rules = Rules(system=self.system, ai=self.ai, on_other=self.on_other)
        return cross(at, lambda: read_messages(value, rules), rules, conversation_of(config))

    def _noting(self, callbacks: Any) -> Any:
        config = with_notes({"callbacks": callbacks}, self.session, conversation_of(None))
        return config["callbacks"]


def _behind(fallback: Any) -> Any:
    """What a fallback calls behind its own boundary, with the tools or settings bound to it."""
    if isinstance(fallback, DPChatModel):
        return fallback.inner
    if isinstance(fallback, RunnableBinding):
        return fallback.model_copy(update={"bound": _behind(fallback.bound)})
    return fallback


def _require_messages(transcripts: Any) -> None:
    """What ``generate`` takes is not converted: the inner model would fail after the charge."""
    if not all(isinstance(each, BaseMessage) for transcript in transcripts for each in transcript):
        raise ParameterError("expected lists of messages, got something else; use invoke()")
