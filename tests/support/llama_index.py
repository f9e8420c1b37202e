"""Ways of calling LlamaIndex models and chat engines, and what its tests build of them."""

import asyncio
import itertools
import json
from collections.abc import Callable
from typing import Any

from llama_index.core import VectorStoreIndex
from llama_index.core.base.llms.types import ChatMessage, ChatResponse
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.schema import TextNode
from support.contract import TraceSafeContract

LLAMA = frozenset({"LlamaIndex spans", "LlamaIndex events", "LlamaIndex callbacks"})


class Contract(TraceSafeContract):
    requires = LLAMA


def user(text):
    return ChatMessage(text, role="user")


def said(text):
    return ChatMessage(text, role="assistant")


def index_of(*nodes, **options):
    made = [
        TextNode(id_=f"n{k}", text=node) if isinstance(node, str) else node
        for k, node in enumerate(nodes)
    ]
    return VectorStoreIndex(made, **{"embed_model": MockEmbedding(4), **options})


def simple_chat(model, **options):
    return SimpleChatEngine.from_defaults(llm=model, memory_cls=ChatMemoryBuffer, **options)


async def _listed(pieces):
    return [piece async for piece in await pieces]


async def _joined(response):
    return "".join([piece async for piece in (await response).async_response_gen()])


Path = Callable[[Any, str], Any]

MODEL = {  # calls of a model, to all that is shown: one response, or the pieces
    "chat": lambda m, t: [m.chat([user(t)])],
    "achat": lambda m, t: [asyncio.run(m.achat([user(t)]))],
    "stream_chat": lambda m, t: list(m.stream_chat([user(t)])),
    "astream_chat": lambda m, t: asyncio.run(_listed(m.astream_chat([user(t)]))),
    "complete": lambda m, t: [m.complete(t)],
    "acomplete": lambda m, t: [asyncio.run(m.acomplete(t))],
    "stream_complete": lambda m, t: list(m.stream_complete(t)),
    "astream_complete": lambda m, t: asyncio.run(_listed(m.astream_complete(t))),
}

CHAT = {  # calls of a chat engine, to the text of the answer
    "chat": lambda e, t: str(e.chat(t)),
    "achat": lambda e, t: str(asyncio.run(e.achat(t))),
    "stream_chat": lambda e, t: "".join(e.stream_chat(t).response_gen),
    "astream_chat": lambda e, t: asyncio.run(_joined(e.astream_chat(t))),
}


def told(response):
    return response.message.content if isinstance(response, ChatResponse) else response.text


def sent_by(server, number=-1):
    return [message["content"] for message in server.requests[number]["messages"]]


def grows(server):
    """Whether every request repeats the one before, byte by byte."""
    sent = [json.loads(body)["messages"] for body in server.bodies]
    pairs = itertools.pairwise(sent)
    return all(json.dumps(later[: len(one)]) == json.dumps(one) for one, later in pairs)
