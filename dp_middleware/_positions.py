"""Releases token by token, so that an edited text is drawn for only where it changed."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from dp_middleware._plan import Scope, Token
from dp_middleware.mechanisms import ChannelMechanism
from dp_middleware.releases import Release
from dp_middleware.sanitizers import Sanitizer


@dataclass(frozen=True, kw_only=True)
class Positions:
    """What was released for every token of a text.

    Attributes:
        digest: Keyed digest of the whole text.
        marks: A keyed digest per private token.
        outputs: The released id per private token, ``None`` for one that a policy keeps.
    """

    digest: bytes = field(repr=False)
    marks: tuple[bytes, ...] = field(repr=False)
    outputs: tuple[int | None, ...] = field(repr=False)


class Versions:
    """The latest version of each event's text, of the newest events. Private; in memory only.

    Args:
        capacity: Largest number of events.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._known: OrderedDict[bytes, Positions] = OrderedDict()

    def get(self, event: bytes, digest: bytes) -> Positions | None:
        """The version with this digest; ``None`` if it is forgotten or not the latest here."""
        found = self._known.get(event)
        return found if found is not None and found.digest == digest else None

    def put(self, event: bytes, positions: Positions) -> None:
        """Set the latest version."""
        self._known[event] = positions
        self._known.move_to_end(event)
        if len(self._known) > self._capacity:
            self._known.popitem(last=False)


def release(
    sanitizer: Sanitizer,
    text: str,
    scope: Scope | None,
    digest: bytes,
    mark: Callable[[Token], bytes],
    earlier: Positions | None,
) -> tuple[Release, Positions]:
    """Charge and draw for the tokens that are new; the others keep what was released for them.

    Private tokens are compared in reading order, whatever public text stands between them.
    Where the law at a position depends on other tokens, everything is drawn anew.

    Args:
        sanitizer: Charges and draws.
        text: Private.
        scope: As for :meth:`Sanitizer.release`.
        digest: Keyed digest of the text.
        mark: Keyed digest of a token.
        earlier: The version that the text replaces.

    Raises:
        As :meth:`Sanitizer.release`.
    """
    plan = sanitizer.plan(text, scope)
    marks = tuple(map(mark, plan.tokens))
    if earlier is not None and isinstance(sanitizer.mechanism, ChannelMechanism):
        sources = unchanged(earlier.marks, marks)
        plan = plan.with_outputs(None if k is None else earlier.outputs[k] for k in sources)
    ((released, drawn),) = sanitizer.release_plans([plan])
    outputs = tuple(token.output for token in drawn.tokens)
    return released, Positions(digest=digest, marks=marks, outputs=outputs)


def unchanged(old: Sequence[bytes], new: Sequence[bytes]) -> list[int | None]:
    """For every new position the old one with the same token, or ``None`` where it changed.

    What two versions share at the start and at the end is unchanged; so is, if they are of the
    same length, every position with an equal token.
    """
    shorter = min(len(old), len(new))
    start = 0
    while start < shorter and old[start] == new[start]:
        start += 1
    end = 0
    while end < shorter - start and old[-1 - end] == new[-1 - end]:
        end += 1
    shift = len(old) - len(new)
    middle = range(start, len(new) - end)
    same: list[int | None] = [k if not shift and old[k] == new[k] else None for k in middle]
    return [*range(start), *same, *(k + shift for k in range(len(new) - end, len(new)))]
