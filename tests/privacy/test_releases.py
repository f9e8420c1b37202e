"""What a release spends and is charged, and what a receipt says of one block."""

import asyncio
import json
from threading import Thread

import pytest
from support.entities import detector
from support.ledgers import Charges
from support.spaces import random_space
from support.talks import session, words
from support.texts import CANARY

import dp_middleware as dp
from dp_middleware.privacy.releases import receipts
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
    drawn = dp.Pseudonyms(detector({"Mirela Tamburi": "person"})).session()  # independently
    release = drawn.release("1", "user", "ask Mirela Tamburi")
    assert (release.spent, release.charged) == (0, 0)


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


def test_what_came_from_the_memo_is_not_charged():
    talk = session(Charges())
    found = []
    for _ in range(2):
        with receipts() as receipt:
            release = talk.release("m", "user", f"{words(3)} {CANARY}")
        found.append(receipt.to_dict())
    assert [each["released"] for each in found] == [[release.text]] * 2
    assert [each["charged"] for each in found] == [release.certificate.epsilon, 0.0]
    assert [each["spent"] for each in found] == [release.spent] * 2
    assert found[0]["certificate"] == release.certificate.to_dict()
    assert json.loads(json.dumps(found)) == found
    assert CANARY not in json.dumps(found)


def test_a_turn_begins_behind_the_last_answer():
    talk = session(Charges())
    talk.note_remote("a", "an answer")
    with receipts() as receipt:
        talk.release_many([("1", "user", "w1"), ("a", "assistant", "x"), ("2", "user", "w2 w3")])
    assert len(receipt.to_dict()["released"]) == 1
    assert len(receipt.charged) == 2


def test_blocks_and_threads_are_apart():
    talk = session(Charges())
    with receipts() as outer:
        with receipts() as inner:
            asyncio.run(talk.arelease("1", "user", "w1"))
        thread = Thread(target=talk.release, args=("2", "user", "w2"))
        thread.start()
        thread.join()
    talk.release("3", "user", "w3")
    assert (len(inner.charged), outer.to_dict()) == (1, {})
