"""Cells with pseudonyms: what is found in them, what is drawn, and whether they come back."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from contextlib import nullcontext

import pyarrow as pa

from dp_middleware.corpora.rows import Chunk, Format
from dp_middleware.privacy.releases import Release
from dp_middleware.pseudonyms.detection import Entity
from dp_middleware.pseudonyms.json_pieces import restore
from dp_middleware.pseudonyms.kinds import Label
from dp_middleware.pseudonyms.mapping import Mapping, Pair
from dp_middleware.pseudonyms.pseudonyms import Pseudonyms
from dp_middleware.pseudonyms.rewriting import Mention, PseudonymDraft, places_of
from dp_middleware.pseudonyms.session import PseudonymSession
from dp_middleware.pseudonyms.structured import view_of
from dp_middleware.sanitizers.spans import PART

Cells = Sequence[str | None]
Found = tuple[tuple[Mention, ...], tuple[tuple[int, int], ...]] | None
"""The places of a cell that are replaced, and those that stay; ``None``: it is to be read here."""


def find(pseudonyms: Pseudonyms, kind: str | None, cells: Cells) -> list[Found]:
    """What is found in the cells of a column, in another process than that which draws."""
    drafts = (_read(pseudonyms, kind, None if PART in (text or "") else text) for text in cells)
    return [None if draft is None else (draft.places, draft.kept) for draft in drafts]


def draw(
    pseudonyms: Pseudonyms,
    session: PseudonymSession | None,
    columns: Sequence[tuple[str | None, Cells, Sequence[Found]]],
    payers: Sequence[str | None],
) -> list[list[Release | None]]:
    """Row by row; without a session the columns of a row share a mapping that nobody keeps.

    ``columns``: each one's kind, or ``None`` for free text, its cells, and what is found in them.
    """
    releases: list[list[Release | None]] = [[] for _ in columns]
    payer = copy.copy(pseudonyms)
    drafts = [
        [_read(pseudonyms, kind, *cell) for cell in zip(cells, found, strict=True)]
        for kind, cells, found in columns
    ]
    with nullcontext() if session is None else session.opened() as shared:
        for payer.subject, *row in zip(payers, *drafts, strict=True):
            with (Mapping() if shared is None else shared).drawn_with(payer.entropy) as mapping:
                for column, draft in zip(releases, row, strict=True):
                    column.append(draft and payer.release_draft(draft, mapping)[0])
    return releases


def _read(
    pseudonyms: Pseudonyms, kind: str | None, text: str | None, found: Found = None
) -> PseudonymDraft | None:
    if text is None:
        return None
    if found is None and kind is None:
        return pseudonyms.read(text)
    view = view_of(text, plain=kind is not None)
    if found is None:
        entities = [Entity(0, len(text), str(kind))] if text.strip() else []
        found = tuple(places_of(view, entities, pseudonyms.kinds)), ()
    return PseudonymDraft(view=view, places=found[0], kept=found[1])


def compared(
    file: Format,
    session: PseudonymSession,
    pairs: Iterable[tuple[Chunk, pa.Table]],
    replaced: Counter[str],
    unchanged: Counter[str],
) -> Generator[tuple[Chunk, pa.Table]]:
    """Yields the same chunks; what would come back otherwise is kept with the mapping.

    ``replaced`` counts the places that have a pseudonym, by kind, ``unchanged`` the cells in which
    nothing is replaced, by column. By then all is drawn.
    """
    before = 0
    for chunk, table in pairs:
        with session.opened() as mapping:
            for name in file.private:
                cells = zip(chunk.cells[name].to_pylist(), table[name].to_pylist(), strict=True)
                for row, (was, released) in enumerate(cells, before):
                    if was is None:
                        continue
                    now = file.as_read(released)
                    found = list(mapping.pseudonyms.find(now))
                    replaced.update(_kind(match.value) for match in found)
                    unchanged[name] += not found and now.strip() != ""
                    if restore(now, mapping.pseudonyms) != was:
                        mapping.keep_otherwise(f"{row} {name}", now, was)
        before += len(table)
        yield chunk, table


def _kind(pair: Pair) -> str:
    """Public; of a label the word of it."""
    is_label = isinstance(pair.kind, Label)
    return pair.pseudonym.rpartition("_")[0].lower() if is_label else pair.kind.name
