"""A model whose every call is released first: for agents, chat engines and synthesizers."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from itertools import takewhile
from typing import Any, Literal, NoReturn

from llama_index.core.base.llms import types as llms
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import LLM

import dp_middleware as dp
from dp_middleware import _quiet
from dp_middleware._validate import one_of
from dp_middleware.conversation.events import checked_tools, public_texts, with_outputs
from dp_middleware.conversation.exchange import Exchange, Tools
from dp_middleware.conversation.messages import (
    ONCE,
    Cross,
    Message,
    copy_of,
    printed,
    transcript_of,
)
from dp_middleware.conversation.session import session_of
from dp_middleware.errors import ParameterError, guarded
from llama_index_dp_middleware._blocks import in_block, unrecorded, unspanned
from llama_index_dp_middleware._messages import AnswerCall, copy_message

System = Literal["pass", "release"]

_SETTINGS = (
    *("completion_to_prompt", "messages_to_prompt", "output_parser"),
    *("pydantic_program_mode", "query_wrapper_prompt", "system_prompt"),
)


def _silent(name: str) -> Any:
    """Makes a method that runs its base class's unrecorded: raw arguments go into its records."""
    is_async = name.startswith("a")
    take: Any = _quiet.apieces_unrecorded if is_async else _quiet.pieces_unrecorded

    def inherited(self: DPLLM, args: tuple[Any, ...]) -> Any:
        model = self.answering(args[0]) if "structured" in name and args else self
        return getattr(super(DPLLM, model), name)

    def result_of(found: Any) -> Any:  # the steps of a stream are unrecorded, its reader's are not
        return take(copy_context(), found) if "stream" in name else found

    @unspanned
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        with unrecorded():
            return result_of(inherited(self, args)(*args, **kwargs))

    @unspanned
    async def amethod(self: Any, *args: Any, **kwargs: Any) -> Any:
        with unrecorded():
            return result_of(await inherited(self, args)(*args, **kwargs))

    return amethod if is_async else method


def _released(name: str) -> Any:
    """Makes a call of the model: what it is given is released, its answer noted and restored."""
    is_chat = "chat" in name
    note = {"a": "anote_pieces", "s": "note_pieces"}[name[0]] if "stream" in name else "note"

    def call_of(self: Any, args: Any, kwargs: Any) -> tuple[Any, list[Any]]:
        private, *rest = args or (kwargs.pop("messages" if is_chat else "prompt"),)
        return self._call(private, is_chat=is_chat), rest

    @unspanned
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        call, rest = call_of(self, args, kwargs)
        return getattr(call, note)(getattr(call.model, name)(call.sent, *rest, **kwargs))

    @unspanned
    async def amethod(self: Any, *args: Any, **kwargs: Any) -> Any:
        call, rest = await asyncio.to_thread(call_of, self, args, kwargs)
        return getattr(call, note)(await getattr(call.model, name)(call.sent, *rest, **kwargs))

    return amethod if name.startswith("a") else method


class DPLLM(FunctionCallingLLM):
    """Releases messages and prompts, then calls the inner model, which is the one that records.

    Messages have no ids here, so a transcript must start at its conversation's beginning: it may
    grow, and what was sent is sent again with the same bytes and costs nothing. Answers of the
    inner model may go out again, no others. **System messages are released** too: memories write
    what users said into them. Those before the history are known by their place: another text there
    is charged alone. Keyword arguments of a call, and names and descriptions of tools, are public.

    With a session of pseudonyms answers and thoughts have the originals that stood in their own
    messages, and so have the arguments of ``tools``; ``raw`` stays what the remote model wrote.
    What stands above the model records raw text: see :func:`unrecorded`. Do not override methods in
    a subclass: LlamaIndex makes spans of overrides.

    Args:
        session: Releases messages and prompts.
        inner: The remote model; its own ``system_prompt`` is public.
        public_system: Text blocks of system messages that are sent as they are.
        system: ``"pass"`` sends all system messages as they are: only where nothing, such as a
            memory block or a summary, puts private text there.
        conversation: Its public name, if it has one; else messages go on in the conversation that
            they continue.
        tools: Names of the tools that are called with the originals of pseudonyms, or ``"all"``.

    Raises:
        DPMiddlewareError: From a call, without text, and nothing was sent: content that is not
            text, an answer that is not the inner model's, or the release failed.
    """

    _inner: Any = PrivateAttr()
    _session: dp.Session = PrivateAttr()
    _system: System = PrivateAttr()
    _public: Collection[str] = PrivateAttr()
    _options: dict[str, Any] = PrivateAttr()  # of an exchange

    def __init__(
        self,
        session: dp.Session | dp.Sanitizer,
        inner: LLM,
        *,
        public_system: Collection[str] = (),
        system: System = "release",
        conversation: str | None = None,
        tools: Tools = (),
    ) -> None:
        if isinstance(inner, DPLLM) or not isinstance(inner, LLM):
            raise ParameterError(f"expected inner= a LlamaIndex LLM, got {type(inner).__name__}")
        one_of(("pass", "release"), system=system)
        texts = public_texts(public_system, "public_system")
        session, public = session_of(session), {*texts, *filter(None, [inner.system_prompt])}
        options = {"conversation": conversation, "tools": checked_tools(tools)}
        super().__init__(**{name: getattr(inner, name) for name in _SETTINGS})
        self._inner, self._session, self._system = inner, session, system
        self._public, self._options = public, options

    def __getstate__(self) -> NoReturn:  # the base class would leave the session out
        raise TypeError("expected a DPLLM to stay in its process: make another")

    @classmethod
    def class_name(cls) -> str:
        return "DPLLM"

    @property
    def metadata(self) -> llms.LLMMetadata:
        """The inner model's; context chat engines put what they retrieved into a user's message."""
        inner: llms.LLMMetadata = self._inner.metadata
        return inner.model_copy(update={"system_role": llms.MessageRole.USER})

    chat, achat = _released("chat"), _released("achat")
    stream_chat, astream_chat = _released("stream_chat"), _released("astream_chat")
    complete, acomplete = _released("complete"), _released("acomplete")
    stream_complete, astream_complete = _released("stream_complete"), _released("astream_complete")

    @unspanned
    def _prepare_chat_with_tools(
        self,
        tools: Any,
        user_msg: str | llms.ChatMessage | None = None,
        chat_history: list[llms.ChatMessage] | None = None,
        *args: Any,
        tool_required: bool = False,  # by this name LlamaIndex knows that it may be asked for
        **kwargs: Any,
    ) -> dict[str, Any]:
        """Returns the inner model's arguments; it makes a span, so it gets no messages."""
        prepared: dict[str, Any] = self._inner._prepare_chat_with_tools_compat(
            tools, None, [], *args, tool_required=tool_required, **kwargs
        )
        last = llms.ChatMessage(user_msg) if isinstance(user_msg, str) else user_msg
        return {**prepared, "messages": [*(chat_history or []), *([] if last is None else [last])]}

    def _validate_chat_with_tools_response(self, *args: Any, **kwargs: Any) -> Any:
        return self._inner._validate_chat_with_tools_response(*args, **kwargs)

    def get_tool_calls_from_response(self, *args: Any, **kwargs: Any) -> Any:
        return self._inner.get_tool_calls_from_response(*args, **kwargs)

    predict, apredict = _silent("predict"), _silent("apredict")
    stream, astream = _silent("stream"), _silent("astream")
    structured_predict = _silent("structured_predict")
    astructured_predict = _silent("astructured_predict")
    stream_structured_predict = _silent("stream_structured_predict")
    astream_structured_predict = _silent("astream_structured_predict")
    predict_and_call, apredict_and_call = _silent("predict_and_call"), _silent("apredict_and_call")

    def answering(self, output: Any) -> DPLLM:
        """Returns the same model: an output is no tool, and has the originals."""
        names = (output.__name__, output.model_json_schema().get("title"))
        tools = with_outputs(self._options["tools"], filter(None, names))
        twin = self.model_copy()
        twin._options = {**self._options, "tools": tools}
        return twin

    def as_structured_llm(self, output_cls: Any, **kwargs: Any) -> Any:
        """Wraps the inner structured model, in the same session and conversation."""
        inner = self._inner.as_structured_llm(output_cls, **kwargs)
        options = {"public_system": self._public, "system": self._system, **self._options}
        return DPLLM(self._session, inner, **options)

    def _call(self, private: Any, *, is_chat: bool) -> AnswerCall:
        """Releases messages, or a prompt, which is a new event at every call."""
        work = self._messages if is_chat else self._prompt
        exchange, sent = guarded(lambda: work(in_block(self._session), private))
        return AnswerCall(exchange, self._inner, sent)

    def _prompt(self, session: dp.Session, prompt: str) -> tuple[Exchange, str]:
        once = Message(role="user", texts=(prompt,), id=ONCE)
        exchange = session.exchange([once], **self._options)
        return exchange, exchange.sent[0].text

    def _messages(
        self, session: dp.Session, messages: Sequence[llms.ChatMessage]
    ) -> tuple[Exchange, list[llms.ChatMessage]]:
        """Releases messages; those before the history, which memories rewrite, stand aside."""

        def copy(cross: Cross) -> list[llms.ChatMessage]:
            copied = partial(copy_message, public=self._public, cross=cross)
            return [copied(message, f"message {k}") for k, message in enumerate(messages)]

        told = transcript_of(copy)
        if session.restores:
            told = [*map(printed, told)]
        if self._system == "pass":
            told = [replace(m, public=m.public or m.role == "system") for m in told]
        private = [place for place, message in enumerate(told) if not message.public]
        leading = list(takewhile(lambda place: told[place].role == "system", private))
        begun = [told[place] for place in private[len(leading) :]][:1]
        start = session.digest(begun[0].role, begun[0].event.text) if begun else ""
        for number, place in enumerate(leading):
            told[place] = replace(told[place], aside=True, id=f"{start} {number}")
        exchange = session.exchange(told, **self._options)
        return exchange, copy_of(copy, exchange.sent)
