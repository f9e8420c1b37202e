"""``dp-middleware demo``: a letter, its way to a model and back, and what a certificate says."""

from __future__ import annotations

import json
import secrets
import time
from typing import Any

import httpx
from rich.console import Console
from rich.text import Text

import dp_middleware as dp
from dp_middleware.cli import demo_model, show
from dp_middleware.cli.console import working
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
curl {url}/chat/completions \\
  -H 'Authorization: Bearer dpk-...' \\
  -H 'Content-Type: application/json' \\
  -d '{{"model": "{model}",
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
    _note(out)
    _say(out, _WHEN)
    _round_trip(out)
    out.print(f"Done in {time.perf_counter() - started:.0f} s.", style="dim")


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


def _gateway(out: Console, provider: Any, url: str) -> None:
    from dp_middleware.cli.demo_provider import MODEL, on_loopback
    from dp_middleware.gateway import Settings, create_app
    from dp_middleware.gateway.service import hash_of, new_key

    _say(out, "2. The same through the gateway: dp-middleware serve --config gateway.toml", "bold")
    secret, key = secrets.token_hex(32), new_key()
    settings = Settings.of(
        secret=secret,
        upstream={"url": url, "models": [MODEL]},
        policies={"default": {"mode": "pseudonyms"}},
        clients=[{"id": "ann", "subject": "ann", "key_hash": hash_of(secret, key)}],
    )
    with on_loopback(create_app(settings)) as address:
        out.print(Text(_CURL.format(url=f"{address}/v1", model=MODEL)), soft_wrap=True)
        messages = [{"role": "user", "content": LETTER}]
        _text(out, "the client reads", _answer(f"{address}/v1", messages, key)["content"])
    _text(out, "the model had seen", provider.bodies[-1]["messages"][-1]["content"])


def _answer(url: str, messages: list[dict[str, Any]], key: str = "none", **more: Any) -> Any:
    headers, body = {"authorization": f"Bearer {key}"}, {"model": "stand-in", "messages": messages}
    with httpx.Client(trust_env=False, headers=headers) as client:
        answer = client.post(f"{url}/chat/completions", json={**body, **more})
    return answer.raise_for_status().json()["choices"][0]["message"]


def _note(out: Console) -> None:
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
    model = demo_model.demo_model()
    if model is None:
        _say(out, f"With a real model there is a fifth step: {demo_model.REMEDY}")
        return
    _say(out, "5. The letter to a real model: dp.InferDPT(session, remote=model)", "bold")
    with working("loading the model and asking it"):
        answer = dp.InferDPT(dp.Pseudonyms().session(), remote=model).run(LETTER, instruction=_TASK)
    _text(out, "the model sees", f"{_TASK} ... {answer.release.text}")
    _text(out, "it answers", show.printable(answer.remote_text))
    _text(out, "the user reads", show.printable(answer.text))
    _say(out, "A model this small shows the way, not the quality.")


def _say(out: Console, text: str, style: str = "dim") -> None:
    out.print()
    out.print(Text(text, style=style))


def _text(out: Console, name: str, text: str) -> None:
    show.pairs(out, (f"  {name:<18}", text))
