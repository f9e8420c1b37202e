"""LlamaIndex LLMs."""
# ruff: noqa: D102 - the calls are documented in Adapter

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from dp_middleware.models.adapters.base import Adapter, Messages, text_of
from dp_middleware.unrecorded import recording
from dp_middleware.unrecorded.streams import closing
from dp_middleware.unrecorded.threads import in_thread


class LlamaIndexAdapter(Adapter):
    """Calls ``chat``, ``achat`` and ``stream_chat``."""

    def __init__(self, llm: Any) -> None:
        self._llm = llm

    def ask(self, messages: Messages) -> str:
        return text_of(self._llm.chat(_convert(messages)).message.content)

    async def aask(self, messages: Messages) -> str:
        if _achat_blocks(self._llm):
            return await in_thread(self.ask, messages)
        return text_of((await self._llm.achat(_convert(messages))).message.content)

    def chunks(self, messages: Messages) -> Generator[str, None, None]:
        responses = self._llm.stream_chat(_convert(messages))
        with closing(responses):
            for response in responses:
                yield text_of(response.delta)

    def private(self) -> Adapter:
        """A copy without callback handlers; instrumentation skips unrecorded calls."""
        from llama_index.core.callbacks import CallbackManager

        recording.watch(skip_unrecorded)
        silent = CallbackManager()
        silent.handlers = []  # its constructor adds the global handlers
        return LlamaIndexAdapter(self._llm.model_copy(update={"callback_manager": silent}))


def _convert(messages: Messages) -> list[Any]:
    from llama_index.core.llms import ChatMessage

    return [ChatMessage(role=each["role"], content=each["content"]) for each in messages]


def _achat_blocks(llm: Any) -> bool:
    """Whether ``achat`` is the default of a base class in the core, which calls ``chat``."""
    owner = next(each for each in type(llm).__mro__ if "achat" in vars(each))
    return owner.__module__.startswith("llama_index.core.")


def skip_unrecorded() -> None:
    """Make every dispatcher and callback manager skip calls that run unrecorded.

    Decorators on each class's methods, also on those reached through ``super()``, make spans and
    events, and neither has a switch per call; so their entry points are wrapped, once.
    Outside of unrecorded calls they do what they did.
    """
    from llama_index.core.callbacks import CallbackManager
    from llama_index_instrumentation.dispatcher import Dispatcher

    for name in ("on_event_start", "on_event_end", "start_trace", "end_trace"):
        recording.wrap_once(CallbackManager, name, _skip)
    for name in ("event", "span_enter", "span_drop", "span_exit"):
        recording.wrap_once(Dispatcher, name, _skip)
    recording.wrap_once(Dispatcher, "aevent", _askip)


@recording.around
def _skip(method: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    return None if recording.is_unrecorded() else method(*args, **kwargs)


@recording.around
async def _askip(method: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    return None if recording.is_unrecorded() else await method(*args, **kwargs)
