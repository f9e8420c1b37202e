"""A real LiteLLM proxy on loopback, in an environment of its own where there is one.

``LITELLM_PYTHON`` is its interpreter: one with ``litellm[proxy]`` and with what ``dp_middleware``
needs. LiteLLM cannot be installed with the versions of ``constraints.txt``.
"""

import json
import os
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from support.cases import over
from support.contract import OpenAIServer, ToolCall
from support.gateway import KEYS, AllLogs, running
from support.servers import free_port

import dp_middleware as dp

CANARY = "zxqcanary"
ROOT = Path(dp.__file__).parents[1]
PYTHON = os.environ.get("LITELLM_PYTHON", sys.executable)
START = 240  # seconds
CONFIG = """
model_list:
  - model_name: chat
    litellm_params: {{model: openai/gpt-4o-mini, api_base: "{url}", api_key: none}}
  - model_name: embedder
    litellm_params: {{model: openai/text-embedding-3-small, api_base: "{url}", api_key: none}}
  - model_name: completer
    litellm_params: {{model: text-completion-openai/davinci, api_base: "{url}", api_key: none}}
litellm_settings: {{callbacks: private.logger, num_retries: 0}}
router_settings: {{disable_cooldowns: true}}
general_settings: {{master_key: sk-master}}
guardrails:
  - guardrail_name: private
    litellm_params: {guardrail}
"""
OWN = "{guardrail: private.guardrail, mode: pre_call}"
MODULE = '''
import re

import numpy as np
from litellm.integrations.custom_logger import CustomLogger
from litellm_dp_middleware import DPGuardrail

import dp_middleware as dp


def texts(value, depth=8):
    """The strings in what a callback is given."""
    if depth == 0:
        return
    if isinstance(value, dict):
        value = [*value, *value.values()]
    elif hasattr(value, "model_dump"):
        value = [value.model_dump()]
    if isinstance(value, list | tuple | set):
        for each in value:
            yield from texts(each, depth - 1)
    elif isinstance(value, str | bytes):
        yield str(value)


class Logger(CustomLogger):
    def note(self, kind, *values):
        with open({log!r}, "a") as file:
            file.write(kind + " " + " ".join(texts(list(values))) + "\\n")

    async def async_log_success_event(self, kwargs, response_obj, start_time, end_time):
        self.note("SUCCESS", kwargs, response_obj)

    async def async_log_failure_event(self, kwargs, response_obj, start_time, end_time):
        self.note("FAILURE", kwargs, response_obj)

    async def async_post_call_failure_hook(self, request_data, *args, **kwargs):
        self.note("REFUSED", request_data)


def guardrail(**options):
    return DPGuardrail(session, tools="public", public_system=["be brief"], **options)


logger = Logger()
words = tuple(f"w{{k}}x" for k in range(50))
vectors = np.random.default_rng(0).normal(size=(50, 6))
space = dp.EmbeddingSpace(dp.Vocabulary(words), vectors)
session = dp.Session(dp.Sanitizer(dp.TokenExponential(epsilon=4.0), space))
'''
PSEUDONYMS = """
session = dp.Pseudonyms(
    lambda text: [(*m.span(), "person") for m in re.finditer("Mirela Tamburi", text)],
    on_empty="pass",
).session()
"""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


@pytest.fixture(scope="module", autouse=True)
def _has_litellm():
    code = "import fastapi, litellm.proxy.proxy_cli, torch"
    found = subprocess.run([PYTHON, "-c", code], capture_output=True, env=environment())
    if found.returncode:
        without = pytest.fail if "CI" in os.environ else pytest.skip  # .ci/run makes it
        without("no environment with litellm[proxy]: name its interpreter in LITELLM_PYTHON")


def environment(*paths):
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, [*paths, ROOT, ROOT / "integrations"])),
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_TELEMETRY": "False",
    }


class Proxy:
    """A proxy in a process of its own, which begins to start."""

    def __init__(self, folder, remote, guardrail, code):
        self.remote, self.begin = remote, 0  # of what a test logs
        self.log, self.console = folder / "log.txt", folder / "console.txt"
        self.log.touch()
        (folder / "config.yaml").write_text(CONFIG.format(url=remote.url, guardrail=guardrail))
        (folder / "private.py").write_text(code.format(log=str(self.log)))
        port = str(free_port())
        headers = {"Authorization": "Bearer sk-master"}
        url = f"http://127.0.0.1:{port}"
        self._client = httpx.Client(base_url=url, headers=headers, timeout=60)
        command = [PYTHON, "-c", "from litellm.proxy.proxy_cli import run_server; run_server()"]
        command += ["--config", "config.yaml", "--host", "127.0.0.1", "--port", port]
        with self.console.open("w") as console:
            self._process = subprocess.Popen(
                command, env=environment(folder), cwd=folder, stdout=console, stderr=console
            )

    def ready(self):
        """Itself, once it answers, as new."""
        end = time.monotonic() + START
        while self._process.poll() is None and time.monotonic() < end:
            try:
                self._client.get("/health/liveliness").raise_for_status()
            except httpx.HTTPError:
                time.sleep(0.3)
                continue
            self.begin = len(self.log.read_text())
            self.remote.mode, self.remote.reply = "ok", "a fine answer"
            return self
        raise AssertionError(self.console.read_text()[-2000:])

    def post(self, path, **body):
        """The answer, after the log has it."""
        start = len(self.log.read_text())
        found = self._client.post(path, json=body)
        last = "SUCCESS" if found.status_code == 200 else "REFUSED"
        end = time.monotonic() + 30
        while last not in self.log.read_text()[start:]:
            assert time.monotonic() < end, "the callbacks were told nothing"
            time.sleep(0.05)
        return found

    def chat(self, *messages, **body):
        return self.post("/v1/chat/completions", model="chat", messages=list(messages), **body)

    def assert_clean(self, *others):
        assert not self.remote.saw(CANARY)
        assert not self.remote.saw("Mirela")
        for text in (self.log.read_text()[self.begin :], self.console.read_text(), *others):
            assert CANARY not in text

    def stop(self):
        self._client.close()
        self._process.terminate()
        self._process.wait(30)


@pytest.fixture(scope="module")
def gateway():
    """Answers the generic guardrail; it is never asked to forward anything."""
    with running(policies={"default": {"tools": "public"}}) as running_gateway:
        yield running_gateway
        assert not running_gateway.upstream.requests


@pytest.fixture(scope="module")
def proxies(gateway, tmp_path_factory):
    """All of them by name; they take long to start, so they do at the same time."""
    generic = (
        "{guardrail: generic_guardrail_api, mode: [pre_call, post_call], default_on: true, "
        f'api_base: "{gateway.root}", api_key: "{KEYS["ann"]}", unreachable_fallback: fail_closed}}'
    )
    kinds = {"own": (OWN, MODULE), "named": (OWN, MODULE + PSEUDONYMS), "hook": (generic, MODULE)}
    with ExitStack() as stack:
        started = {}
        for name, kind in kinds.items():
            remote = stack.enter_context(OpenAIServer())
            started[name] = Proxy(tmp_path_factory.mktemp(name), remote, *kind)
            stack.callback(started[name].stop)
        yield started


@pytest.fixture
def proxy(proxies):
    return proxies["own"].ready()


def user(text):
    return {"role": "user", "content": text}


SYSTEM = [{"role": "system", "content": "be brief"}, {"role": "system", "content": CANARY}]


@over("stream", [False, True])
def test_a_chat_of_turns(stream, proxy):
    first = proxy.chat(*SYSTEM, user(f"{CANARY} {stream}"), stream=stream)
    assert first.status_code == 200
    assert "fine" in first.text
    asked = json.loads(proxy.remote.bodies[-1])["messages"]
    assert asked[0]["content"] == "be brief"
    assert {*asked[2]["content"].split()} <= {f"w{k}x" for k in range(50)}
    said = {"role": "assistant", "content": "a fine answer"}
    second = proxy.chat(*SYSTEM, user(f"{CANARY} {stream}"), said, user(CANARY), stream=stream)
    assert second.status_code == 200
    again = json.loads(proxy.remote.bodies[-1])["messages"]
    assert again[:4] == [*asked, said]
    proxy.assert_clean(first.text, second.text)


def test_tools_and_their_outputs(proxy):
    proxy.remote.reply = [ToolCall(name="look_up", arguments={"word": "w1x"}, id="c9")]
    tools = [{"type": "function", "function": {"name": "look_up", "parameters": {}}}]
    first = proxy.chat(user(f"{CANARY} tools"), tools=tools)
    message = first.json()["choices"][0]["message"]
    call = {k: message["tool_calls"][0][k] for k in ("id", "type", "function")}
    said = {"role": "assistant", "content": None, "tool_calls": [call]}
    given = {"role": "tool", "tool_call_id": "c9", "content": CANARY}
    proxy.remote.reply = "a fine answer"
    second = proxy.chat(user(f"{CANARY} tools"), said, given, tools=tools)
    assert second.status_code == 200
    call["function"]["arguments"] = json.dumps({"word": CANARY})
    third = proxy.chat(user(f"{CANARY} tools"), said, given, tools=tools)
    assert third.status_code == 400
    proxy.assert_clean(first.text, second.text, third.text)


@over(
    "path, body",
    [
        ("/v1/embeddings", {"model": "embedder", "input": CANARY}),
        ("/v1/embeddings", {"model": "embedder", "input": [CANARY, CANARY]}),
        ("/v1/completions", {"model": "completer", "prompt": CANARY}),
        ("/v1/responses", {"model": "chat", "input": CANARY, "instructions": CANARY}),
        ("/v1/responses", {"model": "chat", "input": [user(CANARY)], "stream": True}),
        (
            "/v1/messages",
            {"model": "chat", "system": CANARY, "messages": [user(CANARY)], "max_tokens": 9},
        ),
    ],
)
def test_every_endpoint_sends_what_was_released(path, body, proxy):
    seen = len(proxy.remote.bodies)
    found = proxy.post(path, **body)
    assert len(proxy.remote.bodies) == seen + 1
    assert b"w" in proxy.remote.bodies[-1]
    proxy.assert_clean(found.text)


IMAGE = {"type": "image_url", "image_url": {"url": f"https://{CANARY}"}}


@over(
    "path, body",
    [
        ("/v1/chat/completions", {"messages": [user([{"type": "text", "text": "w1x"}, IMAGE])]}),
        ("/v1/chat/completions", {"messages": [{**user("w1x"), "name": CANARY}]}),
        ("/v1/chat/completions", {"messages": [user("w1x")], "prediction": CANARY}),
        (
            "/v1/chat/completions",
            {"messages": [user("w1x"), {"role": "assistant", "content": CANARY}]},
        ),
        ("/v1/embeddings", {"model": "embedder", "input": [71, 72]}),
        ("/v1/responses", {"input": "w1x", "previous_response_id": CANARY}),
        ("/v1/responses", {"input": [{"type": "item_reference", "id": CANARY}]}),
        ("/v1/images/generations", {"prompt": CANARY, "size": "256x256"}),
        ("/v1/chat/completions", {"messages": [user("w1x")], "metadata": {"a": CANARY}}),
    ],
)
def test_what_cannot_be_released_is_refused(path, body, proxy):
    proxy.ready()
    seen = len(proxy.remote.bodies)
    found = proxy.post(path, **{"model": "chat", **body})
    assert found.status_code == 400
    assert len(proxy.remote.bodies) == seen
    assert not proxy.remote.saw(CANARY)
    if "metadata" not in body:  # which the proxy copies for its logs before it asks anybody
        proxy.assert_clean(found.text)


def test_a_failing_remote_model_tells_released_text_only(proxy):
    proxy.remote.mode = "error"
    found = proxy.chat(user(f"{CANARY} fails"))
    assert found.status_code == 500
    proxy.assert_clean(found.text)


@over("stream", [False, True])
def test_pseudonyms_come_back_as_originals(stream, proxies):
    named = proxies["named"].ready()
    named.remote.mode = "echo"
    found = named.chat(user("Mirela Tamburi signed it, says Mirela Tamburi."), stream=stream)
    assert said_in(found, stream) == "Mirela Tamburi signed it, says Mirela Tamburi."
    assert not named.remote.saw("Mirela")


def said_in(found, stream):
    if not stream:
        return found.json()["choices"][0]["message"]["content"]
    lines = [line[6:] for line in found.text.splitlines() if line.startswith("data: {")]
    deltas = [json.loads(line)["choices"][0]["delta"] for line in lines]
    return "".join(delta.get("content") or "" for delta in deltas)


def test_the_webhook(gateway, proxies):
    proxy = proxies["hook"].ready()
    with AllLogs() as logs:
        for stream in (False, True):
            first = proxy.chat(user(f"{CANARY} {stream}"), stream=stream)
            assert first.status_code == 200
            assert "fine" in first.text
            said = {"role": "assistant", "content": "a fine answer"}
            again = [user(f"{CANARY} {stream}"), said, user(CANARY)]
            assert proxy.chat(*again, stream=stream).status_code == 200
        refused = proxy.chat(user(CANARY), {**said, "content": CANARY})
        assert refused.status_code == 400
        assert proxy.post("/v1/embeddings", model="embedder", input=[CANARY]).status_code == 200
        seen = len(proxy.remote.bodies)
        gateway.refuse_all()  # as with a wrong key
        assert proxy.chat(user(CANARY)).status_code >= 500  # fails closed
        assert len(proxy.remote.bodies) == seen
        assert not proxy.remote.saw(CANARY)
    assert not any(CANARY in line for line in logs.lines if "dp_middleware" in line)
