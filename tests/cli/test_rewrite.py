"""``dp-middleware rewrite``: what is sent, printed, charged and refused, over real HTTP."""

from __future__ import annotations

import json

import pytest
from support.commands import flat, run
from support.contract import OpenAIServer
from support.texts import CANARY


@pytest.fixture
def writer():
    with OpenAIServer("w1 w2") as server:
        yield server


def rewrite(server, *arguments, prune_above="1", epsilon="2"):
    options = ("--generator", f"openai:m@{server.url}", "--prune-above", prune_above)
    return run("rewrite", *options, "--epsilon", epsilon, *arguments)


def test_the_release_is_on_stdout_and_the_sum_on_stderr(writer):
    result = rewrite(writer, "the patient", CANARY, "--k", "3", "--epsilon-select", "0.5")
    assert (result.exit_code, result.stdout) == (0, "w1 w2\n")
    told = flat(result.stderr)
    assert "epsilon 2.5 per token (proof)" in told
    assert "2 to sanitize, 0.5 to choose" in told
    assert "3 of 3 came, 0 failed" in told
    assert "budget" not in told
    assert len(writer.requests) == 3  # this server ignores n
    assert not writer.saw(CANARY)


def test_as_json_and_with_one_call_for_all(writer):
    writer.choices = ["w1", "w2", "w3", "\x1b[2Jw4"]
    document = json.loads(rewrite(writer, "the patient", CANARY, "--k", "4", "--json").stdout)
    assert len(writer.requests) == 1
    assert document["text"] in writer.choices
    assert document["phases"] == {"sanitizer": pytest.approx(2), "choice": pytest.approx(2)}
    assert document["certificate"]["epsilon"] == sum(document["phases"].values())
    assert document["candidates"] == {"asked": 4, "answered": 4, "failed": 0}
    assert document["asked"] == {"epsilon": 2.0, "kind": "exact"}
    assert document["tokens_total"] == 3


def test_no_candidate_left(writer):
    writer.mode = "empty"
    abstained = rewrite(writer, "w1 w2", "--k", "2")
    assert (abstained.exit_code, abstained.stdout) == (4, "")
    released = rewrite(writer, "w1 w2", "--k", "2", "--fallback", "sanitized")
    assert released.stdout.strip() == writer.prompts[-1].split("Text:\n")[1]


def test_a_failing_generator_is_4_and_stays_charged(writer):
    writer.mode = "error"
    failed = rewrite(writer, "w1", CANARY, "--k", "2", "--budget", "10", "--json")
    assert failed.exit_code == 4
    assert json.loads(failed.stdout)["error"]["type"] == "RemoteError"
    shown = run("ledger", "show", "--json")
    assert json.loads(shown.stdout)["subjects"][0]["spent"] == pytest.approx(4)


def test_both_phases_are_charged_and_an_exhausted_budget_sends_nothing(writer):
    first = rewrite(writer, "w1 w2", "--k", "2", "--budget", "6", "--subject", "anna")
    assert first.exit_code == 0
    assert "anna: spent 4 nats, remaining 2" in flat(first.stderr)
    sent = len(writer.requests)
    second = rewrite(writer, "w1", "--k", "2", "--subject", "anna")
    assert (second.exit_code, second.stdout) == (3, "")
    assert "what is left of the budget of 6" in second.stderr
    assert len(writer.requests) == sent


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ((CANARY, "--k", "0"), 2),
        ((CANARY, "--prune-above", "0"), 2),
        ((CANARY, "--fallback", "raw"), 2),
        ((CANARY, "--sensitivity", "none"), 2),
        ((CANARY, "--epsilon-select", "-1"), 2),
        ((CANARY, "--mechanism", "metric-noise"), 3),
        (("",), 2),
    ],
)
def test_refusals_send_nothing_and_create_no_ledger(arguments, code, writer, tmp_path):
    ledger = ("--budget", "3", "--ledger", f"sqlite:///{tmp_path}/new.db")
    result = rewrite(writer, *arguments, *ledger)
    assert (result.exit_code, result.stdout) == (code, "")
    assert result.stderr.startswith("error: ")
    assert not writer.requests
    assert code == 3 or not (tmp_path / "new.db").exists()


def test_a_generator_is_needed_and_checked_first():
    missing = run("rewrite", CANARY)
    assert missing.exit_code == 2
    wrong = run("rewrite", CANARY, "--generator", "gpt-4o", "--budget", "1")
    assert wrong.exit_code == 2
    assert "ollama:MODEL" in flat(wrong.stderr)
    none = run("ledger", "show")
    assert "existing ledger" in none.stderr  # nothing was created
