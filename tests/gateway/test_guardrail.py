"""LiteLLM's generic guardrail as a route: whose keys, budgets and conversations it knows."""

import httpx
import pytest
from support.gateway import KEYS, AllLogs, fresh_spent, running
from support.texts import CANARY

PATH = "/beta/litellm_basic_guardrail_api"


def user(text):
    return {"role": "user", "content": text}


def answer(text):
    return {"role": "assistant", "content": text}


def ask(gateway, kind="request", client="ann", owner="a", **more):
    about = {"user_api_key_hash": owner, "user_api_key_user_id": owner}
    call = {"litellm_call_id": f"call of {owner}"}
    body = {"input_type": kind, "request_data": about, **call, **more}
    return httpx.post(gateway.root + PATH, json=body, headers={"x-api-key": KEYS[client]})


def chat(gateway, *messages, **more):
    calls = [call for message in messages for call in message.get("tool_calls", ())]
    texts = [message["content"] for message in messages]
    given = {"structured_messages": list(messages), "texts": texts, "tool_calls": calls or None}
    return ask(gateway, **given, **more).json()


@pytest.fixture(scope="module")
def paid(tmp_path_factory):
    url = f"sqlite:///{tmp_path_factory.mktemp('paid')}/ledger.db"
    with running(ledger={"url": url, "budget": 10}, guardrail_subject="user_api_key_user_id") as g:
        yield g


def test_texts_are_released_once_and_answers_go_out_again(paid):
    spent = fresh_spent(paid, "ann/once")
    with AllLogs() as logs:
        first = chat(paid, user(f"{CANARY} w1"), owner="once")
        charged = spent()
        assert charged > 0
        assert first == chat(paid, user(f"{CANARY} w1"), owner="once")
        assert ask(paid, "response", owner="once", texts=["fine"]).json()["texts"] == ["fine"]
        later = chat(paid, user(f"{CANARY} w1"), answer("fine"), owner="once")
        refused = chat(paid, user(f"{CANARY} w1"), answer(CANARY), owner="once")
    assert later["texts"] == [*first["texts"], "fine"]
    assert refused["action"] == "BLOCKED"
    assert spent() == charged
    assert CANARY not in str([first, later, refused, logs.lines])
    assert paid.get("/dp/budget").json()["charged"] == 0  # the proxy itself


def test_users_and_sessions_of_a_proxy_share_no_release(paid):
    spent = {name: fresh_spent(paid, f"ann/{name}") for name in ("x", "y")}
    for name in ("x", "y", "x"):
        chat(paid, user(CANARY), owner=name)
    once = spent["x"]()
    assert once == spent["y"]() > 0
    chat(paid, user(CANARY), owner="x", request_headers={"X-LiteLLM-Session-Id": "7"})
    assert spent["x"]() == pytest.approx(2 * once)
    ask(paid, "response", owner="x", texts=["fine"])
    assert chat(paid, answer("fine"), owner="y")["action"] == "BLOCKED"


def test_a_spent_budget_and_a_nameless_user_block(paid):
    long = " ".join(["w1"] * 40)
    found = [chat(paid, user(long), owner="poor")]
    assert found[0]["action"] == "GUARDRAIL_INTERVENED"
    while found[-1]["action"] != "BLOCKED":
        assert len(found) < 60
        found.append(chat(paid, user(f"{long} {len(found)}"), owner="poor"))
    assert "budget" in found[-1]["blocked_reason"]
    assert chat(paid, user("w1"), owner=None)["action"] == "BLOCKED"
