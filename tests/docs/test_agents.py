"""The blocks of docs/agents.md run, each where its framework is installed."""

import ast
import asyncio
import inspect
import re
from pathlib import Path

import pytest
from support.contract import OpenAIServer
from support.spaces import random_space

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
    return dp.Session(dp.Sanitizer(dp.TokenExponential(epsilon=4.0), random_space(50)))


def client(remote):
    import openai

    return openai.AsyncOpenAI(api_key="none", base_url=remote.url, max_retries=0)


def test_openai_agents(session, remote):
    import agents

    agents.set_tracing_disabled(True)
    model = agents.OpenAIChatCompletionsModel("gpt-4o-mini", client(remote))
    names = run("OpenAI Agents SDK", {"session": session, "model": model, "text": CANARY})
    assert names["result"].final_output == "a fine answer"
    assert remote.requests[0]["messages"][0]["content"] == "Be brief."


def test_pydantic_ai(session, remote):
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    model = OpenAIChatModel("gpt-4o-mini", provider=OpenAIProvider(openai_client=client(remote)))
    given = {"session": session, "model": model, "text": CANARY, "instructions": CANARY}
    assert run("pydantic-ai", given)["result"].output == "a fine answer"


def test_recipes_of_frameworks_that_are_not_installed_here_can_be_read():
    for name in ("Haystack", "DSPy"):
        part = PAGE.split(f"\n## {name}\n")[1].split("\n## ")[0]
        [code] = re.findall(r"```python\n(.*?)```", part, flags=re.DOTALL)
        names = {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)}
        assert "session" in names
