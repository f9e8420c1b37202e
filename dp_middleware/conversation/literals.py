"""Dicts and lists of tools that Python printed, read as the JSON that they stand for."""

from __future__ import annotations

import ast
import json
from dataclasses import replace

from dp_middleware.conversation.messages import Message


def as_json(text: str) -> str:
    """Returns a dict or a list that Python printed as JSON, and any other text as it is.

    Frameworks hand a model ``str(result)`` of a tool. Only for pseudonyms: one changed token may
    end that a text is a literal, which a guarantee for tokens does not foresee.
    """
    if text.lstrip()[:1] not in ("{", "[") or is_json(text):
        return text
    try:
        spelled = json.dumps(ast.literal_eval(text.strip()), ensure_ascii=False, allow_nan=False)
        spelled.encode()  # lone surrogates may stand in it as escapes
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return text
    return spelled


def printed(message: Message) -> Message:
    """Returns a message; of a tool's, with texts as :func:`as_json` reads them."""
    if message.role != "tool":
        return message
    return replace(message, texts=tuple(map(as_json, message.texts)))


def is_json(text: str) -> bool:
    """Tells whether a whole text is a JSON value."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
