"""Releases token by token, so that an edited text is drawn for only where it changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from dp_middleware._plan import Token
from dp_middleware.mechanisms import ChannelMechanism
from dp_middleware.sanitizers import Release, Sanitizer

_NOT_DRAWN = -1
_EDIT_NOTE = "at which positions an edited text differs from its earlier version is public"


@dataclass(frozen=True, kw_only=True)
class Positions:
    """What was released for every token of a text.

    Attributes:
        digest: Keyed digest of the whole text.
        marks: A keyed digest per token.
        outputs: The released id per token, -1 for one that a policy keeps.
    """

    digest: bytes = field(repr=False)
    marks: tuple[bytes, ...] = field(repr=False)
    outputs: tuple[int, ...] = field(repr=False)


def release(
    sanitizer: Sanitizer,
    text: str,
    digest: bytes,
    mark: Callable[[Token], bytes],
    earlier: Positions | None,
) -> tuple[Release, Positions]:
    """Charge and draw for the tokens that are new; the others keep what was released for them.

    Where the law at a position depends on other tokens, everything is drawn anew.

    Args:
        sanitizer: Charges and draws.
        text: Private.
        digest: Keyed digest of the text.
        mark: Keyed digest of a token.
        earlier: The version that the text replaces.

    Raises:
        As :meth:`Sanitizer.release`.
    """
    if not sanitizer.accept_infinite:
        sanitizer._refuse_infinite(sanitizer.certificate.epsilon)
    plan = sanitizer._plan(text, None)
    tokens = [token for part in plan.parts if not isinstance(part, str) for token in part]
    marks = tuple(mark(token) for token in tokens)
    sources: list[int | None] = [None] * len(tokens)
    if earlier is not None and isinstance(sanitizer.mechanism, ChannelMechanism):
        sources = unchanged(earlier.marks, marks)
    outputs = [
        _NOT_DRAWN if source is None or earlier is None else earlier.outputs[source]
        for source in sources
    ]
    fresh = [k for k, token in enumerate(tokens) if sources[k] is None and token.kept is None]
    ids = np.array([tokens[k].id for k in fresh], dtype=np.int64)
    certificate = sanitizer._certificate_of(ids, scoped=False)
    if len(fresh) < len(plan.perturbed()):
        certificate = replace(certificate, assumptions=(*certificate.assumptions, _EDIT_NOTE))
    if sanitizer.ledger is not None and sanitizer.subject is not None and fresh:
        sanitizer.ledger.charge(sanitizer.subject, certificate, len(fresh))
    (drawn,) = sanitizer._drawer.draw([ids], sanitizer._entropy)
    for k, output in zip(fresh, drawn.tolist(), strict=True):
        outputs[k] = output
    perturbed = [out for out, token in zip(outputs, tokens, strict=True) if token.kept is None]
    released = sanitizer._released(plan, certificate, iter(perturbed))
    return released, Positions(digest=digest, marks=marks, outputs=tuple(outputs))


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
