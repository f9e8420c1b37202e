"""``--ledger``, ``--budget`` and ``--subject``: whose budget, where it is, and when it is spent."""

import json
import stat

import pytest
from support.cases import over
from support.commands import WORDS, flat, run
from support.contract import OpenAIServer
from support.texts import CANARY

from dp_middleware.privacy.ledger.ledger import PrivacyLedger


@pytest.fixture(autouse=True)
def data(tmp_path):
    return tmp_path / "data" / "dp-middleware"


def sanitize(*arguments, code=0):
    return run("sanitize", f"w1 {CANARY}", "--epsilon", "2", *arguments, code=code)


def accounts(*arguments):
    shown = json.loads(run("ledger", "show", *arguments, "--json").stdout)
    return {account["subject"]: account["charged"] for account in shown["subjects"]}


def test_no_option_charges_nothing(data):
    assert "budget" not in flat(sanitize().stderr).replace("budgets", "")
    document = json.loads(sanitize("--json").stdout)
    assert "budget" not in document
    assert (document["spent"], document["charged"]) == (pytest.approx(4), 0)
    assert not data.exists()


@over(
    "options",
    [
        ("--within-classes", "--mechanism", "nearest-response"),
        ("--mechanism", "dp-mlm"),
        ("--context", "causal:sshleifer/tiny-gpt2"),
        *(("--budget", value) for value in ("0", "-1", "nan", "much")),
    ],
)
def test_options_that_are_refused_create_no_ledger(data, options):
    assert sanitize("--budget", "5", *options, code=2).stdout == ""
    assert not (data / "ledger.db").exists()


def test_a_budget_is_spent_release_by_release_and_then_refused(data):
    first = flat(sanitize("--budget", "5").stderr)
    assert "spends 4 nats on this text, charged 2 nats to default" in first
    assert "default: charged 2 nats in all, remaining 3" in first
    second = json.loads(sanitize("--budget", "5", "--json").stdout)["budget"]
    assert second["subject"] == "default"
    assert (second["charged"], second["remaining"]) == (pytest.approx(4), pytest.approx(1))
    third = sanitize("--budget", "5", code=3)
    assert third.stdout == ""
    assert "what is left of the budget of 5" in third.stderr
    assert "--epsilon" in third.stderr
    refused = json.loads(sanitize("--budget", "5", "--json", code=3).stdout)
    assert list(refused) == ["error"]
    assert accounts() == {"default": pytest.approx(4)}
    run("ledger", "verify", code=0)
    file = data / "ledger.db"  # the user's alone
    assert [stat.S_IMODE(path.stat().st_mode) for path in (data, file)] == [0o700, 0o600]
    assert CANARY.encode() not in file.read_bytes()


@pytest.mark.parametrize("as_json", [True, False])
def test_a_ledger_that_fails_after_the_draw_loses_no_release(data, monkeypatch, as_json):
    real = PrivacyLedger.charge

    def charge_and_lose(self, *arguments):
        charged = real(self, *arguments)
        self.close()
        (data / "ledger.db").write_bytes(b"no database any more, " * 400)
        return charged

    monkeypatch.setattr(PrivacyLedger, "charge", charge_and_lose)
    result = sanitize("--budget", "5", *["--json"] * as_json)
    text = json.loads(result.stdout)["text"] if as_json else result.stdout
    assert set(text.split()) <= set(WORDS)
    assert len(text.split()) == 2
    assert "note: this was charged; what is left could not be read" in result.stderr
    assert "budget" not in (json.loads(result.stdout) if as_json else flat(result.stdout))


@over("name, value", [("--subject", "anna"), ("--ledger", "sqlite:///{}/l.db")])
def test_without_a_ledger_there_must_be_a_budget(name, value, data, tmp_path):
    missing = sanitize(name, value.format(tmp_path), code=2)
    assert "--budget creates a ledger" in flat(missing.stderr)
    assert not data.exists()
    assert not (tmp_path / "l.db").exists()


def test_a_url_by_option_and_by_environment(data, tmp_path, monkeypatch):
    url = f"sqlite:///{tmp_path}/own.db"
    sanitize("--ledger", url, "--budget", "10")
    monkeypatch.setenv("DP_MIDDLEWARE_LEDGER", url)
    assert "charged 4 nats in all" in flat(sanitize().stderr)
    assert accounts() == accounts("--ledger", url) == {"default": pytest.approx(4)}
    assert not data.exists()
    assert "sqlite:///FILE" in sanitize("--ledger", "mysql://h/n", code=2).stderr


def test_a_metric_budget_of_its_own_or_none():
    terms = ("--budget", "5", "--metric-budget", "inf", "--mechanism", "metric-noise", "--nominal")
    for _ in range(4):
        sanitize(*terms)
    assert "metric_budget=inf; got" in flat(sanitize("--budget", "5", code=2).stderr)
    assert json.loads(run("ledger", "show", "--json").stdout)["metric_budget"] == "inf"


def test_chat_is_charged_once_and_an_exhausted_budget_sends_nothing():
    with OpenAIServer("remote") as remote, OpenAIServer("extracted") as local:
        models = (f"openai:m@{remote.url}", f"openai:m@{local.url}")
        options = ("--remote", models[0], "--extractor", models[1], "--epsilon", "2")
        first = run("chat", *options, "w1", CANARY, "--budget", "3", "--json")
        assert json.loads(first.stdout)["release"]["budget"]["charged"] == pytest.approx(2)
        assert run("chat", *options, "w1", CANARY, "--budget", "3", code=3).stdout == ""
        assert len(remote.requests) == len(local.requests) == 1
