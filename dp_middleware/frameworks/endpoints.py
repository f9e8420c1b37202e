"""Chat models from one-line specifications, for the command line."""

from __future__ import annotations

import os
from typing import Any

from dp_middleware.errors import MissingExtra, ParameterError
from dp_middleware.frameworks.adapters.local import TransformersAdapter
from dp_middleware.frameworks.chat import ChatModel, chat_model
from dp_middleware.frameworks.trust import IN_PROCESS

_NO_KEY = "none"  # servers of one's own ask for no key, but the client insists on one


def open_model(spec: str, *, private: bool) -> ChatModel:
    """A chat model from a specification.

    Args:
        spec: ``openai:MODEL[@BASE_URL]`` or ``hf:NAME_OR_PATH``. The first reads
            ``OPENAI_BASE_URL`` if no URL is given, and ``OPENAI_API_KEY``, which is sent to no
            other URL; with a URL the key is optional. The second is loaded with transformers, in
            process, at first use.
        private: Whether it will see raw text: its calls then leave no record, use no proxy of
            the environment and follow no redirect. Whether it *may* is for
            :func:`~dp_middleware.frameworks.trust.require_trusted`.

    Raises:
        ParameterError: Not such a specification, or no API key.
        MissingExtra: The openai package is not installed.
    """
    kind, _, rest = spec.partition(":")
    if kind == "openai" and rest:
        opened = _open_openai(rest, private)
    elif kind == "hf" and rest:
        opened = ChatModel(adapter=TransformersAdapter(rest), location=IN_PROCESS)
    else:
        raise ParameterError(f"expected openai:MODEL[@BASE_URL] or hf:NAME_OR_PATH, got {spec!r}")
    return opened.private() if private else opened


def _open_openai(rest: str, private: bool) -> ChatModel:
    name, _, given = rest.partition("@")
    usual = os.environ.get("OPENAI_BASE_URL")
    url = given or usual
    key = os.environ.get("OPENAI_API_KEY") if not given or given == usual else None
    key = key or (_NO_KEY if url else None)
    if not name or (given and "://" not in given):
        raise ParameterError(f"expected openai:MODEL[@BASE_URL], got {'openai:' + rest!r}")
    if key is None:
        raise ParameterError("expected OPENAI_API_KEY in the environment, or openai:MODEL@BASE_URL")
    client = _openai().OpenAI(base_url=url, api_key=key, http_client=_http(private))
    return chat_model(client, name)


def _http(private: bool) -> Any:
    """The vendor's default connection, or one that goes straight to the host and nowhere else."""
    if not private:
        return None
    return _openai().DefaultHttpxClient(trust_env=False, follow_redirects=False)


def _openai() -> Any:
    try:
        import openai
    except ImportError:
        raise MissingExtra("openai", "openai") from None
    return openai
