"""What a session releases with, and what went out for an event."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal, NamedTuple, Protocol

from dp_middleware.privacy import Certificate, PureDP
from dp_middleware.privacy.releases import Release
from dp_middleware.sanitizers.spans import Scope

Origin = Literal["remote-answer", "declared-public"]
"""Why a text is public."""

_ASSUMPTIONS: dict[Origin, str] = {
    "remote-answer": "written by the remote model, which saw released texts only",
    "declared-public": "declared public by the caller; nothing was checked",
}


class Releaser(Protocol):
    """A sanitizer, or the pseudonyms of one conversation."""

    @property
    def certificate(self) -> Certificate:
        """The guarantee of every release."""

    @property
    def remembers(self) -> bool:
        """Whether a release depends on those before, and is made while nobody else makes one."""

    def count(self, text: str) -> int:
        """Number of tokens of a public text."""

    def read(self, text: str, scope: Scope | None = None) -> Any:
        """A draft of a private text."""

    def release_drafts(self, drafts: Sequence[Any]) -> list[tuple[Release, Any]]:
        """Charge, draw and write."""

    def kept_in(self, entries: Any, now: float) -> AbstractContextManager[object]:
        """While it releases, what it remembers is read from these entries and kept there."""


class Released(NamedTuple):
    """What went out for an event.

    Attributes:
        release: Public.
        used: The pseudonyms in it.
    """

    release: Release
    used: tuple[str, ...] = ()


def to_json(released: Released) -> str:
    """All of a release but its adjacency."""
    release, used = released
    data = {**vars(release), "certificate": release.certificate.to_dict()}
    return json.dumps({**data, "used": used} if used else data)


def from_json(text: str, releaser: Releaser) -> Released:
    """The release; its adjacency is that of the releaser, which made it."""
    data = json.loads(text)
    used = tuple(data.pop("used", ()))
    certificate = Certificate.from_dict(data["certificate"], releaser.certificate.adjacency)
    return Released(Release(**{**data, "certificate": certificate}), used)


def public(text: str, origin: Origin, releaser: Releaser) -> Release:
    """What goes out as it is: of the private texts at most a function of what was released."""
    tokens, own = releaser.count(text), releaser.certificate
    certificate = Certificate(
        guarantee=PureDP(epsilon=0.0),
        adjacency=own.adjacency,
        method="proof",
        assumptions=(_ASSUMPTIONS[origin],),
        claimed=0.0,
        epsilon=0.0,
        mechanism=origin,
        space=own.space,
    )
    return Release(text=text, certificate=certificate, tokens_total=tokens, tokens_verbatim=tokens)
