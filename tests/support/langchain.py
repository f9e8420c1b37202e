"""What the tests of LangChain's adapters share."""

from typing import Any

from langchain_dp_middleware import InferDPTChatModel
from support.contract import Probe

HEARD = frozenset({"LangChain callbacks", "LangChain async callbacks", "LangSmith"})
IMAGE = {"type": "image_url", "image_url": {"url": "https://private.example"}}


def infer(probe: Probe, session: Any = None, **options: Any) -> InferDPTChatModel:
    """A model that extracts, on the probe's servers."""
    models = {"remote": probe.chat_openai(), "extractor": probe.extractor, **options}
    return InferDPTChatModel(session or probe.session(), **models)
