"""What the page is told: the whole truth about a release, and of errors no text."""

import json
import logging

import pytest
from hypothesis import given, settings, strategies as st
from support.cases import over
from support.playground import CHOICES, TEXT, client, playground

import dp_middleware as dp
from dp_middleware._waits import told
from dp_middleware.errors import CannotCalibrate
from dp_middleware.gateway.failures import Failure
from dp_middleware.gateway.playground.releasing import Choice, Playground, _pieces

CANARY = "Zephyrine"


def request(choice="words", **changes):
    return {"text": TEXT, "choice": choice, "epsilon": 3.0, "ask": True, **changes}


def posted(page, path="release", *, choice="words", **changes):
    return client(page).post(f"/playground/{path}", json=request(choice, **changes))


def posted_bytes(page, body):
    headers = {"content-type": "application/json"}
    return client(page).post("/playground/release", content=body, headers=headers)


@pytest.fixture(scope="module")
def made():
    return playground()


def joined(pieces):
    return "".join(text for text, _, _ in pieces)


@over("choice", CHOICES)
def test_pieces_are_the_texts_and_the_model_gets_the_release(made, choice):
    answer = posted(made, choice=choice).json()
    assert joined(answer["original"]) == TEXT
    assert answer["answer"] == f"You wrote: {joined(answer['released'])}"
    assert "Mirela" not in joined(answer["released"])
    if choice == "text":  # nothing of it is public
        assert joined(answer["released"]) in {"aab", "bbc", "cd"}
        assert answer["words"] == []
        assert "no law" in answer["unexplained"]
        assert answer["counts"].startswith("The whole text was replaced")


def test_words_have_the_certified_epsilon_their_laws_and_what_it_comes_to(made):
    answer = posted(made).json()
    assert "e^3 times as likely (3 nats per token, exact)" in answer["certificate"][0]
    spends = "This release spends 42 nats on this text. There is no ledger: nothing is charged."
    assert answer["budget"] == spends
    assert "recovers" in answer["attackers"][0]
    assert "at most 95.2575 %" in answer["attackers"][1]
    assert answer["restored"] is None
    words = {row["token"]: row for row in answer["words"]}
    assert words["(unknown)"]["stays"] == 0
    assert words["has"]["count"] == 1
    shown = {text: stays for text, what, stays in answer["original"] if what == "token"}
    assert shown["has"] == words["has"]["stays"]
    assert answer["counts"].startswith("14 tokens are drawn for; on average ")


@over("choice", ["pseudonyms", "both"])
def test_pseudonyms_are_shown_and_turned_back(made, choice):
    answer = posted(made, choice=choice).json()
    pairs = dict(answer["pseudonyms"])
    assert {*pairs.values()} == {"Mirela", "Tamburi", "Berlin"}
    assert all(pseudonym in joined(answer["released"]) for pseudonym in pairs)
    assert "Mirela Tamburi" in answer["restored"]
    marked = " ".join(text for text, what, _ in answer["original"] if what == "pseudonym")
    assert marked == "Mirela Tamburi Berlin"
    others = {what for _, what, _ in answer["original"]} - {"pseudonym"}
    assert others == ({"plain"} if choice == "pseudonyms" else {"plain", "token"})
    assert bool(answer["words"]) == (choice == "both")


def test_names_in_any_case_but_no_english_words():
    text = "WILL SMITH will go, Will said"
    pieces = _pieces(text, ["Will", "Smith"])
    assert [text for text, what, _ in pieces if what == "pseudonym"] == ["WILL", "SMITH", "Will"]
    assert joined(pieces) == text
    assert _pieces("", ["x"]) == []


def test_what_takes_long_is_told_to_the_page(made):
    page = client(made)
    with told("counting"):
        assert page.get("/playground/progress").json() == {"doing": "counting"}
    assert page.get("/playground/progress").json() == {"doing": ""}


def test_two_releases_share_no_pseudonyms(made):
    answers = [posted(made, choice="pseudonyms").json()["pseudonyms"] for _ in range(4)]
    assert len({json.dumps(pairs) for pairs in answers}) > 1


def test_the_ledger_is_charged_and_its_end_is_said(tmp_path):
    ledger = dp.PrivacyLedger(f"sqlite:///{tmp_path / 'ledger.db'}", budget=7)
    page = playground(ledger)
    said = [posted(page, choice=choice) for choice in ("words", "both")]
    assert [answer.json()["budget"] for answer in said] == [
        f"This release spends {on} nats on this text. Charged 3 nats to playground, "
        f"{charged} in all; {left} remain."
        for on, charged, left in ((42, 3, 4), (33, 6, 1))
    ]
    ahead = posted(page, "preview", choice="text").json()["budget"]
    assert ahead.endswith("That is too little: it would be refused.")
    last = posted(page, choice="text")
    assert (last.status_code, last.json()["error"]["code"]) == (429, "insufficient_quota")
    assert ledger.spent("playground") == pytest.approx(6.0)


@over("choice", CHOICES)
def test_a_preview_tells_what_the_release_will_cost_and_charges_nothing(tmp_path, choice):
    ledger = dp.PrivacyLedger(f"sqlite:///{tmp_path}/{choice}.db", budget=7)
    page = playground(ledger)
    ahead = posted(page, "preview", choice=choice).json()["budget"]
    assert ledger.spent("playground") == 0.0
    said = posted(page, choice=choice).json()["budget"]
    words = ahead.replace("A release", "This release").replace("It will be charged", "Charged")
    assert words.partition(" to playground,")[0] == said.partition(" to playground,")[0]


WRONG = [
    *({"text": text} for text in ("", " \n", 3, f"{CANARY} " * 5000)),
    *({"choice": CANARY}, {"choice": None}, {"ask": CANARY}, {CANARY: 1}),
    *({"epsilon": epsilon} for epsilon in (0, -1, 1e9, 10**400, True, CANARY)),
]


@over("route", ["preview", "release"])
@over("wrong", WRONG)
def test_a_wrong_request_is_refused_without_its_text(made, wrong, route, caplog):
    caplog.set_level(logging.DEBUG)
    answer = client(made).post(f"/playground/{route}", json=request(**wrong))
    assert answer.status_code == 400
    assert {*answer.json()["error"]} == {"message", "type", "param", "code"}
    assert CANARY not in answer.text + str(answer.headers) + caplog.text


@over("choice", CHOICES)
@over("text", ["\ud800 has", "\x00", "<script>alert(1)</script>", "a" * 5000])
def test_any_text_is_released_or_refused(made, choice, text):
    answer = posted_bytes(made, json.dumps(request(choice, text=text)))
    assert answer.status_code in (200, 400)
    assert answer.status_code == 400 or joined(answer.json()["original"]) == text


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


@settings(max_examples=200)
@given(st.sampled_from(["text", "choice", "epsilon", "ask"]), JSON, st.sampled_from(CHOICES))
def test_any_value_of_a_field_is_answered_or_refused(made, field, value, choice):
    answer = posted_bytes(made, json.dumps({**request(choice), "epsilon": None, field: value}))
    assert answer.status_code in (200, 400)


def broken(error):
    def make(_):
        raise error

    choice = Choice(name="words", title="", about="", epsilon=1.0, unit="token", make=make)
    return Playground([choice])


def test_what_cannot_be_had_is_said_and_what_another_library_says_is_withheld(caplog):
    caplog.set_level(logging.DEBUG)
    answer = posted(broken(CannotCalibrate("expected another epsilon")))
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "cannot_calibrate")
    answer = posted(broken(RuntimeError(CANARY)))
    assert answer.status_code == 500
    assert "RuntimeError" in answer.text
    assert CANARY not in answer.text + caplog.text


@over(
    "error, said",
    [
        (Failure(502, "no upstream", "upstream_x"), "no upstream"),
        (OSError(CANARY), "the gateway failed with OSError"),
    ],
)
def test_a_model_that_fails_loses_no_release(error, said):
    async def ask(_):
        raise error

    answer = posted(playground(ask=ask, model="m"))
    assert (answer.status_code, answer.json()["failed"]) == (200, said)
    assert "answer" not in answer.json()


def test_the_model_is_asked_only_where_the_request_says_so():
    async def ask(text):
        raise AssertionError

    assert "answer" not in posted(playground(ask=ask, model="m"), ask=False).json()
