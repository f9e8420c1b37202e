"""A file in, a file out: certain columns released, everything else as it was."""

from __future__ import annotations

import math
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import accumulate
from operator import ne
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from dp_middleware import _files, _validate
from dp_middleware.corpora.chunks import ChunkFolder, chunk_key, on_disk, sync_folder
from dp_middleware.corpora.columns import EPSILON, TOKENS, Columns, Named, fields_of
from dp_middleware.corpora.jobs import Report, folder_of, open_job, release_all, state
from dp_middleware.corpora.lines import Csv, JsonLines, TextLines, Tsv
from dp_middleware.corpora.pseudonymized import compared
from dp_middleware.corpora.rows import Chunk, Format, Parquet
from dp_middleware.errors import ParameterError
from dp_middleware.pseudonyms.pseudonyms import Pseudonyms
from dp_middleware.pseudonyms.session import PseudonymSession
from dp_middleware.sanitizers.sanitizer import Sanitizer
from dp_middleware.sanitizers.spans import Detector

FORMATS: dict[str, type[Format]] = {
    ".csv": Csv,
    ".tsv": Tsv,
    ".jsonl": JsonLines,
    ".ndjson": JsonLines,
    ".parquet": Parquet,
    ".txt": TextLines,
}
"""By the ending of a file's name."""

Path_ = str | os.PathLike[str]
Pair = tuple[Chunk, pa.Table]  # a chunk and what is released for its rows


def sanitize_file(
    source: Path_,
    target: Path_,
    columns: Named,
    sanitizer: Sanitizer | Pseudonyms | PseudonymSession,
    *,
    workers: int = 1,
    id: str | None = None,
    subject: str | None = None,
    scope: Detector | None = None,
    dry_run: bool = False,
    chunk_rows: int = 1000,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> Report:
    """Releases columns of a file; rows, their order and everything else stay as they are.

    The file is read in chunks, in constant memory, twice: first all of it is checked, then each
    chunk is charged, drawn, kept in a folder beside the target and written; last the target takes
    its name. Run the same again after a failure: what is kept is neither charged nor drawn again.

    Guarantee:
        A row has one release. A chunk is charged once to a ``dp.PrivacyLedger``, wherever a run
        dies (:func:`release_chunk`). The folder holds released text and no digest of private text:
        that the source is the same is told by its size and its time of change. With a ledger it
        also has the seed of each chunk that is at work, by which who knows it and the release may
        test what a row was; so the folder is as private as the source until the run is done.

    Args:
        source: Ends in .csv, .tsv, .jsonl, .ndjson, .parquet or .txt; a text a line there.
        target: Of the same kind; replaced if it is there.
        columns: A name, or several; ``"text"`` for lines of plain text. Of pseudonyms also a dict
            to kinds: each cell of ``{"name": "person"}`` is one value, and nothing is detected.
        sanitizer: Or pseudonyms; with a ledger, or nothing is charged. Pseudonyms are of a row
            alone, and nobody can turn them back; those of a session are of the whole file, and
            :func:`restore_file` can.
        workers: Processes. Prepare the sanitizer before (:meth:`Sanitizer.prepare`), so that they
            share what tokens are drawn by.
        id: A public column that names each row, within its chunk once; default: its number.
        subject: A public column that says whose budget a row is charged to.
        scope: Finds the private spans of a text; **everything else goes out as it is**.
        dry_run: Only check, and tell what would be charged at most.
        chunk_rows: Rows of a chunk, each of which is charged once a subject.
        progress: Is told how many rows of how many are released.

    Raises:
        ParameterError: A file that cannot be read or written, a broken row, a source or parameters
            other than those of the run that is to be continued; quotes nothing of the file.
        BudgetExhausted: From the ledger; what was released is kept.
    """
    path, out = Path(source), Path(target)
    kind = format_of(path, out)
    session = sanitizer if isinstance(sanitizer, PseudonymSession) else None
    if path.resolve() == out.resolve():
        raise ParameterError("expected a source and a target that are different")
    _validate.at_least(1, workers=workers, chunk_rows=chunk_rows)
    releaser = Columns(
        releaser=cast(Any, sanitizer if session is None else session.sanitizer),
        subject=subject,
        scope=scope,
        session=session,
        **fields_of(columns),
    )
    if id in releaser.names:
        raise ParameterError("expected ids in a column that is not itself released")
    public = tuple(dict.fromkeys(name for name in (subject, id) if name is not None))
    file, before = kind(path, releaser.names, public, chunk_rows), state(path)
    job = chunk_key(releaser.fingerprint, str(id), chunk_rows, path.suffix.lower())
    told = {"source": chunk_key("source", *before), "parameters": job}
    folder = None if dry_run else folder_of(out)
    chunks = partial(_keyed, file, job, id)
    plan, keys = _planned(chunks(), releaser)
    if folder is None:
        return plan
    if session is not None:
        told["mapping"] = _mark_of(session)
    tell: Callable[[int], None] = lambda done: progress(done, plan.rows)  # noqa: E731
    with open_job(folder, told) as store:
        resumed, counts = sum(key in store for key in keys), (Counter[str](), Counter[str]())
        pairs = release_all(chunks(), store, releaser, workers)
        if session is not None:
            _draw_kinds(chunks(), releaser, store)
            with closing(pairs):
                for done in accumulate(len(table) for _, table in pairs):
                    tell(done)
            pairs = compared(file, session, release_all(chunks(), store, releaser, 1), *counts)
            tell = lambda _: None  # noqa: E731
        with closing(pairs):
            sums = _write(file, out, pairs, releaser, before, tell)
    replaced, unchanged = dict(counts[0].most_common()), dict(counts[1])
    return replace(plan, resumed=resumed, replaced=replaced, unchanged=unchanged, **sums)


def restore_file(source: Path_, target: Path_, columns: Named, session: PseudonymSession) -> int:
    """Puts the originals back into a file that :func:`sanitize_file` wrote for a session.

    Every text of the columns comes back as it was: all values, and all bytes where the format has
    one spelling for a value. Rows may be missing at the end, and others or other columns added; in
    a row that has moved, words may come back in the capitals of another row, and a word that is by
    chance a pseudonym as what that stands for.

    Args:
        source: The file, or what somebody made of it.
        target: Of the same kind, for its owner alone; not there yet. **Private**.
        columns: As for :func:`sanitize_file`; kinds do not matter.
        session: With the mapping.

    Returns:
        How many texts changed.

    Raises:
        ParameterError: A file that cannot be read or written, a broken row, or a mapping of
            nothing; quotes nothing of the file.
    """
    path, out = Path(source), Path(target)
    file = format_of(path, out)(path, fields_of(columns)["names"])
    if out.exists():
        raise ParameterError("expected a target that is not there yet")
    changed = done = 0

    def pairs() -> Iterator[Pair]:
        nonlocal changed, done
        for chunk in file.chunks():
            back = {}
            with session.opened() as mapping:
                if mapping.is_new:
                    raise ParameterError("expected the mapping of this file and payer, got none")
                for name in file.private:
                    cells = chunk.cells[name].to_pylist()
                    texts = [
                        text and mapping.otherwise(f"{row} {name}", text)
                        for row, text in enumerate(cells, done)
                    ]
                    changed += sum(map(ne, cells, texts))
                    back[name] = pa.array(texts, pa.large_string())
            done += len(chunk.cells)
            yield chunk, pa.table(back)

    with on_disk(), _files.unfinished(out, mode=0o600) as new:
        file.write(new, pairs())
    return changed


def format_of(source: Path, target: Path) -> type[Format]:
    """By the endings of both names; raises ``ParameterError`` where they differ."""
    kind = FORMATS.get(source.suffix.lower())
    if kind is None or kind is not FORMATS.get(target.suffix.lower()):
        raise ParameterError(f"expected two files of one kind, {', '.join(FORMATS)}")
    return kind


def _mark_of(session: PseudonymSession) -> str:
    """Of the session's mapping: public, and another one for another mapping."""
    with session.opened() as mapping:
        return chunk_key("mapping", str(mapping.once("mark of files", 1 << 128)))


def _keyed(file: Format, job: str, id: str | None) -> Iterator[tuple[str, Chunk]]:
    """All chunks with their keys; or ParameterError: rows without ids of their own."""
    before = 0
    for chunk in file.chunks():
        place: list[Any] = [before] if id is None else chunk.cells[id].to_pylist()
        after = before + len(chunk.cells)
        if id is not None and len({cell for cell in place if cell and cell.strip()}) < len(place):
            raise ParameterError(
                f"expected {id!r} to name each row, got one without a name, or a name twice, in "
                f"rows {before + 1} to {after}"
            )
        yield chunk_key(job, *place, len(chunk.cells)), chunk
        before = after


def _planned(chunks: Iterable[tuple[str, Chunk]], releaser: Columns) -> tuple[Report, list[str]]:
    texts, keys, rows = Counter[str | None](), list[str](), 0
    for key, chunk in chunks:
        keys.append(key)
        rows += len(chunk.cells)
        cells = [chunk.cells[name].is_valid().to_pylist() for name in releaser.names]
        for subject, *row in zip(releaser.payers(chunk.cells), *cells, strict=True):
            texts[subject] += sum(row)
    most, epsilon = max(texts.values(), default=0), releaser.releaser.certificate.epsilon
    plan = Report(
        rows=rows,
        texts=texts.total(),
        chunks=len(keys),
        subjects=0 if releaser.releaser.ledger is None else len(texts),
        epsilon=texts.total() * epsilon if most else 0.0,
        epsilon_per_subject=most * epsilon if most else 0.0,
    )
    return plan, keys


def _draw_kinds(chunks: Iterable[tuple[str, Chunk]], columns: Columns, store: ChunkFolder) -> None:
    """Draws the pseudonyms of the columns with kinds, so that the texts of all rows know them."""
    names = tuple(name for name in columns.names if name in columns.kinds)
    if names and names != columns.names:
        first = replace(columns, names=names)
        for key, chunk in chunks:
            if key not in store:
                first.release(chunk.cells, partial(store.seed, key))


def _write(
    file: Format,
    target: Path,
    pairs: Iterable[Pair],
    releaser: Columns,
    before: tuple[int, int],
    progress: Callable[[int], None],
) -> dict[str, Any]:
    tokens, done, paid = 0, 0, defaultdict[str | None, float](float)

    def released() -> Iterator[Pair]:
        nonlocal tokens, done
        for chunk, table in pairs:
            tokens += sum(table[TOKENS].to_pylist())
            epsilons = table[EPSILON].to_pylist()
            for subject, epsilon in zip(releaser.payers(chunk.cells), epsilons, strict=True):
                paid[subject] += epsilon
            progress(done := done + len(table))
            yield chunk, table

    with on_disk(), _files.unfinished(target) as new:
        file.write(new, released())
        if state(file.path) != before:
            raise ParameterError("The source file changed while it was read; run again on a copy.")
    with on_disk():
        sync_folder(target.parent)
    return {
        "tokens": tokens,
        "epsilon": math.fsum(paid.values()),
        "epsilon_per_subject": max(paid.values(), default=0.0),
    }
