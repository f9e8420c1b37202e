"""A person is told of every wait of more than two seconds; a log gets one plain line."""

from __future__ import annotations

import io
import sys
import time
from threading import Event

import pytest
import typer
from rich.console import Console

from dp_middleware import _waits
from dp_middleware.cli import progress

LINE = "calibrating ...\n"


@pytest.mark.parametrize("meanwhile", [progress.working, progress.announced])
def test_a_long_wait_is_one_plain_line_where_no_terminal_is(meanwhile, monkeypatch, capsys):
    monkeypatch.setattr(_waits, "PATIENCE", 0.01)
    echo, told = typer.echo, Event()
    monkeypatch.setattr(typer, "echo", lambda *line, **to: [echo(*line, **to), told.set()])
    with meanwhile("calibrating"):
        assert told.wait(20)
    assert capsys.readouterr() == ("", LINE)


def test_a_short_wait_is_silent(capsys):
    with progress.working("calibrating"):
        pass
    with pytest.raises(KeyError), progress.working("calibrating"):
        raise KeyError
    assert capsys.readouterr() == ("", "")


def test_a_terminal_has_a_spinner_and_no_line(monkeypatch, capsys):
    """A terminal is imitated: the console and what it says of itself."""
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=100)
    monkeypatch.setattr(_waits, "PATIENCE", 0.01)
    monkeypatch.setattr(progress, "Console", lambda stderr: console)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with progress.working("calibrating"):
        time.sleep(0.3)
    assert "calibrating ..." in screen.getvalue()
    assert capsys.readouterr().err == ""
