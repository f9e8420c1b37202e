"""asyncio's debug mode logs tasks, futures and what is lost of them: no private answer is there."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

pytest.importorskip("langchain_core")
pytest.importorskip("llama_index.core")

SCRIPT = """
import asyncio, gc, logging, sys, time
from contextlib import suppress
from pathlib import Path
import dp_middleware as dp
from support.contract import Probe

logging.basicConfig(level=0)
probe = Probe(Path(sys.argv[1]))
probe.remote.__enter__()
ANSWER = f"{probe.canary} answers"

def slow(messages):
    time.sleep(0.15)
    if fate != "answers":
        raise RuntimeError(ANSWER)
    return ANSWER

async def aslow(messages):
    return await asyncio.create_task(late(messages))

async def late(messages):
    return slow(messages)

def asked():
    extractor = dp.chat_model({"sync": slow, "async": aslow}[kind], local=True)
    text, remote = probe.private_text, lambda messages: "a draft"
    if framework == "inferdpt":
        return dp.InferDPT(probe.sanitizer(), remote=remote, extractor=extractor).arun(text)
    if framework == "langchain":
        from langchain_dp_middleware import InferDPTChatModel
        return InferDPTChatModel(probe.session(), remote=remote, extractor=extractor).ainvoke(text)
    from llama_index_dp_middleware import DPQueryEngine
    from support.llama_index import index_of
    inner = index_of("w1x").as_query_engine(llm=probe.llama_openai())
    engine = DPQueryEngine(probe.session(), inner, extractor=extractor, streaming=kind == "sync")
    return read(engine.aquery(text), kind == "sync")

async def read(work, streaming):
    answer = await work
    return [x async for x in answer.async_response_gen()] and None if streaming else answer

async def main():
    asyncio.get_running_loop().slow_callback_duration = 0
    with suppress(TimeoutError, dp.ExtractorError):
        await asyncio.wait_for(asked(), 0.05 if fate == "is lost" else None)
    await asyncio.sleep(0.3 if fate == "is lost" else 0)
    gc.collect()

for framework in sys.argv[2:]:
    print("~~part~~", framework, flush=True)
    for kind in ("sync", "async"):
        for fate in ("answers", "fails", "is lost"):
            asyncio.run(main())
            gc.collect()
print("~~part~~ canary", probe.canary[::-1], flush=True)
"""
FRAMEWORKS = ("inferdpt", "langchain", "llama_index")  # in this order: the first loads no other


def test_no_part_of_a_private_answer_is_logged(tmp_path):
    """Of one that arrives, fails or is given up, from a function in a thread or a coroutine."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, tmp_path, *FRAMEWORKS],
        env={**os.environ, "PYTHONASYNCIODEBUG": "1"},
        cwd=Path(__file__).parents[1],  # where the script finds the module "support"
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout
    *parts, canary = done.stdout.split("~~part~~ ")[1:]
    assert [part.split()[0] for part in parts] == [*FRAMEWORKS]
    for part in parts:
        assert "Executing <" in part, "asyncio logged nothing"
        assert canary.split()[1][::-1][:8] not in part
