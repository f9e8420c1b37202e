"""Model Context Protocol: the official client and server with the proxy between them."""

import asyncio
import json
import os
import sys

import pytest
from support.cases import over
from support.entities import detector

import dp_middleware as dp
from dp_middleware.conversation.mcp import McpProxy

mcp = pytest.importorskip("mcp")

CLI = "from dp_middleware.cli import app; app()"
SERVER = """
import json
from pathlib import Path
from mcp.server.fastmcp import Context, FastMCP

server, seen = FastMCP("records", instructions="Finds people."), Path(__file__).with_name("seen")

@server.tool()
def find(who: str) -> dict:
    with seen.open("a") as file:
        print("find", who, file=file)
    return {"name": "Mirela Tamburi", "mail": "mirela.tamburi@example.org", "order": 48213}

@server.tool()
def close(who: str, order: int) -> str:
    with seen.open("a") as file:
        print("close", who, order, file=file)
    return f"The order of {who} is closed.\\nMirela Tamburi called."

@server.tool()
def fails(who: str) -> str:
    raise RuntimeError(f"no record of Mirela Tamburi ({who})")

@server.resource("people://all")
def people() -> str:
    return "Mirela Tamburi"

server.run()
"""


def test_an_agent_with_the_official_client(tmp_path):
    """A named tool gets originals, another one does not, and the agent sees none."""
    (tmp_path / "server.py").write_text(SERVER)
    told = []

    async def talk():
        from mcp import ClientSession, StdioServerParameters
        from mcp.client.stdio import stdio_client

        server = ["--", sys.executable, str(tmp_path / "server.py")]
        command = ["-c", CLI, "mcp", "--tool", "find", "--tool", "close", *server]
        parameters = StdioServerParameters(
            command=sys.executable, args=command, env=dict(os.environ)
        )
        async with stdio_client(parameters) as pipes, ClientSession(*pipes) as client:

            async def call(name, **arguments):
                result = await client.call_tool(name, arguments)
                told.append(result.model_dump_json())
                return result

            begun = await client.initialize()
            assert (begun.instructions, begun.capabilities.resources) == ("Finds people.", None)
            assert {t.name for t in (await client.list_tools()).tools} == {"find", "close", "fails"}
            found = await call("find", who="the customer")
            record = found.structuredContent or json.loads(found.content[0].text)
            await call("close", who=record["name"], order=record["order"])
            await call("fails", who=record["name"])
            with pytest.raises(mcp.McpError, match="tools only"):
                await client.read_resource("people://all")
            return record

    record = asyncio.run(asyncio.wait_for(talk(), 300))
    assert set(record) == {"name", "mail", "order"}
    assert isinstance(record["order"], int)
    assert not [text for text in told if any(w in text for w in ("Mirela", "Tamburi", "48213"))]
    seen = (tmp_path / "seen").read_text().splitlines()
    assert seen == ["find the customer", "close Mirela Tamburi 48213"]
    assert all(record["name"] in text for text in told[1:])


class Ends:
    """Both sides of a proxy, on a space of known entities."""

    def __init__(self, **options):
        self.server, self.client = [], []
        self.proxy = McpProxy(dp.Pseudonyms(detector(), on_empty="pass").session(), **options)

    def says(self, message):
        self.proxy.from_client(json.dumps(message), self.server.append, self.client.append)

    def answers(self, message):
        line = message if isinstance(message, str) else json.dumps(message)
        self.proxy.from_server(line, self.server.append, self.client.append)


SECRET = "Mirela Tamburi"


def request(method, number=1, **params):
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


RESULTS = [SECRET, {"content": SECRET}, {"content": [SECRET]}]
RESULTS += [
    {"content": [{"type": SECRET, "data": SECRET}]},
    {"structuredContent": {SECRET: [SECRET]}},
]


@over(
    "message",
    [
        "no JSON: Mirela Tamburi",
        "[]",
        *({"jsonrpc": "2.0", "id": 7, "result": result} for result in RESULTS),
        {"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": SECRET}]}},
        {"jsonrpc": "2.0", "id": 5, "result": {"content": SECRET}},
        {"jsonrpc": "2.0", "id": 7, "error": {"code": 3, "message": SECRET, "data": SECRET}},
        request("sampling/createMessage", text=SECRET),
        request("elicitation/create", message=SECRET),
        {"method": "notifications/message", "params": {"data": SECRET}},
        {"method": "notifications/progress", "params": {"progress": 1, "message": SECRET}},
        {"method": "notifications/tools/list_changed", "params": {"x": SECRET}},
    ],
)
def test_nothing_of_a_server_reaches_the_agent_unreleased(message):
    ends = Ends()
    ends.says(request("tools/call", 7, name="find", arguments={}))
    ends.answers(message)
    assert "Mirela" not in json.dumps(ends.client)


@over("method", ["resources/read", "prompts/get", "completion/complete", "logging/setLevel", "x"])
def test_an_agent_can_ask_for_tools_only(method):
    ends = Ends()
    ends.says(request(method, uri="people://all"))
    assert ends.client[0]["error"]["code"] == -32601
    assert ends.server == []


def test_a_tool_that_is_not_named_gets_pseudonyms(caplog):
    ends = Ends(tools=["find"])
    ends.says(request("tools/call", 1, name="find", arguments={}))
    ends.answers({"id": 1, "result": {"content": [{"type": "text", "text": f"It is {SECRET}."}]}})
    shown = ends.client[-1]["result"]["content"][0]["text"]
    pseudonym = shown.removeprefix("It is ").removesuffix(".")
    assert pseudonym != SECRET
    for name, given in (("find", SECRET), ("fetch", pseudonym)):
        ends.says(request("tools/call", 2, name=name, arguments={"q": pseudonym}))
        assert ends.server[-1]["params"]["arguments"] == {"q": given}
    assert "tools=['fetch']" in caplog.text
