"""What this process knows of its ledgers: no row goes, so a ledger without a known one is older."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import sqlalchemy as sa

from dp_middleware.errors import LedgerError
from dp_middleware.privacy.ledger.rows import releases

Newest = tuple[int, str]
"""SQLite's number of the row, and the random name of its release."""

_NOTHING: Newest = (0, "")
_FOUND = f"""SELECT rowid, release, EXISTS(SELECT 1 FROM {releases.name} WHERE release = :known)
FROM {releases.name} ORDER BY rowid DESC LIMIT 1"""
_newest: dict[tuple[str, Path], Newest] = {}


class Memory:
    """The newest row that this process has seen in a SQLite ledger; of others nothing is known.

    Shared by all objects on the file, also later ones, and inherited by forks.

    Args:
        ledger: Its random name: a copy of it elsewhere has a memory of its own.
        file: Where it is.
    """

    def __init__(self, ledger: str = "", file: Path | None = None) -> None:
        self._key = None if file is None else (ledger, file.resolve())

    @property
    def known(self) -> Newest:
        """To be taken before a transaction begins, which then must have it."""
        return _NOTHING if self._key is None else _newest.get(self._key, _NOTHING)

    def newest(self, connection: sa.Connection, known: Newest) -> Newest:
        """What a transaction sees, its own row included; nothing is remembered yet.

        Raises:
            LedgerError: The known row is missing.
        """
        if self._key is None:
            return _NOTHING
        with closing(connection.connection.cursor()) as cursor:
            cursor.execute(_FOUND, {"known": known[1]})
            number, release, has_known = cursor.fetchone() or (*_NOTHING, False)
        if known != _NOTHING and not has_known:
            raise LedgerError(
                "expected all charges that this process knows in the ledger, got an older copy of "
                "it; nothing may be released; put the newer one back"
            )
        return number, release

    def keep(self, newest: Newest) -> None:
        """Remember what is durable; of two threads at once, one may win with an older row."""
        if self._key is not None:
            _newest[self._key] = max(newest, self.known)
