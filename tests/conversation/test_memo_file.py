"""A memo in a file: it counts right, and looks at a few rows however many there are."""

import sqlite3
from contextlib import closing

import pytest
from support.entities import detector

import dp_middleware as dp
from dp_middleware.conversation.memo import Entry
from dp_middleware.conversation.memo_file import FileMemo
from dp_middleware.conversation.notebook import Digests

DIGEST = Digests(bytes(32)).of


def test_no_release_scans_a_table(tmp_path):
    """SQLite's plan of each statement: rows are searched for, not looked through."""
    memo, statements = FileMemo(tmp_path / "memo.db", DIGEST, None), []
    with memo.exclusive() as rows:
        rows._connection.set_trace_callback(statements.append)
        rows.forget(-1.0, -2.0)
        assert len(rows) == 0
        assert rows.get(b"event") is None
        rows.put(b"event", Entry(b"d", 1.0, "words"))
        rows.forget_oldest()
        rows.use(b"talk", 1.0)
        rows.seal(b"talk", b"data", 1.0)
        rows.sealed(b"talk", 0)
        rows._connection.set_trace_callback(None)
        plans = [rows._connection.execute(f"EXPLAIN QUERY PLAN {each}") for each in statements]
        scans = {row[-1] for plan in plans for row in plan if row[-1].startswith("SCAN")}
    assert len(statements) == 17
    assert scans == {"SCAN counts"}  # it has one row


KEY = bytes(range(32))
NAMES = {"Mirela Tamburi": "person", "Osric Vantongeren": "person", "Quirina Vasska": "person"}
HARMED = {
    "a release of another event": "UPDATE memo SET released = (SELECT max(released) FROM memo)",
    "a changed release": "UPDATE memo SET released = released || ' '",
    "another time": "UPDATE memo SET created = created + 1",
    "a first row taken out": "DELETE FROM sealed WHERE number = (SELECT min(number) FROM sealed)",
    "a last row taken out": "DELETE FROM sealed WHERE number = (SELECT max(number) FROM sealed)",
    "rows in another order": "UPDATE sealed SET number = 10 - number",
    "a row twice": "INSERT INTO sealed(conversation, created, data) "
    "SELECT conversation, created, data FROM sealed LIMIT 1",
    "a count of fewer": "UPDATE conversations SET kept = kept - 1",
    "other data": "UPDATE sealed SET data = CAST(substr(data, 1, length(data) - 1) || 'x' AS BLOB)",
    "no data": "UPDATE sealed SET data = x'00'",
}


@pytest.mark.parametrize("harm", HARMED)
def test_rows_are_bound_to_their_places(harm, tmp_path):
    pytest.importorskip("faker", reason="the lists of names are of the extra detect")

    def session():
        made = dp.Pseudonyms(detector(NAMES), on_empty="pass")
        return made.session(memo=tmp_path / "memo.db", key=KEY)

    def read():
        released = [session().release(name, "user", name).text for name in NAMES]
        return released, session().mapping()

    assert read() == read()
    with closing(sqlite3.connect(tmp_path / "memo.db")) as connection, connection:
        connection.execute(HARMED[harm])
    with pytest.raises(dp.ParameterError) as caught:
        read()
    assert not any(name in str(caught.value) for name in NAMES)


def test_a_memo_of_an_older_version_is_refused(tmp_path):
    with closing(sqlite3.connect(tmp_path / "memo.db")) as connection, connection:
        connection.execute("CREATE TABLE checks (value BLOB NOT NULL)")
        connection.execute("INSERT INTO checks VALUES (?)", (Digests(KEY).of("check"),))
    with pytest.raises(dp.ParameterError, match="older version"):
        FileMemo(tmp_path / "memo.db", Digests(KEY).of, None)
