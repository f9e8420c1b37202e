"""The Model Context Protocol between an agent and a server of tools: calls in, results out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import IO, Any

from dp_middleware.conversation.events import checked_tools
from dp_middleware.conversation.exchange import Tools
from dp_middleware.conversation.messages import ONCE, Message
from dp_middleware.conversation.session import Session
from dp_middleware.errors import DPMiddlewareError, ParameterError, guarded

Line = dict[str, Any]
Send = Callable[[Line], None]

_ASKED = ("initialize", "ping", "tools/list", "tools/call")
_TOLD = (
    *("notifications/initialized", "notifications/cancelled"),
    "notifications/tools/list_changed",
)
_NOT_HERE, _NOT_JSON, _FAILED = -32601, -32700, -32603


class McpProxy:
    """Stands between an agent and its server: results are released, arguments restored.

    An allow-list: tools can be listed and called. Everything else of the protocol (resources,
    prompts, sampling, elicitation, roots, logs, progress) may carry text past the session, and is
    refused. Names and descriptions of tools, and the server's instructions, are public: they pass.

    Args:
        session: Releases the results, all in one conversation.
        tools: Names of the tools that are called with originals, or ``"all"``.
        conversation: Its public name.
    """

    def __init__(self, session: Session, *, tools: Tools = (), conversation: str = "mcp") -> None:
        self._session, self._name = session, conversation
        self._tools = checked_tools(tools)
        self._asked: dict[str, str] = {}  # methods of open requests, by their ids as JSON

    def from_client(self, line: str, to_server: Send, to_client: Send) -> None:
        """Handles a line of the agent, public: sends it on with originals, or refuses it."""
        message = _read(line)
        if message is None:
            to_client(_error(None, _NOT_JSON, "expected one JSON-RPC message a line"))
            return
        method, number, params = message.get("method"), message.get("id"), message.get("params")
        if number is None:
            _tell(message, to_server)
        elif method not in _ASKED:
            to_client(_error(number, _NOT_HERE, "this proxy passes tools only"))
        else:
            try:
                sent = self._params(method, params if isinstance(params, dict) else {})
            except DPMiddlewareError as error:
                to_client(_error(number, _FAILED, str(error)))
                return
            self._asked[json.dumps(number)] = method
            to_server({"jsonrpc": "2.0", "id": number, "method": method, "params": sent})

    def from_server(self, line: str, to_server: Send, to_client: Send) -> None:
        """Handles a line of the server, private: sends it on released, or nothing of it."""
        message = _read(line) or {}
        number = message.get("id")
        if number is None:
            _tell(message, to_client)
            return
        if "method" in message:
            to_server(_error(number, _NOT_HERE, "expected no requests to the agent"))
            return
        asked = self._asked.pop(json.dumps(number), None)
        if asked is None:
            return
        try:
            if "result" not in message:
                raise ParameterError("the server failed; its words are withheld")
            result = guarded(self._result, asked, message["result"], what="the result of a tool")
        except DPMiddlewareError as error:
            to_client(_error(number, _FAILED, str(error)))
        else:
            to_client({"jsonrpc": "2.0", "id": number, "result": result})

    def _params(self, method: str, params: Line) -> Line:
        """What the server is asked with: of a call, arguments with originals where that is so."""
        if method == "initialize":
            return {**params, "capabilities": {}}
        if method != "tools/call":
            return {name: params[name] for name in ("cursor",) if name in params}
        name, text = str(params.get("name")), json.dumps(params.get("arguments") or {})
        exchange = self._session.exchange(
            (), conversation=self._name, tools=self._tools, quoted=[text]
        )
        return {"name": name, "arguments": json.loads(exchange.arguments(name, text))}

    def _result(self, asked: str, result: Line) -> Line:
        if asked == "initialize":
            capabilities = result.get("capabilities") or {}
            kept = {name: capabilities[name] for name in ("tools",) if name in capabilities}
            return {**result, "capabilities": kept}
        return self._released(result) if asked == "tools/call" else result

    def _released(self, result: Line) -> Line:
        """A result of a tool: its texts and its JSON are released as one message."""
        texts = [_text(block) for block in result.get("content", ())]
        structured = result.get("structuredContent")
        if structured is not None:
            texts.append(json.dumps(structured, ensure_ascii=False))
        message = Message(role="tool", texts=tuple(texts), id=ONCE)
        exchange = self._session.exchange([message], conversation=self._name)
        sent = list(exchange.sent[0].texts)
        shown: Line = {"isError": bool(result.get("isError", False))}
        if structured is not None:
            shown["structuredContent"] = json.loads(sent.pop())
        shown["content"] = [{"type": "text", "text": text} for text in sent]
        return shown


def relay(lines: Iterable[str], handle: Callable[[str], None]) -> None:
    """Hands on every line that is not empty, until the stream ends."""
    for line in lines:
        if line.strip():
            handle(line)


def writer(stream: IO[str]) -> Send:
    """Returns what writes a message as a line."""

    def send(message: Line) -> None:
        stream.write(json.dumps(message) + "\n")
        stream.flush()

    return send


def _text(block: Line) -> str:
    """The text of a block; of another kind, that it was withheld."""
    if block.get("type") == "text":
        return str(block["text"])
    kind = block.get("type")
    known = kind if kind in ("image", "audio", "resource", "resource_link") else "block"
    return f"[{known} withheld]"


def _read(line: str) -> Line | None:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) else None


def _tell(message: Line, send: Send) -> None:
    """Sends a notification on, if it is one of those that pass, with nothing but an id."""
    if message.get("method") in _TOLD:
        params = message.get("params") or {}
        kept = {name: params[name] for name in ("requestId",) if name in params}
        send({"jsonrpc": "2.0", "method": message["method"], "params": kept})


def _error(number: Any, code: int, message: str) -> Line:
    return {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message}}
