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

EVALUATED = [
    ("--attack", "none-such"),
    ("--metric", "bayes"),
    ("-m", "none-such"),
    ("-e", "-1"),
    ("--chat-model", "none-such"),
]


@pytest.fixture
def nowhere(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)


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
        ("attack", CANARY),
        *(("attack", name, CANARY) for name in ("none-such", "rouge-l", "llm-inference")),
        ("attack", "embedding-inversion", " "),
        ("attack", "embedding-inversion", CANARY),
        ("attack", "embedding-inversion", "--file", f"/no/such/{CANARY}"),
        ("evaluate",),
        ("evaluate", "--out", "x"),
        ("evaluate", CANARY),
        ("evaluate", f"/no/such/{CANARY}.csv", "--out", "x"),
        *(("evaluate", CANARY, "--out", "x", *more) for more in EVALUATED),
    ],
)
@over("as_json", [False, True])
def test_bad_usage_is_2_on_one_line_without_the_text(arguments, as_json, letters, nowhere):
    code = refused(*arguments, as_json=as_json).exit_code
    assert code == 2 or (code == 5 and arguments[:2] == ("evaluate", CANARY))


@over(
    "error, code",
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
    result = run("sanitize", CANARY, "--json", code=code)
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
    wrong = CANARY.encode() + b"\xff\xfe"
    for arguments, given in (((), wrong), ((wrong,), b"")):
        result = process("-c", code, "sanitize", *arguments, input=given)
        assert result.returncode == 2
        assert CANARY.encode() not in result.stdout + result.stderr


def test_a_real_process_releases_utf8_whatever_the_locale():
    code = """
import dp_middleware as dp
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
        (("sanitize", "x", "--space", "o2000"), "cl100k, o200k; did you mean o200k?"),
    ],
)
def test_a_name_that_is_nearly_one_of_ours_is_suggested(arguments, told):
    assert told in refused(*arguments).stderr


def test_the_help_has_four_panels():
    text = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "100"}).output
    assert re.findall(r"─ (\w+) ─", text) == ["Options", "Protect", "Serve", "Explore", "Research"]
