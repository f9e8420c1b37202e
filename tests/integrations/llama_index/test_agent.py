"""Agents on a real client."""

import pytest
from llama_index.core.agent.workflow import FunctionAgent, ReActAgent
from llama_index.core.llms import MockLLM
from llama_index.core.memory import Memory
from llama_index_dp_middleware import DPLLM
from sqlalchemy.ext.asyncio import create_async_engine
from support.contract import ToolCall
from support.llama_index import grows

# LlamaIndex reads all attributes of an agent, of which pydantic has deprecated some
pytestmark = pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecationWarning")


def tools_of(desk):
    def look_up(word: str) -> str:
        """Look a word up."""
        return f"{word} of {desk.canary} is w1x"

    async def count(word: str) -> str:
        """Count a word."""
        return f"{desk.canary} {len(word)}"

    return [look_up, count]


@pytest.mark.asyncio
async def test_a_resumed_conversation_costs_nothing(desk, tmp_path):
    """Another process would do the same: memory and memo are read from disk."""
    for k, names in enumerate((["look_up", "count"], ["count"])):
        calls = [ToolCall(name=n, arguments={"word": f"w{k}x"}, id=f"{n}{k}") for n in names]
        desk.remote.script.extend([calls, f"answer {k}"])
        session = desk.session(memo=tmp_path / "memo.sqlite")
        model = DPLLM(session, desk.llama_openai(), conversation="thread-1")
        agent = FunctionAgent(tools=tools_of(desk), llm=model)
        engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path / 'history.sqlite'}")
        memory = Memory.from_defaults(session_id="s", token_limit=100_000, async_engine=engine)
        await agent.run(user_msg=f"{desk.private_text} {k}", memory=memory)
        await engine.dispose()
    assert grows(desk.remote)
    assert len(desk.charges) == 5  # two turns, three results of tools


@pytest.mark.filterwarnings("ignore:is_running called:DeprecationWarning")
@pytest.mark.asyncio
async def test_the_header_of_a_react_agent_is_public_where_it_is_named(desk):
    agent = ReActAgent(tools=tools_of(desk), llm=MockLLM(), system_prompt="be brief")
    [header] = agent.formatter.format(agent.tools, [])
    agent.llm = DPLLM(desk.session(), desk.llama_openai(), public_system=[header.content])
    desk.remote.script.append("Thought: I can answer.\nAnswer: w1x")
    memory = Memory.from_defaults(session_id="s", token_limit=100_000)
    answer = await agent.run(user_msg=desk.private_text, memory=memory)
    sent = desk.remote.requests[-1]["messages"]
    assert (str(answer), sent[0]["content"]) == ("w1x", header.content)
    assert not desk.remote.saw(desk.canary)
