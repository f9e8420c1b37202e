"""A file in, a file out: certain columns released, everything else as it was."""

from __future__ import annotations

import math
import os
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from operator import ne
from pathlib import Path
from typing import Any

import pyarrow as pa

from dp_middleware import _files, _validate
from dp_middleware.corpora.chunks import ChunkFolder, chunk_key, on_disk, sync_folder
from dp_middleware.corpora.columns import EPSILON, TOKENS, Columns, Named, fields_of
from dp_middleware.corpora.jobs import Report, folder_of, open_job, release_all, state
from dp_middleware.corpora.lines import Csv, JsonLines, TextLines, Tsv
from dp_middleware.corpora.rows import Chunk, Format, Pair, Parquet
from dp_middleware.errors import ParameterError
from dp_middleware.pseudonyms.kinds import Label
from dp_middleware.pseudonyms.mapping import Pair as Original
from dp_middleware.pseudonyms.matching import restore
from dp_middleware.pseudonyms.pseudonyms import Pseudonyms
from dp_middleware.pseudonyms.releasing import PseudonymSession
from dp_middleware.sanitizers.sanitizer import Sanitizer

FORMATS: dict[str, type[Format]] = {".csv": Csv, ".tsv": Tsv, ".parquet": Parquet}
FORMATS |= {".jsonl": JsonLines, ".ndjson": JsonLines, ".txt": TextLines}
Place = str | os.PathLike[str]

Keyed = tuple[str, Chunk]

_HELD = 1 << 22  # bytes of cells that are kept between the check and the release


def sanitize_file(
    source: Place,
    target: Place,
    columns: Named,
    sanitizer: Sanitizer | Pseudonyms | PseudonymSession,
    *,
    workers: int = 1,
    id: str | None = None,
    subject: str | None = None,
    dry_run: bool = False,
    chunk_rows: int = 1000,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> Report:
    """Releases columns of a file; rows, their order and everything else stay as they are.

    All of the file is checked, then each chunk is charged, drawn, kept in a folder beside the
    target and written; last the target takes its name. A file of more than 4 MB is read twice, in
    constant memory. Run the same again after a failure: what is kept is not charged or drawn again.

    Guarantee:
        A row has one release, and a chunk is charged once to a ``dp.PrivacyLedger``, wherever a run
        dies. The folder has no digest of private text: that the source is the same is told by its
        size and time of change. With a ledger it has the seed of each chunk at work, by which who
        has it and the release may test what a row was: until the run is done it is private.

    Args:
        source: Ends in .csv, .tsv, .jsonl, .ndjson, .parquet or .txt; a text a line there.
        target: Of the same kind; not there yet.
        columns: A name, or several; ``"text"`` for lines of plain text. Of pseudonyms also a dict
            to kinds: each cell of ``{"name": "person"}`` is one value, and nothing is detected.
        sanitizer: Or pseudonyms; with a ledger, or nothing is charged. Pseudonyms are of a row
            alone, and nobody can turn them back; :func:`restore_file` can turn those of a session.
        workers: Processes; a sanitizer that is prepared (:meth:`Sanitizer.prepare`) shares files.
        id: A public column that names each row, within its chunk once; default: its number.
        subject: A public column that says whose budget a row is charged to.
        dry_run: Only check, and tell what would be charged at most.
        chunk_rows: Rows of a chunk, which are charged together, once a subject.
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
    releaser: Any = sanitizer if session is None else session.sanitizer
    terms = {"subject": subject, "session": session, **fields_of(columns)}
    release = Columns(releaser=releaser, **terms)
    if id in release.names:
        raise ParameterError("expected ids in a column that is not itself released")
    public = tuple(dict.fromkeys(name for name in (subject, id) if name is not None))
    file, before = kind(path, release.names, public, chunk_rows), state(path)
    job = chunk_key(release.fingerprint, str(id), chunk_rows, path.suffix.lower())
    told = {"source": chunk_key("source", *before), "parameters": job}
    folder = None if dry_run else folder_of(out)
    chunks = partial(_keyed, file, job, id)
    plan, held = _planned(chunks(), release)
    if folder is None:
        return plan
    chunks = partial(iter, held) if held else chunks
    if session is not None:  # its mark is public, and another one for another mapping
        with session.opened() as mapping:
            told["mapping"] = chunk_key("mapping", str(mapping.once("mark of files", 1 << 128)))
    replaced, unchanged = Counter[str](), Counter[str]()
    with open_job(folder, told) as store:
        resumed = len([*store.path.glob("*.arrow")])
        pairs = _counted(release_all(chunks(), store, release, workers), progress, plan.rows)
        if session is not None:
            _draw_kinds(chunks(), release, store)
            with closing(pairs):
                deque(pairs, maxlen=0)
            drawn = release_all(chunks(), store, release, 1)
            pairs = _compared(file, session, drawn, replaced, unchanged)
        with closing(pairs):
            sums = _write(file, out, pairs, release, before)
    sums |= {"replaced": dict(replaced.most_common()), "unchanged": dict(unchanged)}
    return replace(plan, resumed=resumed, **sums)


def restore_file(source: Place, target: Place, columns: Named, session: PseudonymSession) -> int:
    """Puts the originals back into a file that :func:`sanitize_file` wrote for a session.

    Every text of the columns comes back as it was; rows may be missing at the end, and others or
    other columns added. In a row that has moved words may come back in other capitals, and a word
    that is by chance a pseudonym as what that stands for.

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


def _keyed(file: Format, job: str, id: str | None) -> Iterator[Keyed]:
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


def _planned(parts: Iterable[Keyed], releaser: Columns) -> tuple[Report, list[Keyed]]:
    """What it would cost; and the chunks, if they are small together."""
    texts, chunks, rows, size, held = Counter[str | None](), 0, 0, 0, list[Keyed]()
    for key, chunk in parts:
        chunks += 1
        rows += len(chunk.cells)
        size += chunk.cells.nbytes
        held.append((key, chunk))
        if size > _HELD:
            held.clear()
        cells = [chunk.cells[name].is_valid().to_pylist() for name in releaser.names]
        for subject, *row in zip(releaser.payers(chunk.cells), *cells, strict=True):
            texts[subject] += sum(row)
    most, epsilon = max(texts.values(), default=0), releaser.releaser.certificate.epsilon
    report = Report(
        rows=rows,
        texts=texts.total(),
        chunks=chunks,
        subjects=0 if releaser.releaser.ledger is None else len(texts),
        epsilon=texts.total() * epsilon if most else 0.0,
        epsilon_per_subject=most * epsilon if most else 0.0,
    )
    return report, held


def _draw_kinds(chunks: Iterable[Keyed], columns: Columns, store: ChunkFolder) -> None:
    """Draws the pseudonyms of the columns with kinds, so that the texts of all rows know them."""
    names = tuple(name for name in columns.names if name in columns.kinds)
    if names and names != columns.names:
        first = replace(columns, names=names)
        for key, chunk in chunks:
            if key not in store:
                first.release(chunk.cells, partial(store.seed, key))


def _counted(
    pairs: Generator[Pair], progress: Callable[[int, int], None], rows: int
) -> Generator[Pair]:
    done = 0
    with closing(pairs):
        for chunk, table in pairs:
            progress(done := done + len(table), rows)
            yield chunk, table


def _write(
    file: Format, target: Path, pairs: Iterable[Pair], releaser: Columns, before: tuple[int, int]
) -> dict[str, Any]:
    tokens, paid = 0, defaultdict[str | None, float](float)

    def released() -> Iterator[Pair]:
        nonlocal tokens
        for chunk, table in pairs:
            tokens += sum(table[TOKENS].to_pylist())
            epsilons = table[EPSILON].to_pylist()
            for subject, epsilon in zip(releaser.payers(chunk.cells), epsilons, strict=True):
                paid[subject] += epsilon
            yield chunk, table

    with on_disk(), _files.unfinished(target) as new:
        file.write(new, released())
        if state(file.path) != before:
            raise ParameterError("The source file changed while it was read; run again on a copy.")
    with on_disk():
        sync_folder(target.parent)
    most = max(paid.values(), default=0.0)
    return {"tokens": tokens, "epsilon": math.fsum(paid.values()), "epsilon_per_subject": most}


def _compared(
    file: Format,
    session: PseudonymSession,
    pairs: Iterable[Pair],
    replaced: Counter[str],
    unchanged: Counter[str],
) -> Generator[Pair]:
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
                    replaced.update(_kind(pair) for _, _, pair in found)
                    unchanged[name] += not found and now.strip() != ""
                    if restore(now, mapping.pseudonyms) != was:
                        mapping.keep_otherwise(f"{row} {name}", now, was)
        before += len(table)
        yield chunk, table


def _kind(pair: Original) -> str:
    """Public; of a label the word of it."""
    is_label = isinstance(pair.kind, Label)
    return pair.pseudonym.rpartition("_")[0].lower() if is_label else pair.kind.name
