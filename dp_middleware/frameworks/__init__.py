"""Frameworks around a sanitizer: chat models, where they run, InferDPT and PrivRewrite."""

from dp_middleware.frameworks._candidates import rewriting_prompts
from dp_middleware.frameworks.inferdpt import PAPER_PROMPTS, Answer, InferDPT
from dp_middleware.frameworks.privrewrite import PrivRewrite, PrivRewriteNaive
from dp_middleware.models.chat import ChatModel, chat_model, ollama, open_model
from dp_middleware.models.embedders import embedding_service

# fmt: off
__all__ = [
    "PAPER_PROMPTS", "Answer", "ChatModel", "InferDPT", "PrivRewrite", "PrivRewriteNaive",
    "chat_model", "embedding_service", "ollama", "open_model", "rewriting_prompts",
]
# fmt: on
