"""The inference attack by a chat model, over loopback, and reading its lists of candidates."""

import json
import re

import numpy as np
import pytest
from hypothesis import given, strategies as st
from support.cases import over
from support.contract import OpenAIServer

import dp_middleware as dp
from dp_middleware.lab import attacks
from dp_middleware.lab.attacks._chat import candidates

WORDS = ["cat", "dog", "Fish", "##s", " tree", "zxqvcanary"]


@pytest.fixture(scope="module")
def space():
    return dp.EmbeddingSpace(dp.Vocabulary(WORDS), np.arange(6.0)[:, None])


@pytest.fixture
def served():
    openai = pytest.importorskip("openai")
    with (
        OpenAIServer() as server,
        openai.OpenAI(base_url=server.url, api_key="none", max_retries=0) as client,
    ):
        yield server, dp.chat_model(client, "gpt-4o-mini")


def test_candidates_are_compared_with_the_raw_tokens(served, space):
    server, remote = served
    server.reply = json.dumps({"1": ["CAT", "dog"], "2": ["cat", "dog"], "3": ["x"], "4": []})
    found = attacks.llm_inference([[0, 1, 2, 3]], [[1, 2, 0, 0]], space, model=remote, top=(1, 2))
    shares = ["top 2", "unanswered", "calls", "malformed"]
    assert (found.rate, *(found.details[each] for each in shares)) == (1 / 4, 2 / 4, 1 / 4, 1, 0)


def test_only_released_tokens_are_sent(served, space):
    server, remote = served
    attacks.llm_inference([[5, 5, 5]], [[0, 1, 4]], space, model=remote, top=7)
    assert not server.saw("zxqvcanary")
    [prompt] = server.prompts
    assert prompt.endswith("1. cat\n2. dog\n3. tree")
    assert "7 best guesses" in prompt


@over("reply", ["I am sorry, but no.", "{]", '{"7": ["cat"]}'])
def test_malformed_answers_are_misses_and_reported(served, space, reply):
    server, remote = served
    server.reply = reply
    found = attacks.llm_inference([[0, 1]], [[0, 1]], space, model=remote)
    assert (found.rate, found.details["malformed"], found.details["unanswered"]) == (0, 1, 1)


def test_a_failing_model_does_not_pass_for_privacy(served, space):
    server, remote = served
    server.mode = "error"
    with pytest.raises(dp.ChatError, match="HTTP 500"):
        attacks.llm_inference([[5]], [[0]], space, model=remote)
    with pytest.raises(dp.ChatError, match="type str, got list"):
        attacks.llm_inference([[0]], [[1]], space, model=lambda messages: messages)


def test_long_texts_take_several_calls_and_unknown_tokens_are_left_out(space):
    asked = []

    def echo(messages):
        asked.append(re.findall(r"^\d+\. .*$", messages[-1]["content"], re.M))
        return "\n".join(asked[-1])

    raw, released = [[0, 1, -1, 3, 4], [5, 5]], [[0, 1, 2, 3, 4], [0, 1]]
    found = attacks.llm_inference(raw, released, space, model=echo, top=1, per_call=2)
    assert [*map(len, asked)] == [2, 2, 1, 2]
    assert found.rate == pytest.approx(4 / 6)  # continuation and blank are no part of a word
    assert (found.details["tokens"], found.trials) == (6, 2)


@over("top, rate", [(2, 0.0), (3, 1.0)])
def test_only_as_many_guesses_count_as_were_asked_for(space, top, rate):
    sure = json.dumps({"1": ["x", "y", "cat"]})
    found = attacks.llm_inference([[0]], [[1]], space, model=lambda _: sure, top=top)
    assert found.rate == rate


WANTED = [["cat", "dog"], ["sat"]]

ANSWERS = {
    "object": '{"1": ["cat", "dog"], "2": ["sat"]}',
    "fenced": 'Sure!\n```json\n{"1": ["cat", "dog"],\n "2": ["sat"]}\n```\nAnything else?',
    "one guess as a string": '{"1": ["cat", "dog"], "2": "sat"}',
    "array of lists": 'Here: [["cat", "dog"], ["sat"]]',
    "array of objects": '[{"1": ["cat", "dog"]}, {"2": ["sat"]}]',
    "other keys and types": '{"1": ["cat", 7, null, " dog "], "x": ["no"], "2": ["sat", ""]}',
    "numbered lines": "1. cat, dog\n2. sat",
    "brackets": "Answer:\n(1) [cat, dog]\n(2) [sat]",
    "bold and quotes": '**1.** "cat", "dog"\n**2.** "sat".',
    "token repeated": "1. car -> cat, dog\n2. set → sat",
    "colons and semicolons": "1: cat; dog\n2: sat",
    "bullets": "- 1) cat / dog\n- 2) sat",
    "cut JSON over lines": '{\n"1": ["cat", "dog"],\n"2": ["sat"],\n"3": ["o',
    "cut JSON": '{"1": ["cat", "dog"], "2": ["sat"], "3": ["o',
    "wrapped": '{"tokens": [["cat", "dog"], ["sat"]]}',
    "beyond the last": '{"1": ["cat", "dog"], "2": ["sat"], "9": ["x"], "0": ["y"], "-1": ["z"]}',
}


@over("answer", ANSWERS.values())
def test_answers_are_read(answer):
    assert candidates(answer, 2) == WANTED


NO_LISTS = ["", "I cannot help with that.", "{}", "[]", "[[[", "{" * 100_000, '{"1": {"a": 1}}']
NO_LISTS += ["9" * 9999 + ". cat", '{"' + "9" * 9999 + '": ["cat"]}']


@over("answer", NO_LISTS)
def test_what_is_no_list_is_nothing(answer):
    assert candidates(answer, 2) == [[], []]


@given(st.text(alphabet='{}[]"1239.,:->abc\n\\ ', max_size=60), st.integers(1, 4))
def test_nothing_breaks_it(answer, count):
    found = candidates(answer, count)
    assert len(found) == count
    assert all(isinstance(text, str) and text for listed in found for text in listed)


@over(
    "answer, count, expected",
    [
        ("2. sat", 3, [[], ["sat"], []]),
        ('["a", "b", "c"]', 1, [["a", "b", "c"]]),
        ('["a", "b"]', 2, [["a"], ["b"]]),
        ("1. foo: bar, baz", 1, [["bar", "baz"]]),
    ],
)
def test_a_list_for_one_token_and_a_token_repeated(answer, count, expected):
    assert candidates(answer, count) == expected
