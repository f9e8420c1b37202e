"""A memo in a file: it counts right, and looks at a few rows however many there are."""

from __future__ import annotations

import random

from dp_middleware.conversation.memo import Entry
from dp_middleware.conversation.memo_file import FileMemo


def entry(created):
    return Entry(digest=b"d", created=created, released="{}")


def rows_of(rows):
    return rows._connection.execute("SELECT count(*) FROM memo").fetchone()[0]


def test_the_count_is_that_of_the_rows(tmp_path):
    """Through new, replaced, old and oldest entries, and what another process wrote."""
    draw = random.Random(0)
    memo = FileMemo(tmp_path / "memo.db", b"check", None)
    for now in range(300):
        with memo.exclusive() as rows:
            rows.put(bytes([draw.randrange(40)]), entry(float(now)))
            if draw.random() < 0.1:
                rows.forget(now - 30.0, now - 60.0)
            if draw.random() < 0.3 and len(rows):
                rows.forget_oldest()
            assert len(rows) == rows_of(rows)
    with memo.exclusive() as rows:
        rows._connection.execute("DELETE FROM memo")  # as a version that did not count
    with FileMemo(tmp_path / "memo.db", b"check", None).exclusive() as rows:
        assert len(rows) == 0


def test_no_release_scans_a_table(tmp_path):
    """SQLite's plan of each statement: rows are searched for, not looked through."""
    memo, statements = FileMemo(tmp_path / "memo.db", b"check", None), []
    with memo.exclusive() as rows:
        rows._connection.set_trace_callback(statements.append)
        rows.forget(-1.0, -2.0)
        assert len(rows) == 0
        assert rows.get(b"event") is None
        rows.put(b"event", entry(1.0))
        rows.forget_oldest()
        rows.seal(b"talk", b"data", 1.0)
        rows.sealed(b"talk", 0)
        rows.use(b"talk", 1.0)
        rows._connection.set_trace_callback(None)
        plans = [rows._connection.execute(f"EXPLAIN QUERY PLAN {each}") for each in statements]
        scans = {row[-1] for plan in plans for row in plan if row[-1].startswith("SCAN")}
    assert len(statements) == 13
    assert scans == {"SCAN counts"}  # it has one row
