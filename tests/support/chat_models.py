"""Chat models of every kind, through the vendors' real clients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dp_middleware.frameworks import ChatModel, chat_model

WORDS = tuple(f"word{k}" for k in range(40))
KINDS = ("openai", "async_openai", "langchain", "llama_index")

Make = Callable[..., ChatModel]


def _openai(url: str, settings: dict[str, Any], opened: list[Any]) -> ChatModel:
    import openai

    opened.append(openai.OpenAI(base_url=url, **settings))
    return chat_model(opened[-1], "gpt-4o-mini")


def _async_openai(url: str, settings: dict[str, Any], opened: list[Any]) -> ChatModel:
    import openai

    return chat_model(openai.AsyncOpenAI(base_url=url, **settings), "gpt-4o-mini")


BUILDERS = {
    "openai": _openai,
    "async_openai": _async_openai,
    "langchain": lambda url, settings, opened: chat_model(langchain_model(url, **settings)),
    "llama_index": lambda url, settings, opened: chat_model(llama_index_llm(url, **settings)),
}


def langchain_model(url: str, **settings: Any) -> Any:
    from langchain_openai import ChatOpenAI

    return ChatOpenAI(model="gpt-4o-mini", base_url=url, **{"api_key": "none", **settings})


def llama_index_llm(url: str, **settings: Any) -> Any:
    from llama_index.llms.openai import OpenAI

    return OpenAI(model="gpt-4o-mini", api_base=url, **{"api_key": "none", **settings})
