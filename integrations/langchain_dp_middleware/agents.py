"""Agents of ``create_agent``: what the model is sent is released, the agent's state stays raw."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Annotated, Any, Literal, NotRequired

from langchain_core.messages import AIMessage, BaseMessage

import dp_middleware as dp
from dp_middleware.conversation.events import checked_tools
from dp_middleware.conversation.exchange import Tools
from dp_middleware.conversation.saved import Saved
from dp_middleware.conversation.session import session_of
from dp_middleware.errors import (
    ParameterError,
    needs,
    raise_alone,
    without_text,
)
from dp_middleware.frameworks import inferdpt
from dp_middleware.models.chat import local_model
from langchain_dp_middleware._agent_calls import (
    CallReleaser,
    ModelCall,
    PublicResults,
    changed,
    merge,
    saved_in,
    turn_of,
    with_ids,
)
from langchain_dp_middleware._boundary import conversation_of, require_epsilon, session_for
from langchain_dp_middleware._calls import restored
from langchain_dp_middleware._messages import MessageRules, one_of
from langchain_dp_middleware.tracing import refuse_recorders

with needs("agents", "langchain"):
    from langchain.agents.middleware.types import (
        AgentMiddleware,
        AgentState,
        ExtendedModelResponse,
        ModelRequest,
        ModelResponse,
        PrivateStateAttr,
    )
    from langgraph.errors import GraphBubbleUp
    from langgraph.prebuilt.tool_node import ToolCallRequest
    from langgraph.runtime import Runtime
    from langgraph.types import Command

ANSWER = "Answer the request at the beginning of the text; what tools found follows it."


class DPAgentState(AgentState[Any]):
    """The agent's state: raw messages, and beside them what goes out in their place."""

    # LangGraph takes the last annotation for the reducer and ignores a reducer before it.
    dp_releases: NotRequired[Annotated[dict[str, Saved | None], PrivateStateAttr, merge]]


class DPAgentMiddleware(AgentMiddleware[DPAgentState, Any, Any]):
    """Releases what an agent sends to its model; put it **last** in the list of middleware.

    ``create_agent(model, tools, middleware=[..., DPAgentMiddleware(session)])``. Before every
    call of the model, messages of users and results of tools that were not released yet are, each
    once: charged, drawn and written to the state beside the raw messages, which tools, other
    middleware and the caller go on to see. Retries, fallbacks, later turns and a run resumed from
    a checkpoint send the same bytes; an edited message is released again. System messages, names
    and schemas of tools and what the remote model wrote go out as they are; an AI message that it
    did not write is refused.

    LangGraph hands the whole state to every callback before any middleware runs, so the middleware
    refuses to run when a tracer is attached: call the agent inside ``with untraced():``. Not
    covered are models that other middleware or tools call (:func:`check_agent` finds them), the
    checkpointer, which holds raw messages, and ``debug=True``, which prints them.

    A conversation is a ``thread_id``. With a checkpointer that outlives the process, give the
    session a ``key=`` that does too; without one hand back the messages with their ids.

    Args:
        session: A ``dp.Session``, or a ``dp.Sanitizer`` that is wrapped in one.
        extractor: What :func:`dp.chat_model` takes; in process, on loopback or on a trusted host.
            It writes the answers in the state, from the user's last message and what tools found;
            later turns send what the remote model had said, as do streamed tokens.
        trusted_hosts: Names of further hosts that may see raw text.
        instruction: Public: what the extractor is to do.
        public_tools: Names of the tools whose results are sent as they are. Only what the tool
            itself returned: errors, and what others say in its place, are released.
        system: ``"release"`` for system messages that hold private text, else ``"pass"``.
        ai: ``"pass"`` declares AI messages public that the remote model did not write.
        on_other: A block that is not text: ``"raise"``, ``"drop"`` or ``"pass"``.
        traced: ``"allow"`` runs with tracers and callbacks, **which record private text**.
        max_epsilon: Ceiling of ``config["configurable"]["dp_epsilon"]``; default the
            session's own epsilon.
        tools: Names of the tools that are called with the originals of pseudonyms, or ``"all"``;
            others are called with the pseudonyms.

    Raises:
        UntrustedHost: The extractor would send raw text elsewhere.
        ParameterError: A parameter out of range; from a call: a message that cannot be released,
            or a tracer.
        EventRefused: From a call: an AI message that the remote model did not write.
        ExtractorError: From a call: the extractor failed.
        DPMiddlewareError: From a call: the release failed, and nothing was sent; or a tool failed
            that was called with originals. Holds no text.
    """

    state_schema = DPAgentState

    def __init__(
        self,
        session: Any,
        *,
        extractor: Any = None,
        trusted_hosts: Iterable[str] = (),
        instruction: str = ANSWER,
        public_tools: Collection[str] = (),
        system: Literal["pass", "release"] = "pass",
        ai: Literal["noted", "pass"] = "noted",
        on_other: Literal["raise", "drop", "pass"] = "raise",
        traced: Literal["refuse", "allow"] = "refuse",
        max_epsilon: float | None = None,
        tools: Tools = (),
    ) -> None:
        super().__init__()
        one_of(("refuse", "allow"), "traced", traced)
        if isinstance(public_tools, str):
            raise ParameterError("expected public_tools to be a collection of names, got one str")
        require_epsilon(max_epsilon=max_epsilon)
        self._session = session_of(session)
        self._rules = MessageRules(system=system, ai=ai, on_other=on_other)
        self._tools = checked_tools(tools)
        self._public = PublicResults(session=self._session, tools=frozenset(public_tools))
        self._traced, self._max_epsilon = traced, max_epsilon
        self._instruction = instruction
        self._extractor: Any = None if extractor is None else local_model(extractor, trusted_hosts)

    def before_model(self, state: DPAgentState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Release what is new in the state, and forget the releases of removed messages."""
        releaser = self._releaser()
        messages, saved = with_ids(state["messages"]), saved_in(state)
        ids = {message.id for message in messages}
        update: dict[str, Any] = {name: None for name in saved if name not in ids}
        exchange, _ = releaser.exchange(messages, saved)
        update |= changed(exchange.saved, saved)
        return {"dp_releases": update} if update else None

    async def abefore_model(
        self, state: DPAgentState, runtime: Runtime[Any]
    ) -> dict[str, Any] | None:
        """As :meth:`before_model`; the release runs in a thread."""
        return await asyncio.to_thread(self.before_model, state, runtime)

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ExtendedModelResponse[Any]:
        """Send what was released, note what the remote model answered, and restore it."""
        releaser, call, swapped = self._swapped(request)
        response = handler(swapped)
        remote, shown = call.answers(response.result)
        for k, question in self._questions(releaser, request, shown):
            shown[k] = _with_text(shown[k], self._extractor(question))
        return _extended(request, call, response, remote, shown)

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[Any]]
    ) -> ExtendedModelResponse[Any]:
        """As :meth:`wrap_model_call`."""
        releaser, call, swapped = await asyncio.to_thread(self._swapped, request)
        response = await handler(swapped)
        remote, shown = await asyncio.to_thread(call.answers, response.result)
        for k, question in self._questions(releaser, request, shown):
            shown[k] = _with_text(shown[k], await self._extractor.acall(question))
        return _extended(request, call, response, remote, shown)

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]
    ) -> Any:
        """Mark what a public tool returned; of what one with originals raises, keep the kind."""
        tool = request.tool_call["name"]
        with self._textless(tool):
            result = handler(request)
        return self._public.mark(result, tool)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Any]]
    ) -> Any:
        """As :meth:`wrap_tool_call`."""
        tool = request.tool_call["name"]
        with self._textless(tool):
            result = await handler(request)
        return self._public.mark(result, tool)

    @contextmanager
    def _textless(self, tool: str) -> Iterator[None]:
        """A call of a tool: what it raises may quote the originals that it was given."""
        failure: dp.DPMiddlewareError | None = None
        try:
            yield
        except GraphBubbleUp:  # an interrupt or a command to the parent graph
            raise
        except Exception as error:
            if self._tools != "all" and tool not in self._tools:
                raise
            failure = without_text(error, f"the tool {tool!r}", "it was called with originals")
        raise_alone(failure)

    def _releaser(self) -> CallReleaser:
        """For the run in which this is called, which must not be recorded."""
        if self._traced == "refuse":
            refuse_recorders(type(self).__name__)
        return CallReleaser(
            session=session_for(self._session, None, self._max_epsilon),
            conversation=conversation_of(None),
            rules=self._rules,
            public=self._public,
            tools=self._tools,
            extracts=self._extractor is not None,
        )

    def _swapped(
        self, request: ModelRequest[Any]
    ) -> tuple[CallReleaser, ModelCall, ModelRequest[Any]]:
        """The schemas of an answer, which are called like tools, get originals."""
        releaser = self._releaser()
        specs = getattr(request.response_format, "schema_specs", ())
        if releaser.tools != "all":
            tools = {*releaser.tools, *(spec.name for spec in specs)}
            releaser = replace(releaser, tools=tools)
        call = releaser.call(request.messages, request.state, request.system_message)
        swapped = request.override(messages=call.messages, system_message=call.system)
        return releaser, call, swapped

    def _questions(
        self, releaser: CallReleaser, request: ModelRequest[Any], shown: list[BaseMessage]
    ) -> list[tuple[int, inferdpt.Messages]]:
        """What the extractor is asked of answers with a text, by their places. Private."""
        if self._extractor is None:
            return []
        turn = turn_of(request.messages)
        return [
            (k, inferdpt.for_extractor(turn, message.text, self._instruction))
            for k, message in enumerate(shown)
            if isinstance(message, AIMessage) and not message.tool_calls and message.text.strip()
        ]


def _with_text(remote: BaseMessage, text: str) -> BaseMessage:
    return remote.model_copy(update={"content": text, "additional_kwargs": {}})


def _extended(
    request: ModelRequest[Any],
    call: ModelCall,
    response: ModelResponse[Any],
    remote: list[BaseMessage],
    shown: list[BaseMessage],
) -> ExtendedModelResponse[Any]:
    """The response with what the user is shown, and the entries for the state."""
    ids = {message.id for message in request.messages}
    entries = call.saved(remote, saved_in(request.state), ids)
    structured = restored(call.exchange, response.structured_response)
    return ExtendedModelResponse(
        model_response=ModelResponse(shown, structured),
        command=Command(update={"dp_releases": entries}),
    )
