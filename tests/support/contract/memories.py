"""LlamaIndex's memories as ways of calling an LLM."""

from __future__ import annotations

from collections.abc import Mapping

from support.contract.calls import Call


def memory_calls() -> Mapping[str, Call]:
    """A LlamaIndex LLM sent what each memory makes of a conversation, by name.

    Memory blocks and summaries write private text into system messages.
    """
    from support.contract._llama_index_memory import CALLS

    return CALLS
