"""Messages of a transcript as a session takes them, and what is private in them by role."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, Literal

from dp_middleware._plan import Detector
from dp_middleware.errors import ParameterError


class Once(Enum):
    """In place of an event id."""

    ONCE = "once"


ONCE: Final = Once.ONCE
"""The event of a text that will never come again: a new release, kept in no memo."""

Item = tuple[str | Literal[Once.ONCE] | None, str, str]

ROLES = ("system", "user", "assistant", "tool")

_PRIVATE = tuple(role for role in ROLES if role != "assistant")


def checked(item: Any) -> Item:
    """An event id, :data:`ONCE` or ``None``; a role and a text.

    Raises:
        ParameterError: One of them is not what it should be; quotes none of them.
    """
    event_id, role, text = item
    unnamed = event_id is None or event_id is ONCE
    if not unnamed and (not isinstance(event_id, str) or not event_id):
        raise ParameterError("expected an event id of type str, not empty")
    if role not in ROLES:
        raise ParameterError(f"expected a role in {ROLES}")
    if not isinstance(text, str):
        raise ParameterError(f"expected text of type str, got {type(text).__name__}")
    return event_id, role, text


def by_role(scope: Detector | Mapping[str, Detector] | None) -> dict[str, Detector]:
    """The detector of each private role; one that is missing is released whole.

    Raises:
        ParameterError: Neither a function nor functions by private role.
    """
    if scope is None:
        return {}
    found = dict(scope) if isinstance(scope, Mapping) else dict.fromkeys(_PRIVATE, scope)
    if not set(found) <= set(_PRIVATE) or not all(map(callable, found.values())):
        raise ParameterError(
            f"expected scope= as a function from a text to its private spans, or one per role in "
            f"{list(_PRIVATE)}"
        )
    return found
