"""What a call released and charged, in the metadata of its answer."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import AIMessage

from dp_middleware.privacy.receipts import Receipt

METADATA = "dp"


def signed(answer: Any, receipt: Receipt) -> Any:
    """A message with ``response_metadata["dp"]``, all of it public; anything else as it is."""
    said = receipt.to_dict()
    if not said or not isinstance(answer, AIMessage):
        return answer
    return answer.model_copy(
        update={"response_metadata": {**answer.response_metadata, METADATA: said}}
    )
