"""Language models that a measure needs, or what says that one is missing."""

from __future__ import annotations

from dp_middleware.contexts import Context, MaskedContext
from dp_middleware.errors import ParameterError
from dp_middleware.evaluation._cases import Chat, Models


def chat(models: Models) -> Chat:
    """From messages to text.

    Raises:
        ParameterError: There is none; so for the others.
    """
    if models.chat is None:
        raise ParameterError("needs a chat model: chat=, or --chat-model")
    return models.chat


def masked(models: Models) -> MaskedContext:
    """Fills in masked tokens."""
    if models.masked is None:
        raise ParameterError("needs a masked language model: masked=, or --masked-model")
    return models.masked


def context(models: Models) -> Context:
    """A prior of each token from those before it."""
    if models.context is None:
        raise ParameterError("needs a language model: context=, or --context")
    return models.context


def label(model: object) -> str | None:
    """Tells models apart; ``None`` for one without a name."""
    if model is None:
        return "none"
    name = getattr(model, "model", None) or getattr(model, "name", None)
    return f"{type(model).__name__} {name}" if isinstance(name, str) else None
