"""A receipt: what one block released and charged, and nothing of other blocks and threads."""

import asyncio
import json
from threading import Thread

from support.ledgers import Charges
from support.talks import session, words
from support.texts import CANARY

from dp_middleware.privacy.releases import receipts


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
