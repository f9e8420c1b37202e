"""What a remote model said in one message, as one text by which a session knows it again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

_OURS = "dp_gateway "  # begins the mark of all JSON that stands for a message
_MARK = f"{_OURS}said"
THOUGHT = f"{_OURS}thought"
"""The mark of a reasoning item."""


@dataclass(frozen=True, kw_only=True)
class ToolCall:
    """A call that the model asked for.

    Attributes:
        id: Of the call.
        name: Of the tool.
        arguments: JSON as text.
    """

    id: str
    name: str
    arguments: str = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Said:
    """An assistant's message.

    Attributes:
        text: Its content.
        refusal: What it says instead.
        calls: Of tools.
    """

    text: str = field(default="", repr=False)
    refusal: str = field(default="", repr=False)
    calls: Sequence[ToolCall] = ()

    def words(self) -> str:
        """The text itself, or JSON if there is more, or if it could be taken for such JSON.

        Letters are spelled as they are: a detector may have to find names in it.
        """
        if not self.refusal and not self.calls and _MARK not in self.text:
            return self.text
        calls = [[call.id, call.name, _canonical(call.arguments)] for call in self.calls]
        return json.dumps({_MARK: [self.text, self.refusal, calls]}, ensure_ascii=False)

    @classmethod
    def of_words(cls, words: str) -> Said:
        """Inverse of :meth:`words`.

        Raises:
            ValueError: Something has changed the words so that they can be no message.
        """
        if _MARK not in words:
            return cls(text=words)
        try:
            text, refusal, calls = json.loads(words)[_MARK]
            made = [ToolCall(id=i, name=name, arguments=args) for i, name, args in calls]
        except (ValueError, TypeError, KeyError, RecursionError):
            made = None
        if made is None:
            raise ValueError("not the words of a message")
        return cls(text=text, refusal=refusal, calls=made)

    def message(self) -> dict[str, Any]:
        """As a chat message."""
        message: dict[str, Any] = {"role": "assistant", "content": self.text or None}
        if self.refusal:
            message["refusal"] = self.refusal
        if self.calls:
            message["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments},
                }
                for call in self.calls
            ]
        elif message["content"] is None:
            message["content"] = ""
        return message


def are_json(words: str) -> bool:
    """Whether words may be JSON, in which a detector misses names and a sanitizer breaks signs."""
    return _OURS in words


def _canonical(arguments: str) -> str:
    """JSON is spelled in one way, as clients parse and spell it anew; other text stays."""
    try:
        spelled = json.dumps(json.loads(arguments), sort_keys=True, ensure_ascii=False)
        spelled.encode()  # lone surrogates may stand in it as escapes
    except (ValueError, RecursionError):
        return arguments
    return spelled
