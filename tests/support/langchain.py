"""What the tests of LangChain's adapters share."""

from typing import Any

from langchain_dp_middleware import DPChatModel, InferDPTChatModel, PrivateHead
from support.contract import Probe

HEARD = frozenset({"LangChain callbacks", "LangChain async callbacks", "LangSmith"})
IMAGE = {"type": "image_url", "image_url": {"url": "https://private.example"}}


def infer(probe: Probe, session: Any = None, **options: Any) -> InferDPTChatModel:
    """A model that extracts, on the probe's servers."""
    models = {"remote": probe.chat_openai(), "extractor": probe.extractor, **options}
    return InferDPTChatModel(session or probe.session(), **models)


def chat_model(probe: Probe, session: Any = None) -> DPChatModel:
    """A model around the remote one."""
    return DPChatModel(session or probe.session(), probe.chat_openai())


def noting_head(probe: Probe, session: Any = None) -> Any:
    """A head that notes what the remote model behind it answers."""
    return PrivateHead(session or probe.session(), answers="note") | probe.chat_openai()


MODELS = {"chat model": chat_model, "head": noting_head, "extraction": infer}
