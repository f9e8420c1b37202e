"""Nothing that is public takes long in silence."""

import logging
import time

from support.spaces import random_space

import dp_middleware as dp
from dp_middleware import _waits


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


def test_nobody_who_does_not_listen_pays_for_a_thread(monkeypatch):
    monkeypatch.setattr(_waits, "Timer", None)
    logging.getLogger("dp_middleware").setLevel(logging.WARNING)
    try:
        with _waits.told("adding"):
            pass
    finally:
        logging.getLogger("dp_middleware").setLevel(logging.NOTSET)


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
