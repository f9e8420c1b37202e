"""Releases token by token, so that an edited text is drawn for only where it changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dp_middleware.embedding.arrays import Ids
from dp_middleware.mechanisms import ChannelMechanism
from dp_middleware.mechanisms.lockstep import FRESH
from dp_middleware.privacy.releases import Release
from dp_middleware.sanitizers.draft import Draft
from dp_middleware.conversation.releaser import Releaser

_END = b""  # the mark behind each private part: what is typed in another one is new there


@dataclass(frozen=True, kw_only=True, eq=False)
class Version:
    """A text as it was released, token by token.

    Attributes:
        digest: Keyed digest of the whole text.
        marks: A keyed digest per private token, and an empty one behind each private part.
        outputs: The released id per mark, ``FRESH`` for a token that a policy keeps and for the
            end of a part.
    """

    digest: bytes = field(repr=False)
    marks: tuple[bytes, ...] = field(repr=False)
    outputs: Ids = field(repr=False)


def release(
    sanitizer: Releaser,
    draft: Any,
    digest: bytes,
    mark: Callable[[int, str | None], bytes],
    earlier: Version | None,
) -> tuple[Release, Version]:
    """Charge and draw for the tokens that are new; the others keep what was released for them.

    Private parts are compared in reading order, whatever public text stands between them; as
    long as their number stays the same, no token keeps what was released in another part.
    Where the law at a position depends on other tokens, everything is drawn anew.

    Args:
        sanitizer: Charges and draws.
        draft: Of the text, private.
        digest: Keyed digest of the text.
        mark: Keyed digest of a token's id and kept spelling.
        earlier: The version that the text replaces.

    Raises:
        As :meth:`Sanitizer.release`.
    """
    if not isinstance(draft, Draft):  # nothing of the version before is kept
        ((released, _),) = sanitizer.release_drafts([draft])
        return released, Version(digest=digest, marks=(), outputs=np.empty(0, dtype=np.int64))
    marks: list[bytes] = []
    for span in draft.private:
        kept = map(draft.kept.get, range(span.tokens.start, span.tokens.stop))
        marks += [*map(mark, draft.ids[span.tokens].tolist(), kept), _END]
    is_token = np.array([own != _END for own in marks], dtype=bool)
    is_channel = isinstance(getattr(sanitizer, "mechanism", None), ChannelMechanism)
    if earlier is not None and is_channel:
        old = unchanged(earlier.marks, marks)
        known = np.array([FRESH if k is None else earlier.outputs[k] for k in old], dtype=np.int64)
        draft = replace(draft, outputs=known[is_token])
    ((released, drawn),) = sanitizer.release_drafts([draft])
    every = np.full(len(marks), FRESH)
    every[is_token] = drawn.outputs
    return released, Version(digest=digest, marks=tuple(marks), outputs=every)


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
