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
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

_UNPRIVILEGED = ("postgres", "nobody")
_START_SECONDS = 30
_STOP_SECONDS = 10


def new_database() -> str:
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
def _server() -> tuple[str | None, str]:
    """The socket's folder, or ``None`` and why there is none."""
    binaries = _binaries()
    if binaries is None:
        return None, "no PostgreSQL: neither initdb on PATH, nor a system one, nor pgserver"
    user = _user()
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
    command += ["-c", "listen_addresses=", "-c", "max_connections=64"]
    command += ["-c", "fsync=off"]  # clients are killed, never the machine
    with Path(folder, "log").open("wb") as log:
        server = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, **user)
    atexit.register(_stop, server)
    return (folder, "") if _ready(folder, server) else (None, "PostgreSQL did not start")


def _binaries() -> Path | None:
    """The folder of ``initdb`` and ``postgres``."""
    found = shutil.which("initdb")
    candidates = [Path(found).resolve().parent] if found else []
    candidates += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    bundled = find_spec("pgserver")
    if bundled is not None and bundled.origin:
        candidates.append(Path(bundled.origin).parent / "pginstall" / "bin")
    return next((each for each in candidates if (each / "postgres").is_file()), None)


def _user() -> dict[str, Any] | None:
    """How a child becomes another user; empty: no need; ``None``: no way."""
    if os.geteuid() != 0:
        return {}
    for name in _UNPRIVILEGED:
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": found.pw_uid, "group": found.pw_gid, "extra_groups": []}
    return None


def _ready(folder: str, server: subprocess.Popen[bytes]) -> bool:
    import psycopg

    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and server.poll() is None:
        try:
            psycopg.connect(_conninfo(folder)).close()
        except psycopg.OperationalError:
            time.sleep(0.05)
        else:
            return True
    return False


def _stop(server: subprocess.Popen[bytes]) -> None:
    server.send_signal(signal.SIGQUIT)  # at once: the data is thrown away
    server.wait(_STOP_SECONDS)


def _conninfo(folder: str) -> str:
    return f"host={folder} user=postgres dbname=postgres"
