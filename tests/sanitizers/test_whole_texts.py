"""A sanitizer of whole texts: one charge a text, no length, no scope, no policy."""

import pickle

import pytest
from support.letters import Letters
from support.spaces import random_space
from support.texts import CANARY, TORTURE

import dp_middleware as dp
from dp_middleware.errors import ParameterError

SPACE = random_space(tokens=6, seed=1)
MECHANISM = dp.DocumentResponse(
    epsilon=8.0, rounds=2, codebook=("aab", "bbc", "cd", "dde", "zy"), shortlist=3
)


def made(**options):
    return dp.Sanitizer(MECHANISM, SPACE, encoder=Letters(), **options)


@pytest.mark.parametrize("text", TORTURE.values(), ids=TORTURE.keys())
def test_any_text_is_charged_and_released_alike(text, tmp_path):
    ledger = dp.PrivacyLedger(f"sqlite:///{tmp_path}/ledger.db", budget=10.0)
    release = made(ledger=ledger, subject="ann").release(text)
    assert len(release.text.split(", ")) == 2
    assert (release.tokens_total, release.tokens_verbatim) == (1, 0)
    assert release.certificate.unit == "text"
    assert ledger.spent("ann") == pytest.approx(8.0)
    (row,) = ledger.rows("ann")
    assert (row.unit, row.tokens) == ("text", 1)
    with pytest.raises(dp.BudgetExhausted):
        made(ledger=ledger, subject="ann").release(text)


def test_what_has_no_meaning_for_whole_texts_is_refused():
    with pytest.raises(ParameterError, match="policy"):
        made(policy=dp.KeepPolicy.stop_words())
    with pytest.raises(ParameterError, match="scope"):
        made().release("some text", scope=[(0, 4)])
    with pytest.raises(ParameterError, match="str"):
        made().release(3)
    with pytest.raises(ParameterError, match="texts"):
        made(adjacency=dp.Adjacency.substitution()).certificate  # noqa: B018
    with pytest.raises(ParameterError, match="encoder"):
        dp.Sanitizer(dp.TokenExponential(epsilon=1.0), SPACE, encoder=Letters())
    with pytest.raises(ParameterError, match="whole texts"):
        dp.certify(dp.TokenExponential(epsilon=1.0), SPACE, adjacency=dp.Adjacency.texts())
    with pytest.raises(ParameterError, match="law"):
        made().explain("some text")


def test_nothing_private_in_it():
    sanitizer = made()
    draft = sanitizer.read(CANARY)
    assert CANARY not in repr(draft)
    with pytest.raises(TypeError, match="private"):
        pickle.dumps(draft)
    assert CANARY not in repr(sanitizer.release(CANARY))


def test_a_session_answers_an_event_once_and_an_edited_one_anew(tmp_path):
    ledger = dp.PrivacyLedger(f"sqlite:///{tmp_path}/ledger.db", budget=100.0)
    session = dp.Session(made(ledger=ledger, subject="ann"))
    first = session.release("1", "user", "a text")
    assert session.release("1", "user", "a text") == first
    assert ledger.spent("ann") == pytest.approx(8.0)
    edited = session.release("1", "user", "another text")
    assert ledger.spent("ann") == pytest.approx(16.0)
    assert any("replaces an earlier version" in note for note in edited.certificate.assumptions)
    other = session.at(4.0).release("1", "user", "a text")
    assert other.certificate.epsilon == pytest.approx(4.0)


def test_a_ledger_knows_texts_from_occurrences(tmp_path):
    ledger = dp.PrivacyLedger(f"sqlite:///{tmp_path}/ledger.db", budget=100.0)
    ledger.charge("ann", made().certificate, 3)
    assert ledger.spent("ann") == pytest.approx(24.0)
    occurrence = dp.certify(dp.TokenExponential(epsilon=1.0), SPACE)
    with pytest.raises(ParameterError, match="this unit"):
        ledger.charge("ann", occurrence, 3, unit="text")
