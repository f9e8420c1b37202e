"""One interface to chat models: of any framework, or by a one-line specification."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Generator, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar
from urllib.parse import urlsplit

from dp_middleware.errors import ChatError, ExtractorError, ParameterError, library
from dp_middleware.models import adapters
from dp_middleware.models.parts import OPENAI, inherits, is_one
from dp_middleware.models.recorders import Recorded
from dp_middleware.models.trust import Location, locate, require_trusted

T = TypeVar("T")

_ROLES = ("system", "user", "assistant")
_OLLAMA_PORT = 11434
_EVERYWHERE = ("0.0.0.0", "::")  # where a server listens; from here it is this computer
_NO_KEY = "none"  # servers of one's own ask for no key, but the client insists on one


@dataclass(frozen=True, kw_only=True)
class ChatModel:
    """Answers messages with text; made by :func:`chat_model`.

    Messages are ``[{"role": "system" | "user" | "assistant", "content": str}]``. Calls raise
    ``error`` if the model fails, or its answer is blank unless ``may_be_blank``; it names the kind
    of failure and the HTTP status, as a vendor's exception may quote the messages.
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
        """Returns the same model for raw text: its calls leave no record and follow no redirect.

        What a function of your own records, and where it sends, is yours. ParameterError: there are
        recorders of LlamaIndex, see ``llama_index_dp_middleware.quiet_recorders``.
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
        model: The model's name; needed with an openai client, ParameterError with others.
        local: Declares that a function, a model of a class of your own or a vendor's model without
            an address runs where raw text may go; else it may not extract. Addresses that are
            known count all the same. An object may say it itself, with a ``location``.
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
            raise ParameterError("expected model= with an openai client: its chat model's name")
        return adapters.OpenAIAdapter(x, model)
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
    for each in messages if isinstance(messages, list) and messages else [None]:
        said = each if isinstance(each, dict) else {}
        if said.get("role") in _ROLES and isinstance(said.get("content"), str):
            continue
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

    It is what :func:`chat_model` takes. UntrustedHost: it is not in process, on loopback or on a
    trusted host, or one cannot tell. ExtractorError, of a call: it failed, or was redirected.
    """
    model = chat_model(x)
    require_trusted(model, trusted_hosts)
    return replace(model.private(), error=ExtractorError)


def open_model(spec: str, *, private: bool) -> ChatModel:
    """Makes a chat model from a specification.

    Args:
        spec: ``openai:MODEL[@BASE_URL]`` or ``ollama:MODEL``. The first reads ``OPENAI_BASE_URL``
            if no URL is given, and ``OPENAI_API_KEY``, which is sent to no other URL.
        private: Whether it will see raw text: its calls then leave no record, use no proxy of the
            environment and follow no redirect. Whether it *may* is for ``require_trusted``.

    """
    kind, _, rest = spec.partition(":")
    if not rest or kind not in ("openai", "ollama"):
        raise ParameterError("expected openai:MODEL[@BASE_URL] or ollama:MODEL, got another form")
    opened = ollama(rest) if kind == "ollama" else _open_openai(rest, private)
    return opened.private() if private else opened


def ollama(model: str, host: str | None = None) -> ChatModel:
    """Makes a chat model of an Ollama server, called directly: by no proxy, no redirect.

    ``host`` is ``HOST``, ``HOST:PORT`` or a URL; default ``$OLLAMA_HOST``, else
    ``localhost:11434``. MissingExtra: the openai package is not installed.
    """
    if not model:
        raise ParameterError("expected the name of a model, got none")
    url = _ollama_url(host or os.environ.get("OLLAMA_HOST") or "localhost")
    return _opened(model, url, _NO_KEY, private=True)


def _ollama_url(host: str) -> str:
    """Where a server speaks OpenAI's protocol; without a scheme the default port is Ollama's."""
    try:
        given = urlsplit(host if "://" in host else f"http://{host}")
        name, port = given.hostname or "", given.port
    except ValueError:
        name = ""
    if not name or given.scheme not in ("http", "https"):
        raise ParameterError("expected the host of Ollama as HOST, HOST:PORT or a URL")
    name = "localhost" if name in _EVERYWHERE else name
    where = f"[{name}]" if ":" in name else name
    if port or "://" not in host:
        where += f":{port or _OLLAMA_PORT}"
    return f"{given.scheme}://{where}{given.path.rstrip('/')}/v1"


def _open_openai(rest: str, private: bool) -> ChatModel:
    name, _, given = rest.partition("@")
    usual = os.environ.get("OPENAI_BASE_URL")
    url = given or usual
    key = os.environ.get("OPENAI_API_KEY") if not given or given == usual else None
    key = key or (_NO_KEY if url else None)
    if not name or (given and "://" not in given):
        raise ParameterError("expected openai:MODEL[@BASE_URL], got another form")
    if key is None:
        raise ParameterError("expected OPENAI_API_KEY in the environment, or openai:MODEL@BASE_URL")
    return _opened(name, url, key, private)


def _opened(name: str, url: str | None, key: str, private: bool) -> ChatModel:
    """By the vendor's default connection, or one that goes straight to the host, nowhere else."""
    openai: Any = library("openai", "openai")
    http = openai.DefaultHttpxClient(trust_env=False, follow_redirects=False) if private else None
    return chat_model(openai.OpenAI(base_url=url, api_key=key, http_client=http), name)
