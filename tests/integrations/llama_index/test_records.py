"""Agents on records that tools return as dicts: the tool that acts gets the right record."""

import asyncio
import json

import pytest
from support.cases import over

pytest.importorskip("faker", reason="the lists of names are of the extra detect")

from hypothesis import given, strategies as st
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage
from llama_index_dp_middleware import DPLLM, unrecorded
from llama_index_dp_middleware._messages import copy_message
from support.contract import ToolCall
from support.pseudonymous import pseudonyms

from dp_middleware.conversation.messages import as_json, transcript_of


def closing(request):
    """Looks the record up, then closes the account that it was shown."""
    last = request["messages"][-1]
    if last["role"] == "user":
        return [ToolCall(name="find", arguments={}, id="a")]
    if "closed" in last["content"]:
        return "done"
    found = json.loads(last["content"])  # it reached the model as JSON
    assert found["quantity"] == 17
    return [ToolCall(name="close", arguments={"customer_id": found["customer_id"]}, id="b")]


@pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecationWarning")
def test_agents_act_on_the_right_record_every_time(desk):
    numbers = [10_007 + 883 * k for k in range(12)]
    desk.remote.mode, desk.remote.reply = "ok", closing
    closed = []

    async def run(number):
        def find() -> dict:
            """Find the customer."""
            owner = {"name": "Mirela Tamburi", "note": "it's\nhers"}
            return {"customer_id": number, "quantity": 17, "owner": owner, "ok": True, "at": None}

        def close(customer_id: int) -> str:
            """Close an account."""
            closed.append(customer_id)
            return "closed"

        model = DPLLM(pseudonyms(), desk.llama_openai(), tools="all")
        agent = FunctionAgent(tools=[find, close], llm=model, streaming=False)
        with unrecorded():
            await agent.run(user_msg="Close the account of the customer.")

    for number in numbers:
        asyncio.run(run(number))
    assert closed == numbers
    assert not desk.remote.saw("Mirela")
    assert sum(desk.remote.saw(f'customer_id\\": {number}') for number in numbers) <= 2


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=6,
)


@given(value=st.lists(values) | st.dictionaries(st.text(), values))
def test_what_python_prints_of_a_record_is_read_as_the_record(value):
    spelled = as_json(str(value))
    try:
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except ValueError:
        assert spelled == str(value)
    else:
        assert json.loads(spelled) == value


OTHERS = ["", "plain", '{"a": [1, "b"]}', "{'a': b}", "{'a'", "[1, 2] and more", "{1, 2}", "[b'x']"]
LONG = ["[" * 5000, "{'a': " + "9" * 5000 + "}", "[" + "-" * 9999]


@over("text", [*OTHERS, "{'a': float('nan')}", "['\\ud800']", *LONG])
def test_any_other_text_stays_as_it_is(text):
    assert as_json(text) == text


def test_under_a_sanitizer_a_text_stays_as_it_is():
    """Its guarantee is of tokens: one that changes must not change the form of all."""
    message = ChatMessage("{'a': 1}", role="tool")
    [crossed] = transcript_of(lambda cross: copy_message(message, "message 0", (), cross))
    assert crossed.texts == ("{'a': 1}",)
