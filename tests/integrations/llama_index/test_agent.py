"""A FunctionAgent on a real client: ten turns, two tools, one charge per private message."""

import itertools
from contextlib import asynccontextmanager

import pytest
from llama_index.core.agent.workflow import FunctionAgent, ReActAgent
from llama_index.core.llms import MockLLM
from llama_index.core.memory import Memory
from llama_index.core.memory.memory import BaseMemoryBlock
from llama_index_dp_middleware import DPLLM
from sqlalchemy.ext.asyncio import create_async_engine
from support.contract import ToolCall
from support.llama_index import grows

# LlamaIndex reads all attributes of an agent, of which pydantic has deprecated some
pytestmark = pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecationWarning")

TURNS = 10


def tools_of(desk):
    def look_up(word: str) -> str:
        """Look a word up."""
        return f"{word} of {desk.canary} is w1x"

    async def count(word: str) -> str:
        """Count a word."""
        return f"{desk.canary} {len(word)}"

    return [look_up, count]


def scripted(desk):
    """Each turn calls a tool, every third one both at once; then it answers."""
    for k in range(TURNS):
        calls = [
            ToolCall(name="look_up", arguments={"word": f"w{k}x"}, id=f"a{k}"),
            ToolCall(name="count", arguments={"word": f"w{k}x"}, id=f"b{k}"),
        ]
        desk.remote.script.append(calls if k % 3 == 0 else [calls[k % 2]])
        desk.remote.script.append(f"answer {k}")


@asynccontextmanager
async def memory_in(folder, **options):
    """What it has in the folder, it still has the next time; always given explicitly."""
    engine = create_async_engine(f"sqlite+aiosqlite:///{folder / 'history.sqlite'}")
    yield Memory.from_defaults(session_id="s", token_limit=100_000, async_engine=engine, **options)
    await engine.dispose()


def agent_of(desk, session=None, **options):
    model = DPLLM(session or desk.session(), desk.llama_openai(), public_system=("be brief",))
    return FunctionAgent(tools=tools_of(desk), llm=model, **options)


@pytest.mark.asyncio
async def test_a_resumed_conversation_costs_nothing(desk, tmp_path):
    """Another process would do the same: memory and memo are read from disk."""
    scripted(desk)
    for k in range(2):
        session = desk.session(memo=tmp_path / "memo.sqlite")
        agent = FunctionAgent(
            tools=tools_of(desk), llm=DPLLM(session, desk.llama_openai(), conversation="thread-1")
        )
        async with memory_in(tmp_path) as memory:
            await agent.run(user_msg=f"{desk.private_text} {k}", memory=memory)
    assert grows(desk.remote)
    assert len(desk.charges) == 5  # two turns, three results of tools


class LastWords(BaseMemoryBlock[str]):
    """Another text in every turn, none in the first."""

    name: str = "last words"
    said: list[str]

    async def _aget(self, messages=None, **kwargs):
        return self.said[-1] if self.said else ""

    async def _aput(self, messages):
        """Told by the test."""


@pytest.mark.asyncio
async def test_a_memory_that_changes_charges_each_message_once(desk, tmp_path):
    """The memory's text stands before the history, which does not depend on it."""
    agent = agent_of(desk, system_prompt="be brief")
    block = LastWords(said=[])
    async with memory_in(tmp_path, memory_blocks=[block]) as memory:
        for k in range(6):
            await agent.run(user_msg=f"{desk.private_text} {k}", memory=memory)
            block.said.append(f"{desk.canary} w{k}x")
    first, *later = desk.charges
    assert first == 6
    assert later == [8, 6] * 5  # the memory's text, which has changed, and the message
    histories = [each["messages"][-2 * k - 1 :] for k, each in enumerate(desk.remote.requests)]
    assert all(b[: len(a)] == a for a, b in itertools.pairwise(histories))
    assert {request["messages"][0]["content"] for request in desk.remote.requests} == {"be brief"}
    assert not desk.remote.saw(desk.canary)


@pytest.mark.filterwarnings("ignore:is_running called:DeprecationWarning")
@pytest.mark.asyncio
async def test_the_header_of_a_react_agent_is_public_where_it_is_named(desk, tmp_path):
    agent = ReActAgent(tools=tools_of(desk), llm=MockLLM(), system_prompt="be brief")
    [header] = agent.formatter.format(agent.tools, [])
    agent.llm = DPLLM(desk.session(), desk.llama_openai(), public_system=[header.content])
    desk.remote.script.append("Thought: I can answer.\nAnswer: w1x")
    async with memory_in(tmp_path) as memory:
        answer = await agent.run(user_msg=desk.private_text, memory=memory)
    sent = desk.remote.requests[-1]["messages"]
    assert (str(answer), sent[0]["content"]) == ("w1x", header.content)
    assert not desk.remote.saw(desk.canary)
