"""Texts as proxies hand them to guardrails: released by their roles, and what is refused."""

import pytest
from support.cases import over
from support.entities import CONTRACT, ENTITIES, detector

import dp_middleware as dp
from dp_middleware.conversation.guardrail import Rules, release_request, restore_response

CANARY = "zxqcanary"


def exchanged(session, asked, **rules):
    return release_request(session, asked, Rules(**rules), reference="call", whose="ann")


def released(session, asked, **rules):
    return exchanged(session, asked, **rules)[0]


def charges(ledger):
    return [row for row in ledger.rows("user") if row.event == "charge"]


def chat(*messages):
    """What a proxy gives for a chat."""
    contents = [message.get("content") or () for message in messages]
    texts = [
        [each] if isinstance(each, str) else [part["text"] for part in each] for each in contents
    ]
    calls = [call for message in messages for call in message.get("tool_calls", ())]
    texts = [text for some in texts for text in some]
    return {"texts": texts, "structured_messages": list(messages), "tool_calls": calls}


def user(text):
    return {"role": "user", "content": text}


def answer(text):
    return {"role": "assistant", "content": text}


def call(arguments, name="look_up"):
    function = {"name": name, "arguments": arguments}
    return {"id": "c1", "type": "function", "function": function}


def test_every_text_is_released_by_its_role(session, ledger):
    asked = chat(
        {"role": "system", "content": "be brief"},
        {"role": "developer", "content": CANARY},
        {"role": "user", "content": [{"type": "text", "text": CANARY}] * 2},
        {"role": "tool", "content": CANARY},
    )
    rules = {"public_system": frozenset(["be brief"])}
    texts = released(session, asked, **rules)["texts"]
    assert (texts[0], len(texts)) == ("be brief", 5)
    assert CANARY not in str(texts)
    assert len(charges(ledger)) == 3
    more = chat(*asked["structured_messages"], user("w1"))
    assert released(session, more, **rules)["texts"][:5] == texts
    assert len(charges(ledger)) == 4


def test_what_is_declared_public_passes(session, ledger):
    asked = chat({"role": "system", "content": "w9 is public"}, user(CANARY), answer("so it is"))
    asked["tools"] = [{"type": "function"}]
    rules = {"system": "public", "answers": "pass", "tools": "public"}
    system, private, said = released(session, asked, **rules)["texts"]
    assert (system, said) == ("w9 is public", "so it is")
    assert CANARY not in private
    assert len(charges(ledger)) == 1
    for name, value in (("tools", "yes"), ("answers", "noted"), ("system", "pass")):
        with pytest.raises(dp.errors.ParameterError):
            Rules(**{name: value})


def test_texts_without_messages_are_new_at_every_call(session, ledger):
    for times in (1, 2):
        assert CANARY not in str(released(session, {"texts": [CANARY, CANARY]}))
        assert len(charges(ledger)) == 2 * times


def test_answers_go_out_again_and_no_others(session, ledger):
    known = call('{"word": "w1"}')
    _, exchange = exchanged(session, chat(user("w1")))
    said = restore_response(exchange, {"texts": ["all is well"], "tool_calls": [known]})
    assert said["texts"] == ["all is well"]
    message = {**answer("all is well"), "tool_calls": [known]}
    found = released(session, chat(user("w1"), message, user("w2")))
    assert (found["texts"][1], found["tool_calls"]) == ("all is well", [known])
    before = len(charges(ledger))
    for other in (
        answer(CANARY),
        {**message, "tool_calls": [call(CANARY)]},
        {**message, "tool_calls": [call('{"word": "w1"}', name=CANARY)]},
    ):
        with pytest.raises(dp.errors.EventRefused) as caught:
            released(session, chat(user("w1"), other))
        assert CANARY not in str(caught.value)
    assert len(charges(ledger)) == before


W1 = chat(user("w1"))
PART = {"type": "text", "text": "w1", "image": CANARY}
REFUSED = {
    "images": {**W1, "images": [CANARY]},
    "tools": {**W1, "tools": [{"type": "function"}]},
    "another role": chat({"role": CANARY, "content": "w1"}),
    "another part": chat({"role": "user", "content": [{"type": CANARY, "text": "w1"}]}),
    "other texts": {**W1, "texts": [CANARY]},
    "missing texts": {**W1, "texts": []},
    "other calls": {**W1, "tool_calls": [call("")]},
    "calls of a user": chat({**user("w1"), "tool_calls": [call(CANARY)]}),
    "calls without messages": {"texts": ["w1"], "tool_calls": [call(CANARY)]},
    "another field": chat({**user("w1"), "name": CANARY}),
    "another field of a part": chat({"role": "user", "content": [PART]}),
    "another field of a call": chat({**answer("w1"), "tool_calls": [{**call(""), "note": CANARY}]}),
    "an id of no call": chat({"role": "tool", "content": "w1", "tool_call_id": CANARY}),
    "no text": {"texts": [7]},
    "no message": {"texts": ["w1"], "structured_messages": [CANARY]},
    "no messages": {"texts": ["w1"], "structured_messages": 7},
}


@over("asked", REFUSED.values())
def test_what_cannot_be_released_is_refused(asked, session, ledger):
    with pytest.raises(dp.errors.DPMiddlewareError) as caught:
        released(session, asked)
    assert CANARY not in str(caught.value)
    assert not charges(ledger)


def pseudonyms():
    pytest.importorskip("faker", reason="the lists of names are of the extra detect")
    return dp.Pseudonyms(detector(ENTITIES), on_empty="pass").session()


def test_pseudonyms_come_back_as_originals_also_in_arguments():
    session = pseudonyms()
    found, exchange = exchanged(session, chat(user("Mirela Tamburi")), originals=["look_up"])
    [sent] = found["texts"]
    assert "Mirela" not in sent
    said = {"texts": [f"{sent} agreed"], "tool_calls": [call(f'{{"word": "{sent}"}}')]}
    shown = restore_response(exchange, said)
    assert shown["texts"] == ["Mirela Tamburi agreed"]
    assert shown["tool_calls"] == [call('{"word": "Mirela Tamburi"}')]
    again = {**answer(shown["texts"][0]), "tool_calls": shown["tool_calls"]}
    found = released(session, chat(user("Mirela Tamburi"), again))
    assert (found["texts"], found["tool_calls"]) == ([sent, *said["texts"]], said["tool_calls"])


def test_what_could_become_a_pseudonym_is_held_back():
    """The texts that a proxy may show after each piece only grow, and end with the whole."""
    found, exchange = exchanged(pseudonyms(), chat(user(CONTRACT)))
    [sent] = found["texts"]
    seen = ""
    for end in range(1, len(sent) + 1):
        found = restore_response(exchange, {"texts": [sent[:end]]})
        [shown], [held] = found["texts"], found["stream_holdback_chars"]
        certain = shown[: len(shown) - held]
        assert certain.startswith(seen)
        seen = certain
    assert shown == CONTRACT


def test_calls_that_are_declared_public_are_refused_beside_pseudonyms():
    """In JSON a name may be spelled in escapes, which no detector reads."""
    hidden = call(r'{"who": "M\u0069rela Tamburi"}')
    asked = chat(user("w1"), {**answer("so it is"), "tool_calls": [hidden]})
    with pytest.raises(dp.errors.EventRefused):
        released(pseudonyms(), asked, answers="pass")
