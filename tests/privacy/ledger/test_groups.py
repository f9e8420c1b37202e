"""Charges that wait at the same time are committed together: each on its own terms, or none."""

import os
import time
from concurrent.futures import Future, ThreadPoolExecutor, wait
from types import SimpleNamespace

import pytest
import sqlalchemy as sa
from hypothesis import given, settings, strategies as st
from support.certified import certified

from dp_middleware.errors import BudgetExhausted, LedgerError
from dp_middleware.privacy import PureDP
from dp_middleware.privacy.ledger._database import Job, Queue
from dp_middleware.privacy.ledger.ledger import PrivacyLedger

CERTIFICATE = certified(PureDP(epsilon=1.0), 1.0)


@pytest.fixture
def threads():
    with ThreadPoolExecutor(64) as pool:
        yield pool


def at_once(ledger, threads, subjects) -> list[Future]:
    """Charges that have all come before the first is looked at, in this order."""
    charges = []
    with ledger._database._locks["write"]:
        for count, subject in enumerate(subjects, start=1):
            charges.append(threads.submit(ledger.charge, subject, CERTIFICATE, 1))
            while len(ledger._database._queue.waiting) < count:
                time.sleep(0.0005)
    return charges


def test_all_that_wait_are_committed_at_once_in_their_order_but_what_does_not_fit(url, threads):
    ledger, commits = PrivacyLedger(url, budget=3), []
    sa.event.listen(ledger._database._engine, "commit", commits.append)
    charges = at_once(ledger, threads, ["anna", "ben"] * 3 + ["anna", "cleo"])
    refused = [isinstance(each.exception(), BudgetExhausted) for each in charges]
    assert refused == [False] * 6 + [True, False]
    assert [each.result().number for each in charges[:6]] == [1, 1, 2, 2, 3, 3]
    assert len(commits) == 1
    assert ledger.verify().charges == 7


def test_a_failed_commit_is_the_failure_of_all(url, threads, monkeypatch):
    """Also of those that were refused, since what filled the budget is not recorded."""
    ledger = PrivacyLedger(url, budget=3)

    def fail(_):
        raise sa.exc.OperationalError("statement", {}, Exception("zanzibar"))

    with monkeypatch.context() as patch:
        patch.setattr(ledger._database._engine.dialect, "do_commit", fail)
        charges = at_once(ledger, threads, ["anna"] * 5)
        wait(charges)
    for each in charges:
        with pytest.raises(LedgerError, match="nothing may be released") as caught:
            each.result()
        assert "zanzibar" not in str(caught.value)
    assert ledger.verify().charges == 0
    assert ledger.charge("anna", CERTIFICATE, 1).number == 1


def test_an_interrupted_leader_leaves_nobody_waiting(url, threads, monkeypatch):
    """Its own thread sees the interruption, all others a failure."""
    ledger = PrivacyLedger(url, budget=9)

    def interrupt(_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ledger._database._engine.dialect, "do_commit", interrupt)
        errors = [type(each.exception(10)) for each in at_once(ledger, threads, ["anna"] * 5)]
    assert sorted(errors, key=str) == [KeyboardInterrupt] + 4 * [LedgerError]
    assert ledger.charge("anna", CERTIFICATE, 1).number == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_fork_does_not_write_what_its_parents_threads_wait_for(url, threads):
    ledger = PrivacyLedger(url, budget=100)
    with ledger._database._locks["write"]:
        charges = [threads.submit(ledger.charge, "anna", CERTIFICATE, 1) for _ in range(8)]
        while len(ledger._database._queue.waiting) < 8:
            time.sleep(0.0005)
        child = os.fork()
        if not child:
            try:
                ledger._database._locks["write"].release()
                os._exit(ledger.charge("ben", CERTIFICATE, 1).number)
            finally:
                os._exit(99)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    assert {each.result().number for each in charges} == set(range(1, 9))
    assert ledger.verify().charges == 9


@settings(max_examples=10, deadline=None)
@given(st.lists(st.integers(1, 4), min_size=16, max_size=60), st.data())
def test_threads_fill_a_budget_to_its_brim_and_never_further(tmp_path_factory, costs, data):
    """Whatever is refused would not have fit: it is larger than what is left at the end."""
    budget = data.draw(st.integers(1, sum(costs)))
    ledger = PrivacyLedger(f"sqlite:///{tmp_path_factory.mktemp('l')}/l", budget=budget)
    prices = {cost: certified(PureDP(epsilon=float(cost)), float(cost)) for cost in costs}
    with ThreadPoolExecutor(len(costs)) as pool:
        charges = [pool.submit(ledger.charge, "anna", prices[cost], 1) for cost in costs]
    refused = [cost for cost, each in zip(costs, charges, strict=True) if each.exception()]
    spent = sum(costs) - sum(refused)
    assert all(isinstance(each.exception(), BudgetExhausted | None) for each in charges)
    assert spent <= budget < spent + min(refused, default=budget + 1)
    assert (ledger.spent("anna"), ledger.verify().charges) == (spent, len(costs) - len(refused))
    ledger.close()


def test_who_is_interrupted_while_it_waits_holds_up_nobody(threads):
    """Whether it is its turn already or not; what it waited for is not done."""
    queue, done = Queue(), []

    def work(job):
        def write():
            while queue.waiting:
                each = queue.waiting.popleft()
                done.append(each.subject)
                each.is_done = True
                each.turn.release()

        queue.await_turn(job, write)

    def interrupt():
        raise KeyboardInterrupt

    for subject in "ab":
        job = Job(subject, None)
        job.turn = SimpleNamespace(acquire=interrupt, release=lambda: None)
        with pytest.raises(KeyboardInterrupt):
            work(job)
    others = [threads.submit(work, Job(subject, None)) for subject in "cd"]
    wait(others)
    assert sorted(done) == ["c", "d"]
    assert not queue.waiting
