"""The rest of a text with pseudonyms, where a sanitizer perturbs it."""

from __future__ import annotations

import copy
from dataclasses import replace

from dp_middleware.errors import ParameterError
from dp_middleware.mechanisms.text_mechanisms import TextMechanism
from dp_middleware.privacy import Certificate
from dp_middleware.privacy.releases import Release
from dp_middleware.pseudonyms.rewriting import PseudonymDraft
from dp_middleware.sanitizers.draft import Draft
from dp_middleware.sanitizers.sanitizer import Sanitizer


def without_ledger(sanitizer: Sanitizer | None) -> Sanitizer | None:
    """Returns a sanitizer of tokens that charges nothing: all is charged before it draws."""
    if sanitizer is None:
        return None
    if isinstance(sanitizer.mechanism, TextMechanism):
        raise ParameterError("expected a sanitizer of tokens beside pseudonyms, got one of texts")
    twin = copy.copy(sanitizer)
    twin.ledger = twin.subject = None
    return twin


def release_rest(
    sanitizer: Sanitizer,
    rest: Draft,
    draft: PseudonymDraft,
    written: list[str],
    certificate: Certificate,
) -> tuple[Release, Draft]:
    """Draws for the rest, and writes all of the text; also returns what was drawn.

    Args:
        sanitizer: Draws; charges nothing.
        rest: What it read of the rest.
        draft: Of the same text.
        written: What stands in its places.
        certificate: Of the release.
    """
    ends = [0, *(end for _, end in draft.rest)]
    starts = [*(start for start, _ in draft.rest), len(draft.text)]
    frame = _apart([draft.filled(written, a, b) for a, b in zip(ends, starts, strict=True)])
    framed = replace(rest, public=frame)
    ((release, drawn),) = sanitizer.release_drafts([framed], lambda _: certificate)
    total = len(rest.ids) + sum(map(sanitizer.count, frame))
    verbatim = framed.tokens_verbatim - framed.public_tokens
    release = replace(
        release,
        tokens_total=total,
        tokens_verbatim=verbatim,
        tokens_free=total - verbatim - len(rest.fresh),
    )
    return release, drawn


def _apart(frame: list[str]) -> tuple[str, ...]:
    """What stands around perturbed text, with a blank where a drawn word would touch a pseudonym.

    Args:
        frame: The first and the last may be empty.
    """
    return tuple(
        " " * (n > 0 and piece[:1].strip() != "")
        + piece
        + " " * (n < len(frame) - 1 and piece[-1:].strip() != "")
        for n, piece in enumerate(frame)
    )
