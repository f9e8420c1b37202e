"""What this process knows of its ledgers: no row ever goes, so one that lacks a known row is older.

One row does not prove another: where an older copy was written into the file beside a log that was
not yet copied back, the newest row may be there while rows of a subject are not, and one index may
be older than another. So this process remembers the last row of each subject, too, and looks for it
in all the ways in which a charge does.
"""

from __future__ import annotations

from collections import OrderedDict
from contextlib import closing
from pathlib import Path
from threading import Lock
from typing import NamedTuple

import sqlalchemy as sa

from dp_middleware.errors import LedgerError
from dp_middleware.privacy.ledger.rows import releases

Place = tuple[int, str, str]
"""A row's number, SQLite's own or the subject's, the random name of its release, and its scale."""

_SUBJECTS = 100_000  # remembered, the latest ones: some 30 MB
_NOWHERE: Place = (0, "", "")
_LAST = f"""SELECT rowid, release, scale, EXISTS(
SELECT 1 FROM {releases.name} WHERE release = :release
) FROM {releases.name} ORDER BY rowid DESC LIMIT 1"""
_LAST_OF_SUBJECT = f"""SELECT number, release, scale, number >= :number AND EXISTS(
SELECT 1 FROM {releases.name} WHERE subject = :subject AND number = :number AND release = :release
) AND :number <= (SELECT number FROM {releases.name} WHERE subject = :subject AND scale = :scale
ORDER BY time DESC, number DESC LIMIT 1)
FROM {releases.name} WHERE subject = :subject ORDER BY number DESC LIMIT 1"""

_newest: dict[tuple[str, Path], Place] = {}
_of_subjects: OrderedDict[tuple[str, Path, str], Place] = OrderedDict()
_writing = Lock()  # every ledger's own lock is held around it, also while a process forks


class Known(NamedTuple):
    """The newest row of a ledger and the last one of a subject; ``_NOWHERE`` if none is known."""

    newest: Place = _NOWHERE
    last: Place = _NOWHERE


class Memory:
    """The rows that this process has seen in a SQLite ledger; it remembers none of another kind.

    Shared by all objects on the file, also later ones, and inherited by forks.

    Args:
        ledger: Its random name: a copy of it elsewhere has a memory of its own.
        file: Where it is.
    """

    def __init__(self, ledger: str = "", file: Path | None = None) -> None:
        self._key = None if file is None else (ledger, file.resolve())

    def known(self, subject: str) -> Known:
        """Take it before a transaction begins; the transaction must then see these rows.

        Args:
            subject: Whose last row counts; empty: nobody's.
        """
        if self._key is None:
            return Known()
        newest = _newest.get(self._key, _NOWHERE)
        return Known(newest, _of_subjects.get((*self._key, subject), _NOWHERE))

    def seen(self, connection: sa.Connection, subject: str, known: Known) -> Known:
        """What a transaction sees, its own row included; nothing is remembered yet.

        Raises:
            LedgerError: A known row is missing.
        """
        if self._key is None:
            return Known()
        newest = _checked(connection, _LAST, "", known.newest)
        last = _checked(connection, _LAST_OF_SUBJECT, subject, known.last) if subject else _NOWHERE
        return Known(newest, last)

    def keep(self, subject: str, seen: Known) -> None:
        """Remember what is durable; two threads at once may leave the older of their rows."""
        if self._key is None:
            return
        before, place = self.known(subject), (*self._key, subject)
        _newest[self._key] = max(seen.newest, before.newest)
        if subject:
            with _writing:
                _of_subjects[place] = max(seen.last, before.last)
                _of_subjects.move_to_end(place)
                if len(_of_subjects) > _SUBJECTS:
                    _of_subjects.popitem(last=False)


def _checked(connection: sa.Connection, query: str, subject: str, known: Place) -> Place:
    """The last row, where the known one is there."""
    number, release, scale = known
    values = {"subject": subject, "number": number, "release": release, "scale": scale}
    with closing(connection.connection.cursor()) as cursor:
        cursor.execute(query, values)
        row: tuple[int, str, str, bool] = cursor.fetchone() or (*_NOWHERE, False)
    if known != _NOWHERE and not row[3]:
        raise LedgerError(
            "expected all charges that this process knows in the ledger, got an older copy of "
            "it; nothing may be released; put the newer one back"
        )
    return row[:3]
