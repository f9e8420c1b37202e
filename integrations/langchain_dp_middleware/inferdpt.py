"""InferDPT as a chat model: a remote model is asked in released words, a local one answers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NoReturn, cast
from uuid import uuid4

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    SystemMessage,
)
from langchain_core.outputs import ChatGeneration, ChatResult, LLMResult
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import set_config_context
from pydantic import Field

from dp_middleware._quiet import in_thread, pieces_in_thread
from dp_middleware.conversation.exchange import Exchange
from dp_middleware.conversation.messages import Message
from dp_middleware.errors import ParameterError, RemoteError, guarded
from dp_middleware.frameworks import chat_model, inferdpt
from dp_middleware.models.chat import local_model
from langchain_dp_middleware._boundary import (
    MODEL_CONFIG,
    SPECS,
    cross,
    fields_of,
    refuse_outer_run,
)
from langchain_dp_middleware._calls import signed
from langchain_dp_middleware._messages import message_of, messages_in, read_transcript
from langchain_dp_middleware._wrappers import RefusedWrappers

REMEDY = (
    "call it alone, as the whole app, or, if all that records the run may see raw text, set "
    'traced="allow"'
)

_NOTE = (
    "keep the ids of this model's answers, or whole transcripts to the letter, or tell the session "
    "what a remote model wrote with note_answer(session, message)"
)

_OTHERS = "use DPChatModel, or an agent with DPAgentMiddleware(session, extractor=...)"


class InferDPTChatModel(RefusedWrappers, BaseChatModel):
    """Answers from the raw text with a local model, helped by a remote one that never sees it.

    The messages are released and sent to ``remote``; ``extractor`` writes the answer from the raw
    messages and the remote model's draft. Its calls leave no record. The answer is **private**. In
    a later transcript it is replaced by the draft that it came from, known by its id, or without
    one by its place behind the same messages. System messages are the instruction, public and sent
    as they are; human messages are released; other roles are refused. Callbacks of a call see what
    the remote model is sent. It refuses to run inside another run, which would record the answer.

    Attributes:
        session: A ``dp.Session``, or a ``dp.Sanitizer`` for which one is made.
        instruction: Public: what is asked where the messages hold no system message.
        max_epsilon: As of :class:`PrivateHead`.
        traced: ``"refuse"`` or ``"allow"`` to run inside another run.
        remote: What :func:`dp.chat_model` takes.
        extractor: What :func:`dp.chat_model` takes; in process, on loopback or on a trusted host. A
            function must be declared, with ``dp.chat_model(function, local=True)``.
        trusted_hosts: Names of further hosts that may see raw text.

    Raises:
        UntrustedHost: The extractor would send raw text elsewhere.
        RemoteError: From a call: the remote model failed; what was charged stays spent.
        ExtractorError: From a call: the extractor failed.
        DPMiddlewareError: From a call, as from a :class:`PrivateHead`.
    """

    model_config = MODEL_CONFIG

    session: Any = Field(exclude=True, repr=False)
    instruction: str = "Answer the message below."
    max_epsilon: float | None = None
    traced: Literal["refuse", "allow"] = "refuse"

    remote: Any = Field(exclude=True, repr=False)
    extractor: Any = Field(exclude=True, repr=False)
    trusted_hosts: frozenset[str] = frozenset()

    def __init__(
        self,
        session: Any,
        *,
        remote: Any,
        extractor: Any,
        trusted_hosts: Iterable[str] = (),
        **options: Any,
    ) -> None:
        fields = fields_of(
            type(self),
            session,
            options,
            remote=replace(chat_model(remote), error=RemoteError),
            extractor=local_model(extractor, trusted_hosts),
            trusted_hosts=frozenset(trusted_hosts),
        )
        super().__init__(**fields)

    # composition -----------------------------------------------------------------------------

    @property
    def _allowed(self) -> Collection[str]:
        return ("record",) if self.traced == "allow" else ()

    def bind_tools(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuses: an answer is text, and calls of tools would be the draft's."""
        raise ParameterError(f"InferDPTChatModel has no tools; {_OTHERS}")

    def with_structured_output(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuses: an answer is text, as the extractor writes it."""
        raise ParameterError(f"InferDPTChatModel has no structured output; {_OTHERS}")

    # calls -----------------------------------------------------------------------------------

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> AIMessage:
        """Releases, asks the remote model, extracts."""
        asked = self._asked(input, config, kwargs)
        return _answered(asked, self.extractor(asked.question))

    async def ainvoke(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AIMessage:
        """Does as :meth:`invoke`."""
        asked = await in_thread(self._asked, input, config, kwargs)
        return _answered(asked, await self.extractor.acall(asked.question))

    def stream(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Iterator[AIMessageChunk]:
        """Does as :meth:`invoke`, giving the answer in pieces."""
        asked, said = self._asked(input, config, kwargs), ""
        try:
            for piece in self.extractor.stream(asked.question):
                said += piece
                yield AIMessageChunk(content=piece, id=asked.name)
        finally:  # also of one that is left
            asked.note_place(said)
        last = AIMessageChunk(content="", id=asked.name, chunk_position="last")
        yield signed(last, asked.exchange.receipt)

    async def astream(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncIterator[AIMessageChunk]:
        """Does as :meth:`stream`, with every step in a thread."""
        pieces: Any = self.stream(input, config, **kwargs)
        async with aclosing(pieces_in_thread(pieces)) as later:
            async for piece in later:
                yield piece

    async def astream_events(  # type: ignore[override]
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncIterator[Any]:
        """Yields start, pieces and end of the answer, as LangChain's versions 1 and 2 have it."""
        if kwargs.pop("version", "v2") not in ("v1", "v2"):
            raise ParameterError('expected version="v2", there are no typed events of an answer')
        run = {"name": self.get_name(), "run_id": str(uuid4()), "tags": [], "metadata": {}}
        run["parent_ids"] = []
        answer: Any = None
        yield {"event": "on_chat_model_start", **run, "data": {}}
        async for piece in self.astream(input, config, **kwargs):
            answer = piece if answer is None else answer + piece
            yield {"event": "on_chat_model_stream", **run, "data": {"chunk": piece}}
        yield {"event": "on_chat_model_end", **run, "data": {"output": answer}}

    def stream_events(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuses: there are no typed events of an answer."""
        raise ParameterError('expected stream() or astream_events(version="v2")')

    def generate(
        self, messages: list[list[BaseMessage]], stop: Any = None, callbacks: Any = None, **kw: Any
    ) -> LLMResult:
        """Returns an answer to each transcript, one after the other."""
        options = {name: kw.pop(name) for name in ("tags", "metadata", "run_name") if name in kw}
        kw.pop("run_id", None)
        config: Any = {"callbacks": callbacks, **options}
        answers = [self.invoke(transcript, config, stop=stop, **kw) for transcript in messages]
        return LLMResult(generations=[[ChatGeneration(message=answer)] for answer in answers])

    async def agenerate(self, *args: Any, **kwargs: Any) -> LLMResult:
        """Does as :meth:`generate`, in a thread."""
        return await in_thread(self.generate, *args, **kwargs)

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        answer = self.invoke(messages, stop=stop, **kwargs)
        return ChatResult(generations=[ChatGeneration(message=answer)])

    # the boundary ----------------------------------------------------------------------------

    def _asked(self, value: Any, config: RunnableConfig | None, options: dict[str, Any]) -> Asked:
        config = config or RunnableConfig()
        if self.traced == "refuse":
            refuse_outer_run(config, "InferDPTChatModel", REMEDY)
        if settings := sorted(name for name, option in options.items() if option is not None):
            raise ParameterError(f"expected settings on the two models themselves, got {settings}")
        messages = messages_of(value)
        [(released, exchange)] = cross(self, [messages], read_transcript, config, remedy=_NOTE)
        history, text, instruction = turn_of(released, self.instruction)
        unit = self.session.sanitizer.certificate.unit
        sent = [*history, *inferdpt.for_remote(text, instruction, unit)]
        with set_config_context(config) as context:
            draft = context.run(self.remote, sent)
        question = guarded(self._question, messages, draft)
        asked = Asked(exchange=exchange, question=question, draft=draft)
        asked.note()
        return asked

    def _question(self, messages: list[BaseMessage], draft: str) -> Any:
        history, text, instruction = turn_of(messages, self.instruction)
        return [*history, *inferdpt.for_extractor(text, draft, instruction)]

    # description -----------------------------------------------------------------------------

    config_specs = SPECS

    @property
    def _llm_type(self) -> str:
        return "dp-inferdpt"


def _answered(asked: Asked, text: str) -> AIMessage:
    asked.note_place(text)
    return cast("AIMessage", signed(AIMessage(content=text, id=asked.name), asked.exchange.receipt))


def messages_of(value: object) -> list[BaseMessage]:
    """Makes messages of a text, prompt value or list; a bare text is new at every call."""
    messages = [
        HumanMessage(x, id=str(uuid4()))
        if isinstance(x, str)
        else message_of(x, f"the input, message {i}")
        for i, x in enumerate(messages_in(value))
    ]
    for i, message in enumerate(messages):
        if not isinstance(message, HumanMessage | SystemMessage | AIMessage):
            raise ParameterError(
                f"the input, message {i}: expected a human, system or ai message, got "
                f"{type(message).__name__}"
            )
    last = messages[-1] if messages else None
    if not isinstance(last, HumanMessage) or not last.text.strip():
        raise ParameterError("expected a human message with text at the end of the transcript")
    return messages


def turn_of(
    messages: Sequence[BaseMessage], instruction: str
) -> tuple[inferdpt.Messages, str, str]:
    """Splits a transcript: its history, its last text, and its system messages or instruction."""
    rules = [message.text for message in messages if isinstance(message, SystemMessage)]
    *before, last = [message for message in messages if not isinstance(message, SystemMessage)]
    history = [
        {"role": "assistant" if isinstance(m, AIMessage) else "user", "content": str(m.text)}
        for m in before
    ]
    return history, str(last.text), "\n\n".join(rules) or instruction


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A turn for which the remote model wrote a draft, under the name of the answer to come."""

    exchange: Exchange
    question: inferdpt.Messages = field(repr=False)
    draft: str
    name: str = field(default_factory=lambda: f"dp-{uuid4()}")

    def note(self) -> None:
        """Lets the draft out again for an answer of this id."""
        remote = Message(role="assistant", texts=(self.draft,), id=self.name)
        self.exchange.note(remote, remote)

    def note_place(self, answer: str) -> None:
        """Lets it out again for this answer without an id, behind its turn. Never waits."""
        remote, local = (Message(role="assistant", texts=(x,)) for x in (self.draft, answer))
        self.exchange.note_extracted((remote, local), left=True)
