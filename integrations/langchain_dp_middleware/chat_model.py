"""A chat model that is sent released text only, for whatever takes a model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.outputs import LLMResult
from langchain_core.runnables import (
    Runnable,
    RunnableBinding,
    RunnableConfig,
    RunnableSequence,
    ensure_config,
)
from langchain_core.runnables.base import coerce_to_runnable
from langchain_core.runnables.config import merge_configs
from langchain_core.runnables.utils import ConfigurableFieldSpec
from pydantic import ConfigDict, Field

import dp_middleware as dp
from dp_middleware.errors import ParameterError
from dp_middleware.sessions.boundary import guarded, session_of
from langchain_dp_middleware._boundary import cross, read_messages
from langchain_dp_middleware._calls import PrivateBinding, ReleasedCalls
from langchain_dp_middleware._composition import Head
from langchain_dp_middleware._messages import Rules
from langchain_dp_middleware._notes import Notes, noted
from langchain_dp_middleware._session import (
    EPSILON_SPEC,
    conversation_of,
    require_ceiling,
    require_known,
    session_for,
)


class DPChatModel(ReleasedCalls, BaseChatModel):
    """Stands for a remote chat model and hands it released messages, at every public method.

    For whatever takes a model: agents, third-party chains, summarizers. Tools, structured
    output, streaming and the model's own settings keep working. The inner model's answers are
    noted in the session, so that a later transcript may hold them; one whose stream was given up
    is not, see :func:`note_answer`.

    Callbacks and tracers of the inner model's runs get released text. Those of an enclosing
    sequence, graph or agent record what that is given, raw; put a :class:`PrivateHead` in front
    of it where they may not. Structured output, retries and fallbacks stand behind the boundary
    and so may be traced, also those of a model with bound tools.

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

    model_config = ConfigDict(
        arbitrary_types_allowed=True, extra="forbid", hide_input_in_errors=True
    )

    session: Any = Field(exclude=True, repr=False)
    inner: BaseChatModel = Field(exclude=True)
    max_epsilon: float | None = None
    system: Literal["pass", "release"] = "pass"
    ai: Literal["noted", "pass"] = "noted"
    on_other: Literal["raise", "drop", "pass"] = "raise"

    def __init__(self, session: Any, inner: Any, **options: Any) -> None:
        if not isinstance(inner, BaseChatModel):
            raise ParameterError(f"expected inner= a chat model, got {type(inner).__name__}")
        require_known(type(self), options)
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
        model = self.model_copy(update={"inner": bound.bound})
        return BoundModel(bound=model, kwargs=bound.kwargs)

    def with_structured_output(self, schema: Any, **kwargs: Any) -> Runnable[Any, Any]:
        """The inner model's own, behind the same boundary: ``|`` keeps further steps there."""
        return self._head(self.inner.with_structured_output(schema, **kwargs))

    def with_fallbacks(self, fallbacks: Sequence[Runnable[Any, Any]], **kwargs: Any) -> Any:
        """The inner model's own, behind the boundary: a fallback gets the same release."""
        return self._head().with_fallbacks(fallbacks, **kwargs)

    def with_retry(self, **kwargs: Any) -> Runnable[Any, Any]:
        """The inner model's own, behind the boundary: the same release is sent again."""
        return self._head().with_retry(**kwargs)

    def pipe(self, *others: Any, **kwargs: Any) -> Any:
        """The inner model's own, behind the boundary: what is piped is given its answers."""
        return self._head().pipe(*others, **kwargs)

    def __or__(self, other: Any) -> Any:
        """As :meth:`pipe`."""
        return self._head() | other

    def _derived(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        """What is made of the model is made of the inner one, behind the boundary."""
        if name in ("bind", "with_config"):
            return getattr(BoundModel(bound=self), name)(*args, **kwargs)
        if name == "configurable_fields":
            return super()._derived(name, *args, **kwargs)
        return getattr(self._head(), name)(*args, **kwargs)

    def _head(self, rest: Runnable[Any, Any] | None = None) -> ModelHead:
        return ModelHead(model=self, then=noted(rest or self.inner, self.session))

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
    def _rest(self) -> Runnable[Any, Any]:
        return noted(self.inner, self.session)

    def _enter(self, value: Any, config: RunnableConfig | None) -> tuple[Any, RunnableConfig]:
        released = self._released(value, config)
        given = {"callbacks": self.callbacks, "tags": self.tags, "metadata": self.metadata}
        own: Any = {name: value for name, value in given.items() if value}
        return released, merge_configs(own, ensure_config(config))

    def _released(self, value: Any, config: RunnableConfig | None = None) -> Any:
        session: dp.Session = self.session
        at = guarded(lambda: session_for(session, config, self.max_epsilon))
        rules = Rules(system=self.system, ai=self.ai, on_other=self.on_other)
        return cross(at, lambda: read_messages(value, rules), rules, conversation_of(config))

    def _noting(self, callbacks: Any) -> Any:
        own = Notes(self.session)(RunnableConfig())
        return merge_configs({"callbacks": callbacks}, own)["callbacks"]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ModelHead(Head):
    """The boundary of a chat model in front of what is made of it; may run in other runs.

    Attributes:
        model: Its session and rules release.
    """

    goes_first: ClassVar[bool] = False

    model: DPChatModel

    def __repr__(self) -> str:
        return f"{self.model!r}\n| {self.then!r}"

    def __ror__(self, other: Any) -> Any:
        return RunnableSequence(coerce_to_runnable(other), self)

    @property
    def config_specs(self) -> list[ConfigurableFieldSpec]:
        """The epsilon of a call, and what can be configured in the rest."""
        return [EPSILON_SPEC, *self._rest.config_specs]

    def with_fallbacks(self, fallbacks: Any, **kwargs: Any) -> Any:
        """As :meth:`Head.with_fallbacks`: one that is a DPChatModel is called behind this."""
        others = [noted(_behind(each), self.model.session) for each in fallbacks]
        return super().with_fallbacks(others, **kwargs)

    @property
    def behind(self) -> Runnable[Any, Any]:
        """What is called with released input."""
        return self._rest.with_config(self.config) if self.config else self._rest

    def _enter(self, value: Any, config: RunnableConfig | None) -> tuple[Any, RunnableConfig]:
        return self.model._enter(value, self._merged(config))


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

    def bind(self, **kwargs: Any) -> Any:
        """As :meth:`RunnableBinding.bind`."""
        return RunnableBinding.bind(self, **kwargs)

    def with_config(self, config: Any = None, **kwargs: Any) -> Any:
        """As :meth:`RunnableBinding.with_config`."""
        return RunnableBinding.with_config(self, config, **kwargs)

    def _derived(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        return getattr(self.head, name)(*args, **kwargs)

    def _wrapped(self, name: str, is_public: bool, /, *args: Any, **kwargs: Any) -> Any:
        return getattr(self.head, name)(*args, **kwargs)


def _behind(fallback: Any) -> Any:
    """What a fallback calls behind its own boundary."""
    if isinstance(fallback, DPChatModel):
        return fallback._rest
    if isinstance(fallback, BoundModel):
        return fallback.head.behind
    return fallback.behind if isinstance(fallback, ModelHead) else fallback


def _require_messages(transcripts: Any) -> None:
    """What ``generate`` takes is not converted: the inner model would fail after the charge."""
    if not all(isinstance(each, BaseMessage) for transcript in transcripts for each in transcript):
        raise ParameterError("expected lists of messages, got something else; use invoke()")
