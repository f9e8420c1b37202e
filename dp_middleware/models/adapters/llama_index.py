"""LlamaIndex LLMs."""
# ruff: noqa: D102 - the calls are documented in Adapter

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from dp_middleware._quiet import closing, in_thread
from dp_middleware.models._wires import stay
from dp_middleware.models.adapters.base import Adapter, Messages, text_of
from dp_middleware.models.recorders import refuse_dispatched


class LlamaIndexAdapter(Adapter):
    """Calls ``chat``, ``achat`` and ``stream_chat``, each after a look at what has changed."""

    def __init__(self, llm: Any, look: Callable[[], None] = lambda: None) -> None:
        self._llm, self._look = llm, look

    def ask(self, messages: Messages) -> str:
        self._look()
        return text_of(self._llm.chat(_convert(messages)).message.content)

    async def aask(self, messages: Messages) -> str:
        if _achat_blocks(self._llm):
            return await in_thread(self.ask, messages)
        self._look()
        return text_of((await self._llm.achat(_convert(messages))).message.content)

    def chunks(self, messages: Messages) -> Generator[str, None, None]:
        self._look()
        responses = self._llm.stream_chat(_convert(messages))
        with closing(responses):
            for response in responses:
                yield text_of(response.delta)

    def private(self) -> Adapter:
        """Returns a copy without callback handlers, whose recorders leave out unrecorded calls."""
        refuse_dispatched()
        llm = self._llm.model_copy(update={"callback_manager": silent_manager()})
        stay(llm)
        return LlamaIndexAdapter(llm, refuse_dispatched)  # recorders may be added later


def silent_manager() -> Any:
    """Makes a callback manager that tells nobody."""
    from llama_index.core.callbacks import CallbackManager

    silent = CallbackManager()
    silent.handlers = []  # its constructor adds the global handlers
    return silent


def _convert(messages: Messages) -> list[Any]:
    from llama_index.core.llms import ChatMessage

    return [ChatMessage(role=each["role"], content=each["content"]) for each in messages]


def _achat_blocks(llm: Any) -> bool:
    """Whether ``achat`` is the default of a base class in the core, which calls ``chat``."""
    owner = next(each for each in type(llm).__mro__ if "achat" in vars(each))
    return owner.__module__.startswith("llama_index.core.")
