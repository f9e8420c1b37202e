"""What LangChain and LangSmith record: handlers given and global, traces sent, cached prompts."""

import os
from contextlib import contextmanager
from contextvars import ContextVar
from unittest import mock

import langsmith
from langchain_core import globals as settings
from langchain_core.caches import BaseCache
from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler
from langchain_core.tracers import context as hooks
from langsmith import run_trees, utils as langsmith_utils
from support.contract._reading import text_of
from support.contract._sources import Notes, Recorder
from support.contract.openai_server import OpenAIServer


class CallbackRecorder(BaseCallbackHandler, Notes):
    """Everything that LangChain gives to synchronous handlers."""


class AsyncCallbackRecorder(AsyncCallbackHandler, Notes):
    """Everything that LangChain gives to asynchronous handlers."""


class CacheRecorder(BaseCache, Notes):
    """Everything that LangChain asks a cache for or gives it; it never has an answer."""

    def lookup(self, prompt, llm_string):
        self.note(prompt, llm_string)

    def update(self, prompt, llm_string, return_val):
        self.note(prompt, llm_string, return_val)

    def clear(self, **kwargs):
        pass


def _noting(name):
    def method(self, *args, **kwargs):
        self.note(name, args, kwargs)

    async def amethod(self, *args, **kwargs):
        self.note(name, args, kwargs)

    setattr(CallbackRecorder, name, method)
    setattr(AsyncCallbackRecorder, name, amethod)


for _name in [name for name in dir(BaseCallbackHandler) if name.startswith("on_")]:
    _noting(_name)


class LangChainRecorder(Recorder):
    """Handlers in a config and in every call, debug output, LangSmith's client, the LLM cache."""

    def __init__(self):
        self._sync, self._asynchronous = CallbackRecorder(), AsyncCallbackRecorder()
        self._everywhere, self._cache = CallbackRecorder(), CacheRecorder()
        self._vendor = OpenAIServer()  # it takes any request and keeps its body
        self.handlers = [self._sync, self._asynchronous]

    @contextmanager
    def recording(self):
        """With LangSmith switched on by the environment, as users do."""
        with self._settings(), self._vendor, self._traced():
            yield

    def read(self):
        return {
            "LangChain callbacks": self._sync.text(),
            "LangChain async callbacks": self._asynchronous.text(),
            "LangChain global handler": self._everywhere.text(),
            "LangSmith": text_of(self._vendor.bodies),
            "LLM cache": self._cache.text(),
        }

    @contextmanager
    def _settings(self):
        """The handler of every call is a default, so that threads have it too."""
        ambient = ContextVar("dp_middleware_testing", default=self._everywhere)
        debug, cache = settings.get_debug(), settings.get_llm_cache()
        every = (ambient, True, None, None)
        hooks._configure_hooks.append(every)
        settings.set_debug(True)
        settings.set_llm_cache(self._cache)
        try:
            yield
        finally:
            settings.set_llm_cache(cache)
            settings.set_debug(debug)
            hooks._configure_hooks.remove(every)

    @contextmanager
    def _traced(self):
        at_once = {"auto_batch_tracing": False}  # no thread that outlives the server
        client = langsmith.Client(api_url=self._vendor.url, api_key="key", **at_once)
        switched_on = mock.patch.dict(os.environ, {"LANGSMITH_TRACING": "true"})
        try:
            with switched_on, mock.patch.object(run_trees, "_CLIENT", client):
                _forget_environment()
                yield
        finally:
            client.close(timeout=5)
            _forget_environment()


def _forget_environment():
    """LangSmith remembers what it read there."""
    for remembering in (langsmith_utils.get_env_var, langsmith_utils.get_tracer_project):
        remembering.cache_clear()
