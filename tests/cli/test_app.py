"""The command line: what goes to which stream, exit codes, and that errors quote nothing."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
import types

import numpy as np
import pytest
from support.texts import CANARY
from typer.testing import CliRunner

import dp_middleware as dp
from dp_middleware import embedding
from dp_middleware.cli import app, show
from dp_middleware.sanitizers.sanitizer import DEFAULT_MECHANISM
from dp_middleware.testing import OpenAIServer

WORDS = ["the", "patient", ".", *(f"w{i}" for i in range(27))]
CERTIFICATE = {
    "guarantee", "adjacency", "method", "assumptions", "claimed", "epsilon", "mechanism", "space",
    "witness", "recovery", "retention",
}  # fmt: skip


@pytest.fixture(autouse=True)
def toy(monkeypatch):
    """The default space, thirty words."""
    vectors = np.random.default_rng(0).normal(size=(len(WORDS), 4))
    space = dp.EmbeddingSpace(dp.Vocabulary(WORDS), vectors)
    monkeypatch.setattr(embedding, "default_space", lambda: space)
    return space


def run(*arguments, stdin=None):
    result = CliRunner().invoke(app, list(arguments), input=stdin, env={"COLUMNS": "200"})
    assert "Traceback" not in result.output
    return result


def flat(text):
    return " ".join(text.split())


# text in, release out ---------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [("the patient w3",), ("the", "patient", "w3")])
def test_arguments_are_one_text_and_only_the_release_is_on_stdout(arguments):
    result = run("sanitize", *arguments)
    assert result.exit_code == 0
    words = result.stdout.removesuffix("\n").split(" ")
    assert len(words) == 3
    assert set(words) <= set(WORDS)
    assert "asked for exact epsilon 10, calibrated" in flat(result.stderr)


@pytest.mark.parametrize("arguments", [(), ("-",), ("--file", "-")])
def test_standard_input(arguments):
    result = run("sanitize", *arguments, stdin="the patient\n")
    assert result.exit_code == 0
    assert len(result.stdout.split()) == 2


def test_file_with_byte_order_mark(tmp_path):
    path = tmp_path / "note.txt"
    path.write_text("the patient w1 w2", encoding="utf-8-sig")
    result = run("sanitize", "--file", str(path), "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["tokens_total"] == 4


def test_a_megabyte(tmp_path):
    path = tmp_path / "long.txt"
    path.write_text("the patient w1 w2\n" * 58_000)
    result = run("sanitize", "--file", str(path), "--json")
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert document["tokens_total"] == len(document["text"].split()) == 232_000


def test_an_empty_text_is_an_empty_release():
    result = run("sanitize", stdin="")
    assert (result.exit_code, result.stdout) == (0, "\n")


def test_exact_epsilon_is_certified_and_nominal_is_the_parameter():
    exact = json.loads(run("sanitize", "w1", "--epsilon", "2", "--json").stdout)
    nominal = json.loads(run("sanitize", "w1", "--epsilon", "2", "--nominal", "--json").stdout)
    assert exact["asked"] == {"epsilon": 2.0, "kind": "exact"}
    assert 1.99 < exact["certificate"]["epsilon"] <= 2
    assert exact["mechanism"]["epsilon"] == pytest.approx(2, rel=1e-8)  # nothing is lost
    assert nominal["asked"] == {"epsilon": 2.0, "kind": "nominal"}
    assert nominal["mechanism"]["epsilon"] == nominal["certificate"]["claimed"] == 2
    options = ("--mechanism", "token-exponential", "--epsilon", "2", "--json")
    loose = json.loads(run("sanitize", "w1", *options).stdout)
    assert loose["mechanism"]["epsilon"] > 2  # calibration gives back what its proof gave away
    assert set(nominal["certificate"]) >= CERTIFICATE
    words = flat(run("sanitize", "w1", "--nominal", "--epsilon", "2").stderr)
    assert "asked for nominal epsilon 2, the mechanism's own parameter" in words


def test_kept_tokens_are_unchanged_and_reported():
    options = ("--keep", "stop-words", "--keep", "punctuation", "--json")
    document = json.loads(run("sanitize", "the w1 . the", *options).stdout)
    words = document["text"].split()
    assert [words[0], words[2], words[3]] == ["the", ".", "the"]
    assert (document["tokens_total"], document["tokens_verbatim"]) == (4, 3)
    assert any("stop words" in each for each in document["certificate"]["assumptions"])


def test_explain_draws_nothing(monkeypatch):
    monkeypatch.setattr(dp.Sanitizer, "release", None)
    table = run("sanitize", "the patient the", "--explain")
    assert table.exit_code == 0
    assert "Do not retry" in flat(table.stdout)
    found = json.loads(run("sanitize", "the patient the", "--explain", "--json").stdout)
    assert [(each["token"], each["count"]) for each in found["alternatives"]] == [
        ("the", 2),
        ("patient", 1),
    ]


# refusals and errors ----------------------------------------------------------------------


def test_an_infinite_loss_is_refused_unless_accepted():
    aggressive = ("sanitize", "w1", "--mechanism", "custext-aggressive")
    refused = run(*aggressive, "--nominal")
    assert (refused.exit_code, refused.stdout) == (3, "")
    assert "--accept-infinite" in refused.stderr
    assert run(*aggressive).exit_code == 3  # cannot be calibrated
    accepted = run(*aggressive, "--nominal", "--accept-infinite")
    assert accepted.exit_code == 0
    assert "infinite per token (none)" in flat(accepted.stderr)
    assert run(*aggressive, "--accept-infinite").exit_code == 2


def test_custext_within_its_classes():
    result = run("sanitize", "w1", "-m", "custext", "--within-classes", "-e", "1", "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["certificate"]["epsilon"] <= 1
    assert run("sanitize", "w1", "--within-classes").exit_code == 2


@pytest.mark.parametrize(
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
@pytest.mark.parametrize("as_json", [False, True])
def test_bad_usage_is_2_on_one_line_without_the_text(arguments, as_json):
    if arguments[-1] == "--epsilon" and as_json:
        arguments = (*arguments[:1], "--json", *arguments[1:])
    elif as_json:
        arguments = (*arguments, "--json")
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert CANARY not in result.output
    if as_json:
        error = json.loads(result.stdout)["error"]
        assert error["exit_code"] == 2
        assert f"error: {error['message']}\n" == result.stderr
    else:
        assert result.stdout == ""


def test_bytes_that_are_not_utf8():
    result = run("sanitize", stdin=CANARY.encode() + b"\xff")
    assert result.exit_code == 2
    assert f"an invalid byte at position {len(CANARY)}" in result.stderr
    assert CANARY not in result.output


def test_an_unknown_token_is_not_named(monkeypatch):
    space = dp.EmbeddingSpace(dp.Vocabulary(["a", "b"], unknown="raise"), [[0.0], [1.0]])
    monkeypatch.setattr(embedding, "default_space", lambda: space)
    result = run("sanitize", "--nominal", CANARY)
    assert result.exit_code == 2
    assert "token 1 of 1" in result.stderr
    assert CANARY not in result.output


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
    assert CANARY not in result.output
    assert json.loads(result.stdout)["error"]["type"] == type(error).__name__


# certify and mechanisms -------------------------------------------------------------------


def test_certify_agrees_with_the_library(toy):
    options = ("--nominal", "--epsilon", "1", "--epsilon", "4", "--json")
    found = json.loads(run("certify", "token-exponential", *options).stdout)
    assert [each["epsilon_nominal"] for each in found] == [1, 4]
    for each in found:
        mechanism = dp.TokenExponential(epsilon=each["epsilon_nominal"])
        assert each["epsilon"] == dp.certify(mechanism, toy).epsilon
        assert set(each) >= CERTIFICATE | {"epsilon_nominal", "name"}
    exact = json.loads(run("certify", "token-exponential", "-e", "1", "--json").stdout)
    assert 0.99 < exact[0]["epsilon"] <= 1
    assert exact[0]["epsilon_nominal"] > 1


def test_certify_as_a_table():
    infinite = flat(run("certify", "custext", "--nominal", "--epsilon", "1").stdout)
    assert run("certify", "custext").exit_code == 3
    assert "infinite" in infinite
    assert "output" in infinite  # the witness
    within = run("certify", "custext", "--epsilon", "1", "--within-classes")
    assert "public class" in flat(within.stdout)
    assert "infinite" not in within.stdout
    assert "per unit of euclidean distance" in flat(run("certify", "santext").stdout)


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
    assert result.stdout == show.mechanism_table() + "\n"
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


def test_references_in_the_table_end_at_the_year_if_they_have_one():
    rows = {row.split("`")[1]: row for row in show.mechanism_table().splitlines()[2:]}
    assert rows["custext"].endswith("| Chen et al. (2023) |")
    assert rows["custext-strict"].endswith("| This library; zero-extension of Chen et al. (2023) |")
    assert rows["cape"].count(r"\|b_i\|/\|b_j\|") == 1


def test_one_format_at_a_time():
    result = run("mechanisms", "--markdown", "--json")
    assert result.exit_code == 2
    assert "--markdown or --json" in result.stderr


@pytest.mark.parametrize("name", ["cl100k", "o200k"])
def test_spaces_of_tiktoken(monkeypatch, toy, name):
    asked = []
    service = types.SimpleNamespace(space=lambda vocabulary, vectors: toy)
    monkeypatch.setattr(embedding, "EmbeddingService", lambda: service)
    monkeypatch.setattr(dp.Vocabulary, "from_tiktoken", asked.append)
    assert run("sanitize", "w1", "--nominal", "--space", name).exit_code == 0
    assert asked == [f"{name}_base"]


@pytest.mark.parametrize("epsilon", [0.63485001, 9.99999, 12345.67891, math.pi])
def test_a_loss_is_never_understated(epsilon):
    assert epsilon <= float(show.nats(epsilon)) < epsilon + 1e-3
    assert show.nats(math.inf) == "infinite"


def test_control_characters_of_a_remote_model_do_not_reach_the_terminal():
    assert show.printable("a\x1b[2Jb\r\n\tc\x9b") == "a[2Jb\n\tc"


# the InferDPT round trip ------------------------------------------------------------------


@pytest.fixture
def servers(monkeypatch):
    """A remote model and an extractor on loopback, and no key in the environment."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with OpenAIServer("remote \x1b[2Jtext") as remote, OpenAIServer("extracted") as local:
        yield remote, local


def chat(servers, *arguments, extractor=None):
    remote, local = (f"openai:m@{server.url}" for server in servers)
    options = ("--remote", remote, "--extractor", extractor or local, "--nominal")
    return run("chat", *options, *arguments)


def test_chat_sends_the_release_and_prints_the_extracted_answer(servers):
    remote, local = servers
    result = chat(servers, "the patient", CANARY, "--instruction", "Shorten it.")
    assert result.exit_code == 0, result.stderr
    assert result.stdout == "extracted\n"
    assert "remote [2Jtext" in result.stderr
    assert "epsilon" in result.stderr
    assert "Shorten it." in str(remote.requests)
    assert not remote.saw(CANARY)
    assert local.saw(CANARY)


def test_chat_as_json(servers):
    document = json.loads(chat(servers, "the patient", "--json").stdout)
    assert document["answer"] == "extracted"
    assert document["remote_answer"] == "remote \x1b[2Jtext"
    assert document["release"]["text"] in str(servers[0].requests)
    assert document["release"]["asked"] == {"epsilon": 10.0, "kind": "nominal"}


def test_chat_refuses_an_extractor_elsewhere(servers):
    result = chat(servers, CANARY, extractor="openai:m@https://models.example.com/v1")
    assert result.exit_code == 3
    assert "--trusted-host" in result.stderr
    assert CANARY not in result.output
    assert not servers[0].requests


def test_a_trusted_host_gets_past_the_check(servers, monkeypatch):
    from dp_middleware import frameworks

    class Stub:
        def __init__(self, sanitizer, **models):
            assert models["trusted_hosts"] == ("models.example.com",)

        def run(self, document, instruction):
            raise dp.ExtractorError("stopped here: nothing may leave a test")

    monkeypatch.setattr(frameworks, "InferDPT", Stub)
    elsewhere = "openai:m@https://models.example.com/v1"
    result = chat(servers, "w1", "--trusted-host", "models.example.com", extractor=elsewhere)
    assert (result.exit_code, result.stdout) == (4, "")


def test_a_failing_chat_model_is_4_and_its_message_is_not_shown(servers):
    servers[1].mode = "malformed"
    result = chat(servers, CANARY, "--json")
    assert result.exit_code == 4
    assert json.loads(result.stdout)["error"]["type"] == "ExtractorError"
    assert CANARY not in result.output


@pytest.mark.parametrize("text", ["", " \n"])
def test_chat_about_nothing_sends_nothing(servers, text):
    assert chat(servers, text).exit_code == 2
    assert not servers[0].requests


# real processes ---------------------------------------------------------------------------


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


def test_a_contextual_mechanism_names_its_model(toy):
    """Without a model, or with a spec of another form, nothing is released."""
    options = ("--mechanism", "cape-strict", "--epsilon", "8")
    missing = run("sanitize", CANARY, *options)
    assert missing.exit_code == 2
    assert "context" in flat(missing.stderr)
    wrong = run("sanitize", CANARY, *options, "--context", "gpt2")
    assert wrong.exit_code == 2
    assert "masked:NAME or causal:NAME" in flat(wrong.stderr)
    needless = run("sanitize", CANARY, "--context", "causal:gpt2")
    assert needless.exit_code == 2
    assert CANARY not in missing.output + wrong.output + needless.output


def test_a_length_makes_a_raw_context_finite(toy):
    options = ("certify", "cape", "--nominal", "--epsilon", "1", "--json")
    assert json.loads(run(*options).stdout)[0]["epsilon"] == "inf"
    one, two = (json.loads(run(*options, "--length", n).stdout)[0]["epsilon"] for n in ("1", "2"))
    assert two == pytest.approx(2 * one)
