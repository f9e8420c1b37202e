"""One conversation for adapters: copies of requests, and answers whole and in pieces."""

from __future__ import annotations

import json

import pytest
from support.entities import ENTITIES, detector

import dp_middleware as dp
from dp_middleware.conversation.dialogue import INSTRUCTIONS, Dialogue

CANARY = "zxqcanary"


def test_a_copy_has_the_releases_in_the_places_of_its_texts(dialogue):
    said = [("user", "w1 w2"), (INSTRUCTIONS, "be brief"), ("tool", "w3"), (INSTRUCTIONS, "w4")]
    copy = dialogue.rewritten(lambda say: [(role, say(role, text)) for role, text in said])
    told, sent = dialogue.release(["be brief", "w4"], [said[0], said[2]])
    assert copy == list(
        zip([role for role, _ in said], [sent[0], told[0], sent[1], told[1]], strict=True)
    )
    assert told[0] == "be brief"


def test_a_request_that_changes_while_it_is_released_is_refused(dialogue):
    """Its second form was never released, so that nothing of it may be in the copy."""
    texts = iter(["w1", CANARY])
    with pytest.raises(dp.errors.ParameterError) as caught:
        dialogue.rewritten(lambda say: say("user", next(texts)))
    assert CANARY not in str(caught.value)


def test_nothing_is_released_for_a_copy_that_cannot_be_made(dialogue, ledger):
    def build(say):
        say("user", CANARY)
        raise KeyError(CANARY)

    with pytest.raises(dp.errors.DPMiddlewareError) as caught:
        dialogue.rewritten(build)
    error = caught.value
    assert CANARY not in str(error)
    assert error.__cause__ is None
    assert error.__context__ is None
    assert [row for row in ledger.rows("user") if row.event == "charge"] == []


def test_json_is_the_same_whole_and_in_pieces():
    """An agent joins the pieces and compares them with the whole arguments of the call."""
    dialogue = Dialogue(dp.Pseudonyms(detector(ENTITIES), on_empty="pass").session())
    [name] = dialogue.release([], [("user", "Mirela Tamburi")])[1]
    spelled = json.dumps({"who": [name, 1e3], "Bräuer": f"{name}\n"}, indent=1)
    spelled = spelled.replace(name[0], f"\\u{ord(name[0]):04x}")
    whole = dialogue.shown_json(spelled)
    assert json.loads(whole) == dialogue.shown_value(json.loads(spelled))
    assert "Mirela Tamburi" in whole
    for cut in range(len(spelled)):
        pieces = dialogue.pieces()
        shown = [pieces.feed("args", each, json=True) for each in (spelled[:cut], spelled[cut:])]
        assert "".join(shown) + pieces.close("args") == whole
    assert dialogue.shown_json(f"to {name}") == "to Mirela Tamburi"
