"""No function or class of the host is replaced, whatever is called: its process stays as it was."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("langchain")
pytest.importorskip("llama_index.core")

HEAD = """
import asyncio, importlib, sys, types
from pathlib import Path
sys.path.insert(0, sys.argv[2])
NAMES = '''logging threading _thread asyncio.base_events asyncio.tasks asyncio.events
concurrent.futures.thread concurrent.futures.process concurrent.futures._base
multiprocessing.process multiprocessing.pool urllib.request contextvars warnings gc
httpx httpx._client requests.sessions aiohttp.client urllib3.poolmanager openai openai._client
openai._base_client openai.resources.chat.completions.completions langsmith.run_helpers
langsmith.client langchain_core.callbacks.manager langchain_core.callbacks.base
langchain_core.runnables.base langchain_core.runnables.config langchain_core.tracers.context
langchain_core.language_models.chat_models langchain_core.retrievers langchain_core.tools.base
langgraph.pregel langchain.agents.factory llama_index_instrumentation.dispatcher
llama_index_instrumentation.span_handlers.base llama_index.core.callbacks.base
llama_index.core.base.base_query_engine llama_index.core.base.base_retriever
llama_index.core.llms.llm llama_index.core.llms.function_calling
llama_index.core.ingestion.pipeline llama_index.core.base.embeddings.base'''.split()
KINDS = (types.FunctionType, types.BuiltinFunctionType, types.MethodDescriptorType, property,
         classmethod, staticmethod, type, types.WrapperDescriptorType)

def is_code(value):
    return isinstance(value, KINDS) or hasattr(value, "__wrapped__")

def attributes():
    found = {}
    for name in NAMES:
        module = importlib.import_module(name)
        owners = [module, *(x for x in list(vars(module).values()) if isinstance(x, type))]
        for owner in owners:
            for key, value in list(vars(owner).items()):
                if is_code(value):
                    found[(name, getattr(owner, "__qualname__", ""), key)] = value
    return found

def changed(before):
    after = attributes()
    return sorted(str(key) for key in before.keys() & after.keys() if before[key] is not after[key])

import dp_middleware as dp
from support.contract import Probe
import langchain_dp_middleware, llama_index_dp_middleware, openai_agents_dp_middleware
before = attributes()
assert len(before) > 2000, len(before)
"""

CALLS = """
import openai
from langchain.agents import create_agent
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_dp_middleware import *
from langchain_openai import ChatOpenAI
from llama_index.core import VectorStoreIndex
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.schema import Document
from llama_index.llms.openai import OpenAI
from llama_index_dp_middleware import DPLLM, DPQueryEngine, unrecorded
from dp_middleware.frameworks import embedding_service
from support.entities import detector
from support.gateway import running
POLICY = {"default": {"mode": "pseudonyms"}}

with Probe(Path(sys.argv[1])) as probe:
    sanitizer, session, text = probe.sanitizer(), probe.session(), probe.private_text
    sanitizer.release(text)
    session.release("a", "user", text)
    names = dp.Pseudonyms(detector=detector()).session()
    names.release("b", "user", "I am Mirela Tamburi.")
    extractors = [
        dp.chat_model(openai.OpenAI(base_url=probe.local.url, api_key="k"), "m"),
        dp.chat_model(openai.AsyncOpenAI(base_url=probe.local.url, api_key="k"), "m"),
        ChatOpenAI(model="m", api_key="k", base_url=probe.local.url),
        OpenAI(model="gpt-4o-mini", api_key="k", api_base=probe.local.url),
        dp.chat_model(lambda messages: "answer", local=True),
    ]
    for extractor in extractors:
        infer = dp.InferDPT(sanitizer, remote=lambda messages: "draft", extractor=extractor)
        infer.run(text)
        list(infer.stream(text))
        asyncio.run(infer.arun(text))
    (PrivateHead(session) | probe.chat_openai()).invoke(text)
    list(DPChatModel(session, probe.chat_openai()).stream(text))
    store = InMemoryVectorStore(DeterministicFakeEmbedding(size=4))
    store.add_texts(["w1x"], ids=["a"])
    DPRetriever(session, store.as_retriever()).invoke(text)
    embedding_service(DeterministicFakeEmbedding(size=4)).encode(["w1x"])
    embedding_service(MockEmbedding(4)).encode(["w1x"])
    agent = create_agent(probe.chat_openai(), middleware=[DPAgentMiddleware(session)])
    with untraced():
        agent.invoke({"messages": [("user", text)]})
    with unrecorded():
        index = VectorStoreIndex.from_documents([Document(text=text)], embed_model=MockEmbedding(4))
    inner = index.as_query_engine(llm=probe.llama_openai())
    engine = DPQueryEngine(
        session, inner, retriever=index.as_retriever(), extractor=extractors[3]
    )
    engine.query(text)
    DPLLM(session, probe.llama_openai()).complete(text)
    with running(policies=POLICY) as gateway:
        assert gateway.chat("I am Mirela Tamburi.").status_code == 200
print("changed", *changed(before))
import logging
handle = logging.Logger.handle
logging.Logger.handle = lambda *args: handle(*args)
print("changed", *changed(before))
"""


def test_nothing_is_replaced_by_any_kind_of_call_and_what_is_replaced_is_found(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", HEAD + CALLS, str(tmp_path), str(Path(__file__).parent)],
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    last = ["changed", "changed ('logging', 'Logger', 'handle')"]
    assert done.stdout.splitlines()[-2:] == last
