"""Releases as a memo keeps them, and public texts as releases."""

from __future__ import annotations

import json
from typing import Literal

from dp_middleware.privacy import Certificate, PureDP
from dp_middleware.releases import Release
from dp_middleware.sanitizers import Sanitizer

Origin = Literal["remote-answer", "declared-public"]
"""Why a text is public."""

_ASSUMPTIONS: dict[Origin, str] = {
    "remote-answer": "written by the remote model, which saw released texts only",
    "declared-public": "declared public by the caller; nothing was checked",
}
_PLAIN = ("text", "tokens_total", "tokens_verbatim")


def to_json(release: Release) -> str:
    """All of a release but its adjacency."""
    data = {name: getattr(release, name) for name in _PLAIN}
    return json.dumps({**data, "certificate": release.certificate.to_dict()})


def from_json(text: str, sanitizer: Sanitizer) -> Release:
    """The release; its adjacency is that of the sanitizer, which made it."""
    data = json.loads(text)
    certificate = Certificate.from_dict(data["certificate"], sanitizer.certificate.adjacency)
    return Release(**{**data, "certificate": certificate})


def public(text: str, origin: Origin, sanitizer: Sanitizer) -> Release:
    """What goes out as it is: of the private texts at most a function of what was released."""
    tokens = len(sanitizer.space.vocabulary.tokenizer.pieces(text))
    certificate = Certificate(
        guarantee=PureDP(epsilon=0.0),
        adjacency=sanitizer.certificate.adjacency,
        method="proof",
        assumptions=(_ASSUMPTIONS[origin],),
        claimed=0.0,
        epsilon=0.0,
        mechanism=origin,
        space=sanitizer.space.fingerprint,
    )
    return Release(text=text, certificate=certificate, tokens_total=tokens, tokens_verbatim=tokens)
