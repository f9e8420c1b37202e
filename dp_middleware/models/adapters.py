"""What chat models are reduced to, one adapter a kind; frameworks load when they are called."""
# ruff: noqa: D102 - the calls are documented in Adapter

from __future__ import annotations

import asyncio
import inspect
import os
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextvars import Context
from functools import lru_cache, partial
from threading import Lock, Thread
from typing import Any, TypeVar

import httpx

from dp_middleware import _quiet
from dp_middleware.errors import ChatError
from dp_middleware.models.parts import fields_of, inherits, is_httpx
from dp_middleware.models.recorders import refuse_dispatched
from dp_middleware.models.trust import holders_of

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
        return await _quiet.in_thread(self.ask, messages)

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
        return _quiet.call_unrecorded(Context(), self._inner.ask, messages)

    async def aask(self, messages: Messages) -> str:
        return await _quiet.await_unrecorded(self._inner.aask, messages)

    def chunks(self, messages: Messages) -> Generator[str, None, None]:
        context = Context()
        pieces = _quiet.call_unrecorded(context, self._inner.chunks, messages)
        yield from _quiet.pieces_unrecorded(context, pieces)


class FunctionAdapter(Adapter):
    """Calls a function that returns what an answer is read from, or an awaitable of it."""

    def __init__(self, function: Callable[[Messages], Any], read: Any = lambda answer: answer):
        self._function, self._read = function, read
        call = getattr(function, "__call__", None)  # noqa: B004 - an object may have an async one
        self._is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)

    def ask(self, messages: Messages) -> str:
        answer = self._function(messages)
        answer = run(_awaited(answer)) if inspect.isawaitable(answer) else answer
        return _text(self._read(answer))

    async def aask(self, messages: Messages) -> str:
        if self._is_async:
            return _text(self._read(await self._function(messages)))
        answer = await _quiet.in_thread(self._function, messages)
        return _text(self._read(await answer if inspect.isawaitable(answer) else answer))


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
    """Calls a copy of the model below LangChain's callbacks and cache: nothing makes a manager.

    To one, with ``{"callbacks": []}`` too, the environment and instrumentors attach handlers.
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

        model = self._model
        if type(model)._stream is BaseChatModel._stream or model.disable_streaming is True:
            yield self.ask(messages)
            return
        if model.rate_limiter is not None:
            model.rate_limiter.acquire(blocking=True)
        for chunk in model._stream(_langchain(messages), **self._bound):
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
            return await _quiet.in_thread(self.ask, messages)
        return _text((await self._llm.achat(self._given(messages))).message.content or "")

    def chunks(self, messages: Messages) -> Generator[str, None, None]:
        responses = self._llm.stream_chat(self._given(messages))
        with _quiet.closing(responses):
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


class OpenAIAdapter(FunctionAdapter):
    """``openai.OpenAI``, ``AsyncOpenAI`` and subclasses; the latter's answer is one piece."""

    def __init__(self, client: Any, model: str) -> None:
        self._client, self._create = client, partial(client.chat.completions.create, model=model)
        ask = lambda messages: self._create(messages=messages)  # noqa: E731
        super().__init__(ask, lambda answer: answer.choices[0].message.content or "")

    def private(self) -> Adapter:
        stay(self._client)
        return self

    def chunks(self, messages: Messages) -> Generator[str, None, None]:
        if inherits(self._client, "openai", "AsyncOpenAI"):
            yield self.ask(messages)
            return
        with self._create(messages=messages, stream=True) as events:
            for event in events:
                yield _text(event.choices[0].delta.content or "") if event.choices else ""


def run(work: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine on the one background loop; called there, it raises RuntimeError."""
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


@lru_cache(maxsize=1)
def _loop(process: int) -> asyncio.AbstractEventLoop:
    """The loop of this process; a forked child has lost its parent's thread and starts anew."""
    loop = asyncio.new_event_loop()
    Thread(target=loop.run_forever, name=f"dp-middleware-{process}", daemon=True).start()
    return loop


def stay(model: Any) -> None:
    """Lets private calls of a model's httpx clients, as it has them now, follow no redirect."""
    missing = [name for name, value in fields_of(model) if value is None]
    for name, make in (("_http_client", httpx.Client), ("_async_http_client", httpx.AsyncClient)):
        if name in missing:  # LlamaIndex makes them when it is asked
            setattr(model, name, make(follow_redirects=False))
    for client in filter(is_httpx, holders_of(model)):
        hook: Any = _astay if isinstance(client, httpx.AsyncClient) else _stay
        hooks = client.event_hooks["response"]
        if hook not in hooks:
            hooks.append(hook)


def _stay(response: httpx.Response) -> None:
    if _quiet.is_unrecorded():
        response.headers.pop("location", None)


async def _astay(response: httpx.Response) -> None:
    _stay(response)
