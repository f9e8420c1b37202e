"""``/v1/responses``: instructions, items, ids that name conversations, and streams."""

import json

from support.cases import over
from support.contract import ToolCall
from support.gateway import MODEL, sse
from support.texts import CANARY

TOOL = {"type": "function", "name": "find", "parameters": {"type": "object", "properties": {}}}
PRIVATE = "Mirela Tamburi lives in Berlin"
HIDDEN = ("Mirela", "Tamburi", "Berlin")


def ask(gateway, given, client="ann", **more):
    return gateway.post("/responses", {"model": MODEL, "input": given, **more}, client)


def text_of(answer):
    return answer.json()["output"][0]["content"][0]["text"]


def test_an_id_goes_on_with_the_conversation(names):
    first = ask(names, PRIVATE, instructions="Help Mirela Tamburi")
    assert text_of(first) == PRIVATE
    sent = names.upstream.requests[-1]
    more = {"previous_response_id": first.json()["id"], "instructions": "Help Mirela Tamburi"}
    second = ask(names, "Is Mirela Tamburi in Berlin?", **more)
    assert text_of(second) == "Is Mirela Tamburi in Berlin?"
    assert second.json()["previous_response_id"] in (None, first.json()["id"])
    body = names.upstream.requests[-1]
    assert body["previous_response_id"].startswith("resp_")
    assert body["instructions"] == sent["instructions"]
    assert second.headers["x-dp-draws"] == "0"  # no new name
    assert not any(names.upstream.saw(word) for word in HIDDEN)


def test_a_repeated_turn_costs_nothing(gateway):
    more = {"previous_response_id": ask(gateway, "hello").json()["id"], "instructions": "be kind"}
    draws = [ask(gateway, "and now", **more).headers["x-dp-draws"] for _ in range(2)]
    assert draws == ["2", "0"]


@over("name", ["resp_1", "resp_" + "A" * 80, CANARY, "resp_é"])
def test_an_id_of_another_is_refused(gateway, name):
    answer = ask(gateway, "x", previous_response_id=name)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "previous_response_id"
    own = ask(gateway, "x").json()["id"]
    assert ask(gateway, "x", client="ann2", previous_response_id=own).status_code == 400


def test_items_come_back(names):
    first = ask(names, PRIVATE).json()
    user = {"role": "user", "content": PRIVATE}
    answer = ask(names, [user, *first["output"], {"role": "user", "content": "Where?"}])
    assert answer.status_code == 200, answer.text
    sent = names.upstream.requests
    assert sent[-1]["input"][1]["content"] == sent[-2]["input"][0]["content"]
    other = [{"type": "output_text", "text": CANARY}]
    unknown = {"type": "message", "role": "assistant", "content": other}
    assert ask(names, [user, unknown, user]).status_code == 400
    assert not any(names.upstream.saw(word) for word in HIDDEN)


def test_tools(names):
    names.upstream.mode = "ok"
    names.upstream.reply = lambda request: [
        ToolCall(name="find", arguments={"who": request["input"][0]["content"]})
    ]
    asked = ask(names, "Mirela Tamburi", tools=[TOOL]).json()
    (call,) = asked["output"]
    assert json.loads(call["arguments"]) == {"who": "Mirela Tamburi"}
    result = {"type": "function_call_output", "call_id": call["call_id"], "output": "in Berlin"}
    names.upstream.reply = "thanks"
    user = {"role": "user", "content": "Mirela Tamburi"}
    assert ask(names, [user, call, result], tools=[TOOL]).status_code == 200
    last = ask(names, [result], tools=[TOOL], previous_response_id=asked["id"])
    assert last.status_code == 200, last.text
    odd = {**result, "call_id": CANARY}
    assert ask(names, [odd], previous_response_id=asked["id"]).status_code == 400
    assert not any(names.upstream.saw(word) for word in (*HIDDEN, CANARY))


def test_streams(names):
    answer = ask(names, PRIVATE, stream=True)
    got = sse(answer)
    assert "".join(e["delta"] for e in got if e["type"].endswith("text.delta")) == PRIVATE
    assert [e["text"] for e in got if e["type"].endswith("text.done")] == [PRIVATE]
    whole = got[-1]["response"]
    assert whole["output"][0]["content"][0]["text"] == PRIVATE
    assert [e["sequence_number"] for e in got] == list(range(len(got)))
    assert len({e["response"]["id"] for e in got if "response" in e}) == 1
    more = ask(names, "Where is Berlin?", previous_response_id=whole["id"])
    assert text_of(more) == "Where is Berlin?"
    assert not any(names.upstream.saw(word) for word in HIDDEN)
