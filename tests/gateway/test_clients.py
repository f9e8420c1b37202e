"""One scenario through real clients: a canary in every private slot, found nowhere but here."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.contract import ToolCall
from support.gateway import KEYS, MODEL, AllLogs, running
from support.texts import CANARY

TOOL = {
    "type": "function",
    "function": {
        "name": "find",
        "parameters": {"type": "object", "properties": {"who": {"type": "string"}}},
    },
}
SYSTEM, QUESTION, RESULT = (f"{CANARY} {word}" for word in ("system", "question", "result"))
CALL = [ToolCall(name="find", arguments={"who": "w1"})]


@pytest.fixture(params=["sanitizer", pytest.param("both", marks=pytest.mark.slow)])
def protected(request, tmp_path):
    """A gateway with ledger and memo; when the test ends, the canary is in none of its traces."""
    policy = {"mode": request.param, "tools": "public", "on_empty": "pass"}
    kept = {
        "ledger": {"url": f"sqlite:///{tmp_path}/ledger.db", "budget": 1000},
        "memo": str(tmp_path / "memo.db"),
        "policies": {"default": policy},
    }
    with AllLogs() as logs, running("it is done", **kept) as gateway:
        gateway.upstream.script.extend([CALL])
        yield gateway
        metrics = httpx.get(f"{gateway.root}/metrics").text
        spent = gateway.get("/dp/budget").json()["charged"]
    if not gateway.upstream.requests:
        return  # the client is not installed, or the test has failed
    sent = b"\n".join(gateway.upstream.raw).decode()
    files = "\n".join(path.read_bytes().decode("latin-1") for path in tmp_path.iterdir())
    assert len(gateway.upstream.requests) >= 2
    assert "w1" in sent
    for name, text in {
        "sent": sent,
        "metrics": metrics,
        "logs": "\n".join(logs.lines),
        "disk": files,
    }.items():
        for secret in (CANARY, *KEYS.values()):
            assert secret not in text, name
    assert spent > 0


def sync(url):
    import openai

    with openai.OpenAI(base_url=url, api_key=KEYS["ann"], max_retries=0) as client:
        messages: list[Any] = [
            {"role": "system", "content": SYSTEM},
            {"role": "user", "content": QUESTION},
        ]
        create = client.chat.completions.create
        asked = create(model=MODEL, messages=messages, tools=[TOOL]).choices[0].message
        messages += [asked, {"role": "tool", "tool_call_id": "call-1", "content": RESULT}]
        done = create(model=MODEL, messages=messages, tools=[TOOL]).choices[0].message
        messages += [done, {"role": "user", "content": QUESTION}]
        create(model=MODEL, messages=messages, tools=[TOOL])
        return asked.tool_calls[0].function.arguments, done.content


def asynchronous(url):
    import openai

    async def talk():
        async with openai.AsyncOpenAI(base_url=url, api_key=KEYS["ann"], max_retries=0) as client:
            messages: list[Any] = [{"role": "user", "content": QUESTION}]
            create = client.chat.completions.create
            asked = (await create(model=MODEL, messages=messages, tools=[TOOL])).choices[0].message
            messages += [
                asked.model_dump(),
                {"role": "tool", "tool_call_id": "call-1", "content": RESULT},
            ]
            done = await create(model=MODEL, messages=messages, tools=[TOOL])
            return asked.tool_calls[0].function.arguments, done.choices[0].message.content

    return asyncio.run(talk())


def streaming(url):
    import openai

    with openai.OpenAI(base_url=url, api_key=KEYS["ann"], max_retries=0) as client:
        messages: list[Any] = [{"role": "user", "content": QUESTION}]
        stream = client.chat.completions.stream
        with stream(model=MODEL, messages=messages, tools=[TOOL]) as events:
            asked = events.get_final_completion().choices[0].message
        result = {"role": "tool", "tool_call_id": "call-1", "content": RESULT}
        messages += [asked.model_dump(exclude={"parsed"}), result]
        del messages[1]["tool_calls"][0]["function"]["parsed_arguments"]
        with stream(model=MODEL, messages=messages, tools=[TOOL]) as events:
            done = events.get_final_completion().choices[0].message
        return asked.tool_calls[0].function.arguments, done.content


def responses(url):
    import openai

    flat = {"type": "function", **TOOL["function"], "strict": False}
    with openai.OpenAI(base_url=url, api_key=KEYS["ann"], max_retries=0) as client:
        create = client.responses.create
        given: list[Any] = [{"role": "user", "content": QUESTION}]
        asked = create(model=MODEL, input=given, instructions=SYSTEM, tools=[flat])
        result = {"type": "function_call_output", "call_id": "call-1", "output": RESULT}
        more = {"model": MODEL, "instructions": SYSTEM, "tools": [flat]}
        create(input=[*given, *asked.output, result], **more)
        done = create(input=[result], previous_response_id=asked.id, **more)
        return asked.output[0].arguments, done.output_text


def anthropic(url):
    """Asks, whole and streamed, and sends all that came back on; thoughts are among it."""
    import anthropic

    tool = {"name": "find", "input_schema": TOOL["function"]["parameters"]}
    messages: list[Any] = [{"role": "user", "content": QUESTION}]
    more: dict[str, Any] = {"model": MODEL, "system": SYSTEM, "tools": [tool], "max_tokens": 99}
    root = url.removesuffix("/v1")
    with anthropic.Anthropic(base_url=root, api_key=KEYS["ann"], max_retries=0) as client:
        asked = client.messages.create(messages=messages, **more)
        result = {"type": "tool_result", "tool_use_id": "call-1", "content": RESULT}
        messages += [
            {"role": "assistant", "content": asked.content},
            {"role": "user", "content": [result, {"type": "text", "text": QUESTION}]},
        ]
        with client.messages.stream(messages=messages, **more) as stream:
            text = "".join(stream.text_stream)
            done = stream.get_final_message()
        messages += [
            {"role": "assistant", "content": done.content},
            {"role": "user", "content": QUESTION},
        ]
        counting = {name: more[name] for name in ("model", "system", "tools")}
        assert client.messages.count_tokens(messages=messages, **counting).input_tokens > 0
        client.messages.create(messages=messages, **more)
    [called] = [block for block in asked.content if block.type == "tool_use"]
    return json.dumps(called.input), text


def langchain(url):
    from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage
    from langchain_openai import ChatOpenAI

    model = ChatOpenAI(model=MODEL, base_url=url, api_key=KEYS["ann"], max_retries=0)
    bound = model.bind_tools([TOOL])
    messages: list[Any] = [SystemMessage(SYSTEM), HumanMessage(QUESTION)]
    messages.append(bound.invoke(messages))
    messages.append(ToolMessage(RESULT, tool_call_id="call-1"))
    text = "".join(piece.text for piece in bound.stream(messages))
    return json.dumps(messages[2].tool_calls[0]["args"]), text


def llama_index(url):
    from llama_index.llms.openai import OpenAI

    return _llama_index(OpenAI, url)


def _llama_index(kind, url, **more):
    from llama_index.core.llms import ChatMessage

    model = kind(model=MODEL, api_base=url, api_key=KEYS["ann"], max_retries=0, **more)
    messages = [ChatMessage(role="system", content=SYSTEM), ChatMessage(QUESTION)]
    asked = model.chat(messages, tools=[TOOL]).message
    messages += [
        asked,
        ChatMessage(role="tool", content=RESULT, additional_kwargs={"tool_call_id": "call-1"}),
    ]
    done = list(model.stream_chat(messages, tools=[TOOL]))[-1].message.content
    (call,) = [block for block in asked.blocks if block.block_type == "tool_call"]
    arguments = call.tool_kwargs
    return arguments if isinstance(arguments, str) else json.dumps(arguments), done


def llama_index_like(url):
    from llama_index.llms.openai_like import OpenAILike

    return _llama_index(OpenAILike, url, is_chat_model=True, is_function_calling_model=True)


def litellm(url):
    """In the environment of its own that ``$LITELLM_PYTHON`` names."""
    command = os.environ.get("LITELLM_PYTHON", sys.executable)
    if subprocess.run([command, "-c", "import litellm"], capture_output=True).returncode:
        without = pytest.fail if "CI" in os.environ else pytest.skip  # .ci/run makes it
        without("needs litellm in the environment of $LITELLM_PYTHON")
    return _printed([command, Path(__file__).with_name("scenario_litellm.py")], url)


def agents_chat(url):
    return _agents(url, "OpenAIChatCompletionsModel")


def agents_responses(url):
    return _agents(url, "OpenAIResponsesModel")


def _agents(url, kind):
    agents = pytest.importorskip("agents")
    import openai

    given = []

    @agents.function_tool
    def find(who: str) -> str:
        """Finds people."""
        given.append(who)
        return RESULT

    agents.set_tracing_disabled(True)
    client = openai.AsyncOpenAI(base_url=url, api_key=KEYS["ann"], max_retries=0)
    model = getattr(agents, kind)(model=MODEL, openai_client=client)
    agent = agents.Agent(name="helper", instructions=SYSTEM, model=model, tools=[find])

    async def run():
        async with client:
            return (await agents.Runner.run(agent, QUESTION)).final_output

    text = asyncio.run(run())
    return json.dumps({"who": given[0]}), text


def pydantic_ai(url):
    pydantic_ai = pytest.importorskip("pydantic_ai")
    import openai
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    client = openai.AsyncOpenAI(base_url=url, api_key=KEYS["ann"], max_retries=0)
    model = OpenAIChatModel(MODEL, provider=OpenAIProvider(openai_client=client))
    agent, given = pydantic_ai.Agent(model, system_prompt=SYSTEM), []

    @agent.tool_plain
    def find(who: str) -> str:
        given.append(who)
        return RESULT

    async def run():
        async with client:
            return (await agent.run(QUESTION)).output

    text = asyncio.run(run())
    return json.dumps({"who": given[0]}), text


def node(url):
    """With the package ``openai`` of npm, where ``$NODE_PATH`` leads to it."""
    command = shutil.which("node") or "false"
    if subprocess.run([command, "-e", "require('openai')"], capture_output=True).returncode:
        pytest.skip("needs node, and npm's openai on $NODE_PATH")
    return _printed([command, Path(__file__).with_name("scenario.js")], url)


def _printed(command, url):
    """What the scenario in another process was given."""
    done = subprocess.run(
        [*command, url, KEYS["ann"], MODEL, CANARY],
        env={**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True"},
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    )
    return json.loads(done.stdout)


CLIENTS = [sync, asynchronous, streaming, responses, anthropic, langchain, llama_index]
SLOW = [llama_index_like, agents_chat, agents_responses, pydantic_ai, litellm, node]


ALL = [*CLIENTS, *(pytest.param(client, marks=pytest.mark.slow) for client in SLOW)]


@pytest.mark.parametrize("client", ALL, ids=lambda client: client.__name__)
def test_the_scenario(protected, client):
    arguments, text = client(protected.url)
    assert json.loads(arguments) == {"who": "w1"}
    assert text == "it is done"
