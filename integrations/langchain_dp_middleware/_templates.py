"""Prompts of LangChain whose fixed parts were declared public."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from string import Formatter
from typing import Any

from langchain_core.messages import SystemMessage
from langchain_core.prompts import (
    ChatPromptTemplate,
    MessagesPlaceholder,
    PromptTemplate,
    SystemMessagePromptTemplate,
)

from dp_middleware.conversation.templates import Template
from dp_middleware.errors import ParameterError


def templates_of(prompts: Iterable[Any]) -> tuple[Template, ...]:
    """Returns the fixed parts of f-strings, prompt templates and chat prompt templates.

    What a chat prompt says without values in the name of others than the system stays private, as
    does a message that is a value and nothing else.
    """
    if isinstance(prompts, str):
        raise ParameterError("expected public_templates=['...'], a collection of templates")
    return tuple(template for prompt in prompts for template in _templates(prompt, None))


def _templates(x: Any, role: str | None) -> Iterator[Template]:
    if isinstance(x, Template):
        yield x
    elif isinstance(x, str) or (isinstance(x, PromptTemplate) and x.template_format == "f-string"):
        fixed = _fixed(x if isinstance(x, str) else x.template)
        if role is None or (any(fixed) and (len(fixed) > 1 or role == "system")):
            yield Template(fixed=fixed, role=role)
    elif isinstance(x, ChatPromptTemplate):
        for message in x.messages:
            yield from _of_message(message)
    else:
        raise ParameterError(f"expected a prompt template of f-strings, got {type(x).__name__}")


def _of_message(message: Any) -> Iterator[Template]:
    is_system = isinstance(message, SystemMessage | SystemMessagePromptTemplate)
    said = getattr(message, "prompt", None) or getattr(message, "content", [])
    if not isinstance(message, MessagesPlaceholder):
        for part in said if isinstance(said, list) else [said]:
            yield from _templates(part, "system" if is_system else "user")


def _fixed(template: str) -> tuple[str, ...]:
    parts = [""]
    for text, name, _, _ in Formatter().parse(template):
        parts[-1] += text
        if name is not None:
            parts.append("")
    return tuple(parts)
