"""Workers of a gateway: a dead one is replaced, and a signal ends all of them in time."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

SCRIPT = """
import asyncio, os, signal, socket
import uvicorn
from dp_middleware.errors import ParameterError
from dp_middleware.gateway.serving import Workers

def made():
    if os.path.exists(os.environ["STARTED"] + ".broken"):
        with open(os.environ["STARTED"] + ".broken", "a") as tries:
            print(os.getpid(), file=tries)
        raise ParameterError("no such settings")
    return app

async def app(scope, receive, send):
    await receive()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with open(os.environ["STARTED"], "a") as started:
        print(os.getpid(), file=started)
    if os.environ["HOW"] == "fails":
        return await send({"type": "lifespan.startup.failed"})
    while os.environ["HOW"] == "loads":
        await asyncio.sleep(1)
    await send({"type": "lifespan.startup.complete"})
    await receive()
    while os.environ["HOW"] == "hangs":
        await asyncio.sleep(1)
    await send({"type": "lifespan.shutdown.complete"})

if __name__ == "__main__":
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        options = {"factory": True, "workers": 2, "timeout_graceful_shutdown": 1}
        config = uvicorn.Config("app_of_workers:made", **options)
        Workers(config, listening, margin=1, pause=float(os.environ["PAUSE"])).run()
"""


@pytest.fixture
def supervised(tmp_path):
    """A function that starts two workers of a kind; gives their supervisor."""
    script, started = tmp_path / "app_of_workers.py", tmp_path / "started"
    script.write_text(SCRIPT)
    started.touch()
    running = []

    def start(how, pause="0.1"):
        path = os.pathsep.join([str(tmp_path), *sys.path])
        given = {"HOW": how, "PAUSE": pause, "PYTHONPATH": path, "STARTED": str(started)}
        command, environment = [sys.executable, script], {**os.environ, **given}
        running.append(subprocess.Popen(command, env=environment, stderr=subprocess.PIPE))
        wait_until(lambda: how == "fails" or len(pids_in(started)) == 2)
        return running[0], started

    yield start
    for process in running:
        for worker in workers_of(process):
            worker.kill()
        process.kill()
        process.communicate()


def pids_in(started: Path):
    return started.read_text().split()


def workers_of(process):
    children = psutil.Process(process.pid).children() if process.poll() is None else []
    return [child for child in children if "spawn_main" in str(child.cmdline())]


def wait_until(condition):
    deadline = time.monotonic() + 100
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize("how", ["loads", "hangs", "was replaced"])
def test_a_signal_ends_all_workers(supervised, how):
    """Also one that still loads, does not end by itself, or died a moment ago."""
    process, started = supervised(how)
    workers = workers_of(process)
    if how == "hangs":
        workers[0].suspend()  # as one that answers nothing; the other one hangs by itself
    if how == "was replaced":
        workers[0].suspend()
        time.sleep(0.6)  # whoever asks it now gets no answer
        workers[0].kill()
        wait_until(lambda: len(pids_in(started)) == 3)
        workers = workers_of(process)
        assert len(workers) == 2
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0
    assert not any(worker.is_running() for worker in workers)


def test_a_worker_that_cannot_start_ends_all(supervised):
    process, _ = supervised("fails")
    assert process.wait(100) == 1


@pytest.mark.parametrize("mended", ["by a later try", "by a signal"])
def test_a_worker_that_cannot_be_replaced_leaves_the_others_alone(supervised, mended):
    """Settings that are broken by now: it is tried again, until they are mended."""
    process, started = supervised("serves", "0.1" if mended == "by a later try" else "1000")
    dead, other = workers_of(process)
    broken = started.with_name("started.broken")
    broken.touch()
    dead.kill()
    wait_until(lambda: len(pids_in(broken)) == (3 if mended == "by a later try" else 1))
    assert process.poll() is None
    assert other.is_running()
    said = process.stderr.readline()
    while b"could not start" not in said:
        said = process.stderr.readline()
    assert said.strip().endswith(b"a worker could not start: no such settings")
    broken.rename(started.with_name("mended"))
    if mended == "by a signal":
        process.send_signal(signal.SIGHUP)
    wait_until(lambda: len(pids_in(started)) == 3)
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0
