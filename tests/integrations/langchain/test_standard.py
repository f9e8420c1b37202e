"""LangChain's own test suites on DPChatModel, nothing overridden, against a loopback server."""

import inspect
import json

import pytest
from support.contract import OpenAIServer, ToolCall

pytest.importorskip("langchain_tests")
from langchain_dp_middleware import DPChatModel
from langchain_openai import ChatOpenAI
from langchain_tests.integration_tests import ChatModelIntegrationTests
from langchain_tests.unit_tests import ChatModelUnitTests
from support.langchain import SANITIZER

UNICODE = "你好啊集团 こんにちは株式会社"
VALUES = {"integer": 3, "string": UNICODE, "number": 3.0, "boolean": True}
SERVER = OpenAIServer(lambda request: answer(request))

for _, coroutine in inspect.getmembers(ChatModelIntegrationTests, inspect.iscoroutinefunction):
    pytest.mark.asyncio(
        coroutine
    )  # the suites count on asyncio_mode=auto; the mark changes no test


def answer(request):
    """As an obliging model: calls the first tool, or fills the schema that is asked for."""
    if schema := request.get("response_format", {}).get("json_schema", {}).get("schema"):
        return json.dumps(filled(schema))
    if request.get("response_format"):
        return json.dumps({"setup": UNICODE, "punchline": UNICODE})
    if tools := request.get("tools"):
        wanted = request.get("tool_choice")
        names = [wanted["function"]["name"]] if isinstance(wanted, dict) else []
        functions = [each["function"] for each in tools]
        chosen = next((f for f in functions if f["name"] in names), functions[0])
        return [ToolCall(name=chosen["name"], arguments=filled(chosen["parameters"]))]
    return "a fine answer"


def filled(schema):
    return {
        name: VALUES.get(kind.get("type"))
        for name, kind in schema.get("properties", {}).items()
        if name in schema.get("required", [])
    }


class RemoteDPChatModel(DPChatModel):
    """With the constructor that the suites call; their transcripts hold made-up AI messages."""

    def __init__(self, **settings):
        given = {"model": "toy", "base_url": SERVER.url, "api_key": "k", **settings}
        remote = ChatOpenAI(**given)
        super().__init__(SANITIZER, remote, ai="pass")


@pytest.fixture(scope="module", autouse=True)
def server():
    with SERVER as running:
        yield running


class TestUnit(ChatModelUnitTests):
    @property
    def chat_model_class(self):
        return RemoteDPChatModel


class TestIntegration(ChatModelIntegrationTests):
    @property
    def chat_model_class(self):
        return RemoteDPChatModel

    @property
    def structured_output_kwargs(self):
        return {"method": "function_calling"}

    @property
    def supports_json_mode(self):
        return True

    @property
    def returns_usage_metadata(self):
        return False  # the server counts no tokens in a stream
