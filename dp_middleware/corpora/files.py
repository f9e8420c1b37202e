"""A file in, a file out: certain columns released, everything else as it was."""

from __future__ import annotations

import math
import os
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from dp_middleware import _files, _validate
from dp_middleware.corpora.chunks import ChunkFolder, chunk_key, sync_folder
from dp_middleware.corpora.columns import (
    EPSILON,
    TOKENS,
    Columns,
    Named,
    column_kinds,
    column_names,
)
from dp_middleware.corpora.failures import on_disk
from dp_middleware.corpora.jobs import Report, open_job, refuse_done, state
from dp_middleware.corpora.lines import JsonLines, TextLines
from dp_middleware.corpora.pseudonymized import Tally, mark_of
from dp_middleware.corpora.rows import Chunk, Format
from dp_middleware.corpora.tables import Csv, Parquet, Tsv
from dp_middleware.corpora.workers import Task, release_all
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
Pair = tuple[Chunk, pa.Table]
"""A chunk and what is released for its rows."""

_CHANGED = "The source file changed while it was read; run again on a copy."


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
    kind, drawing = format_of(path, out), cast(Any, sanitizer)
    session = sanitizer if isinstance(sanitizer, PseudonymSession) else None
    if path.resolve() == out.resolve():
        raise ParameterError("expected a source and a target that are different")
    _validate.at_least(1, workers=workers, chunk_rows=chunk_rows)
    releaser = Columns(
        releaser=drawing if session is None else session.sanitizer,
        names=column_names(columns),
        subject=subject,
        scope=scope,
        kinds=column_kinds(columns),
        session=session,
    )
    public = tuple(dict.fromkeys(name for name in (subject, id) if name is not None))
    if {*public} & {*releaser.names}:
        raise ParameterError("expected subjects and ids in columns that are not released")
    file = kind(path, releaser.names, public, chunk_rows)
    before, folder = state(path), out.with_name(f".{out.name}.parts")
    if not dry_run:
        refuse_done(out, folder)
    told = {
        "source": chunk_key("source", *before),
        "parameters": chunk_key(releaser.fingerprint, str(id), chunk_rows, path.suffix.lower()),
    }
    plan, keys = _checked(file, releaser, told["parameters"], id)
    if dry_run:
        return plan
    if session is not None:
        told["mapping"] = mark_of(session)
    with open_job(folder, told) as store:
        resumed, tally = sum(key in store for key in keys), Tally()
        tell: Callable[[int], None] = lambda done: progress(done, plan.rows)  # noqa: E731
        pairs = _released(file, store, keys, releaser, workers)
        if session is not None:
            if resumed < len(keys):
                _draw_kinds(file, releaser, store, keys)
                with closing(pairs):
                    for done in accumulate(len(table) for _, table in pairs):
                        tell(done)
            pairs = tally.compared(file, session, _released(file, store, keys, releaser, 1))
            tell = lambda _: None  # noqa: E731
        with closing(pairs):
            sums = _write(file, out, pairs, releaser, before, tell)
    return replace(plan, resumed=resumed, **tally.counts, **sums)


def format_of(source: Path, target: Path) -> type[Format]:
    """By the endings of both names; raises ``ParameterError`` where they differ."""
    kind = FORMATS.get(source.suffix.lower())
    if kind is None or kind is not FORMATS.get(target.suffix.lower()):
        raise ParameterError(f"expected two files of one kind, {', '.join(FORMATS)}")
    return kind


def _draw_kinds(file: Format, columns: Columns, store: ChunkFolder, keys: list[str]) -> None:
    """Draws the pseudonyms of the columns with kinds, so that the texts of all rows know them."""
    names = tuple(name for name in columns.names if name in columns.kinds)
    if names and names != columns.names:
        first = replace(columns, names=names)
        chunks = (chunk for chunk in file.chunks() if len(chunk.cells))
        for key, chunk in zip(keys, chunks, strict=False):
            if key not in store:
                first.release(chunk.cells, partial(store.seed, key))


def _checked(file: Format, releaser: Columns, job: str, id: str | None) -> tuple[Report, list[str]]:
    """What would be released and charged, and the keys of the chunks.

    Raises:
        ParameterError: A broken row, a row without subject or id.
    """
    file.check()
    texts, keys, rows = Counter[str](), list[str](), 0
    for chunk in file.chunks():
        if not len(chunk.cells):
            continue
        for name in file.public:
            if not all(cell and cell.strip() for cell in chunk.cells[name].to_pylist()):
                raise ParameterError(
                    f"expected a value of {name!r} in each row, got none in one of {rows + 1} to "
                    f"{rows + len(chunk.cells)}"
                )
        place = [rows] if id is None else chunk.cells[id].to_pylist()
        if len({*place}) < len(place):
            raise ParameterError(f"expected {id!r} to name each row, got one twice")
        keys.append(chunk_key(job, *place, len(chunk.cells)))
        rows += len(chunk.cells)
        cells = [chunk.cells[name].is_valid().to_pylist() for name in releaser.names]
        for subject, *row in zip(_payers(releaser, chunk), *cells, strict=True):
            texts[subject] += sum(row)
    most, epsilon = max(texts.values(), default=0), releaser.releaser.certificate.epsilon
    plan = Report(
        rows=rows,
        texts=texts.total(),
        chunks=len(keys),
        subjects=0 if releaser.releaser.ledger is None else len(texts),
        epsilon=texts.total() * epsilon if texts.total() else 0.0,
        epsilon_per_subject=most * epsilon if most else 0.0,
    )
    return plan, keys


def _payers(releaser: Columns, chunk: Chunk) -> Sequence[str]:
    """The subject of each row; one without a name pays for all where there is no column."""
    name, cells = releaser.subject, chunk.cells
    return [""] * len(cells) if name is None else cells[name].to_pylist()


def _released(
    file: Format, store: ChunkFolder, keys: list[str], releaser: Columns, workers: int
) -> Generator[Pair]:
    """All chunks of the file in their order, with what is released for their rows."""
    waiting, names, nothing = deque[Chunk](), iter(keys), releaser.schema.empty_table()

    def tasks() -> Iterator[Task]:
        for chunk in file.chunks():
            waiting.append(chunk)
            if len(chunk.cells):
                key = next(names, None)
                if key is None:
                    raise ParameterError(_CHANGED)
                yield key, chunk.cells

    with closing(release_all(tasks(), store, releaser, workers)) as tables:
        for table in tables:
            while not len(waiting[0].cells):
                yield waiting.popleft(), nothing
            yield waiting.popleft(), table
    while waiting:
        yield waiting.popleft(), nothing


def _write(
    file: Format,
    target: Path,
    pairs: Iterable[Pair],
    releaser: Columns,
    before: tuple[int, int],
    progress: Callable[[int], None],
) -> dict[str, Any]:
    """Writes the target, and says what the releases sum up to."""
    tokens, done, paid = 0, 0, defaultdict[str, float](float)

    def released() -> Iterator[Pair]:
        nonlocal tokens, done
        for chunk, table in pairs:
            if len(table) != len(chunk.cells):
                raise ParameterError("expected the chunks of this run, got others")
            tokens += sum(table[TOKENS].to_pylist())
            done += len(table)
            progress(done)
            for subject, epsilon in zip(
                _payers(releaser, chunk), table[EPSILON].to_pylist(), strict=True
            ):
                paid[subject] += epsilon
            yield chunk, table

    with on_disk(), _files.unfinished(target) as new:
        file.write(new, released())
        if state(file.path) != before:
            raise ParameterError(_CHANGED)
    with on_disk():
        sync_folder(target.parent)
    return {
        "tokens": tokens,
        "epsilon": math.fsum(paid.values()),
        "epsilon_per_subject": max(paid.values(), default=0.0),
    }
