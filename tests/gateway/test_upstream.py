"""An upstream that fails: a status and words of ours, whatever it says."""

import asyncio
import gzip
import json
import re
import time
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address

import httpx
from support.cases import over
from support.contract import OpenAIServer
from support.faulty import served
from support.gateway import MODEL, in_front_of, running, settings
from support.texts import CANARY

from dp_middleware.gateway.measures import Measures
from dp_middleware.gateway.upstream import Upstream


@over("stream", [False, True])
@over("mode", ["error", "malformed", "redirect"])
def test_failures_have_no_text(gateway, mode, stream):
    with OpenAIServer(mode="echo") as elsewhere:
        gateway.upstream.redirect_to = elsewhere.url
        gateway.upstream.mode = mode
        gateway.upstream.reply = CANARY
        answer = gateway.chat(CANARY, stream=stream)
        assert not elsewhere.requests
    assert answer.status_code == 502
    assert answer.json()["error"]["type"] == "server_error"
    assert CANARY not in answer.text


@over("status", [429, 401, 404])
def test_statuses(gateway, status):
    gateway.upstream.mode = "redirect"
    gateway.upstream.redirect_status = status
    answer = gateway.chat("x")
    gateway.upstream.redirect_status = 307
    assert answer.status_code == (502 if status == 401 else status)
    assert answer.json()["error"]["code"] == "upstream_error"


def test_time_is_limited():
    with running(mode="slow", upstream={"seconds": 0.3}) as slow:
        started = time.perf_counter()
        assert slow.chat("x").status_code == 504
        assert slow.chat("x", stream=True).status_code == 504
        assert time.perf_counter() - started < 20  # the server waits 30 s


def test_size_is_limited():
    with running(reply="long " * 500, upstream={"max_bytes": 1000}) as small:
        assert small.chat("x").json()["error"]["code"] == "upstream_too_long"
        answer = small.chat("x", stream=True)
        assert answer.status_code == 200
        assert "upstream_too_long" in answer.text
        assert "[DONE]" not in answer.text


def test_nobody_there():
    with running() as alone:
        alone.upstream.stop()
        error = alone.chat("x").json()["error"]
    assert error["code"] == "upstream_unreachable"
    assert re.match(r"the upstream http://127\.0\.0\.1:\d+/v1 could not", error["message"])
    assert "url, in [upstream]" in error["message"]


def test_a_certificate_that_nobody_vouches_for_is_refused(tmp_path, monkeypatch):
    """Whatever the environment trusts: nothing is written to who cannot say who he is."""
    import cryptography.hazmat.primitives.serialization as whole

    file = tmp_path / "own.pem"
    file.write_bytes(_self_signed(whole))
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    with answering(chat_body(), certificate=file) as (gateway, heads):
        assert gateway.chat("x").json()["error"]["code"] == "upstream_unreachable"
        assert heads == []


def test_no_proxy_of_the_environment_is_asked(monkeypatch):
    with OpenAIServer(mode="echo") as proxy:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy"):
            monkeypatch.setenv(name, proxy.url)
        with running() as direct:
            assert direct.chat("x").status_code == 200
        assert not proxy.requests


def _self_signed(whole):
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    now = datetime.now(UTC)
    address = x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))])
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    made = made.not_valid_before(now - timedelta(1)).not_valid_after(now + timedelta(1))
    made = made.add_extension(address, critical=True).sign(key, hashes.SHA256())
    plain = whole.PrivateFormat.PKCS8, whole.NoEncryption()
    return key.private_bytes(whole.Encoding.PEM, *plain) + made.public_bytes(whole.Encoding.PEM)


def test_a_password_of_the_upstream_is_not_shown():
    with running(upstream={"url": "http://ann:zxqvcanary@127.0.0.1:9/v1?key=zxqvcanary"}) as alone:
        error = alone.chat("x").json()["error"]
    assert "the upstream http://127.0.0.1:9/v1 could" in error["message"]


def test_a_retry_costs_nothing(gateway):
    gateway.upstream.mode = "error"
    first = gateway.chat("try this twice")
    assert first.status_code == 502
    gateway.upstream.mode = "echo"
    second = gateway.chat("try this twice")
    assert second.headers["x-dp-draws"] == "0"
    bodies = gateway.upstream.requests
    assert bodies[0]["messages"] == bodies[1]["messages"]


@contextmanager
def answering(body, user="", kind="application/json", **more):
    """A gateway in front of a server that answers in bytes; gives it and the heads that came."""

    def write(wfile):
        with suppress(ConnectionError):
            wfile.write(body)

    scheme = "https" if "certificate" in more else "http"
    with served(write, kind=kind, Content_Length=str(len(body)), **more) as (port, heads):
        url = f"{scheme}://{user}127.0.0.1:{port}/v1"
        with in_front_of(None, url, upstream={"max_bytes": 1000}) as gateway:
            yield gateway, heads


STREAM = "text/event-stream"


def chat_body(content="fine", created="1"):
    message = {"role": "assistant", "content": content}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    answer = {"id": "c", "object": "chat.completion", "model": MODEL, "choices": [choice]}
    return json.dumps({**answer, "created": 17}).replace("17", created).encode()


def test_a_compressed_answer_is_not_unpacked():
    bomb = gzip.compress(chat_body())
    with answering(bomb, Content_Encoding="gzip") as (gateway, heads):
        answer = gateway.chat("x")
        assert (answer.status_code, answer.json()["error"]["code"]) == (502, "upstream_garbage")
        assert "accept-encoding: identity" in heads[0]
        assert "gzip" not in heads[0]


def test_a_password_in_the_address_is_sent_as_such():
    with answering(chat_body(), user="ann:a%20b@") as (gateway, heads):
        assert gateway.chat("x").status_code == 200
        assert "authorization: basic yw5uomegyg==" in heads[0]


def test_cookies_are_not_kept():
    with answering(chat_body(), Set_Cookie="tag=of-ann; Path=/") as (gateway, heads):
        assert gateway.chat("x").status_code == 200
        assert gateway.chat("y", client="bob").status_code == 200
        assert "cookie" not in heads[1]


@over("number", ["NaN", "Infinity", "-1e999"])
def test_numbers_that_no_json_has(number):
    stream = b"data: " + chat_body(created=number) + b"\n\ndata: [DONE]\n\n"
    for body, streamed in ((chat_body(created=number), False), (stream, True)):
        with answering(body, kind=STREAM if streamed else "application/json") as (gateway, _):
            text = gateway.chat("x", stream=streamed).text
            assert "upstream_garbage" in text


@over("ends", [b"\n", b"\r\n\n"])
def test_empty_lines_count(ends):
    with answering(ends * 2000, kind=STREAM) as (gateway, _):
        assert "upstream_too_long" in gateway.chat("x", stream=True).text


def test_a_long_line_in_small_pieces_is_read_once():
    """800 kB in pieces of 8 bytes: looked at anew for each piece, that would take minutes."""

    async def pieces():
        yield b"data: {\r\nda"
        for _ in range(100_000):
            yield b"xxxxxxxx"
        yield b"\n\nlast"

    async def read():
        upstream = Upstream(settings("http://127.0.0.1:1/v1"), Measures())
        return [line async for line in upstream._lines(httpx.Response(200, content=pieces()))]

    started = time.process_time()
    lines = asyncio.run(read())
    assert lines == ["data: {", "da" + "x" * 800_000, "", "last"]
    assert time.process_time() - started < 20


ODD_ITEMS = [
    {"type": "message", "content": 5},
    {"type": "message", "content": [{"text": 5}]},
    {"type": "function_call"},
    {"type": "function_call", "call_id": "c", "name": "f", "arguments": {}},
]


@over("item", ODD_ITEMS)
def test_responses_of_another_protocol(item):
    with answering(json.dumps({"id": "r", "output": [item]}).encode()) as (gateway, _):
        answer = gateway.post("/responses", {"model": MODEL, "input": "x"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "upstream_garbage")


@over("path, field", [("/completions", "prompt"), ("/embeddings", "input")])
def test_clients_do_not_try_again_what_is_charged_again(gateway, path, field):
    gateway.upstream.mode = "error"
    answer = gateway.post(path, {"model": MODEL, field: "x"})
    assert (answer.status_code, answer.headers["x-should-retry"]) == (502, "false")
    assert "x-should-retry" not in gateway.chat("x").headers
