"""Conversations in which a remote model is asked in released words and a local one answers."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Generator, Iterable
from functools import partial
from typing import Any, NoReturn
from uuid import uuid4

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, MessageRole
from llama_index.core.chat_engine.types import (
    AgentChatResponse,
    BaseChatEngine,
    StreamingAgentChatResponse,
)
from llama_index.core.schema import BaseNode, NodeWithScore, QueryBundle

import dp_middleware as dp
from dp_middleware.conversation.boundary import guarded
from dp_middleware.conversation.messages import Message, events_of
from dp_middleware.conversation.session import session_of
from dp_middleware.errors import ParameterError
from dp_middleware.models.local import local_model
from dp_middleware.privacy.receipts import receipts
from llama_index_dp_middleware._epsilon import at_asked
from llama_index_dp_middleware._extraction import apieces
from llama_index_dp_middleware._messages import Slots, answer_of, slots_of
from llama_index_dp_middleware._nodes import CONVERSATION
from llama_index_dp_middleware._retrieval import LocalSearch
from llama_index_dp_middleware._silence import unspanned
from llama_index_dp_middleware._turn import Turn


class DPChatEngine(BaseChatEngine):
    """Releases a conversation, has a chat engine answer it, and extracts the answers locally.

    The inner engine, its memory, spans and models see released messages and what the remote model
    had answered, never what the local one wrote or what a session of pseudonyms restored. It is
    handed the released history at every turn, so give it the remote model itself, not a
    :class:`DPLLM`. Messages are known by their place in the conversation: each is released once.
    ``chat`` and its like make no span or event of their own.

    With ``retriever``, a **local** one over raw text finds nodes for the raw message, unrecorded:
    the inner engine is given released copies of them in front of the message, the extractor raw
    ones. Which nodes are found has **no guarantee**.

    The answers are private, as is :attr:`chat_history`; ``metadata["remote_text"]`` is what the
    remote model wrote, ``metadata["dp"]`` what was released and charged. A history that is given to
    a call replaces that of the engine; its answers must be the engine's own, of the same session
    and conversation.

    Args:
        session: Releases messages and nodes.
        chat_engine: Answers released messages.
        extractor: What :func:`dp.chat_model` takes; in process, on loopback or on a trusted host.
            ``None`` for a session of pseudonyms only: answers are restored, and nothing more.
        retriever: Sees raw messages; all that it holds is in process, on loopback or trusted.
        metadata: Keys of the nodes' metadata that are public and kept.
        trusted_hosts: Names of further hosts that may see raw text.
        conversation: A name of the conversation, needed where a memo file outlives the process;
            default a fresh one, also after :meth:`reset`.

    Raises:
        UntrustedHost: The retriever or the extractor would send raw text elsewhere.
        ParameterError: No extractor; from a call: something that is not text.
        EventRefused: From a call: an answer in a history that is none of the engine's.
        DPMiddlewareError: From a call: a step on private text failed; it holds no text.
        ExtractorError: From a call: the extractor failed. What was charged stays spent.

    Example:
        >>> engine = DPChatEngine(
        ...     session, SimpleChatEngine.from_defaults(llm=remote), extractor=local
        ... )  # doctest: +SKIP
        >>> engine.chat("the raw message")  # doctest: +SKIP
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

    def __repr__(self) -> str:
        return f"DPChatEngine({self._session!r}, {type(self._inner).__name__})"

    def __getstate__(self) -> NoReturn:
        raise TypeError("expected a DPChatEngine to stay in its process: it holds private text")

    @property
    def chat_history(self) -> list[ChatMessage]:
        """The raw messages and the extracted answers, of the block's subject. Private."""
        return list(self._histories.get(at_asked(self._session).sanitizer.subject, ()))

    def reset(self) -> None:
        """Begin another conversation, for every subject."""
        self._histories, self._conversation = {}, str(uuid4())
        self._inner.reset()

    @unspanned
    def chat(
        self, message: str, chat_history: list[ChatMessage] | None = None
    ) -> AgentChatResponse:
        """Answer a raw message."""
        turn, remote = self._asked(message, chat_history)
        text = self._shown(turn, remote)
        if self._extractor is not None:
            text = self._extractor(turn.for_extractor(text))
        return self._answered(turn, remote, text)

    @unspanned
    async def achat(
        self, message: str, chat_history: list[ChatMessage] | None = None
    ) -> AgentChatResponse:
        """As :meth:`chat`, without blocking the event loop."""
        turn, remote = await self._aasked(message, chat_history)
        text = self._shown(turn, remote)
        if self._extractor is not None:
            text = await self._extractor.acall(turn.for_extractor(text))
        return self._answered(turn, remote, text)

    @unspanned
    def stream_chat(
        self, message: str, chat_history: list[ChatMessage] | None = None
    ) -> StreamingAgentChatResponse:
        """As :meth:`chat`, in pieces; the remote model's answer is waited for whole."""
        turn, remote = self._asked(message, chat_history)
        return StreamingAgentChatResponse(
            chat_stream=self._pieces(turn, remote),
            source_nodes=turn.sources,
            is_writing_to_memory=False,
        )

    @unspanned
    async def astream_chat(
        self, message: str, chat_history: list[ChatMessage] | None = None
    ) -> StreamingAgentChatResponse:
        """As :meth:`stream_chat`, without blocking the event loop."""
        turn, remote = await self._aasked(message, chat_history)
        return StreamingAgentChatResponse(
            achat_stream=apieces(self._pieces(turn, remote)),
            source_nodes=turn.sources,
            is_writing_to_memory=False,
        )

    def _asked(self, message: str, history: list[ChatMessage] | None) -> tuple[Turn, str]:
        with receipts() as receipt:
            guarded(self._check, message, history)
            found = self._search.find(QueryBundle(_text(message)), self._of_nodes)
            turn, asked, sent = guarded(self._released, message, history, *found)
        turn.receipt.update(receipt.to_dict())
        return turn, str(self._inner.chat(asked, chat_history=sent))

    async def _aasked(self, message: str, history: list[ChatMessage] | None) -> tuple[Turn, str]:
        with receipts() as receipt:
            await asyncio.to_thread(guarded, self._check, message, history)
            found = await self._search.afind(QueryBundle(_text(message)), self._of_nodes)
            release = partial(guarded, self._released, message, history, *found)
            turn, asked, sent = await asyncio.to_thread(release)
        turn.receipt.update(receipt.to_dict())
        return turn, str(await self._inner.achat(asked, chat_history=sent))

    def _read(
        self, message: str, history: list[ChatMessage] | None
    ) -> tuple[list[ChatMessage], list[Slots], list[Message]]:
        """The history, its texts, and all that the session is told."""
        before = self.chat_history if history is None else list(history)
        slots = [slots_of(each, f"message {k}") for k, each in enumerate(before)]
        asked = Message(role="user", texts=(message,))
        return before, slots, [*(slot.message for slot in slots), asked]

    def _check(self, message: str, history: list[ChatMessage] | None) -> None:
        """What would be refused is, before the nodes are charged for."""
        items = self._read(_text(message), history)[2]
        at_asked(self._session).check(events_of(items), conversation=self._conversation)

    @property
    def _of_nodes(self) -> str:
        """The conversation of nodes: with pseudonyms those of the messages."""
        return self._conversation if self._session.restores else CONVERSATION

    def _shown(self, turn: Turn, remote: str) -> str:
        return turn.exchange.restore(remote)

    def _released(
        self,
        message: str,
        history: list[ChatMessage] | None,
        passages: list[BaseNode],
        sources: list[NodeWithScore],
    ) -> tuple[Turn, str, list[ChatMessage]]:
        """The turn, and the message and history that the inner engine is given."""
        before, slots, items = self._read(message, history)
        nodes: list[Message] = []
        if self._session.restores:  # else they are of another conversation
            found = {node.id_: node.get_content() for node in passages}
            nodes = [
                Message(role="tool", texts=(text,), id=name, aside=True)
                for name, text in found.items()
            ]
        at = at_asked(self._session)
        exchange = at.exchange([*nodes, *items], conversation=self._conversation)
        *told, last = exchange.sent[len(nodes) :]
        sent = [slot.build(message) for slot, message in zip(slots, told, strict=True)]
        asked = "\n\n".join([*(scored.node.get_content() for scored in sources), last.text])
        turn = Turn(
            subject=at.sanitizer.subject,
            exchange=exchange,
            items=items,
            before=before,
            message=message,
            passages=passages,
            sources=sources,
        )
        return turn, asked, sent

    def _pieces(self, turn: Turn, remote: str) -> Generator[ChatResponse, None, None]:
        """The extracted answer; one that is left is in the history as far as it was read."""
        said = ""
        try:
            for piece in self._written(turn, self._shown(turn, remote)):
                said += piece
                yield ChatResponse(message=_answer(said), delta=piece)
        finally:  # also of one that is left
            if said:
                self._answered(turn, remote, said)

    def _written(self, turn: Turn, text: str) -> Iterable[str]:
        if self._extractor is None:
            return [text]
        return self._extractor.stream(turn.for_extractor(text))

    def _answered(self, turn: Turn, remote: str, text: str) -> AgentChatResponse:
        """The response; later turns send the remote model's words in its place. Never waits."""
        shown = _answer(text)
        said = Message(role="assistant", texts=(remote,)), answer_of(shown)
        turn.exchange.note_extracted(said, left=True)
        asked = ChatMessage(role=MessageRole.USER, content=turn.message)
        self._histories[turn.subject] = [*turn.before, asked, shown]
        return AgentChatResponse(
            response=text,
            source_nodes=turn.sources,
            metadata={"remote_text": remote, "dp": turn.receipt},
        )


def _text(message: object) -> str:
    if not isinstance(message, str):
        raise ParameterError(f"expected a message of type str, got {type(message).__name__}")
    return message


def _answer(text: str) -> ChatMessage:
    return ChatMessage(role=MessageRole.ASSISTANT, content=text)
