"""A fixed public answer in place of the remote model's, where a budget is exhausted."""

from __future__ import annotations

from typing import Any

from llama_index.core.base.llms.types import (
    CompletionResponse,
    CompletionResponseGen,
    LLMMetadata,
)
from llama_index.core.llms import CustomLLM


class FixedReply(CustomLLM):
    """Says the same to everything; asks nobody.

    Attributes:
        text: Public.
    """

    text: str

    @property
    def metadata(self) -> LLMMetadata:
        """Of a model that has nothing to tell."""
        return LLMMetadata(model_name="dp-fixed-reply")

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        """The text."""
        return CompletionResponse(text=self.text)

    def stream_complete(
        self, prompt: str, formatted: bool = False, **kwargs: Any
    ) -> CompletionResponseGen:
        """The text, in one piece."""
        yield CompletionResponse(text=self.text, delta=self.text)
