"""Agents of ``create_agent``: what the model is sent is released, the agent's state stays raw."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

from langchain_core.messages import AIMessage, BaseMessage

import dp_middleware as dp
from dp_middleware._validate import one_of
from dp_middleware.conversation.events import checked_tools, public_texts, with_outputs
from dp_middleware.conversation.exchange import Exchange, Tools
from dp_middleware.conversation.session import session_of
from dp_middleware.errors import guarded, needs, raise_alone, without_text
from dp_middleware.frameworks import inferdpt
from dp_middleware.models.chat import local_model
from langchain_dp_middleware._agent_calls import ModelCall, PublicResults, read_state, turn_of
from langchain_dp_middleware._boundary import Answers, System, conversation_of, release, session_for
from langchain_dp_middleware._calls import restored
from langchain_dp_middleware.tracing import refuse_recorders

with needs("agents", "langchain"):
    from langchain.agents.middleware.types import AgentMiddleware, ModelRequest, ModelResponse
    from langgraph.errors import GraphBubbleUp
    from langgraph.prebuilt.tool_node import ToolCallRequest

ANSWER = "Answer the request at the beginning of the text; what tools found follows it."


class DPAgentMiddleware(AgentMiddleware[Any, Any, Any]):
    """Releases what an agent sends to its model; put it **last** in the list of middleware.

    ``create_agent(model, tools, middleware=[..., DPAgentMiddleware(session)])``. At every call of
    the model, messages of users and results of tools that were not released yet are, each once. The
    state keeps the raw messages, which tools, other middleware and the caller go on to see.
    Retries, fallbacks, later turns and a run resumed from a checkpoint send the same bytes; an
    edited message is released again. System messages, names and schemas of tools and what the
    remote model wrote go out as they are; an AI message that it did not write is refused.

    LangGraph hands the whole state to every callback before any middleware runs, so the middleware
    refuses to run when a tracer is attached: call the agent inside ``with untraced():``. Not
    covered are models that other middleware or tools call (:func:`check_chain` finds them), the
    checkpointer, which holds raw messages, and ``debug=True``, which prints them.

    A conversation is a ``thread_id``. With a checkpointer that outlives the process, give the
    session a ``memo=`` and a ``key=`` that do too; without one hand back the messages with ids.

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
        traced: ``"allow"`` runs with tracers and callbacks, **which record private text**.
        tools: Names of the tools that are called with the originals of pseudonyms, or ``"all"``.

    Raises:
        UntrustedHost: The extractor would send raw text elsewhere.
        DPMiddlewareError: From a call: a tracer, a message that cannot be released, or a release
            that failed, and nothing was sent; the extractor, or a tool with originals. No text.
    """

    def __init__(
        self,
        session: Any,
        *,
        extractor: Any = None,
        trusted_hosts: Iterable[str] = (),
        instruction: str = ANSWER,
        public_tools: Collection[str] = (),
        system: System = "pass",
        ai: Answers = "noted",
        traced: Literal["refuse", "allow"] = "refuse",
        tools: Tools = (),
    ) -> None:
        super().__init__()
        one_of(("refuse", "allow"), traced=traced)
        one_of(("pass", "release"), system=system)
        one_of(("noted", "pass"), ai=ai)
        self._session, self._system, self._ai = session_of(session), system, ai
        self._tools = checked_tools(tools)
        self._public = PublicResults(self._session, public_texts(public_tools, "public_tools"))
        self._traced = traced
        self._instruction = instruction
        self._extractor: Any = None if extractor is None else local_model(extractor, trusted_hosts)

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Sends what was released, notes what the remote model answered, and restores it."""
        call, swapped = self._swapped(request)
        response, questions = self._shown(call, request, handler(swapped))
        for k, question in questions:
            response.result[k] = _with_text(response.result[k], self._extractor(question))
        return response

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[Any]]
    ) -> ModelResponse[Any]:
        call, swapped = await asyncio.to_thread(self._swapped, request)
        said = await handler(swapped)
        response, questions = await asyncio.to_thread(self._shown, call, request, said)
        for k, question in questions:
            text = await self._extractor.acall(question)
            response.result[k] = _with_text(response.result[k], text)
        return response

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]
    ) -> Any:
        """Marks what a public tool returned; of what one with originals raises, keeps the kind."""
        tool = request.tool_call["name"]
        with self._textless(tool):
            result = handler(request)
        return self._public.mark(result, tool)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Any]]
    ) -> Any:
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

    def _swapped(self, request: ModelRequest[Any]) -> tuple[ModelCall, ModelRequest[Any]]:
        """Releases a request of a run that nothing records; schemas of answers get originals."""
        if self._traced == "refuse":
            refuse_recorders(type(self).__name__)
        session, name = session_for(self._session, None), conversation_of(None)
        specs = getattr(request.response_format, "schema_specs", ())
        options: Any = {"tools": with_outputs(self._tools, [spec.name for spec in specs])}
        messages, before = request.messages, request.state.get("messages") or ()
        prompt = system = request.system_message
        if self._system == "pass":
            prompt = None

        def released(messages: Any, prompt: Any, name: str | None) -> tuple[Any, Exchange]:
            private = read_state(messages, prompt, self._public, self._system)
            [crossed] = release(session, [private], name, self._ai, **options)
            return crossed

        own = None
        if name is None and before and list(before) != list(messages):  # which others changed
            _, own = guarded(released, before, None, None)
            name = own.conversation
        sent, exchange = guarded(released, messages, prompt, name)
        if prompt is not None:
            system, *sent = sent
        swapped = request.override(messages=sent, system_message=system)
        return ModelCall(exchange, own or exchange), swapped

    def _shown(
        self, call: ModelCall, request: ModelRequest[Any], response: ModelResponse[Any]
    ) -> tuple[ModelResponse[Any], list[tuple[int, inferdpt.Messages]]]:
        """What is shown, and what the extractor is asked of answers with a text, by places."""
        extracts = self._extractor is not None
        shown = call.shown(response.result, extracts=extracts)
        turn = turn_of(request.messages)
        questions = [
            (k, inferdpt.for_extractor(turn, message.text, self._instruction))
            for k, message in enumerate(shown if extracts else ())
            if isinstance(message, AIMessage) and not message.tool_calls and message.text.strip()
        ]
        structured = restored(call.exchange, response.structured_response)
        return ModelResponse(shown, structured), questions


def _with_text(remote: BaseMessage, text: str) -> BaseMessage:
    return remote.model_copy(update={"content": text, "additional_kwargs": {}})
