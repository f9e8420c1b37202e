"""Prompts of LlamaIndex whose fixed parts were declared public."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from llama_index.core.base.llms.types import TextBlock
from llama_index.core.prompts import ChatPromptTemplate, PromptTemplate, SelectorPromptTemplate

from dp_middleware.conversation.templates import Template
from dp_middleware.errors import ParameterError
from llama_index_dp_middleware._messages import session_role

_VALUE = re.compile(r"\{[a-zA-Z_][a-zA-Z0-9_]*(?:\.[a-zA-Z_][a-zA-Z0-9_]*)*\}")  # as LlamaIndex's


def templates_of(prompts: Iterable[Any]) -> tuple[Template, ...]:
    """The fixed parts of texts with ``{values}`` and of LlamaIndex's prompt templates.

    What a chat prompt says without values in the name of others than the system stays private, as
    does a message that is a value and nothing else.

    Raises:
        ParameterError: Something else.
    """
    if isinstance(prompts, str):
        raise ParameterError("expected public_templates=['...'], a collection of templates")
    return tuple(template for prompt in prompts for template in _templates(prompt))


def _templates(x: Any) -> Iterator[Template]:
    if isinstance(x, Template):
        yield x
    elif isinstance(x, str) or type(x) is PromptTemplate:
        yield Template(fixed=tuple(_VALUE.split(x if isinstance(x, str) else x.template)))
    elif isinstance(x, ChatPromptTemplate):
        for message in x.message_templates:
            role = session_role(message.role)
            for block in message.blocks:
                fixed = _VALUE.split(block.text) if isinstance(block, TextBlock) else []
                if any(fixed) and (len(fixed) > 1 or role == "system"):
                    yield Template(fixed=tuple(fixed), role=role)
    elif isinstance(x, SelectorPromptTemplate):
        for prompt in (x.default_template, *(prompt for _, prompt in x.conditionals or ())):
            yield from _templates(prompt)
    else:
        raise ParameterError(f"expected a prompt template, got {type(x).__name__}")
