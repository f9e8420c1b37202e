"""Agents of ``create_agent``: what the model is sent is released, the agent's state stays raw."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Literal
from uuid import uuid4

from langchain_core import messages as lc

import dp_middleware as dp
from dp_middleware._validate import one_of
from dp_middleware.conversation.events import checked_tools, with_outputs
from dp_middleware.conversation.exchange import Exchange, Tools
from dp_middleware.conversation.messages import Cross
from dp_middleware.conversation.session import session_of
from dp_middleware.errors import guarded, needs, raise_alone, without_text
from dp_middleware.frameworks import inferdpt
from dp_middleware.models.chat import local_model
from langchain_dp_middleware._boundary import Answers, System, conversation_of, release, session_for
from langchain_dp_middleware._calls import restored
from langchain_dp_middleware._messages import answer_of, copy_message
from langchain_dp_middleware.tracing import refuse_recorders

with needs("agents", "langchain"):
    from langchain.agents.middleware.types import AgentMiddleware, ModelRequest, ModelResponse
    from langgraph.errors import GraphBubbleUp
    from langgraph.prebuilt.tool_node import ToolCallRequest

ANSWER = "Answer the request at the beginning of the text; what tools found follows it."


class DPAgentMiddleware(AgentMiddleware[Any, Any, Any]):
    """Releases what an agent sends to its model; put it **last** in the list of middleware.

    At every call of the model, messages of users and results of tools that were not released yet
    are, each once; the state keeps the raw ones. System messages, names and schemas of tools and
    what the remote model wrote go out as they are; an AI message that it did not write is refused.

    LangGraph hands the whole state to every callback before any middleware runs, so the middleware
    refuses to run when a tracer is attached: call the agent inside ``with untraced():``. Not
    covered are models that other middleware or tools call (:func:`check_chain` finds them), the
    checkpointer, which holds raw messages, and ``debug=True``. A conversation is a ``thread_id``;
    docs/langchain.md says what a checkpointer needs.

    Args:
        session: A ``dp.Session``, or a ``dp.Sanitizer`` that is wrapped in one.
        extractor: What :func:`dp.chat_model` takes; in process, on loopback or on a trusted host.
            It writes the answers in the state, from the user's last message and what tools found;
            later turns send what the remote model had said, as do streamed tokens.
        trusted_hosts: Names of further hosts that may see raw text.
        instruction: Public: what the extractor is to do.
        system: ``"release"`` for system messages that hold private text, else ``"pass"``.
        ai: ``"pass"`` declares AI messages public that the remote model did not write.
        traced: ``"allow"`` runs with tracers and callbacks, **which record private text**.
        tools: Names of the tools that are called with the originals of pseudonyms, or ``"all"``.

    Raises:
        UntrustedHost: The extractor would send raw text elsewhere.
        DPMiddlewareError: From a call, without text: a tracer, a message that cannot be released, a
            release, the extractor or a tool with originals that failed.
    """

    def __init__(
        self,
        session: Any,
        *,
        extractor: Any = None,
        trusted_hosts: Iterable[str] = (),
        instruction: str = ANSWER,
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
        self._tools, self._traced, self._instruction = checked_tools(tools), traced, instruction
        self._extractor: Any = None if extractor is None else local_model(extractor, trusted_hosts)

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Sends what was released, notes what the remote model answered, and restores it."""
        exchange, swapped = self._swapped(request)
        response, questions = self._shown(exchange, request, handler(swapped))
        for k, question in questions:
            response.result[k] = _with_text(response.result[k], self._extractor(question))
        return response

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[Any]]
    ) -> ModelResponse[Any]:
        exchange, swapped = await asyncio.to_thread(self._swapped, request)
        said = await handler(swapped)
        response, questions = await asyncio.to_thread(self._shown, exchange, request, said)
        for k, question in questions:
            text = await self._extractor.acall(question)
            response.result[k] = _with_text(response.result[k], text)
        return response

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]
    ) -> Any:
        """Keeps the kind alone of what a tool with originals raises."""
        with self._textless(request.tool_call["name"]):
            return handler(request)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Any]]
    ) -> Any:
        with self._textless(request.tool_call["name"]):
            return await handler(request)

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

    def _swapped(self, request: ModelRequest[Any]) -> tuple[Exchange, ModelRequest[Any]]:
        """Releases a request of a run that nothing records; schemas of answers get originals."""
        if self._traced == "refuse":
            refuse_recorders(type(self).__name__)
        session, name = session_for(self._session, None), conversation_of(None)
        specs = getattr(request.response_format, "schema_specs", ())
        tools = with_outputs(self._tools, [spec.name for spec in specs])
        system = request.system_message
        prompt = None if self._system == "pass" else system
        copy = partial(self._copied, request.messages, prompt)
        sent, exchange = guarded(lambda: release(session, copy, name, self._ai, tools=tools))
        if prompt is not None:
            system, *sent = sent
        return exchange, request.override(messages=sent, system_message=system)

    def _copied(
        self, messages: Sequence[lc.AnyMessage], prompt: lc.SystemMessage | None, cross: Cross
    ) -> list[Any]:
        """Copies an agent's messages, behind a private system prompt if there is one."""
        places = enumerate(messages)
        copies = [copy_message(m, self._system, f"message {k}", cross) for k, m in places]
        if prompt is None:
            return copies
        stands_aside: Cross = lambda m: cross(replace(m, aside=True))  # noqa: E731
        nameless = prompt.model_copy(update={"id": None})
        return [copy_message(nameless, self._system, "system", stands_aside), *copies]

    def _shown(
        self, exchange: Exchange, request: ModelRequest[Any], response: ModelResponse[Any]
    ) -> tuple[ModelResponse[Any], list[tuple[int, inferdpt.Messages]]]:
        """Notes answers; what is shown, and what the extractor is asked of some, by places."""
        extracts = self._extractor is not None
        shown, questions = list[lc.BaseMessage](), list[tuple[int, inferdpt.Messages]]()
        turn = _turn_of(request.messages)
        for place, remote in enumerate(response.result):
            if isinstance(remote, lc.AIMessage) and not remote.id:
                remote = remote.model_copy(update={"id": str(uuid4())})
            seen = restored(exchange, remote)
            shown.append(seen)
            if isinstance(remote, lc.AIMessage):
                answer = answer_of(remote)
                exchange.note(answer, answer if extracts else answer_of(seen))
                if extracts and not seen.tool_calls and seen.text.strip():
                    question = inferdpt.for_extractor(turn, seen.text, self._instruction)
                    questions.append((place, question))
        structured = restored(exchange, response.structured_response)
        return ModelResponse(shown, structured), questions


def _with_text(remote: lc.BaseMessage, text: str) -> lc.BaseMessage:
    return remote.model_copy(update={"content": text, "additional_kwargs": {}})


def _turn_of(messages: Sequence[lc.AnyMessage]) -> str:
    """Returns the user's last message and what tools found for it, for a local model. Private."""
    last = max((k for k, m in enumerate(messages) if isinstance(m, lc.HumanMessage)), default=0)
    said = [m for m in messages[last:] if isinstance(m, lc.HumanMessage | lc.ToolMessage)]
    return "\n\n".join(str(message.text) for message in said)
