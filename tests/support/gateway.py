"""A gateway on loopback in front of a server that remembers, with small mechanisms."""

import json
import logging
import secrets
import socket
import time
from contextlib import contextmanager
from threading import Thread

import httpx
import numpy as np
import uvicorn
from support.contract import OpenAIServer
from support.entities import detector

import dp_middleware as dp
from dp_middleware.gateway import Settings, create_app
from dp_middleware.gateway.app import server_options
from dp_middleware.gateway.service import hash_of, new_key

SECRET = secrets.token_urlsafe(32)
UPSTREAM_KEY = "sk-upstream-5f1c"
KEYS = {name: new_key() for name in ("ann", "ann2", "bob")}
SUBJECTS = {"ann": "ann", "ann2": "ann", "bob": "bob"}
WORDS = [f"w{i}" for i in range(40)]
MODEL = "gpt-4o-mini"


def releases(policy, ledger, subject):
    """What a policy asks for, on a space of 40 words or with known entities."""
    terms = {"ledger": ledger, "subject": subject}
    sanitizer = None
    if policy.mode != "pseudonyms":
        vectors = np.random.default_rng(0).normal(size=(len(WORDS), 4))
        space = dp.EmbeddingSpace(dp.Vocabulary(WORDS), vectors)
        sanitizer = dp.Sanitizer(dp.TokenExponential(epsilon=2.0), space, **terms)
    if policy.mode == "sanitizer":
        return sanitizer
    return dp.Pseudonyms(detector(), sanitizer=sanitizer, on_empty=policy.on_empty, **terms)


def settings(url, **given):
    """Of three clients with two subjects."""
    clients = [
        {"id": name, "subject": SUBJECTS[name], "key_hash": hash_of(SECRET, key)}
        for name, key in KEYS.items()
    ]
    upstream = {"url": url, "models": [MODEL], "seconds": 5.0, **given.pop("upstream", {})}
    return Settings.of(
        secret=SECRET, upstream_key=UPSTREAM_KEY, upstream=upstream, clients=clients, **given
    )


class Running:
    """A gateway that answers; ``url`` is the base URL for clients, with ``/v1``."""

    def __init__(self, upstream, app, port):
        self.upstream, self.app, self.port = upstream, app, port
        self.root = f"http://127.0.0.1:{port}"
        self.url = f"{self.root}/v1"
        self._http = httpx.Client(timeout=30, verify=False, trust_env=False)

    def close(self):
        self._http.close()

    def refuse_all(self):
        """From now on every key is a stranger's."""
        gateway = self.app._app.state.gateway
        gateway.settings = gateway.settings.model_copy(update={"clients": ()})

    def post(self, path, body, client="ann", **headers):
        """A request of a client, with JSON or bytes; names of headers with underscores."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        given = {"authorization": f"Bearer {KEYS[client]}", **named}
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        given.setdefault("content-type", "application/json")
        return self._http.post(self.url + path, content=data, headers=given)

    def get(self, path, client="ann"):
        headers = {"authorization": f"Bearer {KEYS[client]}"}
        return self._http.get(self.url + path, headers=headers)

    def chat(self, *messages, client="ann", **more):
        given = [{"role": "user", "content": m} if isinstance(m, str) else m for m in messages]
        headers = more.pop("headers", {})
        body = {"model": MODEL, "messages": given, **more}
        return self.post("/chat/completions", body, client, **headers)

    @contextmanager
    def connected(self, head):
        """A connection by which this is sent as it is."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as connection:
            connection.sendall(head.encode())
            yield connection


def sse(answer):
    """The events of a stream but the last word, ``[DONE]``."""
    lines = [line[6:] for line in answer.text.splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


@contextmanager
def serving(app):
    """An ASGI application under uvicorn, in a thread; gives its port."""
    with socket.socket(proto=socket.IPPROTO_TCP) as listening:
        listening.bind(("127.0.0.1", 0))
        config = uvicorn.Config(app, log_config=None, lifespan="on", **server_options())
        server = uvicorn.Server(config)
        thread = Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        while not server.started:
            assert thread.is_alive(), "the gateway did not start"
            time.sleep(0.01)
        yield listening.getsockname()[1]
        server.should_exit = True
        thread.join(20)
        assert not thread.is_alive()


@contextmanager
def in_front_of(server, url=None, /, **given):
    """A gateway with settings as of :func:`settings`."""
    app = create_app(settings(url or server.url, **given), releases=releases)
    with serving(app) as port:
        gateway = Running(server, app, port)
        yield gateway
        gateway.close()


@contextmanager
def running(reply="a fine answer", mode="ok", **given):
    """A gateway in front of a new server."""
    with OpenAIServer(reply=reply, mode=mode) as server, in_front_of(server, **given) as gateway:
        yield gateway


def fresh_spent(gateway, subject):
    ledger = gateway.app._app.state.gateway.ledger
    assert ledger.spent(subject) == 0
    return lambda: ledger.spent(subject)


class AllLogs(logging.Handler):
    """Everything that is logged, at any level."""

    def __init__(self):
        super().__init__(logging.NOTSET)
        self.lines = []

    def emit(self, record):
        """Kept with what its exception says, unless it is of a client, which is told the text."""
        if not record.name.startswith(("openai", "anthropic")):
            self.lines.append(f"{record.name}: {logging.Formatter().format(record)}")

    def __enter__(self):
        root = logging.getLogger()
        self._level = root.level
        root.addHandler(self)
        root.setLevel(logging.NOTSET)
        return self

    def __exit__(self, *details):
        root = logging.getLogger()
        root.removeHandler(self)
        root.setLevel(self._level)
