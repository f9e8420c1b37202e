"""Releases as a memo keeps them, and answers of a remote model as releases."""

from __future__ import annotations

import json

from dp_middleware.privacy import Certificate, PureDP
from dp_middleware.releases import Release
from dp_middleware.sanitizers import Sanitizer

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


def remote_answer(text: str, sanitizer: Sanitizer) -> Release:
    """What a remote model wrote: a function of what was released before."""
    tokens = len(sanitizer.space.vocabulary.tokenizer.pieces(text))
    certificate = Certificate(
        guarantee=PureDP(epsilon=0.0),
        adjacency=sanitizer.certificate.adjacency,
        method="proof",
        assumptions=("written by the remote model, which saw released texts only",),
        claimed=0.0,
        epsilon=0.0,
        mechanism="remote-answer",
        space=sanitizer.space.fingerprint,
    )
    return Release(text=text, certificate=certificate, tokens_total=tokens, tokens_verbatim=tokens)
