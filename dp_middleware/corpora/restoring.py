"""A file with pseudonyms in, the same file with its originals out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import ne
from pathlib import Path

import pyarrow as pa

from dp_middleware import _files
from dp_middleware.corpora.chunks import on_disk
from dp_middleware.corpora.columns import Named, fields_of
from dp_middleware.corpora.files import Path_, format_of
from dp_middleware.corpora.rows import Chunk
from dp_middleware.errors import ParameterError
from dp_middleware.pseudonyms.session import PseudonymSession


def restore_file(
    source: Path_,
    target: Path_,
    columns: Named,
    session: PseudonymSession,
    *,
    progress: Callable[[int], None] = lambda _: None,
) -> int:
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
        progress: Is told how many rows are written.

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

    def pairs() -> Iterator[tuple[Chunk, pa.Table]]:
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
            progress(done)
            yield chunk, pa.table(back)

    with on_disk(), _files.unfinished(out, mode=0o600) as new:
        file.write(new, pairs())
    return changed
