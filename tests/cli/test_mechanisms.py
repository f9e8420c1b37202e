"""``dp-middleware mechanisms``: every mechanism, and a table that any reader splits alike."""

import json

from support.commands import run

import dp_middleware as dp
from dp_middleware.sanitizers.calibrated import DEFAULT_MECHANISM


def test_mechanisms_lists_what_the_library_has():
    rows = json.loads(run("mechanisms", "--json").stdout)
    assert [row["name"] for row in rows] == list(dp.MECHANISMS)
    assert all(row[field] for row in rows for field in row), "a docstring lacks a section"
    assert rows[0]["name"] == DEFAULT_MECHANISM  # as the help of --mechanism says
    table = run("mechanisms").stdout
    assert all(name in table for name in dp.MECHANISMS)
