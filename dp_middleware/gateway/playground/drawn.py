"""A text released for the page, with what was drawn for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dp_middleware._forks import StaysHere
from dp_middleware._waits import told
from dp_middleware.gateway.playground.choices import Releaser
from dp_middleware.privacy.releases import Release
from dp_middleware.pseudonyms.addresses import Hosts
from dp_middleware.pseudonyms.mapping import Mapping
from dp_middleware.pseudonyms.matching import Restorer
from dp_middleware.sanitizers.draft import Draft
from dp_middleware.sanitizers.sanitizer import Sanitizer
from dp_middleware.sanitizers.whole import TextDraft


@dataclass(frozen=True, kw_only=True)
class Drawn(StaysHere):
    """A text that was released, with what was drawn for it. **Private**.

    Attributes:
        text: As a reader sees it.
        release: What goes out.
        tokens: What was drawn token by token, or for the whole; ``None`` where nothing was.
        spans: The characters of these tokens.
        mapping: With the pseudonyms; ``None``: there are none.
    """

    text: str = field(repr=False)
    release: Release
    tokens: Draft | TextDraft | None = field(repr=False)
    spans: Sequence[tuple[int, int]] = field(repr=False)
    mapping: Mapping | None = None

    @classmethod
    def of(cls, releaser: Releaser, text: str) -> Drawn:
        """Releases a text, under pseudonyms in a conversation of its own."""
        with told("reading the text"):
            if isinstance(releaser, Sanitizer):
                draft = releaser.read(text)
                [(release, tokens)] = releaser.release_drafts([draft])
                return cls(text=text, release=release, tokens=tokens, spans=[(0, len(text))])
            mapping = Mapping()
            release, done = releaser.release_draft(releaser.read(text), mapping)
            return cls(
                text=done.text, release=release, tokens=done.drawn, spans=done.rest, mapping=mapping
            )

    @property
    def originals(self) -> dict[str, str]:
        """By their pseudonyms."""
        pairs = self.mapping.pairs if self.mapping is not None else ()
        return {pair.pseudonym: pair.original for pair in pairs}

    def restored(self, answer: str) -> str | None:
        """Returns an answer with the originals; ``None``: there are no pseudonyms."""
        if self.mapping is None:
            return None
        hosts = Hosts((self.text, self.release.text))
        return Restorer(self.mapping.pseudonyms, hosts=hosts).feed(answer, more=False)
