"""A person is told of every wait of more than two seconds; a log gets one plain line."""

from threading import Event

import pytest
import typer

from dp_middleware import _waits
from dp_middleware.cli import console

LINE = "calibrating ...\n"


@pytest.mark.parametrize("meanwhile", [console.working, console.announced])
def test_a_long_wait_is_one_plain_line_where_no_terminal_is(meanwhile, monkeypatch, capsys):
    monkeypatch.setattr(_waits, "PATIENCE", 0.01)
    echo, told = typer.echo, Event()
    monkeypatch.setattr(typer, "echo", lambda *line, **to: [echo(*line, **to), told.set()])
    with meanwhile("calibrating"):
        assert told.wait(20)
    assert capsys.readouterr() == ("", LINE)


def test_a_short_wait_is_silent(capsys):
    with console.working("calibrating"):
        pass
    with pytest.raises(KeyError), console.working("calibrating"):
        raise KeyError
    assert capsys.readouterr() == ("", "")
