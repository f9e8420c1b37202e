"""The blocks of docs/agents.md run, each where its framework is installed."""

import ast
import asyncio
import inspect
import re
from pathlib import Path

import numpy as np
import pytest
from support.contract import OpenAIServer

import dp_middleware as dp

PAGE = (Path(__file__).parents[2] / "docs" / "agents.md").read_text("utf-8")
CANARY = "zxqcanary"


def run(heading, names):
    """The blocks below a heading, as in a notebook."""
    part = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    with asyncio.Runner() as runner:
        for block in re.findall(r"```python\n(.*?)```", part, flags=re.DOTALL):
            code = compile(block, heading, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            waiting = eval(code, names)
            if inspect.iscoroutine(waiting):
                runner.run(waiting)
    return names


@pytest.fixture
def remote():
    with OpenAIServer() as server:
        yield server
    assert not server.saw(CANARY)


@pytest.fixture
def session():
    words = tuple(f"w{k}x" for k in range(50))
    vectors = np.random.default_rng(0).normal(size=(50, 6))
    space = dp.EmbeddingSpace(dp.Vocabulary(words), vectors)
    return dp.Session(dp.Sanitizer(dp.TokenExponential(epsilon=4.0), space))


def client(remote):
    openai = pytest.importorskip("openai")
    return openai.AsyncOpenAI(api_key="none", base_url=remote.url, max_retries=0)


def test_openai_agents(session, remote):
    agents = pytest.importorskip("agents")
    agents.set_tracing_disabled(True)
    model = agents.OpenAIChatCompletionsModel("gpt-4o-mini", client(remote))
    names = run("OpenAI Agents SDK", {"session": session, "model": model, "text": CANARY})
    assert names["result"].final_output == "a fine answer"
    assert remote.requests[0]["messages"][0]["content"] == "Be brief."


def test_pydantic_ai(session, remote):
    pytest.importorskip("pydantic_ai")
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    model = OpenAIChatModel("gpt-4o-mini", provider=OpenAIProvider(openai_client=client(remote)))
    given = {"session": session, "model": model, "text": CANARY, "instructions": CANARY}
    assert run("pydantic-ai", given)["result"].output == "a fine answer"


def test_haystack(session, monkeypatch):
    monkeypatch.setenv("HAYSTACK_TELEMETRY_ENABLED", "False")
    pytest.importorskip("haystack", reason="haystack-ai is installed for this recipe only")
    from haystack import Pipeline
    from haystack.dataclasses import ChatMessage

    names = run("Haystack", {"session": session})
    release = names["Release"](session)
    pipeline = Pipeline()
    pipeline.add_component("release", release)
    asked = [ChatMessage.from_system(CANARY), ChatMessage.from_user(CANARY)]
    [*sent] = pipeline.run({"release": {"messages": asked}})["release"]["messages"]
    assert CANARY not in str([message.text for message in sent])
    release.dialogue.note("a fine answer", "a fine answer")
    more = [*asked, ChatMessage.from_assistant("a fine answer"), ChatMessage.from_user("w1x")]
    again = pipeline.run({"release": {"messages": more}})["release"]["messages"]
    assert [message.text for message in again[:2]] == [message.text for message in sent]
    assert again[2].text == "a fine answer"
    with pytest.raises(Exception, match="assistant"):
        pipeline.run({"release": {"messages": [ChatMessage.from_assistant(CANARY)]}})


def test_dspy(session):
    dspy = pytest.importorskip("dspy", reason="dspy is installed for this recipe only")
    said = {"answer": "a fine answer"}
    lm = dspy.utils.DummyLM([said], adapter=dspy.ChatAdapter())
    run("DSPy", {"session": session})
    with dspy.context(lm=lm):
        assert dspy.Predict("question -> answer")(question=CANARY).answer == "a fine answer"
    assert CANARY not in str(lm.history)
    assert "question" in str(lm.history)
