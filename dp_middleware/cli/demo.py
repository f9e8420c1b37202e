"""``dp-middleware demo``: a letter, its way to a model and back, and what a certificate says."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator
from typing import Any

import httpx
from rich.console import Console
from rich.text import Text

import dp_middleware as dp
from dp_middleware.cli import demo_model, show
from dp_middleware.cli.progress import working
from dp_middleware.privacy.wording import recovery, sentence

LETTER = (
    "Hello, I am Maria Lopez (maria.lopez@acme.test). On March 3, 2024 you charged me $1,249.00 "
    "for order ORD-77812, which never came to 12 Oak Street, Springfield. Please call me at "
    "(217) 555-0142."
)
"""Invented for this demo, as is all else in it: nobody is described."""

NOTE = "My left knee has hurt since the surgery in March, and the doctor said that I should wait."
ORDERS = {"ORD-77812": {"order": "ORD-77812", "status": "lost", "refund": "$1,249.00"}}
_TOOL = {
    "type": "function",
    "function": {
        "name": "look_up_order",
        "description": "Look an order up by its number.",
        "parameters": {"type": "object", "properties": {"order": {"type": "string"}}},
    },
}
_CURL = """
curl -N {url}/chat/completions \\
  -H 'Authorization: Bearer dpk-...' \\
  -H 'Content-Type: application/json' \\
  -d '{{"model": "{model}", "stream": true,
       "messages": [{{"role": "user", "content": "I am Maria Lopez ..."}}]}}'
"""
_TASK = "Thank this customer for the letter, by name, in one polite sentence."
_WHEN = (
    "When to take which: pseudonyms where names and numbers are secret and the rest may be read; a "
    "whole text where its topic is enough; every word where any single word may be the secret and "
    "half of them are enough to go on with."
)


def demo() -> None:
    """A letter's way to a model and back, by the library and by the gateway; then certificates."""
    run(Console(highlight=False))


def run(out: Console) -> None:
    """Shows every step as it happens."""
    started = time.perf_counter()
    with working("loading lists and models"):
        from dp_middleware.cli.demo_provider import Provider, on_loopback

        provider = Provider()
    _say(
        out,
        "Everything here is invented and stays on this computer. The model is a stand-in, a small "
        "server on 127.0.0.1 that fills ready sentences; what is sent to it, and what comes back, "
        "is real.",
    )
    with on_loopback(provider.app) as url:
        _letter(out, f"{url}/v1")
        _gateway(out, provider, f"{url}/v1")
    _whole_text(out)
    _every_word(out)
    _say(out, _WHEN)
    _round_trip(out)
    out.print(f"Done in {time.perf_counter() - started:.0f} s.", style="dim")


def _letter(out: Console, url: str) -> None:
    _title(out, "1. A letter, with pseudonyms: dp.Pseudonyms().session()")
    session = dp.Pseudonyms().session()
    _text(out, "the letter", LETTER)
    released = session.release("letter", "user", LETTER)
    _text(out, "the model sees", released.text)
    messages: list[dict[str, Any]] = [{"role": "user", "content": released.text}]
    with httpx.Client(base_url=url, trust_env=False) as client:
        body = {"model": "stand-in", "messages": messages, "tools": [_TOOL]}
        message = client.post("/chat/completions", json=body).json()["choices"][0]["message"]
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
        pieces: list[str] = []
        stream = _pieces(client, {**body, "messages": [*messages, message, tool]}, pieces)
        _stream(out, "the user reads", session.restore_stream(stream))
    _text(out, "the model wrote", "".join(pieces))
    _certificate(out, released)


def _gateway(out: Console, provider: Any, url: str) -> None:
    from dp_middleware.cli.demo_provider import MODEL, on_loopback
    from dp_middleware.gateway import Settings, create_app
    from dp_middleware.gateway.service import hash_of, new_key

    _title(out, "2. The same through the gateway: dp-middleware serve --config gateway.toml")
    secret, key = secrets.token_hex(32), new_key()
    settings = Settings.of(
        secret=secret,
        upstream={"url": url, "models": [MODEL]},
        policies={"default": {"mode": "pseudonyms"}},
        clients=[{"id": "ann", "subject": "ann", "key_hash": hash_of(secret, key)}],
    )
    with on_loopback(create_app(settings)) as address:
        base = f"{address}/v1"
        out.print(Text(_CURL.format(url=base, model=MODEL)), soft_wrap=True)
        body = {"model": MODEL, "messages": [{"role": "user", "content": LETTER}]}
        headers = {"authorization": f"Bearer {key}"}
        with httpx.Client(base_url=base, trust_env=False, headers=headers) as client:
            _stream(out, "the client reads", _pieces(client, body, []))
    _text(out, "the model had seen", provider.bodies[-1]["messages"][-1]["content"])


def _whole_text(out: Console) -> None:
    _title(out, "3. A whole text at 50 nats: dp.document_sanitizer(epsilon=50)")
    release = dp.document_sanitizer(epsilon=50).release(NOTE)
    _text(out, "the text", NOTE)
    _text(out, "the model sees", release.text)
    _certificate(out, release)


def _every_word(out: Console) -> None:
    _title(out, "4. Every word at 10 nats a token: dp.sanitizer(epsilon=10)")
    _text(out, "the text", NOTE)
    release = dp.sanitizer(epsilon=10).release(NOTE)
    _text(out, "the model sees", release.text)
    _certificate(out, release)
    _text(out, "attack", recovery(release.certificate))


def _round_trip(out: Console) -> None:
    model = demo_model.demo_model()
    if model is None:
        _say(
            out,
            f"With a real model there is a fifth step: {demo_model.REMEDY}",
        )
        return
    _title(out, "5. The letter to a real model: dp.InferDPT(session, remote=model)")
    with working("loading the model and asking it"):
        answer = dp.InferDPT(dp.Pseudonyms().session(), remote=model).run(LETTER, instruction=_TASK)
    _text(out, "the model sees", f"{_TASK} ... {answer.release.text}")
    _text(out, "it answers", show.printable(answer.remote_text))
    _text(out, "the user reads", show.printable(answer.text))
    _say(out, "A model this small shows the way, not the quality.")


def _pieces(client: httpx.Client, body: dict[str, Any], seen: list[str]) -> Iterator[str]:
    sent = {name: value for name, value in body.items() if name != "tools"} | {"stream": True}
    with client.stream("POST", "/chat/completions", json=sent) as answer:
        answer.raise_for_status()
        for line in answer.iter_lines():
            if not line.startswith("data: {"):
                continue
            for choice in json.loads(line.removeprefix("data: "))["choices"]:
                seen.append(choice["delta"].get("content") or "")
                yield seen[-1]


def _title(out: Console, text: str) -> None:
    out.print()
    out.print(Text(text, style="bold"))


def _say(out: Console, text: str) -> None:
    out.print()
    out.print(Text(text, style="dim"))


def _text(out: Console, name: str, text: str) -> None:
    show.pairs(out, (f"  {name:<18}", text))


def _stream(out: Console, name: str, pieces: Iterator[str]) -> None:
    out.print(Text(f"  {name:<18}  ", style="bold"), end="")
    for piece in pieces:
        out.print(Text(piece), end="", soft_wrap=True)
    out.print()


def _certificate(out: Console, release: dp.Release) -> None:
    _text(out, "certificate", sentence(release.certificate))
