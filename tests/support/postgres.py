"""A real PostgreSQL on a socket of its own, started at first use and stopped at the end.

Found on PATH, among the system's packages or in the package ``pgserver``. PostgreSQL refuses to
run as root, so a root's server runs as an unprivileged user.
"""

import atexit
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

_UNPRIVILEGED = ("postgres", "nobody")
_START_SECONDS = 30
_STOP_SECONDS = 10


def new_database():
    """URL of an empty database of its own; skips the test where there is no PostgreSQL.

    With ``REQUIRE_POSTGRESQL`` in the environment, as in continuous integration, it fails.
    """
    without = pytest.fail if os.environ.get("REQUIRE_POSTGRESQL") else pytest.skip
    if find_spec("psycopg") is None:
        without("psycopg is not installed")
    import psycopg

    folder, reason = _server()
    if folder is None:
        without(reason)
    name = f"ledger_{uuid.uuid4().hex}"
    with psycopg.connect(_conninfo(folder), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return f"postgresql+psycopg://postgres@/{name}?host={folder}"


@cache
def _server():
    """The socket's folder, or ``None`` and why there is none."""
    binaries, user = _binaries(), _user()
    if binaries is None:
        return None, "no PostgreSQL: neither initdb on PATH, nor a system one, nor pgserver"
    if user is None:
        return None, f"PostgreSQL refuses root and there is no user {' or '.join(_UNPRIVILEGED)}"
    folder = tempfile.mkdtemp(prefix="pg-", dir="/tmp")  # a socket's path is short
    if user:
        os.chown(folder, user["user"], user["group"])
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    initdb = [f"{binaries}/initdb", "-D", f"{folder}/data", "-U", "postgres"]
    initdb += ["--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync"]
    done = subprocess.run(initdb, cwd=folder, capture_output=True, text=True, **user)
    if done.returncode:
        return None, f"initdb failed: {done.stderr.strip().splitlines()[-1:]}"
    command = [f"{binaries}/postgres", "-D", f"{folder}/data", "-k", folder]
    for option in ("listen_addresses=", "max_connections=64", "fsync=off"):
        command += ["-c", option]  # clients are killed, never the machine
    with Path(folder, "log").open("wb") as log:
        server = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, **user)
    atexit.register(_stop, server)
    return (folder, "") if _ready(folder, server) else (None, "PostgreSQL did not start")


def _binaries():
    found = shutil.which("initdb")
    candidates = [Path(found).resolve().parent] if found else []
    candidates += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    bundled = find_spec("pgserver")
    if bundled is not None and bundled.origin:
        candidates.append(Path(bundled.origin).parent / "pginstall" / "bin")
    return next((each for each in candidates if (each / "postgres").is_file()), None)


def _user():
    """How a child becomes another user; empty: no need; ``None``: no way."""
    if os.geteuid() != 0:
        return {}
    known = [each for each in pwd.getpwall() if each.pw_name in _UNPRIVILEGED]
    for found in sorted(known, key=lambda each: _UNPRIVILEGED.index(each.pw_name)):
        return {"user": found.pw_uid, "group": found.pw_gid, "extra_groups": []}
    return None


def _ready(folder, server):
    import psycopg

    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and server.poll() is None:
        with suppress(psycopg.OperationalError):
            psycopg.connect(_conninfo(folder)).close()
            return True
        time.sleep(0.05)
    return False


def _stop(server):
    server.send_signal(signal.SIGQUIT)  # at once: the data is thrown away
    server.wait(_STOP_SECONDS)


def _conninfo(folder):
    return f"host={folder} user=postgres dbname=postgres"
