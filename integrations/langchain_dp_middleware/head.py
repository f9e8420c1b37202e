"""The head of a chain: releases the input before LangChain, and any tracer, sees it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.utils import ConfigurableFieldSpec

from dp_middleware.conversation.exchange import Tools, checked_tools
from dp_middleware.conversation.session import session_of
from langchain_dp_middleware._answers import Entered
from langchain_dp_middleware._boundary import (
    EPSILON_SPEC,
    cross,
    names_of,
    refuse_outer_run,
    require_epsilon,
)
from langchain_dp_middleware._calls import Head
from langchain_dp_middleware._messages import MessageRules, one_of, read_input
from langchain_dp_middleware._notes import with_notes


@dataclass(frozen=True, eq=False, repr=False)
class PrivateHead(Head):
    """First step of a chain; what stands to its right receives released text only.

    ``PrivateHead(sanitizer, keys=["question"]) | prompt | model | parser`` is again a PrivateHead.
    Every call releases its input in a plain function call, without callbacks, and then runs the
    rest, which callbacks, tracers and events see. Binding, retries, fallbacks and listeners apply
    to the rest. Inside another run, which has recorded its input, the head refuses to run.

    Human and tool messages are released without their metadata, artifact and author's name. System
    messages pass by default, AI messages only if the session knows them as remote answers. Ids,
    roles, names of tools, numbers of messages, blocks and tokens, ``config`` and keyword arguments
    are public. What returns gets back the originals of pseudonyms that stood in this very input.

    A message with an id is released once, and so is a transcript without ids as far as its
    beginning stays the same; a text that is no message is new at every call. The ``configurable``
    of a config names the conversation (``thread_id``) and the epsilon of a call (``dp_epsilon``).

    Attributes:
        session: A ``dp.Session``, or a ``dp.Sanitizer`` for which one is made.
        keys: Keys of a dict input that are private (text or messages), which declares the
            others public; None: on a dict, every value is private and must be text.
        then: The rest of the chain, set by ``|``; None: the released input is the output.
        config: Merged into the config of every call; set by :meth:`with_config`.
        max_epsilon: Nats per token occurrence, the most that a call's config gets; None: the
            sanitizer's own epsilon.
        system: See :class:`MessageRules`, as for the next two.
        ai: ``"noted"`` or ``"pass"``.
        on_other: ``"raise"``, ``"drop"`` or ``"pass"``.
        answers: ``"note"``: what the chat model at the beginning of the rest answers, behind
            nothing but prompts, is noted in the session as a remote answer. Default: ``"ignore"``.
        tools: Names of the tools whose calls get the originals of pseudonyms, or ``"all"``; others
            get the pseudonyms.

    Raises:
        ParameterError: From a call, before anything is charged or sent: an input that cannot be
            released, a missing key, or a head inside another run.
        EventRefused: From a call: an AI message that the session does not know.
        DPMiddlewareError: From a call: the release failed, and nothing was sent. Holds no text.

    Example:
        >>> import dp_middleware as dp
        >>> from langchain_core.runnables import RunnableLambda
        >>> space = dp.EmbeddingSpace(dp.Vocabulary(["red", "blue"]), [[1, 0], [0, 1]])
        >>> sanitizer = dp.Sanitizer(dp.TokenExponential(epsilon=2.0), space)
        >>> chain = PrivateHead(sanitizer, keys=["text"]) | RunnableLambda(lambda d: d["text"])
        >>> set(chain.invoke({"text": "red blue"}).split()) <= {"red", "blue"}
        True
    """

    session: Any
    keys: Collection[str] | None = None
    max_epsilon: float | None = field(default=None, kw_only=True)
    system: Literal["pass", "release"] = field(default="pass", kw_only=True)
    ai: Literal["noted", "pass"] = field(default="noted", kw_only=True)
    on_other: Literal["raise", "drop", "pass"] = field(default="raise", kw_only=True)
    answers: Literal["ignore", "note"] = field(default="ignore", kw_only=True)
    tools: Tools = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "session", session_of(self.session))
        require_epsilon(max_epsilon=self.max_epsilon)
        one_of(("ignore", "note"), "answers", self.answers)
        MessageRules.of(self)  # refuses what is none
        object.__setattr__(self, "tools", checked_tools(self.tools))
        object.__setattr__(self, "keys", names_of(self.keys))

    def __repr__(self) -> str:
        rest = "" if self.then is None else f"\n| {self.then!r}"
        return f"PrivateHead({self.session!r}, keys={self.keys!r}){rest}"

    @property
    def config_specs(self) -> list[ConfigurableFieldSpec]:
        """The epsilon of a call, and what can be configured in the rest."""
        return [EPSILON_SPEC, *self._rest.config_specs]

    def _enter(self, value: Any, config: RunnableConfig | None) -> Entered:
        """Lets the release itself be the output of a head without a rest: nothing is restored."""
        merged = self._merged(config)
        refuse_outer_run(merged, "PrivateHead")
        read = partial(read_input, self.keys)
        [(released, exchange)] = cross(self, [value], read, merged, tools=self.tools)
        if self.then is None:
            return Entered(input=released, config=merged)
        rest = self.then if self.answers == "ignore" else with_notes(self.then, exchange)
        return Entered(
            rest=rest, input=released, config=merged, exchange=exchange, receipt=exchange.receipt
        )
