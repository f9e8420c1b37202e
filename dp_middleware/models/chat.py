"""One interface to chat models, whatever framework they come from."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from dp_middleware.errors import ChatError, ExtractorError, ParameterError
from dp_middleware.models import adapters
from dp_middleware.models.parts import OPENAI, inherits, is_one
from dp_middleware.models.recorders import Recorded
from dp_middleware.models.trust import Location, locate, require_trusted

T = TypeVar("T")

_ROLES = ("system", "user", "assistant")


@dataclass(frozen=True, kw_only=True)
class ChatModel:
    """Answers messages with text; made by :func:`chat_model`.

    Messages are ``[{"role": "system" | "user" | "assistant", "content": str}]``. All calls raise
    ``error`` if the model fails, and if its answer is blank, unless ``may_be_blank``. It names the
    kind of failure and the HTTP status only, and drops the vendor's exception: that may quote the
    messages.
    """

    adapter: adapters.Adapter = field(repr=False)
    location: Location
    error: type[ChatError] = ChatError
    may_be_blank: bool = field(default=False, repr=False)

    def __call__(self, messages: adapters.Messages) -> str:
        """The whole answer."""
        _check(messages)
        return self._answered(self._guarded(self.adapter.ask, messages))

    async def acall(self, messages: adapters.Messages) -> str:
        """Returns the whole answer, without blocking the event loop."""
        _check(messages)
        return self._answered(await self._aguarded(self.adapter.aask(messages)))

    def stream(self, messages: adapters.Messages) -> Generator[str, None, None]:
        """Yields the answer in pieces, as the model writes it."""
        _check(messages)
        pieces = self._guarded(self.adapter.chunks, messages)
        blank = True
        try:
            while (piece := self._guarded(next, pieces, None)) is not None:
                blank = blank and not piece.strip()
                if piece:
                    yield piece
        finally:
            self._guarded(pieces.close)
        if blank:
            self._answered("")

    def private(self) -> ChatModel:
        """Returns the same model for raw text: its calls are not traced, cached or logged.

        Told to leave a call out are LangChain's callbacks and caches, LangSmith, OpenTelemetry, the
        logs of named vendors, and whatever is inherited by context variable. LlamaIndex has no such
        switch: its recorders are refused with ParameterError, see
        ``llama_index_dp_middleware.quiet_recorders``. The model's httpx clients follow no redirect.
        What a function of your own records, and where it sends, is yours.
        """
        return replace(self, adapter=adapters.Unrecorded(self.adapter))

    def _guarded(self, function: Callable[..., T], *args: Any) -> T:
        try:
            return function(*args)
        except Exception as error:
            failure = _describe(error)
        raise self._failed(failure)

    async def _aguarded(self, work: Awaitable[T]) -> T:
        try:
            return await work
        except Exception as error:
            failure = _describe(error)
        raise self._failed(failure)

    def _failed(self, failure: str) -> ChatError:
        return self.error(f"the chat model ({self.location}) failed: {failure}")

    def _answered(self, answer: str) -> str:
        if not (answer.strip() or self.may_be_blank):
            raise self._failed("it answered with no text")
        return answer


def chat_model(x: Any, model: str | None = None, *, local: bool = False) -> ChatModel:
    """Makes a chat model of what you have.

    Args:
        x: A LangChain chat model, a LlamaIndex LLM, an ``openai.OpenAI`` or ``AsyncOpenAI``
            client, a sync or async function from messages to text, or a :class:`ChatModel`.
        model: The model's name; for an openai client only, and needed there.
        local: Declares that a function, a model of a class of your own or a vendor's model without
            an address runs where raw text may go. Without it, it may be asked as a remote model
            is, and not extract. Addresses that are known count all the same. An object may say it
            itself, with a ``location``.

    Raises:
        ParameterError: Anything else, or ``model`` or ``local`` missing or out of place.
    """
    if isinstance(x, ChatModel):
        if model is not None or local:
            raise ParameterError("expected a ChatModel alone: it has a name and a location")
        return x
    if model is not None and not is_one(x, OPENAI):
        raise ParameterError("expected model= with an openai client only")
    return ChatModel(adapter=_adapter_of(x, model), location=locate(x, local=local))


def _adapter_of(x: Any, model: str | None) -> adapters.Adapter:
    if is_one(x, OPENAI):
        if not model:
            raise ParameterError(
                "expected model= with an openai client: the name of its chat model"
            )
        is_async = inherits(x, "openai", "AsyncOpenAI")
        return (adapters.AsyncOpenAIAdapter if is_async else adapters.OpenAIAdapter)(x, model)
    inner = x
    while inherits(inner, "langchain_core", "RunnableBinding"):  # a model with bound arguments
        inner = inner.bound
    if inherits(inner, "langchain_core", "BaseChatModel"):
        return adapters.LangChainAdapter(x)
    if inherits(x, "llama_index", "BaseLLM"):
        return adapters.LlamaIndexAdapter(x)
    if callable(x) and not isinstance(x, type) and not inherits(x, "langchain_core", "Runnable"):
        return adapters.FunctionAdapter(x)
    kind = f"the class {x.__name__}" if isinstance(x, type) else type(x).__name__
    raise ParameterError(
        "expected a LangChain chat model, a LlamaIndex LLM, an openai client with model=, or a "
        f"function from messages to text, got {kind}; wrap it in such a function"
    )


def _check(messages: Any) -> None:
    is_list = isinstance(messages, list) and bool(messages)
    if not is_list or not all(
        isinstance(each, dict)
        and each.get("role") in _ROLES
        and isinstance(each.get("content"), str)
        for each in messages
    ):
        raise ParameterError(
            f"expected a list of messages with a role in {_ROLES} and a content of type str"
        )


def _describe(error: Exception) -> str:
    """Kind and HTTP status of a failure; our own messages hold no private text."""
    if isinstance(error, adapters.AdapterError | Recorded):
        return str(error)
    response = getattr(error, "response", None)
    status = getattr(error, "status_code", getattr(response, "status_code", None))
    status = status if isinstance(status, int) else 0
    if 300 <= status < 400:
        return f"{type(error).__name__} (HTTP {status}, a redirect that is not followed)"
    return type(error).__name__ + (f" (HTTP {status})" if status >= 400 else "")


def local_model(x: Any, trusted_hosts: Iterable[str] = ()) -> ChatModel:
    """Lets in a model that may be given raw text: nothing records a call, none is redirected.

    It is what :func:`chat_model` takes; in process, on loopback or on a trusted host. A function
    and a class of your own must be declared: ``chat_model(function, local=True)``.

    Raises:
        UntrustedHost: Raw text would go elsewhere, or one cannot tell where.
        ParameterError: Not a chat model, or ``trusted_hosts`` no collection of host names.
        ExtractorError: From a call: the model failed, or was redirected.
    """
    model = chat_model(x)
    require_trusted(model, trusted_hosts)
    return replace(model.private(), error=ExtractorError)
