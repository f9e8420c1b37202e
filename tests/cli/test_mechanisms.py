"""``dp-middleware mechanisms``: every mechanism, and a table that any reader splits alike."""

from __future__ import annotations

import json
import re

from support.commands import run

import dp_middleware as dp
from dp_middleware.cli.mechanisms import markdown_table
from dp_middleware.sanitizers.calibrated import DEFAULT_MECHANISM


def test_mechanisms_lists_what_the_library_has():
    rows = json.loads(run("mechanisms", "--json").stdout)
    assert [row["name"] for row in rows] == list(dp.MECHANISMS)
    assert all(row[field] for row in rows for field in row), "a docstring lacks a section"
    assert rows[0]["name"] == DEFAULT_MECHANISM  # as the help of --mechanism says
    table = run("mechanisms").stdout
    assert all(name in table for name in dp.MECHANISMS)


def test_mechanisms_as_markdown_has_one_row_each_that_any_reader_splits_alike():
    result = run("mechanisms", "--markdown")
    assert result.exit_code == 0
    assert result.stdout == markdown_table() + "\n"
    head, ruler, *rows = result.stdout.splitlines()
    assert head == "| name | what it does | claimed | guaranteed | reference |"
    assert set(ruler) == {"|", "-"}
    for row, (name, mechanism) in zip(rows, dp.MECHANISMS.items(), strict=True):
        assert row.startswith(f"| `{name}` |")
        cells = re.split(r"(?<!\\)\|", row)  # an escaped bar is no border
        assert [cells[0], cells[-1]] == ["", ""]
        _, does, claimed, guaranteed, reference = (c.strip() for c in cells[1:-1])
        assert claimed.replace("\\|", "|") == mechanism.claim
        assert guaranteed.replace("\\|", "|") == mechanism.truth
        documented = " ".join(mechanism.__doc__.split())
        assert documented.startswith(does.replace("\\|", "|") + ".")
        assert f"Reference: {reference}" in documented
