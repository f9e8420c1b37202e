"""What LlamaIndex's memories make of a conversation: system messages with private text."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, TextBlock
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.llms import MockLLM
from llama_index.core.memory import (
    ChatSummaryMemoryBuffer,
    FactExtractionMemoryBlock,
    Memory,
    StaticMemoryBlock,
    VectorMemoryBlock,
)
from llama_index.core.memory.memory import BaseMemoryBlock
from llama_index.core.schema import BaseNode
from llama_index.core.vector_stores.types import (
    BasePydanticVectorStore,
    VectorStoreQuery,
    VectorStoreQueryResult,
)
from sqlalchemy.ext.asyncio import create_async_engine
from support.contract.calls import Call
from support.contract.probe import Probe

from dp_middleware._quiet import unrecorded


class _Nodes(BasePydanticVectorStore):
    """Finds all that it was given."""

    stores_text: bool = True
    nodes: list[Any]

    @property
    def client(self) -> None:
        """None is needed."""

    def add(self, nodes: Any, **kwargs: Any) -> list[str]:
        self.nodes += nodes
        return [each.node_id for each in nodes]

    def delete(self, ref_doc_id: str, **kwargs: Any) -> None:
        """Nothing is deleted."""

    def query(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        found: list[BaseNode] = list(self.nodes)
        ids = [each.node_id for each in found]
        return VectorStoreQueryResult(nodes=found, ids=ids, similarities=[1.0] * len(found))


async def _remembered(block: BaseMemoryBlock[Any], probe: Probe) -> Any:
    engine = create_async_engine("sqlite+aiosqlite://")
    try:
        await block.aput([ChatMessage(probe.new_text())])
        memory = Memory.from_defaults(memory_blocks=[block], async_engine=engine)
        await memory.aput(ChatMessage(probe.new_text()))
        return await memory.aget(input="w1x")
    finally:
        await engine.dispose()


async def _summarised(probe: Probe) -> Any:
    said = [ChatMessage(probe.new_text()), ChatMessage("w1x")]
    return ChatSummaryMemoryBuffer.from_defaults(said, MockLLM(), token_limit=10).get()


def _sending(remembered: Callable[[Probe], Awaitable[Any]]) -> Call:
    async def call(model: Any, probe: Probe) -> Any:
        with unrecorded():  # a memory's own models
            messages = await remembered(probe)
        assert any(each.role == "system" for each in messages), "the memory wrote nothing"
        return await model.achat(messages)

    return call


CALLS: dict[str, Call] = {
    "memory, static": _sending(
        lambda p: _remembered(StaticMemoryBlock(static_content=[TextBlock(text=p.new_text())]), p)
    ),
    "memory, facts": _sending(
        lambda p: _remembered(FactExtractionMemoryBlock(llm=MockLLM(), facts=[p.new_text()]), p)
    ),
    "memory, vectors": _sending(
        lambda p: _remembered(
            VectorMemoryBlock(vector_store=_Nodes(nodes=[]), embed_model=MockEmbedding(4)), p
        )
    ),
    "memory, summary": _sending(_summarised),
}
