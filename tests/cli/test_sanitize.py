"""``dp-middleware sanitize``: what goes to which stream, and what is refused."""

import json
import types

import pytest
from support.commands import CERTIFICATE, WORDS, flat, run
from support.texts import CANARY

import dp_middleware as dp
from dp_middleware import embedding


def test_arguments_are_one_text_and_only_the_release_is_on_stdout():
    for arguments in (("the patient w3",), ("the", "patient", "w3")):
        result = run("sanitize", *arguments, code=0)
        words = result.stdout.removesuffix("\n").split(" ")
        assert len(words) == 3
        assert set(words) <= set(WORDS)
        assert "asked for exact epsilon 10, calibrated" in flat(result.stderr)


def test_standard_input():
    for arguments in ((), ("-",), ("--file", "-")):
        result = run("sanitize", *arguments, stdin="the patient\n", code=0)
        assert len(result.stdout.split()) == 2
    assert run("sanitize", stdin="", code=0).stdout == "\n"


def test_file_with_byte_order_mark(tmp_path):
    path = tmp_path / "note.txt"
    path.write_text("the patient w1 w2", encoding="utf-8-sig")
    assert json.loads(run("sanitize", "--file", path, "--json").stdout)["tokens_total"] == 4


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


def test_an_infinite_loss_is_refused_unless_accepted():
    aggressive = ("sanitize", "w1", "--mechanism", "custext-aggressive")
    refused = run(*aggressive, "--nominal", code=3)
    assert refused.stdout == ""
    assert "--accept-infinite" in refused.stderr
    run(*aggressive, code=3)  # cannot be calibrated
    accepted = run(*aggressive, "--nominal", "--accept-infinite", code=0)
    assert "infinite per token (none)" in flat(accepted.stderr)
    run(*aggressive, "--accept-infinite", code=2)


def test_spaces_by_name(monkeypatch, toy):
    from dp_middleware.lab.evaluation import running

    opened = []
    service = types.SimpleNamespace(space=lambda vocabulary, vectors: toy)
    monkeypatch.setattr(embedding, "EmbeddingService", lambda: service)
    monkeypatch.setattr(dp.Vocabulary, "from_tiktoken", opened.append)
    for place, name in ((embedding, "glove_space"), (running, "default_space")):
        monkeypatch.setattr(place, name, lambda name=name: opened.append(name) or toy)
    for space in ("cl100k", "o200k", "glove", "wordpieces"):
        run("sanitize", "w1", "--nominal", "--space", space, code=0)
    assert opened == ["cl100k_base", "o200k_base", "glove_space", "default_space"]


def test_a_contextual_mechanism_names_its_model():
    options = ("--mechanism", "cape-strict", "--epsilon", "8")
    assert "context" in flat(run("sanitize", CANARY, *options, code=2).stderr)
    wrong = run("sanitize", CANARY, *options, "--context", "gpt2", code=2)
    assert "masked:NAME or causal:NAME" in flat(wrong.stderr)
    run("sanitize", CANARY, "--context", "causal:gpt2", code=2)


def test_a_whole_text_is_released_as_public_units():
    from dp_middleware.mechanisms.kernels import units

    listed = units.english()
    result = run("sanitize", "a private text", "--unit", "text", "--epsilon", "25", code=0)
    released = result.stdout.removesuffix("\n").split(", ")
    assert len(set(released)) == 2
    assert set(released) <= set(listed)
    assert "25 per text (exact)" in flat(result.stderr)
    assert "any text replaced by any other" in flat(result.stderr)


def test_a_release_of_sentences_says_both_numbers():
    text = "The liver is inflamed. Morphine was given."
    options = ("sanitize", text, "--unit", "sentence", "--epsilon", "50")
    result = run(*options, code=0)
    assert len(result.stdout.splitlines()) == 2
    words = flat(result.stderr)
    assert "50 per sentence (exact)" in words
    assert "spends 100 nats on this text" in words
    document = json.loads(run(*options, "--json").stdout)
    assert (document["spent"], document["tokens_total"]) == (100, 2)
    assert document["certificate"]["adjacency"] == "sentences"


def test_a_mechanism_of_tokens_does_not_protect_whole_texts():
    result = run("sanitize", "the patient", "--unit", "text", "--mechanism", "santext", code=2)
    assert "whole texts" in flat(result.stderr)
