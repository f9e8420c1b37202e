"""Releases token by token, so that an edited text is drawn for only where it changed."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from dp_middleware.mechanisms import ChannelMechanism
from dp_middleware.privacy.releases import Release
from dp_middleware.sanitizers.draft import Plan
from dp_middleware.sanitizers.sanitizer import Sanitizer

_END = b""  # the mark behind each private part: what is typed in another one is new there


@dataclass(frozen=True, kw_only=True)
class Positions:
    """What was released for every token of a text.

    Attributes:
        digest: Keyed digest of the whole text.
        marks: A keyed digest per private token, and an empty one behind each private part.
        outputs: The released id per mark, ``None`` for a token that a policy keeps and for the
            end of a part.
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
    plan: Plan,
    digest: bytes,
    mark: Callable[[int, str | None], bytes],
    earlier: Positions | None,
) -> tuple[Release, Positions]:
    """Charge and draw for the tokens that are new; the others keep what was released for them.

    Private parts are compared in reading order, whatever public text stands between them; as
    long as their number stays the same, no token keeps what was released in another part.
    Where the law at a position depends on other tokens, everything is drawn anew.

    Args:
        sanitizer: Charges and draws.
        plan: Of the text, private.
        digest: Keyed digest of the text.
        mark: Keyed digest of a token's id and kept spelling.
        earlier: The version that the text replaces.

    Raises:
        As :meth:`Sanitizer.release`.
    """
    marks: list[bytes] = []
    for part in plan.private:
        marks += [*map(mark, part.ids, part.kept), _END]
    if earlier is not None and isinstance(sanitizer.mechanism, ChannelMechanism):
        pairs = zip(unchanged(earlier.marks, marks), marks, strict=True)
        sources = [source for source, each in pairs if each != _END]
        plan = plan.with_outputs(None if k is None else earlier.outputs[k] for k in sources)
    ((released, drawn),) = sanitizer.release_plans([plan])
    outputs = tuple(output for part in drawn.private for output in (*part.outputs, None))
    return released, Positions(digest=digest, marks=tuple(marks), outputs=outputs)


def unchanged(old: Sequence[bytes], new: Sequence[bytes]) -> list[int | None]:
    """For every new position the old one with the same token, or ``None`` where it changed.

    What two versions share at the start and at the end is unchanged; so is, if what is between
    has the same length and parts of the same lengths, every position with an equal token.
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
    level = not shift and all((old[k] == _END) == (new[k] == _END) for k in middle)
    same: list[int | None] = [k if level and old[k] == new[k] else None for k in middle]
    return [*range(start), *same, *(k + shift for k in range(len(new) - end, len(new)))]
