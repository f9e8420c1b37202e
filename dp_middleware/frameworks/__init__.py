"""Frameworks around a sanitizer: chat models, where they run, and InferDPT."""

from dp_middleware.frameworks.chat import ChatModel, chat_model
from dp_middleware.frameworks.endpoints import open_model
from dp_middleware.frameworks.inferdpt import Answer, InferDPT

__all__ = ["Answer", "ChatModel", "InferDPT", "chat_model", "open_model"]
