"""``/v1/chat/completions``: what goes out, what comes back, and what is refused."""

import json

import pytest
from support.contract import ToolCall
from support.gateway import MODEL, WORDS, running, sse
from support.texts import CANARY

PARAMETERS = {"type": "object", "properties": {"who": {"type": "string"}}}
FIND = {"name": "find", "description": "Finds people.", "parameters": PARAMETERS}
TOOL = {"type": "function", "function": FIND}


def said(answer):
    return answer.json()["choices"][0]["message"]


def sent(gateway, place=-1):
    return gateway.upstream.requests[place]["messages"]


def streamed(answer):
    deltas = [event["choices"][0]["delta"] for event in sse(answer)]
    calls = [call for delta in deltas for call in delta.get("tool_calls", ())]
    text = "".join(delta.get("content") or "" for delta in deltas)
    arguments = "".join(call["function"]["arguments"] for call in calls)
    return text, arguments, answer.text.endswith("data: [DONE]\n\n")


def test_only_released_text_goes_out(gateway):
    parts = [{"type": "text", "text": CANARY}, {"type": "text", "text": f"{CANARY} again"}]
    answer = gateway.chat(
        {"role": "system", "content": f"you are {CANARY}"},
        {"role": "developer", "content": CANARY},
        {"role": "user", "content": parts},
    )
    assert answer.status_code == 200
    assert not gateway.upstream.saw(CANARY)
    roles = [(m["role"], type(m["content"])) for m in sent(gateway)]
    assert roles == [("system", str), ("developer", str), ("user", list)]
    assert len(sent(gateway)[2]["content"]) == 2
    assert gateway.upstream.raw[-1].startswith(b"POST /v1/chat/completions")
    assert answer.headers["x-dp-messages"] == "3"
    assert answer.headers["x-dp-draws"] == "3"


def test_a_transcript_is_released_once(gateway):
    first = gateway.chat("one two three", n=1, temperature=0.5, max_tokens=7)
    before = sent(gateway)
    assert gateway.upstream.requests[-1]["temperature"] == 0.5
    again = gateway.chat("one two three")
    assert sent(gateway) == before
    assert again.headers["x-dp-draws"] == "0"
    assert again.headers["x-dp-charged-nats"] == "0"
    gateway.chat("one two three", said(first), "four")
    assert sent(gateway)[:1] == before
    assert sent(gateway)[1]["content"] == said(first)["content"]
    assert all(word in WORDS for word in sent(gateway)[2]["content"].split())


def test_an_answer_that_did_not_come_through_is_refused(gateway):
    answer = gateway.chat("one", {"role": "assistant", "content": CANARY}, "two")
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "unknown_answer")
    assert not gateway.upstream.requests
    assert CANARY not in answer.text


LONG = " ".join(f"unknown{k}" for k in range(12))  # two are equal by chance: 40^-12


def test_clients_with_equal_openings_share_no_release(gateway):
    drawn = []
    for client in ("ann", "ann2", "bob"):
        gateway.chat(LONG, client=client)
        drawn.append(sent(gateway)[0]["content"])
    assert len(set(drawn)) == 3
    reply = said(gateway.chat(LONG))
    assert gateway.chat(LONG, reply, "more", client="ann2").status_code == 400


def test_a_named_conversation_is_another_one(gateway):
    named = {"x_dp_conversation": "trip-1"}
    drawn = set()
    for headers in ({}, named, {"x_dp_conversation": "trip-2"}, named):
        assert gateway.chat(LONG, headers=headers).status_code == 200
        drawn.add(sent(gateway)[0]["content"])
    assert len(drawn) == 3
    assert not gateway.upstream.saw("trip-1")
    assert gateway.chat("x", headers={"x_dp_conversation": "a b"}).status_code == 400


def test_tools(gateway):
    gateway.upstream.mode = "ok"
    gateway.upstream.reply = [ToolCall(name="find", arguments={"who": "w1", "a": 2})]
    asked = gateway.chat("find her", tools=[TOOL], tool_choice="auto")
    message = said(asked)
    gateway.upstream.mode = "echo"
    call = message["tool_calls"][0]
    call["function"]["arguments"] = json.dumps(json.loads(call["function"]["arguments"]), indent=1)
    result = {"role": "tool", "tool_call_id": call["id"], "content": f"{CANARY} is there"}
    done = gateway.chat("find her", message, result, tools=[TOOL])
    assert done.status_code == 200, done.text
    assert gateway.upstream.requests[-1]["tools"] == [TOOL]
    assert json.loads(sent(gateway)[1]["tool_calls"][0]["function"]["arguments"])["who"] == "w1"
    assert sent(gateway)[2]["tool_call_id"] == call["id"]
    assert not gateway.upstream.saw(CANARY)
    other = {**result, "tool_call_id": CANARY}
    refused = gateway.chat("find her", message, other, tools=[TOOL])
    assert refused.json()["error"]["param"] == "messages[2].tool_call_id"
    changed = json.loads(json.dumps(message).replace("w1", CANARY))
    assert gateway.chat("find her", changed, result, tools=[TOOL]).status_code == 400


PRIVATE = "Mirela Tamburi lives in Berlin"


def test_pseudonyms_come_back(names):
    whole = names.chat(PRIVATE)
    assert said(whole)["content"] == PRIVATE
    text, _, done = streamed(names.chat(PRIVATE, stream=True))
    assert (text, done) == (PRIVATE, True)
    pseudonym = sent(names)[0]["content"]
    names.chat(PRIVATE, said(whole), "Where in Berlin?")
    assert sent(names)[1]["content"] == pseudonym
    assert sent(names)[2]["content"].removesuffix("?").split()[-1] in pseudonym
    assert not any(names.upstream.saw(word) for word in ("Mirela", "Tamburi", "Berlin"))


def test_pseudonyms_come_back_in_arguments(names):
    names.upstream.mode = "ok"
    names.upstream.reply = lambda request: [
        ToolCall(name="find", arguments={"who": request["messages"][0]["content"]})
    ]
    whole = said(names.chat("Mirela Tamburi", tools=[TOOL]))
    assert json.loads(whole["tool_calls"][0]["function"]["arguments"])["who"] == "Mirela Tamburi"
    _, arguments, done = streamed(names.chat("Mirela Tamburi", tools=[TOOL], stream=True))
    assert (json.loads(arguments)["who"], done) == ("Mirela Tamburi", True)
    result = {"role": "tool", "tool_call_id": "call-1", "content": "in Berlin"}
    names.upstream.reply = "thanks"
    assert names.chat("Mirela Tamburi", whole, result, tools=[TOOL]).status_code == 200
    assert not any(names.upstream.saw(word) for word in ("Mirela", "Tamburi", "Berlin"))


@pytest.mark.parametrize("mode", ["pseudonyms", "both"])
def test_public_answers_under_pseudonyms_are_words_only(mode):
    """In the JSON of a call names may be spelled in escapes: it is refused before any charge."""
    policy = {"mode": mode, "on_empty": "pass", "answers": "public", "tools": "public"}
    with running(policies={"default": policy}) as loose:
        arguments = json.dumps({"who": 'Mirela "Tamburi"', "number": 4155552671})
        call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": arguments}}
        calling = {"role": "assistant", "content": None, "tool_calls": [call]}
        result = {"role": "tool", "tool_call_id": "1", "content": "x"}
        words = {"role": "assistant", "content": "Mirela Tamburi is there"}
        user, own = {"role": "user", "content": "hi"}, {"type": "function_call", "call_id": "1"}
        item = {**own, "name": "f", "arguments": arguments}
        thought = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Mirela"}]}
        for answer in (
            loose.chat("hi", calling, result),
            loose.chat("hi", {"role": "assistant", "refusal": "no"}, "why"),
            loose.post("/responses", {"model": MODEL, "input": [user, item]}),
            loose.post("/responses", {"model": MODEL, "input": [user, thought]}),
        ):
            assert (answer.status_code, answer.json()["error"]["code"]) == (400, "unknown_answer")
        assert not loose.upstream.requests
        assert loose.chat("hi", words, "Where?").headers["x-dp-messages"] == "3"
        assert not any(loose.upstream.saw(word) for word in ("Mirela", "Tamburi"))
        loose.upstream.reply = [ToolCall(name="f", arguments={"who": "you"})]
        calling = said(loose.chat("call", tools=[TOOL]))
        result["tool_call_id"] = calling["tool_calls"][0]["id"]
        assert loose.chat("call", calling, result, tools=[TOOL]).status_code == 200


def test_both_perturb_the_rest(both):
    answer = both.chat(f"Mirela Tamburi says {CANARY}")
    assert said(answer)["content"].startswith("Mirela Tamburi")
    assert not any(both.upstream.saw(word) for word in ("Mirela", "Tamburi", CANARY, "says"))


def test_what_was_not_declared_public_is_refused():
    with running() as strict:
        schema = {"type": "json_schema", "json_schema": {"name": "x", "schema": {}}}
        for field, value in (("tools", [TOOL]), ("response_format", schema), ("stop", "x")):
            answer = strict.chat("text", **{field: value})
            assert answer.json()["error"]["code"] == "not_declared_public"
            assert f'{field} = "public"' in answer.json()["error"]["message"]
        assert not strict.upstream.requests
        strict.chat("text", response_format={"type": "json_object"})
        assert strict.upstream.requests[-1]["response_format"] == {"type": "json_object"}


def test_public_system_prompts_and_answers():
    with running(policies={"default": {"system": "public", "answers": "public"}}) as loose:
        said = [{"role": "system", "content": "Be brief."}, {"role": "assistant", "content": "yes"}]
        assert loose.chat(said[0], "hi", said[1], CANARY).status_code == 200
        assert sent(loose)[::2] == said
        assert not loose.upstream.saw(CANARY)
