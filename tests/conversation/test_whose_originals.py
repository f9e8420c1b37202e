"""Nobody is shown the originals of another caller, through whichever adapter they ask."""

import asyncio
import itertools
import json
import re

import httpx
import pytest
from support.cases import over
from support.chat_models import langchain_model, llama_index_llm
from support.contract import OpenAIServer, ToolCall
from support.entities import private
from support.gateway import KEYS, MODEL, running
from support.loops import async_client
from support.pseudonymous import pseudonyms

pytest.importorskip("faker", reason="the lists of names are of the extra detect")
pytest.importorskip("openai")

OURS = "My name is Mirela Tamburi."
THEIRS = "Who am I? I live in Berlin."
ALIKE = "Hello."


def note(seen):
    """A tool that keeps what it is called with."""

    def note(text: str) -> str:
        """Note a text."""
        seen.append(text)
        return "noted"

    return note


def turns(history):
    return [{"role": role, "content": text} for role, text in history]


def langchain(answer):
    """A model of LangChain is asked with a history; arguments of its calls are seen."""

    def setup(remote, seen):
        pytest.importorskip("langchain_openai")
        import langchain_dp_middleware as ours

        ask = answer(ours, langchain_model(remote.url), seen)

        def shown(history):
            message = ask(history)
            seen.extend(call["args"]["text"] for call in getattr(message, "tool_calls", ()))
            return message if isinstance(message, str) else message.text

        return shown

    return setup


@langchain
def chat_model(ours, inner, seen):
    from langchain_core.tools import tool

    return ours.DPChatModel(pseudonyms(), inner, tools="all").bind_tools([tool(note(seen))]).invoke


@langchain
def chat_model_stream(ours, inner, seen):
    model = ours.DPChatModel(pseudonyms(), inner)
    return lambda history: "".join(piece.text for piece in model.stream(history))


@langchain
def head_on_messages(ours, inner, seen):
    return (ours.PrivateHead(pseudonyms(), answers="note") | inner).invoke


@langchain
def head_on_texts(ours, inner, seen):
    chain = ours.PrivateHead(pseudonyms()) | (lambda given: given["q"]) | inner
    return lambda history: chain.invoke({"q": history[-1][1]})


@langchain
def unnamed_agent(ours, inner, seen):
    agents = pytest.importorskip("langchain.agents")
    from langchain_core.tools import tool

    middleware = ours.DPAgentMiddleware(pseudonyms(), traced="allow", tools="all")
    agent = agents.create_agent(inner, [tool(note(seen))], middleware=[middleware])
    said = {}  # by their text: an agent knows answers by their ids

    def ask(history):
        given = [said.get(text, (role, text)) for role, text in history]
        answer = agent.invoke({"messages": given})["messages"][-1]
        return said.setdefault(answer.text, answer).text

    return ask


def of_llama(ask):
    def setup(remote, seen):
        pytest.importorskip("llama_index.llms.openai")
        from llama_index_dp_middleware import DPLLM

        model = DPLLM(pseudonyms(), llama_index_llm(remote.url), tools="all")
        return lambda history: ask(model, history)

    return setup


def llama_messages(history):
    from llama_index.core.llms import ChatMessage

    return [ChatMessage(text, role=role) for role, text in history]


llama_complete = of_llama(lambda m, h: m.complete(h[-1][1]).text)
llama_stream_complete = of_llama(lambda m, h: [*m.stream_complete(h[-1][1])][-1].text)
llama_chat = of_llama(lambda m, h: m.chat(llama_messages(h)).message.content)
llama_stream_chat = of_llama(lambda m, h: [*m.stream_chat(llama_messages(h))][-1].message.content)


def llama_agent(remote, seen):
    pytest.importorskip("llama_index.llms.openai")
    from llama_index.core.agent.workflow import FunctionAgent
    from llama_index_dp_middleware import DPLLM, unrecorded

    model = DPLLM(pseudonyms(), llama_index_llm(remote.url), tools="all")
    agent = FunctionAgent(tools=[note(seen)], llm=model, streaming=False)

    async def run(history):
        *before, (_, text) = history
        return str(await agent.run(user_msg=text, chat_history=llama_messages(before)))

    def ask(history):
        with unrecorded():
            return asyncio.run(run(history))

    return ask


def query_engine(remote, seen):
    pytest.importorskip("llama_index.llms.openai")
    from llama_index.core import MockEmbedding, VectorStoreIndex
    from llama_index.core.schema import TextNode
    from llama_index_dp_middleware import DPQueryEngine

    index = VectorStoreIndex([TextNode(text="Names are words.")], embed_model=MockEmbedding(4))
    engine = DPQueryEngine(pseudonyms(), index.as_query_engine(llm=llama_index_llm(remote.url)))
    return lambda history: str(engine.query(history[-1][1]))


def openai_agent(remote, seen, streams=False):
    pytest.importorskip("agents")
    from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool
    from openai_agents_dp_middleware import private_run

    inner = OpenAIChatCompletionsModel(MODEL, async_client(remote.url))
    how = private_run(pseudonyms(), inner, tracing_disabled=True, tools="all")
    agent = Agent("helper", tools=[function_tool(note(seen))])

    async def run(history):
        if not streams:
            return (await Runner.run(agent, turns(history), run_config=how)).final_output
        result = Runner.run_streamed(agent, turns(history), run_config=how)
        seen.extend([str(event) async for event in result.stream_events()])
        return result.final_output

    return lambda history: asyncio.run(run(history))


def openai_agent_stream(remote, seen):
    return openai_agent(remote, seen, streams=True)


def pydantic_agent(remote, seen):
    pytest.importorskip("pydantic_ai")
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, UserPromptPart
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_ai_dp_middleware import DPModel

    inner = OpenAIChatModel(MODEL, provider=OpenAIProvider(openai_client=async_client(remote.url)))
    agent = Agent(DPModel(pseudonyms(), inner, tools="all"), tools=[note(seen)])

    def message(role, text):
        if role == "user":
            return ModelRequest([UserPromptPart(text)])
        return ModelResponse([TextPart(text)])

    def ask(history):
        *before, (_, text) = history
        said = [message(*turn) for turn in before]
        return asyncio.run(agent.run(text, message_history=said)).output

    return ask


@pytest.fixture(scope="module")
def shared():
    policy = {"mode": "pseudonyms", "on_empty": "pass", "tools": "public"}
    with running(policies={"default": {**policy, "tool_originals": ["all"]}}) as gateway:
        yield gateway


def posted(path, field, read, stream=False):
    def setup(gateway, seen):
        def ask(history):
            given = turns(history) if field != "prompt" else history[-1][1]
            body = {"model": MODEL, field: given, "stream": stream}
            if path == "/chat/completions":
                function = {"name": "note", "parameters": {}}
                body["tools"] = [{"type": "function", "function": function}]
            answer = gateway.post(path, body)
            assert answer.status_code == 200, answer.text
            seen.append(answer.text)
            if not stream:
                return read(answer.json())
            lines = [line[6:] for line in answer.text.splitlines() if line.startswith("data: {")]
            return "".join(map(read, map(json.loads, lines)))

        return ask

    return setup


def of_chat(answer):
    [choice] = answer["choices"]
    return choice.get("message", choice.get("delta", {})).get("content") or ""


def of_response(answer):
    if "output" in answer:
        return answer["output"][0]["content"][0]["text"]
    return answer["delta"] if answer["type"] == "response.output_text.delta" else ""


def of_completion(answer):
    return answer["choices"][0]["text"]


def webhook(gateway, seen):
    """LiteLLM's generic guardrail, behind a proxy whose users share a key."""
    calls = itertools.count()

    def guard(kind, call, **given):
        about = {"user_api_key_hash": "k"}
        body = {"input_type": kind, "request_data": about, "litellm_call_id": call, **given}
        url, headers = (
            f"{gateway.root}/beta/litellm_basic_guardrail_api",
            {"x-api-key": KEYS["ann"]},
        )
        return httpx.post(url, json=body, headers=headers).json()["texts"]

    def ask(history):
        call, (roles, texts) = str(next(calls)), zip(*history, strict=True)
        sent = guard("request", call, texts=texts, structured_messages=turns(history))
        request = {"messages": turns(zip(roles, sent, strict=True))}
        gateway.upstream.requests.append(request)
        return guard("response", call, texts=[gateway.upstream.reply(request)])[0]

    return ask


ADAPTERS = [chat_model, chat_model_stream, head_on_messages, head_on_texts, unnamed_agent]
ADAPTERS += [llama_complete, llama_stream_complete, llama_chat, llama_stream_chat, llama_agent]
ADAPTERS += [query_engine, openai_agent, openai_agent_stream, pydantic_agent]
ONE_TEXT = (head_on_texts, llama_complete, llama_stream_complete, query_engine)
GATEWAY = {
    "chat": posted("/chat/completions", "messages", of_chat),
    "chat stream": posted("/chat/completions", "messages", of_chat, stream=True),
    "responses": posted("/responses", "input", of_response),
    "responses stream": posted("/responses", "input", of_response, stream=True),
    "completions": posted("/completions", "prompt", of_completion),
    "webhook": webhook,
}


class Telling:
    """A remote model that greets, tells who asks what they are called, and others something else.

    Attributes:
        words: What it tells others; with a tool, it hands them to that first.
        name: The pseudonym of whoever asked last with a name.
    """

    words = name = ""

    def __call__(self, request):
        given = request.get("messages") or request.get("input") or request["prompt"]
        last = given[-1] if isinstance(given, list) else {"content": given}
        if named := re.search(r"My name is ([\w-]+ [\w-]+)\.", str(last["content"])):
            self.name = named[1]
            return f"You are {self.name}."
        if last["content"] == ALIKE:
            return "Hi."
        if request.get("tools") and last.get("role") != "tool":
            return [ToolCall(name="note", arguments={"text": self.words})]
        return self.words


BEGUN = [("user", ALIKE), ("assistant", "Hi.")]


def assert_nobody_is_shown_another(setup, server, begun):
    server.mode, server.reply = "ok", Telling()
    seen = []
    ask = setup(server, seen)
    if begun:
        ask(begun[:1])
    assert ask([*begun, ("user", OURS)]) == "You are Mirela Tamburi."
    name = server.reply.name
    first, last = name.split()
    for words in (f"You are {name}.", f"{last}, {first}; {first}'s.", f"{name.upper()}!"):
        seen.clear()
        server.reply.words = words
        shown = ask([*begun, ("user", THEIRS)])
        assert shown in (words, "")  # or it calls the tool alone
        assert re.search("mirela|tamburi", f"{shown} {seen}", re.IGNORECASE) is None
        assert first.lower() in f"{shown} {seen}".lower()
    assert private(server) == []


@pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecationWarning")  # LlamaIndex's
@over("begun", [[], BEGUN])
@over("setup", ADAPTERS)
def test_no_caller_of_an_adapter_is_shown_the_originals_of_another(setup, begun):
    if begun and setup in ONE_TEXT:
        pytest.skip("asks with one text")
    with OpenAIServer() as remote:
        assert_nobody_is_shown_another(setup, remote, begun)


@over("begun", [[], BEGUN])
@over("path", GATEWAY)
def test_no_user_of_a_key_is_shown_the_originals_of_another(path, begun, shared):
    if begun and path.startswith("completions"):
        pytest.skip("asks with one text")
    shared.upstream.requests.clear()
    assert_nobody_is_shown_another(
        lambda server, seen: GATEWAY[path](shared, seen), shared.upstream, begun
    )
