"""Chat models from one-line specifications, for the command line, and local ones by name."""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import urlsplit

from dp_middleware.errors import ParameterError, library
from dp_middleware.models.chat import ChatModel, chat_model

_OLLAMA_PORT = 11434
_EVERYWHERE = ("0.0.0.0", "::")  # where a server listens; from here it is this computer
_NO_KEY = "none"  # servers of one's own ask for no key, but the client insists on one


def open_model(spec: str, *, private: bool) -> ChatModel:
    """Makes a chat model from a specification.

    Args:
        spec: ``openai:MODEL[@BASE_URL]`` or ``ollama:MODEL``. The first reads
            ``OPENAI_BASE_URL`` if no URL is given, and ``OPENAI_API_KEY``, which is sent to no
            other URL; with a URL the key is optional. The second is :func:`ollama`.
        private: Whether it will see raw text: its calls then leave no record, use no proxy of
            the environment and follow no redirect. Whether it *may* is for
            :func:`~dp_middleware.models.trust.require_trusted`.

    Raises:
        ParameterError: Not such a specification, or no API key.
        MissingExtra: The openai package is not installed.
    """
    kind, _, rest = spec.partition(":")
    if not rest or kind not in ("openai", "ollama"):
        raise ParameterError("expected openai:MODEL[@BASE_URL] or ollama:MODEL, got another form")
    opened = ollama(rest) if kind == "ollama" else _open_openai(rest, private)
    return opened.private() if private else opened


def ollama(model: str, host: str | None = None) -> ChatModel:
    """Makes a chat model of an Ollama server, on this computer unless told otherwise.

    It is called directly: through no proxy of the environment, and following no redirect.

    Args:
        model: Its name there, such as ``"llama3.2"`` or ``"llama3.2:1b"``.
        host: ``HOST``, ``HOST:PORT`` or a URL; default ``OLLAMA_HOST`` of the environment, else
            ``localhost:11434``.

    Raises:
        ParameterError: Not such a host, or no name.
        MissingExtra: The openai package is not installed.
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
        name, port = "", None
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
    straight = {"trust_env": False, "follow_redirects": False}
    http = openai.DefaultHttpxClient(**straight) if private else None
    return chat_model(openai.OpenAI(base_url=url, api_key=key, http_client=http), name)
