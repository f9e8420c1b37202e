"""``dp-middleware evaluate`` and ``attack``: what is shown, sent, charged and refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from support.texts import CANARY
from typer.testing import CliRunner

import dp_middleware as dp
from dp_middleware import embedding
from dp_middleware.cli import app
from dp_middleware.cli import evaluate as evaluating
from dp_middleware.metrics import inputs
from dp_middleware.testing import OpenAIServer

pytest.importorskip("pandas", reason="needs the eval extra")

SAMPLES = Path(dp.__file__).parent / "evaluation" / "samples"
WORDS = ["the", "patient", ".", *(f"w{i}" for i in range(27))]
ATTACKS = ("bayes-on-text", "bayes-uniform", "embedding-inversion")


class Letters:
    model = "letters"

    def encode(self, texts):
        rows = np.array([[len(text) + 1, text.count("e") + 1] for text in texts], np.float32)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.fixture(autouse=True)
def toy(monkeypatch, tmp_path):
    """Thirty words for every space, an encoder without a model; nothing of the user's is read."""
    vectors = np.random.default_rng(0).normal(size=(len(WORDS), 4))
    space = dp.EmbeddingSpace(dp.Vocabulary(WORDS), vectors)
    monkeypatch.setattr(embedding, "default_space", lambda: space)
    monkeypatch.setattr(evaluating.settings, "load_space", lambda name: space)
    monkeypatch.setattr("dp_middleware.evaluation.running.default_encoder", Letters)
    monkeypatch.setattr("dp_middleware.evaluation.attacking.default_encoder", Letters)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "DP_MIDDLEWARE_LEDGER", "OLLAMA_HOST"):
        monkeypatch.delenv(name, raising=False)
    assert inputs.default_encoder is not Letters


def run(*arguments, stdin=None):
    result = CliRunner().invoke(app, list(arguments), input=stdin, env={"COLUMNS": "200"})
    assert "Traceback" not in result.output
    assert CANARY not in result.output
    return result


def flat(text):
    return " ".join(text.split())


LIGHT = ("--metric", "rouge-l", "--metric", "retention", "--attack", "bayes")


def evaluated(tmp_path, *arguments):
    pytest.importorskip("rouge_score", reason="needs the eval extra")
    data = tmp_path / "notes.txt"
    data.write_text(f"the patient {CANARY} w1\nw2 w3 the\n")
    options = ("-m", "token-exponential", "-m", "custext", "-e", "2", *LIGHT)
    return run("evaluate", str(data), *options, "--out", str(tmp_path / "out"), *arguments)


# evaluate -----------------------------------------------------------------------------------------


def test_evaluate_shows_a_line_each_and_writes_four_files(tmp_path):
    result = evaluated(tmp_path, "--exact")
    assert result.exit_code == 0, result.output
    told = flat(result.stdout)
    assert "token-exponential" in told
    assert "infinite" in told  # custext
    assert f"6 rows; report: {tmp_path / 'out' / 'report.html'}" in told
    names = {file.name for file in (tmp_path / "out").iterdir() if file.is_file()}
    assert names == {"table.csv", "table.json", "table.parquet", "report.html"}
    assert CANARY not in (tmp_path / "out" / "report.html").read_text()


def test_evaluate_as_json(tmp_path):
    found = json.loads(evaluated(tmp_path, "--json").stdout)
    assert (found["rows"], found["skipped"], found["data"]) == (6, 0, ["notes"])
    assert all(Path(file).stat().st_size > 100 for file in found["files"])


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--out", "x"),
        (CANARY,),
        (str(SAMPLES / "reviews.jsonl"),),
        (CANARY, "--out", "x", "--attack", "none-such"),
        (CANARY, "--out", "x", "--metric", "bayes"),
        (CANARY, "--out", "x", "-m", "none-such"),
        (CANARY, "--out", "x", "-e", "-1"),
        (f"/no/such/{CANARY}.csv", "--out", "x"),
        (CANARY, "--out", "x", "--chat-model", "none-such"),
    ],
)
def test_bad_usage_is_2_on_one_line(arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run("evaluate", *arguments)
    assert result.exit_code in ((2, 5) if CANARY in arguments else (2,))
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1


def test_an_evaluation_without_a_result_fails_with_the_reason(tmp_path):
    data = tmp_path / "notes.txt"
    data.write_text("the patient w1\n")
    options = ("-m", "cape", "-e", "2", "--metric", "retention", "--attack", "bayes")
    result = run("evaluate", str(data), *options, "--out", str(tmp_path / "out"))
    assert result.exit_code == 2
    assert "got none" in result.stderr


def test_chat_models_of_other_names_have_other_cells(tmp_path):
    pytest.importorskip("openai")
    data = tmp_path / "sst.csv"
    data.write_text("text,label\nthe patient,1\nw1 w2,1\nw3,1\nw4,0\n")
    found = []
    options = ("-m", "token-exponential", "-e", "2", "--metric", "classification-accuracy")
    with OpenAIServer("positive") as good, OpenAIServer("negative") as bad:
        for server in (good, bad, good):
            models = ("--attack", "bayes", "--chat-model", f"openai:m@{server.url}")
            result = run("evaluate", str(data), *options, *models, "--out", str(tmp_path / "out"))
            assert result.exit_code == 0, result.output
            rows = json.loads((tmp_path / "out" / "table.json").read_text())
            found.append(next(r["value"] for r in rows if r["name"] == "classification-accuracy"))
        assert (len(good.requests), len(bad.requests)) == (4, 4)  # the third run only reads
    assert found == [0.75, 0.25, 0.75]


# attack -------------------------------------------------------------------------------------------


def test_bayes_without_a_text_is_exact_and_reads_nothing():
    found = json.loads(run("attack", "bayes", "-e", "2", "--json", stdin="unread").stdout)
    assert found["rate"] == pytest.approx(found["certificate"]["recovery"])
    assert (found["trials"], found["confidence"]) == (0, 1.0)
    assert "exact" in flat(run("attack", "bayes", "-e", "2").stdout)


def test_bayes_with_a_text_charges_nothing_and_shows_blind_guesses(tmp_path):
    ledger = f"sqlite:///{tmp_path / 'l.db'}"
    options = ("-e", "2", "--ledger", ledger, "--budget", "50")
    shown = flat(run("attack", "bayes", "the patient", *options).stdout)
    assert "by guessing without looking" in shown
    assert dp.PrivacyLedger(ledger, budget=50).spent("default") == 0


@pytest.mark.parametrize("name", ATTACKS)
def test_attacks_on_a_text_show_rate_interval_and_assumptions(name):
    arguments = ("attack", name, "-e", "2", "-m", "token-exponential")
    text = "the patient w1\nw2 w3 w4\nw5\n"
    found = json.loads(run(*arguments, "--json", stdin=text).stdout)
    assert 0 <= found["low"] <= found["rate"] <= found["high"] <= 1
    assert found["assumptions"]
    assert found["certificate"]["epsilon"] <= 2
    shown = flat(run(*arguments, stdin=text).stdout)
    assert "recovered" in shown
    assert all(flat(sentence) in shown for sentence in found["assumptions"])
    if found["trials"]:
        assert found["trials"] == 3
        assert "over 3 texts" in shown


def test_a_chat_model_is_sent_the_release_only_and_the_ledger_is_charged(tmp_path):
    pytest.importorskip("openai")
    ledger = f"sqlite:///{tmp_path / 'l.db'}"
    with OpenAIServer('{"1": ["the"], "2": ["patient"]}') as server:
        options = ("--model", f"openai:m@{server.url}", "--ledger", ledger, "--budget", "50")
        result = run("attack", "llm-inference", "the", CANARY, "-e", "2", *options, "--json")
        assert not server.saw(CANARY)
        assert len(server.requests) == 1
    found = json.loads(result.stdout)
    assert found["details"]["tokens"] == 1  # the other is not in the vocabulary
    assert dp.PrivacyLedger(ledger).spent("default") == pytest.approx(2, rel=1e-3)


@pytest.mark.parametrize(
    "arguments",
    [
        (CANARY,),
        ("none-such", CANARY),
        ("rouge-l", CANARY),
        ("llm-inference", CANARY),
        ("masked-token", CANARY),
        ("bayes-language-model", CANARY),
        ("embedding-inversion", " "),
        ("embedding-inversion", CANARY),
        ("embedding-inversion", "--file", f"/no/such/{CANARY}"),
        ("llm-inference", CANARY, "--model", "none-such"),
    ],
)
@pytest.mark.parametrize("as_json", [False, True])
def test_a_bad_attack_is_2_on_one_line(arguments, as_json):
    result = run("attack", *arguments, *(["--json"] if as_json else []))
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    if as_json:
        assert json.loads(result.stdout)["error"]["exit_code"] == 2


def test_an_infinite_loss_is_refused_unless_accepted():
    arguments = ("attack", "embedding-inversion", "w1 w2", "-m", "custext-aggressive", "--nominal")
    assert run(*arguments).exit_code == 3
    accepted = run(*arguments, "--accept-infinite", "--json")
    assert accepted.exit_code == 0
    assert json.loads(accepted.stdout)["certificate"]["epsilon"] == "inf"
