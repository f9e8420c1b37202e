"""What was released and charged is in the answer's metadata, and stays out of later requests."""

import asyncio
import json

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from support.langchain import MODELS, chat_model


@tool
def look_up(q: str) -> str:
    """Looks something up."""
    return q


KINDS = {**MODELS, "bound": lambda p: chat_model(p).bind_tools([look_up])}


async def _joined(chunks):
    found = [chunk async for chunk in chunks]
    return sum(found[1:], found[0])


def streamed(model, messages):
    first, *rest = model.stream(messages)
    return sum(rest, first)


PATHS = {
    "invoke": lambda m, x: m.invoke(x),
    "ainvoke": lambda m, x: asyncio.run(m.ainvoke(x)),
    "stream": streamed,
    "astream": lambda m, x: asyncio.run(_joined(m.astream(x))),
    "batch": lambda m, x: m.batch([x])[0],
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("path", PATHS)
def test_the_receipt_of_a_turn(kind, path, probe):
    model, history = KINDS[kind](probe), []
    for _ in range(2):
        history.append(HumanMessage(probe.new_text()))
        answer = PATHS[path](model, history)
        receipt = answer.response_metadata["dp"]
        assert json.loads(json.dumps(receipt)) == receipt
        assert not probe.secrets_in(json.dumps(receipt))
        [released] = receipt["released"]
        assert released in probe.remote.requests[-1]["messages"][-1]["content"]
        nats = receipt["certificate"]["epsilon"]
        assert (receipt["charged"], receipt["unit"]) == (nats, "occurrence")
        assert probe.charges[-1].epsilon * 1e-12 == pytest.approx(nats)
        assert receipt["certificate"]["method"] == "exact"
        history.append(answer)
    assert not any(b"occurrence" in body for body in probe.remote.bodies)
    again = PATHS[path](model, history[:-1]).response_metadata["dp"]
    assert again == {**receipt, "charged": 0.0}
    assert not probe.leaks()
