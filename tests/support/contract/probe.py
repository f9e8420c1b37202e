"""A canary, what an adapter is built from, and recorders around everything it may leak to."""

import itertools
import math
import re
import secrets
import sys
import uuid
from contextlib import ExitStack

import numpy as np
from support.contract._doubles import Echo, QuotingLedger
from support.contract._reading import text_of, window
from support.contract._sources import Console, Logs, Warnings, installed
from support.contract.openai_server import OpenAIServer

import dp_middleware as dp
from dp_middleware.models.trust import Location
from dp_middleware.privacy.ledger.ledger import PrivacyLedger

SUBJECT = "user"
_WORDS = tuple(f"w{number}x" for number in range(50))
_RELEASED = re.compile("|".join(rf"\b{word}\b" for word in _WORDS))
_LENGTH = 6  # words of a private text
_DIMENSIONS = 6
_EPSILON = 4.0  # nats per token
_PROXY = "proxy.localhost"
_TOO_LITTLE = 1e-6  # nats: less than a token costs


class Probe:
    """``with Probe(folder) as probe``: all sources are recorded until the end.

    What frameworks keep for their process is changed inside the block, so one probe at a time.

    Args:
        folder: For ledgers.
        captured: ``capsys.readouterr`` where a fixture opens the probe; redirected otherwise.

    Attributes:
        canary: A word that is in no vocabulary and different in every probe.
        private_text: A text of words that all begin with it, always the same.
        words: The vocabulary, public: a release consists of these.
        remote: The model outside: nothing private may arrive there.
        local: The model inside, for extraction: it answers with the raw document.
        extractor: The same as a function, declared local: it fails when ``local`` is to fail.
    """

    listens = True
    """Whether anything is recorded."""

    def __init__(self, folder, *, captured=None):
        self.canary, self.words = f"zxq{secrets.token_hex(4)}qxz", _WORDS
        self.private_text = " ".join(f"{self.canary}{number}" for number in range(_LENGTH))
        self.remote, self.local = OpenAIServer(), OpenAIServer(mode="echo")
        self.extractor = Echo(self.local)
        self._proxy = None  # in front of the local model
        self._key = secrets.token_bytes(32)
        self._secret = f"secret{secrets.token_hex(4)}"  # stands for a password in a ledger's URL
        self._url = f"sqlite:///{folder / self._secret}.db"
        self._ledger = PrivacyLedger(self._url, budget=math.inf)
        self._numbers = itertools.count()
        self._recorders = _recorders(captured) if self.listens else []
        self._open = ExitStack()

    def __enter__(self):
        for each in (self.remote, self.local):
            self._open.enter_context(each)
        for recorder in self._recorders:
            self._open.enter_context(recorder.recording())
        return self

    def __exit__(self, *details):
        self._open.__exit__(*details)

    # what an adapter is built from ---------------------------------------------------------------

    def session(self, **options):
        """A session on :meth:`sanitizer`; options as for ``dp.Session``."""
        return dp.Session(self.sanitizer(), **{"key": self._key, **options})

    def sanitizer(self):
        """On a space of 50 words, charging the probe's ledger."""
        vectors = np.random.default_rng(0).normal(size=(len(_WORDS), _DIMENSIONS))
        space = dp.EmbeddingSpace(dp.Vocabulary(_WORDS), vectors)
        mechanism = dp.TokenExponential(epsilon=_EPSILON)
        return dp.Sanitizer(mechanism, space, ledger=self._ledger, subject=SUBJECT)

    def new_text(self):
        """A text with the canary that was not given before."""
        return f"{self.private_text} {self.canary}x{next(self._numbers)}"

    def new_id(self):
        """An event id that was not given before."""
        return str(uuid.uuid4())

    def chat_openai(self, server=None, **settings):
        """LangChain's ``ChatOpenAI`` on a server, default the remote one."""
        from langchain_openai import ChatOpenAI

        url = (server or self.remote).url
        given = {**_CLIENT, **_http_clients(self._proxy_of(server)), **settings}
        return ChatOpenAI(model="gpt-4o-mini", base_url=url, **given)

    def openai_embeddings(self, server=None, **settings):
        """LangChain's ``OpenAIEmbeddings`` on a server, default the remote one."""
        from langchain_openai import OpenAIEmbeddings

        url = (server or self.remote).url
        text = {"check_embedding_ctx_length": False}  # it sends token ids otherwise
        given = {**text, **_CLIENT, **_http_clients(), **settings}
        return OpenAIEmbeddings(model="embedder", base_url=url, **given)

    def llama_openai(self, server=None, **settings):
        """LlamaIndex's ``OpenAI`` on a server, default the remote one."""
        from llama_index.llms.openai import OpenAI

        url, proxy = (server or self.remote).url, self._proxy_of(server)
        names = {"http_client": "http_client", "http_async_client": "async_http_client"}
        clients = _http_clients(proxy).items() if proxy else ()
        given = {**_CLIENT, **{names[name]: each for name, each in clients}, **settings}
        return OpenAI(model="gpt-4o-mini", api_base=url, **given)

    @property
    def config(self):
        """For LangChain's calls: handlers that record."""
        return {"callbacks": [handler for each in self._recorders for handler in each.handlers]}

    # faults --------------------------------------------------------------------------------------

    def exhaust_budget(self):
        """Sessions made from now on cannot pay for a token."""
        self._ledger = PrivacyLedger(self._url.replace(".db", "-spent.db"), budget=_TOO_LITTLE)

    def break_ledger(self):
        """Sessions made from now on fail with errors that quote the private text."""
        self._ledger = QuotingLedger(self.private_text)

    def put_proxy_before_local(self):
        """Clients of the local model made from now on pass through one that is not on loopback."""
        self._proxy = f"http://{_PROXY}:{self.remote.port}"
        self.extractor.location = Location(proxies=frozenset({_PROXY}))

    def _proxy_of(self, server):
        return self._proxy if server is self.local else None

    # what happened -------------------------------------------------------------------------------

    @property
    def charges(self):
        """Everything that was charged, one row per release; none from a broken ledger."""
        if isinstance(self._ledger, QuotingLedger):
            return []
        return [row for row in self._ledger.rows(SUBJECT) if row.event == "charge"]

    @property
    def sources(self):
        """Everything that is recorded: what of the frameworks is installed."""
        return frozenset(self.records())

    def records(self):
        """Source -> all text that was recorded there until now."""
        return {k: text for each in self._recorders for k, text in each.read().items()}

    def drawn(self, value):
        """The released words in a value, in order; ids and addresses around them left out."""
        return _RELEASED.findall(text_of(value))

    def released(self, value):
        """Whether a value holds released words."""
        return bool(self.drawn(value))

    def leaks(self, **values):
        """Where the canary is: in a record, in a remote request, or in a value given by name.

        In any case, and a half of it is enough, as when a tokenizer or a limit has cut it.
        """
        texts = {**self.records(), "remote": text_of(self.remote.raw)}
        texts.update({name: text_of(value) for name, value in values.items()})
        found = ((name, text, self._seen_in(text)) for name, text in texts.items())
        return [f"{name}: ...{window(text, seen)}..." for name, text, seen in found if seen]

    def secrets_in(self, text):
        """Names of the secrets that a component shows which should show none."""
        known = {
            "canary": [self._seen_in(text) or self.canary],
            "session key": [self._key.hex(), repr(self._key)[2:-1]],
            "ledger URL": [self._secret],
            "API key": [_CLIENT["api_key"]],
        }
        return [name for name, spellings in known.items() if any(s in text for s in spellings)]

    def secrets_in_pickle(self, data):
        """As :meth:`secrets_in`, without the addresses and keys by which clients reconnect."""
        canary = ["canary"] if self._seen_in(data.decode("latin-1")) else []
        return canary + (["session key"] if self._key in data else [])

    def _seen_in(self, text):
        """The canary or a half of it, as it is spelled in a text; empty if it is not there."""
        half = len(self.canary) // 2
        spellings = [self.canary, self.canary[:half], self.canary[half:]]
        found = re.search("|".join(spellings), text, re.IGNORECASE)
        return found[0] if found else ""


_CLIENT = {"api_key": "sk-testing-a1b2c3", "max_retries": 0}


def _http_clients(proxy=None):
    """Without certificates, which take a tenth of a second to load and are of no use here."""
    import openai

    return {
        "http_client": openai.DefaultHttpxClient(verify=False, proxy=proxy),
        "http_async_client": openai.DefaultAsyncHttpxClient(verify=False, proxy=proxy),
    }


def _recorders(captured):
    found = [Console(captured), Logs(), Warnings()]
    if installed("langchain_core"):
        from support.contract._langchain import LangChainRecorder

        found.append(LangChainRecorder())
    if installed("llama_index.core"):
        from support.contract._llama_index import LlamaIndexRecorder

        found.append(LlamaIndexRecorder())
    if "agents.tracing" in sys.modules:  # it takes long to load
        from support.contract._openai_agents import OpenAIAgentsRecorder

        found.append(OpenAIAgentsRecorder())
    return found
