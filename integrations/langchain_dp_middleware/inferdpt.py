"""InferDPT as a chat model: a remote model is asked in released words, a local one answers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, NoReturn
from uuid import uuid4

from langchain_core import messages as lc
from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import set_config_context
from pydantic import Field

from dp_middleware._quiet import in_thread, pieces_in_thread
from dp_middleware.conversation.exchange import Exchange
from dp_middleware.conversation.messages import Message
from dp_middleware.conversation.session import session_of
from dp_middleware.errors import ParameterError, RemoteError, guarded
from dp_middleware.frameworks import chat_model, inferdpt
from dp_middleware.models.chat import local_model
from langchain_dp_middleware._boundary import MODEL_CONFIG, Answers, System, cross, refuse_outer_run
from langchain_dp_middleware._calls import RefusedWrappers, by_way, signed
from langchain_dp_middleware._messages import copy_transcript, message_of, messages_in

_REMEDY = 'call it alone, or, if all that records the run may see raw text, set traced="allow"'
_REFUSED = (
    *("bind_tools", "with_structured_output", "generate", "agenerate"),
    *("stream_events", "astream_events"),
)


@by_way("_refused", *_REFUSED)
class InferDPTChatModel(RefusedWrappers, BaseChatModel):
    """Answers from the raw text with a local model, helped by a remote one that never sees it.

    The messages are released and sent to ``remote``; ``extractor`` writes the answer, **private**,
    from the raw messages and the remote model's draft. Its calls leave no record. In a later
    transcript the answer, known by its id or its place, is replaced by the draft. System messages
    are the instruction, public; human messages are released; other roles are refused. Callbacks see
    what the remote model is sent. It refuses to run inside another run, which would record answers.

    Attributes:
        session: A ``dp.Session``, or a ``dp.Sanitizer`` for which one is made.
        instruction: Public: what is asked where the messages hold no system message.
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
    system: ClassVar[System] = "pass"
    ai: ClassVar[Answers] = "noted"

    session: Any = Field(exclude=True, repr=False)
    instruction: str = "Answer the message below."
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
        fields: dict[str, Any] = {
            "session": session_of(session),
            "remote": replace(chat_model(remote), error=RemoteError),
            "extractor": local_model(extractor, trusted_hosts),
            "trusted_hosts": frozenset(trusted_hosts),
        }
        super().__init__(**options, **fields)

    def _refused(self, name: str, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuses what would trace raw text, or give something else than the extractor's text."""
        raise ParameterError(
            f"InferDPTChatModel has no {name}(), but invoke(), batch() and stream(); use "
            "DPChatModel, or an agent with DPAgentMiddleware(session, extractor=...)"
        )

    def _generate(self, *args: Any, **kwargs: Any) -> NoReturn:
        self._refused("generate")

    def invoke(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> lc.AIMessage:
        asked = self._asked(input, config, kwargs)
        return asked.answered(self.extractor(asked.question))

    async def ainvoke(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> lc.AIMessage:
        asked = await in_thread(self._asked, input, config, kwargs)
        return asked.answered(await self.extractor.acall(asked.question))

    def stream(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Iterator[lc.AIMessageChunk]:
        asked, said = self._asked(input, config, kwargs), ""
        try:
            for piece in self.extractor.stream(asked.question):
                said += piece
                yield lc.AIMessageChunk(content=piece, id=asked.name)
        finally:  # also of one that is left
            asked.note_place(said)
        last = lc.AIMessageChunk(content="", id=asked.name, chunk_position="last")
        yield signed(last, asked.exchange.receipt)

    async def astream(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncIterator[lc.AIMessageChunk]:
        pieces: Any = self.stream(input, config, **kwargs)
        async with aclosing(pieces_in_thread(pieces)) as later:
            async for piece in later:
                yield piece

    def _asked(self, value: Any, config: RunnableConfig | None, options: dict[str, Any]) -> Asked:
        config = config or RunnableConfig()
        if self.traced == "refuse":
            refuse_outer_run(config, "InferDPTChatModel", _REMEDY)
        if settings := sorted(name for name, option in options.items() if option is not None):
            raise ParameterError(f"expected settings on the two models themselves, got {settings}")
        messages = messages_of(value)
        released, exchange = cross(self, messages, copy_transcript, config)
        unit = self.session.sanitizer.certificate.unit
        sent = self._turn(released, lambda text, told: inferdpt.for_remote(text, told, unit))
        with set_config_context(config) as context:
            draft = context.run(self.remote, sent)
        extract = lambda text, told: inferdpt.for_extractor(text, draft, told)  # noqa: E731
        question = guarded(self._turn, messages, extract)
        asked = Asked(exchange=exchange, question=question, draft=draft)
        remote = Message(role="assistant", texts=(draft,), id=asked.name)
        exchange.note(remote, remote)  # goes out again for an answer of this id
        return asked

    def _turn(
        self, messages: Sequence[lc.BaseMessage], write: Callable[[str, str], inferdpt.Messages]
    ) -> inferdpt.Messages:
        """Returns the history, and what is written of the last text and the instruction."""
        rules = [message.text for message in messages if isinstance(message, lc.SystemMessage)]
        *before, last = [m for m in messages if not isinstance(m, lc.SystemMessage)]
        history = [
            {"role": "assistant" if isinstance(m, lc.AIMessage) else "user", "content": str(m.text)}
            for m in before
        ]
        return [*history, *write(str(last.text), "\n\n".join(rules) or self.instruction)]

    @property
    def _llm_type(self) -> str:
        return "dp-inferdpt"


def messages_of(value: object) -> list[lc.BaseMessage]:
    """Makes messages of a text, prompt value or list; a bare text is new at every call."""
    messages = [
        lc.HumanMessage(x, id=str(uuid4()))
        if isinstance(x, str)
        else message_of(x, f"the input, message {i}")
        for i, x in enumerate(messages_in(value))
    ]
    if not all(isinstance(x, lc.HumanMessage | lc.SystemMessage | lc.AIMessage) for x in messages):
        raise ParameterError("expected human, system and ai messages, got others")
    last = messages[-1] if messages else None
    if not isinstance(last, lc.HumanMessage) or not last.text.strip():
        raise ParameterError("expected a human message with text at the end of the transcript")
    return messages


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A turn for which the remote model wrote a draft, under the name of the answer to come."""

    exchange: Exchange
    question: inferdpt.Messages = field(repr=False)
    draft: str
    name: str = field(default_factory=lambda: f"dp-{uuid4()}")

    def answered(self, text: str) -> lc.AIMessage:
        self.note_place(text)
        answer: lc.AIMessage = signed(lc.AIMessage(text, id=self.name), self.exchange.receipt)
        return answer

    def note_place(self, answer: str) -> None:
        """Lets the draft out again for this answer without an id, behind its turn. Never waits."""
        remote, local = (Message(role="assistant", texts=(x,)) for x in (self.draft, answer))
        self.exchange.note_extracted((remote, local), left=True)
