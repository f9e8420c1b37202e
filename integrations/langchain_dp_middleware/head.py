"""The head of a chain, before LangChain and any tracer; and a step for chains that none traces."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Literal, NoReturn, Self

from langchain_core.runnables import Runnable, RunnableConfig, RunnablePassthrough
from langchain_core.runnables.base import coerce_to_runnable
from langchain_core.runnables.config import merge_configs, set_config_context

import dp_middleware as dp
from dp_middleware._validate import one_of
from dp_middleware.conversation.events import checked_tools
from dp_middleware.conversation.exchange import Exchange, Tools
from dp_middleware.conversation.session import session_of
from dp_middleware.errors import ParameterError, guarded
from dp_middleware.privacy.releases import receipts
from langchain_dp_middleware._boundary import (
    OWN,
    USAGE,
    Answers,
    System,
    asked_of,
    cross,
    refuse_outer_run,
    with_notes,
)
from langchain_dp_middleware._calls import LISTENERS, Entered, ReleasedCalls, by_way
from langchain_dp_middleware._messages import copy_input

_REMEDY = 'put a PrivateHead first, or, if what records it may see raw text, set traced="allow"'


# A plain Runnable, not a RunnableSerializable: pydantic would copy the session into configured
# copies and offer it to serializers; a frozen dataclass hands on the same object.
@by_way("_with_rest", "bind", "with_retry", "with_fallbacks", *LISTENERS)
@dataclass(frozen=True, eq=False, kw_only=True)
class Head(ReleasedCalls, Runnable[Any, Any]):
    """First step of a chain: ``head | a | b`` is again a head, which runs ``a | b`` itself."""

    goes_first: ClassVar[bool] = True

    then: Runnable[Any, Any] | None = None
    config: RunnableConfig = field(default_factory=RunnableConfig, repr=False)

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
        """Returns the head with ``others`` behind it; ``name`` is that of the run of the rest."""
        head = self
        for other in others:
            head = head | other
        return head if name is None else head.with_config(run_name=name)

    def with_config(self, config: RunnableConfig | None = None, **kwargs: Any) -> Self:
        """Returns the head with a config for every call, and for what is appended later."""
        merged: Any = {**self.config, **(config or {}), **kwargs}
        return replace(self, config=merged)

    @property
    def _rest(self) -> Runnable[Any, Any]:
        return RunnablePassthrough() if self.then is None else self.then

    def _with_rest(self, name: str, /, *args: Any, **kwargs: Any) -> Self:
        return replace(self, then=getattr(self._rest, name)(*args, **kwargs))

    def _merged(self, config: RunnableConfig | None) -> RunnableConfig:
        return merge_configs(*filter(None, (self.config, config)))


@dataclass(frozen=True, eq=False)
class Releasing(ReleasedCalls, Runnable[Any, Any]):
    """Releases what is private in an input; what heads and sanitizers have in common."""

    session: Any
    keys: Collection[str] | None = None
    system: System = field(default="pass", kw_only=True)
    ai: Answers = field(default="noted", kw_only=True)

    def __post_init__(self) -> None:
        if self.keys is not None and (isinstance(self.keys, str) or not self.keys):
            raise ParameterError(f"expected keys=['question', ...], got keys={self.keys!r}")
        one_of(("pass", "release"), system=self.system)
        one_of(("noted", "pass"), ai=self.ai)
        object.__setattr__(self, "session", session_of(self.session))
        object.__setattr__(self, "keys", None if self.keys is None else tuple(self.keys))

    def _cross(
        self, value: Any, config: RunnableConfig | None, tools: Tools = ()
    ) -> tuple[Any, Exchange]:
        return cross(self, value, partial(copy_input, self.keys), config, tools=tools)


@dataclass(frozen=True, eq=False)
class PrivateHead(Releasing, Head):
    """Stands first in a chain; what stands to its right receives released text only.

    ``PrivateHead(sanitizer, keys=["question"]) | prompt | model | parser`` is again a PrivateHead.
    Every call releases its input in a plain function call, without callbacks, and then runs the
    rest, which callbacks, tracers and events see. Binding, retries, fallbacks and listeners apply
    to the rest. Inside another run, which has recorded its input, the head refuses to run.

    Human and tool messages are released without their metadata, artifact and author's name. Ids,
    roles, names of tools, numbers of messages, blocks and tokens, ``config`` and keyword arguments
    are public. What returns gets back the originals of pseudonyms that stood in this very input.

    A text that is no message is a new release at every call. The ``configurable`` of a config names
    the conversation (``thread_id``) and the epsilon of a call (``dp_epsilon``).

    Attributes:
        session: A ``dp.Session``, or a ``dp.Sanitizer`` for which one is made.
        keys: Keys of a dict input that are private (text or messages), which declares the
            others public; None: on a dict, every value is private and must be text.
        then: The rest of the chain, set by ``|``; None: the released input is the output.
        config: Merged into the config of every call; set by :meth:`with_config`.
        system: System messages are public (``"pass"``), or private (``"release"``).
        ai: AI messages are sent if the session knows them as remote answers (``"noted"``), or
            others are declared public and sent, too (``"pass"``).
        answers: ``"note"``: what the chat model at the beginning of the rest answers, behind
            nothing but prompts, is noted in the session as a remote answer. Default: ``"ignore"``.
        tools: Names of the tools that are called with the originals of pseudonyms, or ``"all"``.

    Raises:
        DPMiddlewareError: From a call, before anything is sent, without text: an input that cannot
            be released, a missing key or a head inside another run (ParameterError), an AI message
            that the session does not know (EventRefused), or the release failed.
    """

    answers: Literal["ignore", "note"] = field(default="ignore", kw_only=True)
    tools: Tools = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        Head.__post_init__(self)
        super().__post_init__()
        one_of(("ignore", "note"), answers=self.answers)
        object.__setattr__(self, "tools", checked_tools(self.tools))

    def _enter(self, value: Any, config: RunnableConfig | None) -> Entered:
        """Lets the release itself be the output of a head without a rest: nothing is restored."""
        merged = self._merged(config)
        refuse_outer_run(merged, "PrivateHead")
        released, exchange = self._cross(value, merged, self.tools)
        if self.then is None:
            return Entered(input=released, config=merged)
        rest = self.then if self.answers == "ignore" else with_notes(self.then, exchange)
        return Entered(
            rest=rest, input=released, config=merged, exchange=exchange, receipt=exchange.receipt
        )


@dataclass(frozen=True, eq=False)
class DPSanitizer(Releasing):
    """Releases what passes through: text, prompt values, messages, or chosen keys of a dict.

    Its fields are those of :class:`PrivateHead`. In the middle of a chain callbacks and tracers of
    the sequence have recorded the raw text: it refuses to run inside another run unless
    ``traced="allow"`` declares that these may see it.
    """

    traced: Literal["refuse", "allow"] = "refuse"

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(("refuse", "allow"), traced=self.traced)

    def _enter(self, value: Any, config: RunnableConfig | None) -> Entered:
        config = config or RunnableConfig()
        if self.traced == "refuse":
            refuse_outer_run(config, "DPSanitizer", _REMEDY)
        return Entered(input=self._cross(value, config)[0], config=config)


@dataclass(frozen=True, eq=False)
class PrivRewriteRunnable(Head):
    """Makes of a private text, a ``str``, its rewrite, which may be published.

    It goes first, as :class:`PrivateHead` does, and refuses to run inside another run. Every call
    is charged for both phases of :class:`dp.PrivRewrite`. Callbacks around the call see what the
    generator is asked: the sanitized text.

    Attributes:
        rewriter: A ``dp.PrivRewrite``.
    """

    rewriter: dp.PrivRewrite

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.rewriter, dp.PrivRewrite):
            raise ParameterError(f"expected a dp.PrivRewrite, got {type(self.rewriter).__name__}")

    def _enter(self, value: Any, config: RunnableConfig | None) -> Entered:
        merged = self._merged(config)
        refuse_outer_run(merged, "PrivRewriteRunnable")
        if asked := [name for name in OWN if asked_of(merged).get(name) is not None]:
            raise ParameterError(f"PrivRewriteRunnable takes no {asked[0]} in the config")
        if not isinstance(value, str):
            raise ParameterError(f"expected one private text, got {type(value).__name__}")
        with receipts() as receipt, set_config_context(merged) as context:
            sent = context.run(guarded, self.rewriter.rewrite, value, what="the rewrite").text
        return Entered(rest=self._rest, input=sent, config=merged, receipt=receipt)
