"""All commands: exit codes, errors that quote nothing, and real processes."""

import json
import os
import re
import subprocess
import sys

import pytest
from support.cases import over
from support.commands import refused, run
from support.texts import CANARY
from typer.testing import CliRunner

import dp_middleware as dp
from dp_middleware.cli import app


@over(
    "arguments",
    [
        (CANARY,),
        (f"--{CANARY}",),
        ("sanitize", f"--{CANARY}"),
        ("sanitize", CANARY, "--epsilon", "-1"),
        ("sanitize", CANARY, "--epsilon", "many"),
        ("sanitize", CANARY, "--mechanism", "none-such"),
        ("sanitize", CANARY, "--keep", "everything"),
        ("sanitize", CANARY, "--file", "also.txt"),
        ("sanitize", CANARY, "--epsilon"),
        ("sanitize", "--file", "/no/such/file"),
        ("chat", CANARY),
        ("certify", "none-such"),
        ("certify", "santext", CANARY),
        ("mechanisms", CANARY, "more"),
        ("sanitize", "x", "--keep", CANARY),
    ],
)
@over("as_json", [False, True])
def test_bad_usage_is_2_on_one_line_without_the_text(arguments, as_json):
    assert refused(*arguments, as_json=as_json).exit_code == 2


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (dp.BudgetExhausted("spent"), 3),
        (dp.RemoteError("timeout"), 4),
        (dp.MissingExtra("openai", "openai"), 5),
        (RuntimeError(CANARY), 1),
        (ValueError(f"bad text: {CANARY}"), 1),
    ],
)
def test_exit_code_of_what_a_release_raises(monkeypatch, error, code):
    def fail(self, text):
        raise error

    monkeypatch.setattr(dp.Sanitizer, "release", fail)
    result = run("sanitize", CANARY, "--json")
    assert result.exit_code == code
    assert json.loads(result.stdout)["error"]["type"] == type(error).__name__


def process(*command, **options):
    environment = {**os.environ, "COLUMNS": "100", **options.pop("env", {})}
    return subprocess.run(
        [sys.executable, "-W", "error", *command],
        capture_output=True, env=environment, timeout=100, **options,
    )  # fmt: skip


def test_help_is_light():
    code = """
import sys
from dp_middleware.cli import app
try:
    app(["--help"])
except SystemExit as stop:
    assert stop.code == 0
heavy = {"torch", "numpy", "scipy", "transformers", "tiktoken", "openai"} & set(sys.modules)
assert not heavy, heavy
"""
    result = process("-c", code)
    assert result.returncode == 0, result.stderr.decode()
    assert b"sanitize" in result.stdout


def test_text_that_is_not_utf8_in_a_real_process():
    code = "from dp_middleware.cli import app; app()"
    result = process("-c", code, "sanitize", input=CANARY.encode() + b"\xff\xfe")
    assert result.returncode == 2
    assert CANARY.encode() not in result.stdout + result.stderr
    argument = process("-c", code, "sanitize", CANARY.encode() + b"\xff", input=b"")
    assert argument.returncode == 2
    assert CANARY.encode() not in argument.stdout + argument.stderr


def test_a_real_process_releases_utf8_whatever_the_locale():
    code = """
import dp_middleware as dp
from dp_middleware.cli import app
from dp_middleware import embedding
space = dp.EmbeddingSpace(dp.Vocabulary(["\u00fc", "\u00e9"]), [[1.0, 0.0], [0.0, 1.0]])
embedding.default_space = lambda: space
from dp_middleware.cli import app
app()
"""
    result = process(
        "-c", code, "sanitize", "--nominal",
        input=("\u00fc " * 20).encode(), env={"PYTHONIOENCODING": "ascii"},
    )  # fmt: skip
    assert result.returncode == 0, result.stderr.decode()
    assert set(result.stdout.decode().split()) <= {"\u00fc", "\u00e9"}


@over(
    "arguments, told",
    [
        (("sanitise",), "did you mean sanitize?"),
        (("sanitize", "x", "--epsilom", "1"), "did you mean --epsilon?"),
        (("chat", "x", "--quickly"), "no such option; see --help."),
        (("sanitize", "x", "-m", "nearest-respons"), "did you mean nearest-response?"),
        (("attack", "bayse", "x"), "did you mean bayes?"),
        (("evaluate", "x", "--out", "y", "--metric", "rougel"), "did you mean rouge-l?"),
        (
            ("sanitize", "x", "--space", "o2000"),
            "one of default, wordpieces, glove, cl100k, o200k; did you mean o200k?",
        ),
    ],
)
def test_a_name_that_is_nearly_one_of_ours_is_suggested(arguments, told):
    assert told in refused(*arguments).stderr


def test_the_help_has_four_panels():
    text = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "100"}).output
    assert re.findall(r"─ (\w+) ─", text) == ["Options", "Protect", "Serve", "Explore", "Research"]
