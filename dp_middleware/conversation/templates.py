"""Public prompts around private values: what is fixed in them goes out as it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from dp_middleware.errors import ParameterError


@dataclass(frozen=True, kw_only=True)
class Template:
    """A prompt that its author declares public.

    Attributes:
        fixed: Its fixed parts: before, between and behind the values. One part is a prompt without
            values, which is for system messages: anybody else could have written it.
        role: Of the messages that it may make up; ``None``: of any.
    """

    fixed: tuple[str, ...]
    role: str | None = None

    def __post_init__(self) -> None:
        if len(self.fixed) < 2 and self.role != "system":
            raise ParameterError("expected a public template with values, such as '{question}'")
        if not any(self.fixed) or not all(self.fixed[1:-1]):
            raise ParameterError("expected a public template with fixed text between values")

    def values(self, role: str, text: str) -> tuple[str, ...] | None:
        """Returns the private values of a message, if it can be cut in just one way."""
        if self.role not in (None, role):
            return None
        if len(self.fixed) == 1:
            return () if text == self.fixed[0] else None
        first, *inner, last = self.fixed
        end = len(text) - len(last)
        if end < len(first) or not text.startswith(first) or not text.endswith(last):
            return None
        rest = before = text[len(first) : end]
        left, right = list[str](), list[str]()
        for part, back in zip(inner, reversed(inner), strict=True):
            value, found, rest = rest.partition(part)
            before, _, behind = before.rpartition(back)
            if not found:
                return None
            left, right = [*left, value], [behind, *right]
        left, right = [*left, rest], [before, *right]
        return tuple(left) if left == right else None


@dataclass(frozen=True)
class Parts:
    """A text as private values in public fixed text."""

    values: tuple[str, ...] = field(repr=False)
    fixed: tuple[str, ...] = ("", "")  # one more than values

    def joined(self, released: Iterator[str]) -> str:
        """Returns the text again, with what goes out for the values, in their order."""
        first, *rest = self.fixed
        return first + "".join(next(released) + part for part in rest)


def parts_of(templates: Iterable[Template], role: str, text: str) -> Parts:
    """What is private in a text: all, unless exactly one of the templates made it."""
    cut = ((template, template.values(role, text)) for template in templates)
    made = {Parts(values, template.fixed) for template, values in cut if values is not None}
    return made.pop() if len(made) == 1 else Parts((text,))
