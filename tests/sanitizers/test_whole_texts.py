"""A sanitizer of whole texts: one charge a text, no length, no scope, no policy."""

import pickle

import pytest
from support.cases import over, refuses
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


@over("text", TORTURE.values())
def test_any_text_is_charged_and_released_alike(text, tmp_path_factory):
    tmp_path = tmp_path_factory.mktemp("ledger")
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
    plain, one = dp.TokenExponential(epsilon=1.0), dp.VectorResponse(epsilon=10.0)
    texts, sentences = dp.Adjacency.texts(), dp.Adjacency.sentences()
    refuses("policy", lambda policy: made(policy=policy), dp.KeepPolicy.stop_words())
    refuses("scope", lambda scope: made().release("some text", scope=scope), [(0, 4)])
    refuses("str", made().release, 3)
    refuses("texts", lambda own: made(adjacency=own).certificate, dp.Adjacency.substitution())
    refuses("encoder", lambda own: dp.Sanitizer(plain, SPACE, encoder=own), Letters())
    refuses("whole texts", lambda own: dp.certify(plain, SPACE, adjacency=own), texts, sentences)
    refuses("texts", lambda own: dp.certify(one, adjacency=own), sentences)
    refuses("unit", lambda unit: dp.document_sanitizer(8.0, SPACE, unit=unit), "paragraph")
    refuses("law", made().explain, "some text")


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


SENTENCES = {
    "": 1,
    " \n ": 1,
    "one": 1,
    "One. Two!  Three?\nFour": 4,
    "At 3.5 mg. Dr. Who...  ok": 4,
    "a\r\nb\u2028c": 3,
}


@over("text, count", SENTENCES.items())
def test_sentences_are_released_one_by_one(text, count, tmp_path_factory):
    tmp_path = tmp_path_factory.mktemp("ledger")
    ledger = dp.PrivacyLedger(f"sqlite:///{tmp_path}/ledger.db", budget=100.0)
    terms = {"ledger": ledger, "subject": "ann", "adjacency": dp.Adjacency.sentences()}
    release = made(**terms).release(text)
    lines = release.text.split("\n")
    assert [len(line.split(", ")) for line in lines] == [2] * count
    assert (release.tokens_total, release.certificate.unit) == (count, "sentence")
    assert release.charged == pytest.approx(8.0)
    assert release.spent == pytest.approx(8.0 * count)
    assert ledger.spent("ann") == pytest.approx(8.0)
    (row,) = ledger.rows("ann")
    assert (row.unit, row.tokens) == ("sentence", count)
    assert any("number of sentences is public" in n for n in release.certificate.assumptions)


def test_the_order_of_sentences_is_kept_and_each_is_encoded_alone():
    encoder = Letters()
    texts = ["aab aab.", "zy zy.", "cd cd."]
    encoder.asked.clear()
    sanitizer = dp.Sanitizer(
        dp.DocumentResponse(epsilon=200.0, rounds=1, codebook=("aab", "zy", "cd")),
        SPACE,
        encoder=encoder,
        adjacency=dp.Adjacency.sentences(),
    )
    assert sanitizer.release(" ".join(texts)).text == "aab\nzy\ncd"  # else at odds of e^-198
    assert " ".join(texts) not in encoder.asked


def test_a_ledger_tells_units_apart_and_counts_documents(tmp_path):
    sentences = made(adjacency=dp.Adjacency.sentences()).certificate
    assert "one sentence replaced" in str(sentences.adjacency)
    assert sentences.to_dict()["adjacency"] == "sentences"
    ledger = dp.PrivacyLedger(f"sqlite:///{tmp_path}/ledger.db", budget=100.0)
    ledger.charge("ann", sentences, 3, unit="document")
    ledger.charge("ann", made().certificate, 3)
    assert ledger.spent("ann") == pytest.approx(48.0)
    occurrence = dp.certify(dp.TokenExponential(epsilon=1.0), SPACE)
    with pytest.raises(ParameterError, match="this unit"):
        ledger.charge("ann", occurrence, 3, unit="text")
