"""Nothing that is public takes long in silence."""

import logging
import time
from threading import Event

import typer
from support.spaces import random_space

import dp_middleware as dp
from dp_middleware import _waits
from dp_middleware.cli import console


def messages(caplog):
    return [record.getMessage() for record in caplog.records if record.name == "dp_middleware"]


def test_what_takes_long_is_told_meanwhile_and_afterwards(caplog, monkeypatch):
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(_waits, "PATIENCE", 0.01)
    deadline = time.monotonic() + 60
    with _waits.told("dividing"):
        while "dividing ..." not in messages(caplog) and time.monotonic() < deadline:
            time.sleep(0.01)
    first, last = messages(caplog)
    assert first == "dividing ..."
    assert last.startswith("dividing took ")


def test_codebook_calibration_certificate_and_lists_are_told(caplog, monkeypatch, tmp_path):
    monkeypatch.setenv("DP_MIDDLEWARE_CACHE", str(tmp_path))
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(_waits, "PATIENCE", 0.0)
    dp.sanitizer(2.0, space=random_space(tokens=20)).prepare()
    told = " ".join(line for line in messages(caplog) if " took " in line)
    for what in (
        "choosing a codebook for epsilon 2 among 20 tokens",
        "certifying nearest-response on 20 tokens",
        "calibrating nearest-response to epsilon 2",
        "preparing nearest-response",
    ):
        assert f"{what} took " in told


def test_a_long_wait_of_a_command_is_one_plain_line_where_no_terminal_is(monkeypatch, capsys):
    monkeypatch.setattr(_waits, "PATIENCE", 0.01)
    echo, told = typer.echo, Event()
    monkeypatch.setattr(typer, "echo", lambda *line, **to: [echo(*line, **to), told.set()])
    with console.working("calibrating"):
        assert told.wait(20)
    assert capsys.readouterr() == ("", "calibrating ...\n")
