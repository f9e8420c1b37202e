"""What chat models are reduced to, one adapter a kind; frameworks load when they are called."""
# ruff: noqa: D102 - the calls are documented in Adapter

from __future__ import annotations

import asyncio
import inspect
import os
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from contextvars import Context
from functools import lru_cache, partial
from threading import Lock, Thread
from typing import Any, TypeVar

from dp_middleware._quiet import (
    await_unrecorded,
    call_unrecorded,
    closing,
    in_thread,
    pieces_unrecorded,
)
from dp_middleware.errors import ChatError
from dp_middleware.models._wires import stay
from dp_middleware.models.recorders import refuse_dispatched

T = TypeVar("T")

Messages = list[dict[str, str]]

_starting = Lock()


class AdapterError(ChatError):
    """Raised by adapters themselves: unlike a vendor's, its message may be passed on."""


class Adapter(ABC):
    """A chat model as a few calls. They raise whatever the model raises."""

    @abstractmethod
    def ask(self, messages: Messages) -> str:
        """Returns the whole answer."""

    async def aask(self, messages: Messages) -> str:
        """Returns the whole answer, without blocking the event loop."""
        return await in_thread(self.ask, messages)

    def chunks(self, messages: Messages) -> Generator[str, None, None]:
        """Yields the answer in pieces; one piece if the model does not stream."""
        yield self.ask(messages)

    def private(self) -> Adapter:
        """Returns the same model for private text: what has a switch records nothing."""
        return self


class Unrecorded(Adapter):
    """Runs another adapter's calls in a fresh context, where tracers are told to record nothing."""

    def __init__(self, inner: Adapter) -> None:
        self._inner = inner.private()

    def ask(self, messages: Messages) -> str:
        return call_unrecorded(Context(), self._inner.ask, messages)

    async def aask(self, messages: Messages) -> str:
        return await await_unrecorded(self._inner.aask, messages)

    def chunks(self, messages: Messages) -> Generator[str, None, None]:
        context = Context()
        pieces = call_unrecorded(context, self._inner.chunks, messages)
        yield from pieces_unrecorded(context, pieces)


class FunctionAdapter(Adapter):
    """Calls a function that returns the answer, or an awaitable of it."""

    def __init__(self, function: Callable[[Messages], Any]) -> None:
        self._function = function
        call = getattr(function, "__call__", None)  # noqa: B004 - an object may have an async one
        self._is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)

    def ask(self, messages: Messages) -> str:
        answer = self._function(messages)
        return _text(run(_awaited(answer)) if inspect.isawaitable(answer) else answer)

    async def aask(self, messages: Messages) -> str:
        if self._is_async:
            return _text(await self._function(messages))
        answer = await in_thread(self._function, messages)
        return _text(await answer if inspect.isawaitable(answer) else answer)


async def _awaited(work: Awaitable[T]) -> T:
    return await work


def _text(answer: Any) -> str:
    if not isinstance(answer, str):
        raise AdapterError(f"expected an answer of type str, got {type(answer).__name__}")
    return answer


class LangChainAdapter(Adapter):
    """Calls the public methods: the caller's callbacks and tracers see what is sent."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def ask(self, messages: Messages) -> str:
        return str(self._model.invoke(_langchain(messages)).text)

    async def aask(self, messages: Messages) -> str:
        return str((await self._model.ainvoke(_langchain(messages))).text)

    def chunks(self, messages: Messages) -> Generator[str, None, None]:
        for chunk in self._model.stream(_langchain(messages)):
            yield str(chunk.text)

    def private(self) -> Adapter:
        return PrivateLangChainAdapter(self._model)


class PrivateLangChainAdapter(Adapter):
    """Calls a copy of the model below LangChain's callbacks and cache.

    With ``config={"callbacks": []}``, handlers set by the environment, by ``set_debug(True)`` or by
    an instrumentor would still be attached. The methods called here make no callback manager.
    """

    def __init__(self, model: Any) -> None:
        self._bound: dict[str, Any] = {}
        while hasattr(model, "bound"):  # arguments that are bound to it
            model, self._bound = model.bound, {**model.kwargs, **self._bound}
        self._model = model.model_copy(update={"cache": False})
        stay(self._model)

    def ask(self, messages: Messages) -> str:
        result = self._model._generate_with_cache(_langchain(messages), **self._bound)
        return str(result.generations[0].message.text)

    async def aask(self, messages: Messages) -> str:
        result = await self._model._agenerate_with_cache(_langchain(messages), **self._bound)
        return str(result.generations[0].message.text)

    def chunks(self, messages: Messages) -> Generator[str, None, None]:
        from langchain_core.language_models import BaseChatModel

        has_own = type(self._model)._stream is not BaseChatModel._stream
        if not has_own or self._model.disable_streaming is True:
            yield self.ask(messages)
            return
        if self._model.rate_limiter is not None:
            self._model.rate_limiter.acquire(blocking=True)
        for chunk in self._model._stream(_langchain(messages), **self._bound):
            yield str(chunk.message.text)


def _langchain(messages: Messages) -> Any:
    from langchain_core.messages import convert_to_messages

    return convert_to_messages(messages)


class LlamaIndexAdapter(Adapter):
    """Calls ``chat``, ``achat`` and ``stream_chat``, each after a look at what has changed."""

    def __init__(self, llm: Any, look: Callable[[], None] = lambda: None) -> None:
        self._llm, self._look = llm, look

    def ask(self, messages: Messages) -> str:
        return _text(self._llm.chat(self._given(messages)).message.content or "")

    async def aask(self, messages: Messages) -> str:
        owner = next(each for each in type(self._llm).__mro__ if "achat" in vars(each))
        if owner.__module__.startswith("llama_index.core."):  # a default, which calls chat
            return await in_thread(self.ask, messages)
        return _text((await self._llm.achat(self._given(messages))).message.content or "")

    def chunks(self, messages: Messages) -> Generator[str, None, None]:
        responses = self._llm.stream_chat(self._given(messages))
        with closing(responses):
            for response in responses:
                yield _text(response.delta or "")

    def private(self) -> Adapter:
        """Returns a copy without callback handlers, whose recorders leave out unrecorded calls."""
        refuse_dispatched()
        llm = self._llm.model_copy(update={"callback_manager": silent_manager()})
        stay(llm)
        return LlamaIndexAdapter(llm, refuse_dispatched)  # recorders may be added later

    def _given(self, messages: Messages) -> list[Any]:
        from llama_index.core.llms import ChatMessage

        self._look()
        return [ChatMessage(role=each["role"], content=each["content"]) for each in messages]


def silent_manager() -> Any:
    """Makes a callback manager that tells nobody."""
    from llama_index.core.callbacks import CallbackManager

    silent = CallbackManager()
    silent.handlers = []  # its constructor adds the global handlers
    return silent


class OpenAIAdapter(Adapter):
    """``openai.OpenAI`` and its subclasses, with the name of a model."""

    def __init__(self, client: Any, model: str) -> None:
        self._client = client
        self._create = partial(client.chat.completions.create, model=model)

    def private(self) -> Adapter:
        stay(self._client)
        return self

    def ask(self, messages: Messages) -> str:
        return _text(self._create(messages=messages).choices[0].message.content or "")

    def chunks(self, messages: Messages) -> Generator[str, None, None]:
        with self._create(messages=messages, stream=True) as events:
            for event in events:
                yield _delta(event)


class AsyncOpenAIAdapter(OpenAIAdapter):
    """``openai.AsyncOpenAI`` and its subclasses."""

    def ask(self, messages: Messages) -> str:
        return run(self.aask(messages))

    async def aask(self, messages: Messages) -> str:
        return _text((await self._create(messages=messages)).choices[0].message.content or "")

    def chunks(self, messages: Messages) -> Generator[str, None, None]:
        return _iterate(self._chunks(messages))

    async def _chunks(self, messages: Messages) -> AsyncGenerator[str, None]:
        async with await self._create(messages=messages, stream=True) as events:
            async for event in events:
                yield _delta(event)


def _delta(event: Any) -> str:
    return _text(event.choices[0].delta.content or "") if event.choices else ""


# asynchronous models, called from synchronous code: one background event loop per process -------


def run(work: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine to its end on the background loop, in the caller's context.

    An asynchronous client keeps its connections on the loop they were opened on. RuntimeError:
    called on that loop itself, it would wait for ever.
    """
    with _starting:
        loop = _loop(os.getpid())
    if asyncio._get_running_loop() is loop:
        work.close()
        raise RuntimeError("expected a caller outside the background loop; use the async call")
    future = asyncio.run_coroutine_threadsafe(work, loop)
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


def _iterate(chunks: AsyncGenerator[T, None]) -> Generator[T, None, None]:
    """Yields the items of an asynchronous generator up to ``None``; closes it at the end."""
    try:
        while (chunk := run(_awaited(anext(chunks, None)))) is not None:
            yield chunk
    finally:
        run(chunks.aclose())


@lru_cache(maxsize=1)
def _loop(process: int) -> asyncio.AbstractEventLoop:
    """The loop of this process; a forked child has lost its parent's thread and starts anew."""
    loop = asyncio.new_event_loop()
    Thread(target=loop.run_forever, name=f"dp-middleware-{process}", daemon=True).start()
    return loop
