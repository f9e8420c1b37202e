"""One scenario through real clients: a canary in every private slot, found nowhere but here."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from support.contract import ToolCall
from support.gateway import KEYS, MODEL, AllLogs, running
from support.texts import CANARY

PARAMETERS = {"type": "object", "properties": {"who": {"type": "string"}}}
TOOL = {"type": "function", "function": {"name": "find", "parameters": PARAMETERS}}
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
    traces = {"sent": sent, "metrics": metrics, "logs": "\n".join(logs.lines), "disk": files}
    for name, text in traces.items():
        assert not [secret for secret in (CANARY, *KEYS.values()) if secret in text], name
    assert spent > 0


def sync(url):
    import openai

    with openai.OpenAI(base_url=url, api_key=KEYS["ann"], max_retries=0) as client:
        messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": QUESTION}]
        create = client.chat.completions.create
        asked = create(model=MODEL, messages=messages, tools=[TOOL]).choices[0].message
        messages += [asked, {"role": "tool", "tool_call_id": "call-1", "content": RESULT}]
        done = create(model=MODEL, messages=messages, tools=[TOOL]).choices[0].message
        messages += [done, {"role": "user", "content": QUESTION}]
        create(model=MODEL, messages=messages, tools=[TOOL])
        return asked.tool_calls[0].function.arguments, done.content


def streaming(url):
    import openai

    with openai.OpenAI(base_url=url, api_key=KEYS["ann"], max_retries=0) as client:
        messages = [{"role": "user", "content": QUESTION}]
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
        given = [{"role": "user", "content": QUESTION}]
        asked = create(model=MODEL, input=given, instructions=SYSTEM, tools=[flat])
        result = {"type": "function_call_output", "call_id": "call-1", "output": RESULT}
        more = {"model": MODEL, "instructions": SYSTEM, "tools": [flat]}
        create(input=[*given, *asked.output, result], **more)
        done = create(input=[result], previous_response_id=asked.id, **more)
        return asked.output[0].arguments, done.output_text


def anthropic(url):
    import anthropic

    tool = {"name": "find", "input_schema": TOOL["function"]["parameters"]}
    messages = [{"role": "user", "content": QUESTION}]
    more = {"model": MODEL, "system": SYSTEM, "tools": [tool], "max_tokens": 99}
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
        messages.append({"role": "assistant", "content": done.content})
        messages.append({"role": "user", "content": QUESTION})
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
    messages = [SystemMessage(SYSTEM), HumanMessage(QUESTION)]
    messages.append(bound.invoke(messages))
    messages.append(ToolMessage(RESULT, tool_call_id="call-1"))
    text = "".join(piece.text for piece in bound.stream(messages))
    return json.dumps(messages[2].tool_calls[0]["args"]), text


def llama_index(url):
    from llama_index.core.llms import ChatMessage
    from llama_index.llms.openai import OpenAI

    model = OpenAI(model=MODEL, api_base=url, api_key=KEYS["ann"], max_retries=0)
    messages = [ChatMessage(role="system", content=SYSTEM), ChatMessage(QUESTION)]
    asked = model.chat(messages, tools=[TOOL]).message
    result = ChatMessage(RESULT, role="tool", additional_kwargs={"tool_call_id": "call-1"})
    messages += [asked, result]
    done = list(model.stream_chat(messages, tools=[TOOL]))[-1].message.content
    (call,) = [block for block in asked.blocks if block.block_type == "tool_call"]
    arguments = call.tool_kwargs
    return arguments if isinstance(arguments, str) else json.dumps(arguments), done


def litellm(url):
    command = os.environ.get("LITELLM_PYTHON", sys.executable)
    if subprocess.run([command, "-c", "import litellm"], capture_output=True).returncode:
        without = pytest.fail if "CI" in os.environ else pytest.skip  # .ci/run makes it
        without("needs litellm in the environment of $LITELLM_PYTHON")
    return _printed([command, Path(__file__).with_name("scenario_litellm.py")], url)


def node(url):
    command = shutil.which("node") or "false"
    if subprocess.run([command, "-e", "require('openai')"], capture_output=True).returncode:
        pytest.skip("needs node, and npm's openai on $NODE_PATH")
    return _printed([command, Path(__file__).with_name("scenario.js")], url)


def _printed(command, url):
    words = [*command, url, KEYS["ann"], MODEL, CANARY]
    environment = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    return json.loads(subprocess.check_output(words, env=environment, text=True, timeout=100))


CLIENTS = [sync, streaming, responses, anthropic, langchain, llama_index]
SLOW = [litellm, node]
ALL = [*CLIENTS, *(pytest.param(client, marks=pytest.mark.slow) for client in SLOW)]


@pytest.mark.parametrize("client", ALL, ids=lambda client: client.__name__)
def test_the_scenario(protected, client):
    arguments, text = client(protected.url)
    assert json.loads(arguments) == {"who": "w1"}
    assert text == "it is done"
