"""The inference attack by a chat model, through a real client and server on loopback."""

import json
import re

import numpy as np
import pytest
from support.contract import OpenAIServer

import dp_middleware as dp
from dp_middleware.lab import attacks

WORDS = ["cat", "dog", "Fish", "##s", " tree", "zxqvcanary"]


@pytest.fixture(scope="module")
def space():
    return dp.EmbeddingSpace(dp.Vocabulary(WORDS), np.arange(6.0)[:, None])


@pytest.fixture
def server():
    with OpenAIServer() as running:
        yield running


@pytest.fixture
def remote(server):
    openai = pytest.importorskip("openai")
    with openai.OpenAI(base_url=server.url, api_key="none", max_retries=0) as client:
        yield dp.chat_model(client, "gpt-4o-mini")


def test_candidates_are_compared_with_the_raw_tokens(server, remote, space):
    server.reply = json.dumps({"1": ["CAT", "dog"], "2": ["cat", "dog"], "3": ["x"], "4": []})
    raw, released = [[0, 1, 2, 3]], [[1, 2, 0, 0]]
    found = attacks.llm_inference(raw, released, space, model=remote, top=(1, 2))
    assert found.rate == 1 / 4
    assert found.details["top 2"] == 2 / 4
    assert found.details["unanswered"] == 1 / 4
    assert (found.details["calls"], found.details["malformed"]) == (1.0, 0.0)


def test_only_released_tokens_are_sent(server, remote, space):
    attacks.llm_inference([[5, 5, 5]], [[0, 1, 4]], space, model=remote, top=7)
    assert not server.saw("zxqvcanary")
    (prompt,) = server.prompts
    assert prompt.endswith("1. cat\n2. dog\n3. tree")
    assert "7 best guesses" in prompt


@pytest.mark.parametrize("reply", ["I am sorry, but no.", "{]", '{"7": ["cat"]}'])
def test_malformed_answers_are_misses_and_reported(server, remote, space, reply):
    server.reply = reply
    found = attacks.llm_inference([[0, 1]], [[0, 1]], space, model=remote)
    assert found.rate == 0.0
    assert found.details["malformed"] == 1.0
    assert found.details["unanswered"] == 1.0


def test_a_failing_server_does_not_pass_for_privacy(server, remote, space):
    server.mode = "error"
    with pytest.raises(dp.ChatError, match="HTTP 500"):
        attacks.llm_inference([[5]], [[0]], space, model=remote)


def test_long_texts_take_several_calls_and_unknown_tokens_are_left_out(space):
    asked = []

    def echo(messages):
        tokens = re.findall(r"^\d+\. (.*)$", messages[-1]["content"], re.M)
        asked.append(len(tokens))
        return "\n".join(f"{k}. {token}" for k, token in enumerate(tokens, start=1))

    raw = [[0, 1, -1, 3, 4], [5, 5]]
    released = [[0, 1, 2, 3, 4], [0, 1]]
    found = attacks.llm_inference(raw, released, space, model=echo, top=1, per_call=2)
    assert asked == [2, 2, 1, 2]
    assert found.rate == pytest.approx(4 / 6)  # continuation and blank are no part of a word
    assert found.details["tokens"] == 6
    assert found.trials == 2


def test_examples_of_public_text_teach_a_model_the_mechanism(space):
    """A model that only repeats what a replacement stood for: it learns all from examples."""

    def repeats(messages):
        sent = messages[-1]["content"]
        learnt = dict(re.findall(r"^- (\S+) -> (\S+)$", sent, re.M))
        tokens = re.findall(r"^\d+\. (\S+)$", sent, re.M)
        return "\n".join(f"{k}. {learnt.get(token, '?')}" for k, token in enumerate(tokens, 1))

    raw, released = [[0, 1, 2]], [[1, 2, 0]]
    examples = [([0, 1, -1], [1, 2, 3]), (np.array([2]), np.array([0]))]
    alone = attacks.llm_inference(raw, released, space, model=repeats, top=1)
    taught = attacks.llm_inference(raw, released, space, model=repeats, top=1, examples=examples)
    assert (alone.rate, taught.rate) == (0.0, 1.0)
    assert "sees the released text only" in alone.assumptions[0]
    assert "2 examples, which it made itself from public text" in taught.assumptions[0]
    with pytest.raises(dp.ParameterError, match="aligned"):
        attacks.llm_inference(raw, released, space, model=repeats, examples=[([0, 1], [1])])


def test_only_as_many_guesses_count_as_were_asked_for(space):
    def sure(_messages):
        return json.dumps({"1": ["x", "y", "cat"]})

    assert attacks.llm_inference([[0]], [[1]], space, model=sure, top=2).rate == 0.0
    assert attacks.llm_inference([[0]], [[1]], space, model=sure, top=3).rate == 1.0


def test_a_model_that_returns_no_text_is_refused(space):
    with pytest.raises(dp.ParameterError, match=r"dp\.chat_model"):
        attacks.llm_inference([[0]], [[1]], space, model=lambda messages: messages)
