"""What the page is told: the whole truth about a release, and of errors no text."""

import json
import logging

import pytest
from hypothesis import given, settings, strategies as st
from support.cases import over
from support.playground import CHOICES, TEXT, client, playground

import dp_middleware as dp
from dp_middleware._waits import told
from dp_middleware.gateway.failures import Failure
from dp_middleware.gateway.playground import Choice, Playground

CANARY = "Zephyrine"


def request(choice="words", **changes):
    return {"text": TEXT, "choice": choice, "epsilon": 3.0, "ask": True, **changes}


@pytest.fixture(scope="module")
def made():
    return playground()


def joined(pieces):
    return "".join(text for text, _, _ in pieces)


@pytest.mark.parametrize("choice", CHOICES)
def test_pieces_are_the_texts_and_the_model_gets_the_release(made, choice):
    answer = client(made).post("/playground/release", json=request(choice)).json()
    assert joined(answer["original"]) == TEXT
    assert answer["answer"] == f"You wrote: {joined(answer['released'])}"
    assert "Mirela" not in joined(answer["released"])
    assert answer["whole"] == (choice == "text")
    assert sum(answer["counts"].values()) == len([p for p in answer["original"] if p[1] != "blank"])


def test_words_have_the_certified_epsilon_their_laws_and_what_it_comes_to(made):
    answer = client(made).post("/playground/release", json=request()).json()
    assert "e^3 times as likely (3 nats per token, exact)" in answer["certificate"][0]
    spends = "This release spends 42 nats on this text. There is no ledger: nothing is charged."
    assert answer["budget"] == spends
    assert "recovers" in answer["attackers"][0]
    assert "at most 95.2575 %" in answer["attackers"][1]
    assert answer["restored"] is None
    words = {row["token"]: row for row in answer["words"]}
    assert words["(unknown)"]["stays"] == 0
    assert words["has"]["count"] == 1
    shown = {text: stays for text, what, stays in answer["original"] if what != "blank"}
    assert shown["has"] == words["has"]["stays"]


@pytest.mark.parametrize("choice", ["pseudonyms", "both"])
def test_pseudonyms_are_shown_and_turned_back(made, choice):
    answer = client(made).post("/playground/release", json=request(choice)).json()
    pairs = dict(answer["pseudonyms"])
    assert {*pairs.values()} == {"Mirela", "Tamburi", "Berlin"}
    assert all(pseudonym in joined(answer["released"]) for pseudonym in pairs)
    assert "Mirela Tamburi" in answer["restored"]
    marked = " ".join(text for text, what, _ in answer["original"] if what == "pseudonym")
    assert marked == "Mirela Tamburi Berlin"
    others = {what for _, what, _ in answer["original"]} - {"pseudonym", "blank"}
    assert others == {"kept"} if choice == "pseudonyms" else others <= {"stayed", "changed"}


def test_nothing_of_a_whole_text_is_public(made):
    answer = client(made).post("/playground/release", json=request("text")).json()
    assert joined(answer["released"]) in {"aab", "bbc", "cd"}
    assert answer["words"] == []
    assert "no law" in answer["unexplained"]


def test_two_releases_share_no_pseudonyms(made):
    answers = [
        client(made).post("/playground/release", json=request("pseudonyms")).json()["pseudonyms"]
        for _ in range(4)
    ]
    assert len({json.dumps(pairs) for pairs in answers}) > 1


def test_the_ledger_is_charged_and_its_end_is_said(tmp_path):
    ledger = dp.PrivacyLedger(f"sqlite:///{tmp_path / 'ledger.db'}", budget=7)
    browser = client(playground(ledger))
    said = [browser.post("/playground/release", json=request(c)) for c in ("words", "both")]
    assert [answer.json()["budget"] for answer in said] == [
        f"This release spends {on} nats on this text. Charged 3 nats to playground, "
        f"{charged} in all; {left} remain."
        for on, charged, left in ((42, 3, 4), (33, 6, 1))
    ]
    last = browser.post("/playground/release", json=request("text"))
    assert (last.status_code, last.json()["error"]["code"]) == (429, "insufficient_quota")
    assert ledger.spent("playground") == pytest.approx(6.0)


@pytest.mark.parametrize("choice", CHOICES)
def test_a_preview_tells_what_the_release_will_cost_and_charges_nothing(tmp_path, choice):
    ledger = dp.PrivacyLedger(f"sqlite:///{tmp_path / 'ledger.db'}", budget=7)
    browser = client(playground(ledger))
    ahead = browser.post("/playground/preview", json=request(choice)).json()["budget"]
    assert ledger.spent("playground") == 0.0
    said = browser.post("/playground/release", json=request(choice)).json()["budget"]
    words = ahead.replace("A release", "This release").replace("It will be charged", "Charged")
    assert words.partition(" to playground,")[0] == said.partition(" to playground,")[0]


def test_a_preview_says_what_the_budget_will_refuse(tmp_path):
    ledger = dp.PrivacyLedger(f"sqlite:///{tmp_path / 'ledger.db'}", budget=1)
    answer = client(playground(ledger)).post("/playground/preview", json=request())
    assert answer.json()["budget"].endswith("1 remain. That is too little: it would be refused.")


def test_what_takes_long_is_told_to_the_page(made):
    with told("counting"):
        assert client(made).get("/playground/progress").json() == {"doing": "counting"}
    assert client(made).get("/playground/progress").json() == {"doing": ""}


@over("route", ["preview", "release"])
@over(
    "wrong",
    [
        {"text": ""},
        {"text": " \n"},
        {"text": 3},
        {"text": f"{CANARY} " * 5000},
        {"choice": CANARY},
        {"choice": None},
        {"epsilon": 0},
        {"epsilon": -1},
        {"epsilon": 1e9},
        {"epsilon": 10**400},
        {"epsilon": True},
        {"epsilon": CANARY},
        {"ask": CANARY},
        {CANARY: 1},
    ],
)
def test_a_wrong_request_is_refused_without_its_text(made, wrong, route, caplog):
    caplog.set_level(logging.DEBUG)
    answer = client(made).post(f"/playground/{route}", json=request(**wrong))
    assert answer.status_code == 400
    assert {*answer.json()["error"]} == {"message", "type", "param", "code"}
    assert CANARY not in answer.text + str(answer.headers) + caplog.text


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"text": NaN}', b"\xff", b'"Zephyrine"'])
def test_no_json_object_is_refused(made, body):
    headers = {"content-type": "application/json"}
    answer = client(made).post("/playground/release", content=body, headers=headers)
    assert answer.status_code == 400
    assert CANARY not in answer.text


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("text", ["\ud800 has", "\x00", "<script>alert(1)</script>", "a" * 5000])
def test_any_text_is_released_or_refused(made, choice, text):
    body = json.dumps(request(choice, text=text))
    headers = {"content-type": "application/json"}
    answer = client(made).post("/playground/release", content=body, headers=headers)
    assert answer.status_code in (200, 400)
    if answer.status_code == 200:
        assert joined(answer.json()["original"]) == text


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


@settings(max_examples=200)
@given(
    field=st.sampled_from(["text", "choice", "epsilon", "ask"]),
    value=JSON,
    choice=st.sampled_from(CHOICES),
)
def test_any_value_of_a_field_is_answered_or_refused(made, field, value, choice):
    body = json.dumps({**request(choice), "epsilon": None, field: value})
    headers = {"content-type": "application/json"}
    answer = client(made).post("/playground/release", content=body, headers=headers)
    assert answer.status_code in (200, 400)


def broken(error):
    def make(_):
        raise error

    choice = Choice(name="words", title="", about="", epsilon=1.0, unit="token", make=make)
    return Playground([choice])


def test_what_another_library_says_is_withheld(caplog):
    caplog.set_level(logging.DEBUG)
    answer = client(broken(RuntimeError(CANARY))).post("/playground/release", json=request())
    assert answer.status_code == 500
    assert "RuntimeError" in answer.text
    assert CANARY not in answer.text + caplog.text


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (Failure(502, "no upstream", "upstream_x"), "no upstream"),
        (OSError(CANARY), "the gateway failed with OSError"),
    ],
)
def test_a_model_that_fails_loses_no_release(error, said):
    async def ask(_):
        raise error

    answer = client(playground(ask=ask, model="m")).post("/playground/release", json=request())
    assert answer.status_code == 200
    assert answer.json()["failed"] == said
    assert "answer" not in answer.json()


def test_the_model_is_asked_only_where_the_request_says_so():
    seen = []

    async def ask(text):
        seen.append(text)
        return text

    browser = client(playground(ask=ask, model="m"))
    answer = browser.post("/playground/release", json=request(ask=False)).json()
    assert seen == []
    assert "answer" not in answer
    assert browser.get("/playground/form").json()["model"] == "m"
