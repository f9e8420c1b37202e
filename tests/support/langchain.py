"""What the tests of LangChain's adapters share."""

import numpy as np
from langchain_dp_middleware import DPChatModel, InferDPTChatModel, PrivateHead

import dp_middleware as dp

WORDS = [f"w{i}x" for i in range(50)]
SPACE = dp.EmbeddingSpace(dp.Vocabulary(WORDS), np.random.default_rng(0).normal(size=(50, 6)))
SANITIZER = dp.Sanitizer(dp.TokenExponential(epsilon=4.0), SPACE)
HEARD = frozenset({"LangChain callbacks", "LangChain async callbacks", "LangSmith"})
IMAGE = {"type": "image_url", "image_url": {"url": "https://private.example"}}


def infer(probe, session=None, **options):
    models = {"remote": probe.chat_openai(), "extractor": probe.extractor, **options}
    return InferDPTChatModel(session or probe.session(), **models)


def chat_model(probe, session=None):
    return DPChatModel(session or probe.session(), probe.chat_openai())


def noting_head(probe, session=None):
    return PrivateHead(session or probe.session(), answers="note") | probe.chat_openai()


MODELS = {"chat model": chat_model, "head": noting_head, "extraction": infer}
