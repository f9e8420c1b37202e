"""``dp-middleware attack``: what is shown, sent, charged and refused."""

import json

import pytest
from support.cases import over
from support.commands import flat, run

import dp_middleware as dp

pytestmark = pytest.mark.usefixtures("letters")


def test_bayes_without_a_text_is_exact_and_reads_nothing():
    found = json.loads(run("attack", "bayes", "-e", "2", "--json", stdin="unread").stdout)
    assert found["rate"] == pytest.approx(found["certificate"]["recovery"])
    assert (found["trials"], found["confidence"]) == (0, 1.0)


def test_bayes_with_a_text_charges_nothing_and_shows_blind_guesses(tmp_path):
    ledger = f"sqlite:///{tmp_path / 'l.db'}"
    options = ("-e", "2", "--ledger", ledger, "--budget", "50")
    shown = flat(run("attack", "bayes", "the patient", *options).stdout)
    assert "blind 1" in shown
    assert dp.PrivacyLedger(ledger, budget=50).spent("default") == 0


@over("name", ["bayes-on-text", "bayes-uniform", "embedding-inversion"])
def test_attacks_on_a_text_show_rate_interval_and_assumptions(name):
    arguments = ("attack", name, "-e", "2", "-m", "token-exponential")
    text = "the patient w1\nw2 w3 w4\nw5\n"
    found = json.loads(run(*arguments, "--json", stdin=text).stdout)
    assert 0 <= found["low"] <= found["rate"] <= found["high"] <= 1
    assert found["assumptions"]
    assert found["certificate"]["epsilon"] <= 2
    shown = flat(run(*arguments, stdin=text).stdout)
    assert "rate 0" in shown
    assert all(flat(sentence) in shown for sentence in found["assumptions"])
    if found["trials"]:
        assert found["trials"] == 3
        assert "trials 3" in shown


def test_a_release_that_is_attacked_is_charged(tmp_path):
    ledger = f"sqlite:///{tmp_path / 'l.db'}"
    options = ("-e", "2", "--ledger", ledger, "--budget", "50")
    run("attack", "embedding-inversion", "the", *options, code=0)
    assert dp.PrivacyLedger(ledger).spent("default") == pytest.approx(2, rel=1e-3)
