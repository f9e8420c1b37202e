"""Words of an answer: known again whatever a client's JSON library does to it."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from hypothesis import given, settings, strategies as st

from dp_middleware.gateway.pieces import ChatStream
from dp_middleware.gateway.words import Said, ToolCall

TEXTS = st.text(max_size=30)
CALLS = st.lists(
    st.builds(
        ToolCall,
        id=TEXTS,
        name=TEXTS,
        arguments=st.dictionaries(TEXTS, TEXTS | st.integers(), max_size=3).map(json.dumps),
    ),
    max_size=3,
)
SAID = st.builds(Said, text=TEXTS, refusal=TEXTS, calls=CALLS)


@settings(max_examples=40)
@given(SAID)
def test_a_message_comes_back_from_its_words(said):
    again = Said.of_words(said.words())
    assert again.words() == said.words()
    assert (again.text, again.refusal) == (said.text, said.refusal)
    for one, other in zip(again.calls, said.calls, strict=True):
        assert (one.id, one.name) == (other.id, other.name)
        assert json.loads(one.arguments) == json.loads(other.arguments)


def test_arguments_spelled_otherwise_are_the_same_words():
    def words(arguments):
        return Said(calls=[ToolCall(id="1", name="f", arguments=arguments)]).words()

    assert words('{"a": 1, "b": "\\u00e9"}') == words('{"b":"é","a":1}')
    assert words("not JSON") != words('"not JSON"')


def test_names_are_spelled_as_they_are():
    call = ToolCall(id="1", name="f", arguments='{"who": "Zo\\u00eb"}')
    assert "Zoë" in Said(calls=[call]).words()
    half = ToolCall(id="1", name="f", arguments='{"who": "\\ud800"}')
    Said(calls=[half]).words().encode()


def test_a_text_that_looks_like_words_is_not_taken_for_them():
    inner = Said(calls=[ToolCall(id="1", name="f", arguments="{}")]).words()
    assert Said.of_words(Said(text=inner).words()).text == inner
    with pytest.raises(ValueError, match="words"):
        Said.of_words(inner[:-1])


def test_messages():
    assert Said(text="hi").message() == {"role": "assistant", "content": "hi"}
    assert Said().message() == {"role": "assistant", "content": ""}
    call = ToolCall(id="1", name="f", arguments="{}")
    assert Said(calls=[call]).message()["content"] is None


def test_calls_are_in_the_order_of_their_places():
    stream = ChatStream(SimpleNamespace(restorer=lambda json: None, note=lambda said, left: None))
    for place in (1, 0):
        call = {"index": place, "id": f"c{place}", "function": {"name": "f", "arguments": "{}"}}
        stream.feed({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]})
    noted = []
    stream._turn.note = lambda said, left: noted.extend(said)
    stream.note()
    assert [call.id for call in Said.of_words(noted[0][0]).calls] == ["c0", "c1"]
