"""Results of public tools: known by a mark on what the tool itself returned, nothing else."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

from langchain_core.messages import BaseMessage, ToolMessage

import dp_middleware as dp
from dp_middleware.boundary import guarded

T = TypeVar("T")

_MARK = "dp_public"


@dataclass(frozen=True)
class PublicResults:
    """Tells what a public tool returned from what others wrote in its name.

    A reviewer's rejection, an emulated tool and a notice in front of a result are messages with
    the tool's name too, and may hold private text. The mark is keyed and holds for one content,
    so that it neither can be written by others nor outlives an edit.

    Attributes:
        session: Its key makes the marks.
        tools: Names of the tools whose results are public.
    """

    session: dp.Session
    tools: Collection[str]

    def marked(self, result: T, tool: str) -> T:
        """What a call of a tool returned, a message or a ``Command``, with marks if it is public.

        Errors get none: they quote the arguments.
        """
        if tool not in self.tools:
            return result
        if isinstance(result, ToolMessage):
            return cast("T", self._with_mark(result))
        update = getattr(result, "update", None)
        if not isinstance(update, dict) or not isinstance(update.get("messages"), list):
            return result
        messages = [
            self._with_mark(each) if isinstance(each, ToolMessage) else each
            for each in update["messages"]
        ]
        changed: Any = {**update, "messages": messages}
        return cast("T", replace(cast("Any", result), update=changed))

    def knows(self, message: BaseMessage) -> bool:
        """Whether a public tool returned exactly this."""
        if not isinstance(message, ToolMessage) or message.name not in self.tools:
            return False
        return bool(message.additional_kwargs.get(_MARK) == self._mark(message))

    def _with_mark(self, message: ToolMessage) -> ToolMessage:
        if message.status != "success":
            return message
        extra = {**message.additional_kwargs, _MARK: self._mark(message)}
        return message.model_copy(update={"additional_kwargs": extra})

    def _mark(self, message: ToolMessage) -> str:
        content = json.dumps(message.content, sort_keys=True, default=str)
        parts = (_MARK, str(message.name), message.tool_call_id, message.status, content)
        return guarded(lambda: self.session.digest(*parts))
