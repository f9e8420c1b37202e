"""Conversations in which a remote model is asked in released words and a local one answers."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, MessageRole
from llama_index.core.chat_engine.types import (
    AgentChatResponse,
    BaseChatEngine,
    StreamingAgentChatResponse,
)
from llama_index.core.schema import QueryBundle

import dp_middleware as dp
from dp_middleware._quiet import in_thread
from dp_middleware.conversation.exchange import Exchange
from dp_middleware.conversation.messages import Message, events_of
from dp_middleware.conversation.session import session_of
from dp_middleware.errors import ParameterError, guarded
from dp_middleware.frameworks import inferdpt
from dp_middleware.models.chat import local_model
from dp_middleware.privacy.releases import Receipt, receipts
from llama_index_dp_middleware._blocks import in_block, unspanned
from llama_index_dp_middleware._messages import Slots, answer_of, slots_of
from llama_index_dp_middleware._responses import apieces, for_extractor
from llama_index_dp_middleware._search import Found, LocalSearch
from llama_index_dp_middleware.nodes import CONVERSATION

History = list[ChatMessage] | None


@dataclass(frozen=True, kw_only=True)
class _Turn:
    """A message, the history and the nodes for it, and what goes out for all of them. Private."""

    message: str = field(repr=False)
    before: list[ChatMessage] = field(repr=False)
    slots: list[Slots] = field(repr=False)
    found: Found = field(repr=False)
    subject: str | None
    exchange: Exchange
    receipt: Receipt

    @property
    def sent(self) -> tuple[str, list[ChatMessage]]:
        """The message and the history that the inner engine is given."""
        *told, last = self.exchange.sent[-len(self.slots) - 1 :]
        history = [slot.build(sent) for slot, sent in zip(self.slots, told, strict=True)]
        nodes = [scored.node.get_content() for scored in self.found[1]]
        return "\n\n".join([*nodes, last.text]), history

    def for_extractor(self, remote: str) -> inferdpt.Messages:
        """Writes what the local model is asked."""
        said = (slot.message for slot in self.slots)
        history = [{"role": m.role.replace("tool", "user"), "content": m.text} for m in said]
        return [*history, *for_extractor(self.message, self.found[0], remote)]


class DPChatEngine(BaseChatEngine):
    """Releases a conversation, has a chat engine answer it, and extracts the answers locally.

    The inner engine, its memory, spans and models see released messages and what the remote model
    had answered, never what the local one wrote or a session restored. It is handed the released
    history at every turn: give it the remote model itself, not a :class:`DPLLM`. Messages are known
    by their place in the conversation: each is released once.

    With ``retriever``, a **local** one finds nodes for the raw message, unrecorded: the inner
    engine is given released copies of them in front of the message, the extractor raw ones. Which
    nodes are found has **no guarantee**.

    Answers and :attr:`chat_history` are private; ``metadata["remote_text"]`` is what the remote
    model wrote, ``metadata["dp"]`` what was released and charged. A history that is given to a call
    replaces that of the engine; its answers must be the engine's own, of the same conversation.

    Args:
        session: Releases messages and nodes.
        chat_engine: Answers released messages.
        extractor: What :func:`dp.chat_model` takes; in process, on loopback or on a trusted host.
            ``None`` for a session of pseudonyms only: answers are restored, and nothing more.
        retriever: Sees raw messages; as of :class:`DPQueryEngine`, and so the next two.
        conversation: A name of the conversation, needed where a memo file outlives the process;
            default a fresh one, also after :meth:`reset`.

    Raises:
        UntrustedHost: The retriever or the extractor would send raw text elsewhere.
        DPMiddlewareError: From a call: something that is not text, an answer that is none of the
            engine's, or a step failed. Holds no text; what was charged stays spent.
    """

    def __init__(
        self,
        session: dp.Session | dp.Sanitizer,
        chat_engine: BaseChatEngine,
        *,
        extractor: Any = None,
        retriever: BaseRetriever | None = None,
        metadata: Collection[str] = (),
        trusted_hosts: Iterable[str] = (),
        conversation: str | None = None,
    ) -> None:
        if not isinstance(chat_engine, BaseChatEngine):
            raise ParameterError(f"expected a chat engine, got {type(chat_engine).__name__}")
        trusted = trusted_hosts if isinstance(trusted_hosts, str) else tuple(trusted_hosts)
        self._session = session_of(session)
        if extractor is None and not self._session.restores:
            raise ParameterError(
                "expected extractor=, a local model; without one a session of dp.Pseudonyms"
            )
        self._extractor = None if extractor is None else local_model(extractor, trusted)
        self._search = LocalSearch(self._session, retriever, metadata, trusted)
        self._inner = chat_engine
        self._histories: dict[str | None, list[ChatMessage]] = {}  # one for each subject
        self._conversation = str(uuid4()) if conversation is None else conversation

    @property
    def chat_history(self) -> list[ChatMessage]:
        """The raw messages and the extracted answers, of the block's subject. Private."""
        return list(self._histories.get(in_block(self._session).sanitizer.subject, ()))

    def reset(self) -> None:
        """Begin another conversation, for every subject."""
        self._histories, self._conversation = {}, str(uuid4())
        self._inner.reset()

    @unspanned
    def chat(self, message: str, chat_history: History = None) -> AgentChatResponse:
        """Answer a raw message."""
        turn, remote = self._ask(message, chat_history)
        text = turn.exchange.restore(remote)
        if self._extractor is not None:
            text = self._extractor(turn.for_extractor(text))
        return self._answered(turn, remote, text)

    @unspanned
    async def achat(self, message: str, chat_history: History = None) -> AgentChatResponse:
        """As :meth:`chat`, without blocking the event loop."""
        turn, remote = await self._aask(message, chat_history)
        text = turn.exchange.restore(remote)
        if self._extractor is not None:
            text = await self._extractor.acall(turn.for_extractor(text))
        return self._answered(turn, remote, text)

    @unspanned
    def stream_chat(self, message: str, chat_history: History = None) -> StreamingAgentChatResponse:
        """As :meth:`chat`, in pieces; the remote model's answer is waited for whole."""
        turn, remote = self._ask(message, chat_history)
        return StreamingAgentChatResponse(
            chat_stream=self._pieces(turn, remote),
            source_nodes=turn.found[1],
            is_writing_to_memory=False,
        )

    @unspanned
    async def astream_chat(
        self, message: str, chat_history: History = None
    ) -> StreamingAgentChatResponse:
        """As :meth:`stream_chat`, without blocking the event loop."""
        turn, remote = await self._aask(message, chat_history)
        return StreamingAgentChatResponse(
            achat_stream=apieces(self._pieces(turn, remote)),
            source_nodes=turn.found[1],
            is_writing_to_memory=False,
        )

    def _ask(self, message: str, history: History) -> tuple[_Turn, str]:
        turn = self._turn(message, history)
        asked, sent = turn.sent
        return turn, str(self._inner.chat(asked, chat_history=sent))

    async def _aask(self, message: str, history: History) -> tuple[_Turn, str]:
        turn = await in_thread(self._turn, message, history)
        asked, sent = turn.sent
        return turn, str(await self._inner.achat(asked, chat_history=sent))

    def _turn(self, message: str, history: History) -> _Turn:
        with receipts() as receipt:
            before, slots = guarded(self._read, message, history)
            found = self._search.find(QueryBundle(message), self._of_nodes)
            return self._release(message, before, slots, found, receipt)

    def _read(self, message: object, history: History) -> tuple[list[ChatMessage], list[Slots]]:
        """Reads the history; what would be refused is, before the nodes are charged for."""
        if not isinstance(message, str):
            raise ParameterError(f"expected a message of type str, got {type(message).__name__}")
        before = self.chat_history if history is None else list(history)
        printed = self._session.restores
        slots = [slots_of(x, f"message {k}", printed=printed) for k, x in enumerate(before)]
        events = events_of(_told(slots, message))
        in_block(self._session).check(events, conversation=self._conversation)
        return before, slots

    @property
    def _of_nodes(self) -> str:
        """The conversation of nodes: with pseudonyms those of the messages."""
        return self._conversation if self._session.restores else CONVERSATION

    def _release(self, message: str, before: Any, slots: Any, found: Found, receipt: Any) -> _Turn:
        nodes: dict[str, str] = {}
        if self._session.restores:  # else they are of another conversation
            nodes = {scored.node.id_: scored.node.get_content() for scored in found[0]}
        aside = (Message(role="tool", texts=(nodes[i],), id=i, aside=True) for i in nodes)
        session, told = in_block(self._session), [*aside, *_told(slots, message)]
        return _Turn(
            message=message,
            before=before,
            slots=slots,
            found=found,
            subject=session.sanitizer.subject,
            exchange=session.exchange(told, conversation=self._conversation),
            receipt=receipt,
        )

    def _pieces(self, turn: _Turn, remote: str) -> Generator[ChatResponse, None, None]:
        """Yields the shown answer; one that is left is in the history as far as it was read."""
        said, text = "", turn.exchange.restore(remote)
        pieces: Iterable[str] = [text]
        if self._extractor is not None:
            pieces = self._extractor.stream(turn.for_extractor(text))
        try:
            for piece in pieces:
                said += piece
                yield ChatResponse(message=_answer(said), delta=piece)
        finally:  # also of one that is left
            if said:
                self._answered(turn, remote, said)

    def _answered(self, turn: _Turn, remote: str, text: str) -> AgentChatResponse:
        """Notes the answer: later turns send the remote model's words for it. Never waits."""
        shown = _answer(text)
        said = Message(role="assistant", texts=(remote,)), answer_of(shown)
        turn.exchange.note_extracted(said, left=True)
        asked = ChatMessage(role=MessageRole.USER, content=turn.message)
        self._histories[turn.subject] = [*turn.before, asked, shown]
        return AgentChatResponse(
            response=text,
            source_nodes=turn.found[1],
            metadata={"remote_text": remote, "dp": turn.receipt.to_dict()},
        )


def _told(slots: list[Slots], message: str) -> list[Message]:
    return [*(slot.message for slot in slots), Message(role="user", texts=(message,))]


def _answer(text: str) -> ChatMessage:
    return ChatMessage(role=MessageRole.ASSISTANT, content=text)
