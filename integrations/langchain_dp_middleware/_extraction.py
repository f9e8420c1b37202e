"""The answer that the user reads: a local model fits the remote one's to the private turn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, ToolMessage

from dp_middleware.frameworks import inferdpt
from dp_middleware.models.local import local_model


class Extraction:
    """Asks the local model; its calls leave no trace, log or cache entry.

    Args:
        extractor: What :func:`dp.chat_model` takes; in process, on loopback or on a trusted host.
        trusted_hosts: Names of further hosts that may see raw text.
        instruction: Public: what it is to do with the turn.

    Raises:
        UntrustedHost: The extractor would send raw text elsewhere.
        ParameterError: Not a chat model.
    """

    def __init__(self, extractor: Any, trusted_hosts: Iterable[str], instruction: str) -> None:
        self._model = local_model(extractor, trusted_hosts)
        self._instruction = instruction

    def local(self, remote: BaseMessage, messages: Sequence[AnyMessage]) -> BaseMessage:
        """The message for the user; ``remote`` itself if it calls tools or says nothing.

        Raises:
            ExtractorError: The local model failed.
        """
        if not (isinstance(remote, AIMessage) and _is_answer(remote)):
            return remote
        return _with_text(remote, self._model(self._question(remote, messages)))

    async def alocal(self, remote: BaseMessage, messages: Sequence[AnyMessage]) -> BaseMessage:
        """As :meth:`local`, without blocking the event loop."""
        if not (isinstance(remote, AIMessage) and _is_answer(remote)):
            return remote
        return _with_text(remote, await self._model.acall(self._question(remote, messages)))

    def _question(self, remote: AIMessage, messages: Sequence[AnyMessage]) -> inferdpt.Messages:
        return inferdpt.for_extractor(_turn(messages), remote.text, self._instruction)


def _turn(messages: Sequence[AnyMessage]) -> str:
    """The last message of the user and what tools found for it. Private."""
    texts: list[str] = []
    for message in reversed(messages):
        if isinstance(message, HumanMessage | ToolMessage):
            texts.append(message.text)
        if isinstance(message, HumanMessage):
            break
    return "\n\n".join(reversed(texts))


def _is_answer(message: AIMessage) -> bool:
    return not message.tool_calls and bool(message.text.strip())


def _with_text(remote: AIMessage, text: str) -> AIMessage:
    return remote.model_copy(update={"content": text, "additional_kwargs": {}})
