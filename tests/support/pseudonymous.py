"""A remote model that must see no value, and agents that look a person up, for pseudonyms."""

from __future__ import annotations

import re
from typing import Any

from support.entities import ENTITIES, detector

import dp_middleware as dp
from dp_middleware.testing import ToolCall


def pseudonyms(entities: dict[str, str] = ENTITIES, **options: Any) -> dp.Session:
    return dp.Pseudonyms(detector(entities), on_empty="pass").session(**options)


def name_in(text: object) -> str:
    """The person in a question of the agents."""
    found = re.search(r"Who is ([\w-]+ [\w-]+)", str(text))
    assert found
    return found[1]


def calling(request: Any) -> Any:
    """Calls the tool with the name in the question, then says what it said."""
    last = request["messages"][-1]
    if last["role"] == "tool":
        return last["content"]
    return [ToolCall(name="look_up", arguments={"name": name_in(last["content"])})]
