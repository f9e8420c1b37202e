"""A memo in a file: it counts right, and looks at a few rows however many there are."""

from __future__ import annotations

import random

from dp_middleware.sessions.memo import Entry
from dp_middleware.sessions.memo_file import FileMemo


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


def steps_of_a_release(rows, now):
    """Instructions of SQLite's machine."""
    steps = 0

    def step():
        nonlocal steps
        steps += 1

    rows._connection.set_progress_handler(step, 1)
    rows.forget(now - 1e6, now - 2e6)
    assert len(rows) > 0
    rows.get(b"new")
    rows.put(b"new", entry(now))
    rows.seal(b"new", b"data", now)
    rows.use(b"new", now)
    rows._connection.set_progress_handler(None, 0)
    return steps


def test_a_release_looks_at_as_many_rows_in_a_large_memo(tmp_path):
    memo = FileMemo(tmp_path / "memo.db", b"check", None)
    steps = []
    for count in (20, 2000):
        with memo.exclusive() as rows:
            for k in range(count):
                name = k.to_bytes(2)
                rows.put(name, entry(1.0))
                rows.seal(name, b"data", 1.0)
                rows.use(name, 1.0)
            steps.append(steps_of_a_release(rows, 2.0))
    assert 0 < steps[1] < 2 * steps[0]  # of a hundred times the rows
