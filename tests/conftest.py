"""Settings for all tests: no time limits on examples, files in memory, seeds, no certificates."""

import gc
import os
import random
import secrets
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import settings

# Continuous integration tries the same examples every time, a developer other ones.
settings.register_profile("project", deadline=None, derandomize="CI" in os.environ, print_blob=True)
settings.load_profile("project")

if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ["OMP_NUM_THREADS"] = "1"  # one thread a worker, or they wait for each other

os.environ["HF_HUB_OFFLINE"] = "1"

MEMORY = Path("/dev/shm")
ROOM = 2 << 30  # bytes; a container may have only a few there

pytest_plugins = ["support.servers", "support.browser"]


def pytest_configure(config):
    """Files in memory: ledgers wait for the disk at every charge, though no machine loses power.

    No certificates: every client of a model reads all of them, and only the network needs them.
    Fewer searches for garbage: they took a tenth of the time.
    """
    gc.set_threshold(5_000, 20, 50)
    if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ROOM:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))
    if "DP_MIDDLEWARE_CACHE" not in os.environ:  # the workers of pytest-xdist inherit it
        folder = tempfile.mkdtemp(prefix="dp-middleware-tests-")
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
        os.environ["DP_MIDDLEWARE_CACHE"] = folder
    if "not network" in config.option.markexpr:
        os.environ["SSL_CERT_DIR"] = os.environ["DP_MIDDLEWARE_CACHE"]  # which holds none
        with suppress(ImportError):
            one_certificate(config)


def one_certificate(config):
    """For clients that do not look at the environment."""
    import certifi

    first, end, _ = Path(certifi.where()).read_text().partition("-----END CERTIFICATE-----")
    file = tempfile.NamedTemporaryFile("w", suffix=".pem")  # noqa: SIM115
    print(first + end, file=file, flush=True)
    config.add_cleanup(file.close)
    certifi.where = lambda: file.name


def pytest_collection_finish():
    """No search for garbage walks through all that the imported packages hold."""
    gc.freeze()


@pytest.fixture(autouse=True)
def seeded_pseudonyms(request):
    """Each test draws pseudonyms of its own, the same in every run.

    A law that avoided the private value would tell it, so once in a million runs "Maria Lopez" goes
    out as "Maria Lopez", as it should. Nothing else is drawn with this function.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(secrets, "randbelow", random.Random(request.node.nodeid).randrange)
        yield
