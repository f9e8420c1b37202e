"""What a release spends on its text, and what it is charged to its subject: two numbers."""

import pytest
from support.entities import detector
from support.spaces import random_space

import dp_middleware as dp
from dp_middleware.pseudonyms.kinds import Amount


@pytest.fixture
def ledger(tmp_path):
    return dp.PrivacyLedger(f"sqlite:///{tmp_path}/ledger.db", budget=1000)


def test_tokens_are_spent_one_by_one_and_charged_once(ledger):
    space = random_space()
    first, second, third = space.vocabulary.tokens[:3]
    policy = dp.KeepPolicy(kept=frozenset({first}))
    mechanism = dp.TokenExponential(epsilon=2.0)
    sanitizer = dp.Sanitizer(mechanism, space, policy=policy, ledger=ledger, subject="ann")
    release = sanitizer.release(f"{first} {second} {third} {second}")
    assert release.spent == 3 * release.certificate.epsilon
    assert release.charged == release.certificate.epsilon == pytest.approx(ledger.spent("ann"))
    kept = sanitizer.release(first)
    assert (kept.spent, kept.charged) == (0, 0)
    assert ledger.spent("ann") == pytest.approx(release.charged)


def test_values_that_stay_near_are_charged_one_by_one_and_once(ledger):
    pseudonyms = dp.Pseudonyms(
        detector({"$12,500.00": "amount", "$80.00": "amount"}),
        kinds=[Amount(epsilon=1.0)],
        ledger=ledger,
        subject="ann",
    )
    talk = pseudonyms.session()
    two = talk.release("1", "user", "pay $12,500.00 and $80.00 and $80.00")
    assert two.spent == two.charged == 2 * two.certificate.epsilon
    assert ledger.spent("ann") == pytest.approx(two.charged)
    again = talk.release("2", "user", "pay $80.00")
    assert (again.spent, again.charged) == (0, 0)


def test_what_is_drawn_independently_costs_nothing():
    talk = dp.Pseudonyms(detector({"Mirela Tamburi": "person"})).session()
    release = talk.release("1", "user", "ask Mirela Tamburi")
    assert (release.spent, release.charged) == (0, 0)


def test_a_whole_text_has_one_price():
    mechanism = dp.DocumentResponse(epsilon=5.0, rounds=1, codebook=("a knee", "a car", "a law"))
    certificate = dp.certify(mechanism, random_space(), adjacency=dp.Adjacency.texts())
    release = dp.Release(text="a knee", certificate=certificate, tokens_total=1, tokens_verbatim=0)
    assert release.spent == release.charged == certificate.epsilon


def test_beside_pseudonyms_the_words_are_spent_one_by_one(ledger):
    space = random_space()
    first, second = space.vocabulary.tokens[:2]
    sanitizer = dp.Sanitizer(dp.TokenExponential(epsilon=2.0), space)
    pseudonyms = dp.Pseudonyms(
        detector({"Mirela Tamburi": "person"}), sanitizer=sanitizer, ledger=ledger, subject="ann"
    )
    release = pseudonyms.session().release("1", "user", f"{first} Mirela Tamburi {second}")
    assert release.spent == 2 * release.certificate.epsilon
    assert release.charged == release.certificate.epsilon == pytest.approx(ledger.spent("ann"))
