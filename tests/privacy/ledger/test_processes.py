"""Threads, processes and killed workers on one ledger: never overdrawn, nothing lost."""

import json
import os
import subprocess
import sys

import pytest
from support import ledger_workers
from support.ledger_workers import AT_ONCE, EPSILON, SUBJECT

from dp_middleware.privacy.ledger.ledger import PrivacyLedger

BUDGETED = 1_000
PROCESSES = 8
THREADS = 64
KILLS = 200
KILLED_BUDGET = 300  # so that the last workers find it exhausted


def driven(command, url, *numbers):
    """The workers' report, from a process of their own."""
    script = [sys.executable, "-W", "error", ledger_workers.__file__, command, url]
    done = subprocess.run(
        [*script, *map(str, numbers)],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_crowd_spends_the_budget_and_no_more(url):
    ledger = PrivacyLedger(url, budget=BUDGETED * EPSILON)
    report = driven("crowd", url, PROCESSES, THREADS)
    assert report["codes"] == [0] * PROCESSES
    assert sum(report["granted"]) == BUDGETED
    assert report["refused"] == [THREADS] * PROCESSES
    assert ledger.spent(SUBJECT) == pytest.approx(BUDGETED * EPSILON, abs=1e-9)
    assert ledger.remaining(SUBJECT) == 0
    assert ledger.verify().charges == BUDGETED


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_killed_worker_loses_no_charge(url):
    """What a worker was told is recorded; at most the charges under way are recorded unseen."""
    ledger = PrivacyLedger(url, budget=KILLED_BUDGET * EPSILON)
    report = driven("killed", url, KILLS)
    assert len(report["unseen"]) == KILLS
    assert min(report["unseen"]) >= 0
    assert all(
        unseen <= AT_ONCE * number for number, unseen in enumerate(report["unseen"], start=1)
    )
    assert report["over"] == 0
    assert report["released"] > KILLS / 4
    audit = ledger.verify()
    assert audit.charges == report["released"] + report["unseen"][-1]
    assert audit.charges <= KILLED_BUDGET
