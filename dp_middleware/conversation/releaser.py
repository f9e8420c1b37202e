"""What a session releases with, how an event is known, and what went out for it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

from dp_middleware.privacy import Certificate
from dp_middleware.privacy.releases import Release
from dp_middleware.sanitizers.spans import Scope


class Releaser(Protocol):
    """A sanitizer, or the pseudonyms of one conversation."""

    @property
    def certificate(self) -> Certificate:
        """The guarantee of every release."""

    @property
    def remembers(self) -> bool:
        """Whether a release depends on those before, and is made while nobody else makes one."""

    def count(self, text: str) -> int:
        """Counts the tokens of a public text."""

    def read(self, text: str, scope: Scope | None = None) -> Any:
        """Returns a draft of a private text."""

    def release_drafts(self, drafts: Sequence[Any]) -> list[tuple[Release, Any]]:
        """Charges, draws and writes."""

    def kept_in(self, entries: Any, now: float) -> AbstractContextManager[object]:
        """Reads what it remembers from these entries while it releases, and keeps it there."""


class EventKeys(NamedTuple):
    """The keys of a message in the memo: keyed digests of its name.

    Attributes:
        released: Of what one mechanism released for it.
        private: Of the mark that it was released as a private one, by whatever mechanism.
        note: Of the note that it is a remote answer.
    """

    released: bytes
    private: bytes
    note: bytes


class Released(NamedTuple):
    """What went out for an event.

    Attributes:
        release: Public.
        used: The pseudonyms in it.
    """

    release: Release
    used: tuple[str, ...] = ()


def to_json(content: Released | Mapping[str, Any] | str | None) -> str:
    """Spells what a memo keeps: a release without its adjacency, an answer, or a mark."""
    if not isinstance(content, Released):
        return "" if content is None else json.dumps(content)
    release, used = content
    data = {**vars(release), "certificate": release.certificate.to_dict()}
    return json.dumps({**data, "used": used} if used else data)


def from_data(data: Mapping[str, Any], releaser: Releaser) -> Released:
    """Reads a release; its adjacency is that of the releaser, which made it."""
    fields = {name: value for name, value in data.items() if name != "used"}
    certificate = Certificate.from_dict(data["certificate"], releaser.certificate.adjacency)
    release = Release(**{**fields, "certificate": certificate})
    return Released(release, tuple(data.get("used", ())))
