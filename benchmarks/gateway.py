"""What the gateway adds to a request, and what it does when things break; see docs/benchmarks.md.

    python benchmarks/gateway.py [--toy] [--requests 200] [--callers 1 32] [--delay 0.02]
        [--no-faults] [--soak MINUTES [--rate 20]]

An upstream on loopback answers after --delay seconds; a plain pass-through of Starlette and httpx,
the same with the gateway's pool, and the gateway stand in front of it, each a process of its own,
whose CPU is shown. Callers ask one after the other, each for a new text of 60 words.
Then faults, after each of which the ledger is verified, and what the upstream received is compared
with what was charged. With --soak instead: the most callers named, at a bounded --rate for so many
minutes, and the gateway's memory; it is flat if the last third has at most 2 % more than the one
before. The default space calibrates for minutes, once; --toy takes 40 words instead.
"""

import asyncio
import json
import multiprocessing
import secrets
import signal
import socket
import tempfile
import time
from contextlib import suppress
from functools import cache, partial

import aiohttp
import httpx
import numpy as np
import pages
import psutil
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route

import dp_middleware as dp
from dp_middleware.gateway import Settings, create_app
from dp_middleware.gateway.app import server_options
from dp_middleware.gateway.service import hash_of, new_key
from dp_middleware.gateway.upstream import Connections

WORDS = (pages.ROOT / "README.md").read_text("utf-8").split()
LENGTH = 60  # words of a text
CHAT = "/v1/chat/completions"
FAULTS = ("hang", "close", "garbage", "forever")
HEADS = ("callers", "front", "p50 ms", "p99 ms", "requests a second", "CPU ms a request", "failed")


def served(chat, seen=()):
    ready = Route("/readyz", lambda request: JSONResponse({"requests": len(seen)}))
    return Starlette(routes=[Route(CHAT, chat, methods=["POST"]), ready])


def upstream(options):
    """Answers after a while, or as the model's name says; counts what it received."""
    seen = []

    async def chat(request: Request):
        body = await request.json()
        seen.append(len(body["messages"]))
        if body["model"] in FAULTS:
            return StreamingResponse(faulty(body["model"]), media_type="text/event-stream")
        await asyncio.sleep(options["delay"])
        message = {"role": "assistant", "content": "a fine answer"}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return JSONResponse({"id": "c", "object": "chat.completion", "choices": [choice]})

    return served(chat, seen)


async def faulty(fault):
    choice = {"index": 0, "delta": {"content": "word "}, "finish_reason": None}
    piece = f"data: {json.dumps({'choices': [choice]})}\n\n"
    yield piece
    if fault == "hang":
        await asyncio.sleep(60)
    if fault == "garbage":
        yield "data: nonsense\n\n"
    while fault == "forever":
        yield piece * 100
        await asyncio.sleep(0)


def passing(options):
    """The least that a proxy does."""
    pool = Connections() if options["own_pool"] else None
    every = httpx.Limits(max_connections=512, max_keepalive_connections=512)
    http, url = httpx.AsyncClient(timeout=30, limits=every), f"{options['url']}/chat/completions"

    async def chat(request: Request):
        body = json.loads(await request.body())
        if pool is None:
            answer = await http.post(url, json=body)
        else:
            async with pool.answer(http.build_request("POST", url, json=body)) as answer:
                await answer.aread()
        return JSONResponse(answer.json(), answer.status_code)

    return served(chat)


def gateway(options):
    """The gateway, on the default space or on 40 words."""
    back = {"url": options["url"], "models": ["m", *FAULTS], "max_bytes": 1_000_000}
    settings = Settings.of(
        secret=options["secret"],
        upstream={**back, "seconds": options["seconds"] + options["delay"]},
        clients=[{"id": "a", "subject": "a", "key_hash": options["hash"]}],
        ledger={"url": options["ledger"], "budget": 4e6} if options["ledger"] else {},
        limits={"requests_per_minute": 10**9, "body_seconds": 5.0},
        memo_entries=options["memo"],
    )
    if not options["toy"]:
        return create_app(settings)
    words, vectors = [f"w{k}" for k in range(40)], np.random.default_rng(0).normal(size=(40, 4))
    space = dp.EmbeddingSpace(dp.Vocabulary(words), vectors)

    def releases(policy, ledger, subject):
        return dp.Sanitizer(dp.TokenExponential(epsilon=2), space, ledger=ledger, subject=subject)

    return create_app(settings, releases=releases)


def serve(app, options, port):
    how = server_options() if app is gateway else {"access_log": False}
    uvicorn.run(app(options), port=port, log_level="error", **how)


class Process:
    def __init__(self, app, **options):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.root, spawn = f"http://127.0.0.1:{self.port}", multiprocessing.get_context("spawn")
        self.process = spawn.Process(target=serve, args=(app, options, self.port), daemon=True)
        self.process.start()
        self.usage = psutil.Process(self.process.pid)
        with httpx.Client(base_url=self.root, timeout=60) as http:
            while self.process.is_alive():
                try:
                    if http.get("/readyz").status_code == 200:
                        return
                except httpx.TransportError:
                    time.sleep(0.1)
        raise RuntimeError(f"{app.__name__} did not start")

    def cpu(self):
        return sum(self.usage.cpu_times()[:2])  # of user and system

    def stop(self, how=signal.SIGTERM):
        self.usage.send_signal(how)
        self.process.join(60)


def body_of(rng, **more):
    text = " ".join(rng.choice(WORDS, size=LENGTH))
    return {"model": "m", "messages": [{"role": "user", "content": text}], **more}


async def load(root, key, callers, requests, delay, killed=None, every=0.0):
    """Milliseconds of requests answered with 200, and how many were not; one ``every`` seconds."""
    taken, failed, rng = [], 0, np.random.default_rng()
    bodies = [body_of(rng) for _ in range(requests)]

    async def caller(client):
        nonlocal failed
        async with client.get("/readyz") as answer:  # connects
            await answer.read()
        await asyncio.sleep(rng.uniform(0, every or delay))
        while bodies:
            body, started = bodies.pop(), time.perf_counter()
            failed += 1
            with suppress(aiohttp.ClientError, TimeoutError):
                async with client.post(CHAT, json=body) as answer:
                    await answer.read()
                    if answer.status == 200:
                        taken.append(1000 * (time.perf_counter() - started))
                        failed -= 1
            if killed is not None and len(taken) == requests // 4:
                killed()
            await asyncio.sleep(max(0.0, started + every - time.perf_counter()))

    pool = aiohttp.TCPConnector(limit=callers, keepalive_timeout=60)
    how = {"headers": {"authorization": f"Bearer {key}"}, "timeout": aiohttp.ClientTimeout(60)}
    async with aiohttp.ClientSession(root, connector=pool, **how) as client:
        await asyncio.gather(*(caller(client) for _ in range(callers)))
    return taken, failed


def added(fronts, key, callers, requests, delay):
    """A row for each front: p50 and p99, and what it costs."""
    taken = {name: [] for name in fronts}
    cost = {name: np.zeros(3) for name in fronts}  # CPU of the front; seconds; failed
    for process in fronts.values():  # warm
        asyncio.run(load(process.root, key, callers, callers, delay))
    for name, process in 3 * [*fronts.items()]:
        before = np.array([process.cpu(), time.perf_counter(), 0])
        more, failed = asyncio.run(load(process.root, key, callers, requests, delay))
        taken[name] += more
        cost[name] += [process.cpu(), time.perf_counter(), failed] - before
    for name, own in taken.items():
        (cpu, seconds, failed), count = cost[name], max(1, len(own))
        cells = [f"{cell:.1f}" for cell in np.percentile(own or [np.nan], [50, 99])]
        cells += [f"{count / seconds:.0f}", f"{1000 * cpu / count:.1f}", f"{failed:.0f}"]
        print(pages.row((f"{callers}", name, *cells)), flush=True)


def soak(front, key, callers, given):
    """Memory by the minute, and whether it is flat."""
    held, begun = [], time.monotonic()
    print(pages.markdown(("minute", "MB", "requests", "p50 ms", "p99 ms", "failed")), flush=True)
    while time.monotonic() - begun < 60 * given.soak:
        count, pace = 60 * given.rate, callers / given.rate
        taken, failed = asyncio.run(load(front.root, key, callers, count, given.delay, every=pace))
        held.append(front.usage.memory_info().rss / 1e6)
        p50, p99 = np.percentile(taken or [np.nan], [50, 99])
        said = (f"{(time.monotonic() - begun) / 60:.0f}", f"{held[-1]:.1f}", f"{len(taken)}")
        print(pages.row((*said, f"{p50:.0f}", f"{p99:.0f}", f"{failed}")), flush=True)
    third = -(-len(held) // 3)
    growth = max(held[-third:]) / max(held[:-third][-third:], default=held[0]) - 1
    print(f"memory is {'flat' if growth <= 0.02 else 'not flat'}: {100 * growth:+.1f} % in the end")


def state(url, back):
    """Charges of the ledger, which must be whole, and what the upstream received."""
    ledger = dp.PrivacyLedger(url)
    ledger.verify()
    charged = sum(row.event == "charge" for row in ledger.rows("a"))
    ledger.close()
    return np.array([charged, httpx.get(f"{back.root}/readyz").json()["requests"]])


def faults(options, key, back, requests):
    before = state(options["ledger"], back)
    front = Process(gateway, **options)
    kill = cache(partial(front.stop, signal.SIGKILL))  # once
    taken, failed = asyncio.run(load(front.root, key, 32, requests, 0.2, kill))
    more, out = state(options["ledger"], back) - before
    print(f"\nkill -9 under load: {len(taken)} answered, {failed} failed;", end=" ")
    print(f"{more} charged, {out} sent")
    assert out <= more
    front, bearer = Process(gateway, **options), f"Bearer {key}"
    for fault in FAULTS:
        body = body_of(np.random.default_rng(), stream=True) | {"model": fault}
        started, headers = time.perf_counter(), {"authorization": bearer}
        answer = httpx.post(f"{front.root}{CHAT}", json=body, headers=headers, timeout=60)
        last = [line for line in answer.text.splitlines() if line.startswith("data: ")][-1]
        code = json.loads(last[6:]).get("error", {}).get("code")
        print(f"upstream {fault}: {code} after {time.perf_counter() - started:.1f} s", flush=True)
    head = f"POST {CHAT} HTTP/1.1\r\nhost: x\r\nauthorization: {bearer}\r\n"
    head += "content-type: application/json\r\ncontent-length: 99\r\n\r\n{"
    slow = [socket.create_connection(("127.0.0.1", front.port)) for _ in range(64)]
    for each in slow:
        each.sendall(head.encode())
    taken, failed = asyncio.run(load(front.root, key, 8, 40, 0.2))
    p50, p99 = np.percentile(taken or [np.nan], [50, 99])
    print(f"beside 64 slow clients: p50 {p50:.0f} ms, p99 {p99:.0f} ms, {failed} failed")
    ends = [each.recv(100)[9:12].decode() for each in slow]
    print(f"the slow clients got {', '.join(sorted(set(ends)))}")
    front.stop()
    more, out = state(options["ledger"], back) - before
    print(f"in all {more} charged, {out} sent: nothing that was not charged")
    assert out <= more


if __name__ == "__main__":
    own = {"toy": False, "delay": 0.02, "no_faults": False, "soak": 0, "rate": 20}
    given = pages.options(__doc__, requests=200, callers=[1, 32], **own)
    with tempfile.TemporaryDirectory() as folder:
        key, secret = new_key(), secrets.token_hex(32)
        back = Process(upstream, delay=given.delay)
        options = {"url": f"{back.root}/v1", "secret": secret, "hash": hash_of(secret, key)}
        options |= {"toy": given.toy, "delay": given.delay, "seconds": 3.0, "memo": 100_000}
        options["ledger"] = None
        paid = {**options, "ledger": f"sqlite:///{folder}/ledger.db"}
        if given.soak:
            fronts = {"": Process(gateway, **{**paid, "seconds": 60.0, "memo": 1000})}
            soak(fronts[""], key, max(given.callers), given)
        else:
            fronts = {
                "pass-through": Process(passing, own_pool=False, **options),
                "the same, the gateway's pool": Process(passing, own_pool=True, **options),
                "gateway, no ledger": Process(gateway, **options),
                "gateway, SQLite": Process(gateway, **paid),
            }
            print(pages.markdown(HEADS))
            for callers in given.callers:
                requests = max(given.requests if callers > 1 else 40, 2 * callers)
                added(fronts, key, callers, requests, given.delay)
        for each in fronts.values():
            each.stop()
        if not (given.soak or given.no_faults):
            faults(paid, key, back, given.requests)
        back.stop()
