"""Many processes and threads on one ledger, and workers killed half-way; run as a script.

    python tests/support/ledger_workers.py crowd URL PROCESSES THREADS
    python tests/support/ledger_workers.py killed URL ROUNDS

A process of its own, so that forks happen where no other thread runs. Prints one JSON document.
"""

import json
import os
import random
import signal
import sys
import time
from threading import Thread

from support.certified import certified

from dp_middleware.errors import BudgetExhausted
from dp_middleware.privacy import PureDP
from dp_middleware.privacy.ledger.ledger import PrivacyLedger

EPSILON = 0.1
SUBJECT = "someone"
AT_ONCE = 4  # threads of a worker that is killed
SHORT_LIFE = 0.08  # seconds: a worker dies while it opens the ledger or within its charges

CERTIFICATE = certified(PureDP(epsilon=EPSILON), EPSILON)


def crowd(url, processes, threads):
    """Every thread charges until the budget is exhausted; what each process was granted."""
    inherited = PrivacyLedger(url)
    inherited.spent(SUBJECT)  # a connection is open at the fork
    start, go = os.pipe()
    terms = threads, start, go
    results = [_forked(_charge_all, inherited, url, number, *terms) for number in range(processes)]
    os.close(start)
    os.close(go)  # the pipe ends: all start
    found = [json.loads(_everything(pipe)) for _, pipe in results]
    codes = [os.waitpid(pid, 0)[1] for pid, _ in results]
    return {"codes": codes} | {n: [each[n] for each in found] for n in ("granted", "refused")}


def _charge_all(out, inherited, url, number, threads, start, go):
    os.close(go)
    ledger = inherited if number % 2 else PrivacyLedger(url)
    os.read(start, 1)
    granted = []
    refused = []

    def work():
        try:
            while True:
                granted.append(ledger.charge(SUBJECT, CERTIFICATE, 1).release_id)
        except BudgetExhausted as error:
            refused.append(type(error).__name__)

    workers = [Thread(target=work) for _ in range(threads)]
    for each in workers:
        each.start()
    for each in workers:
        each.join()
    assert len(set(granted)) == len(granted)
    os.write(out, json.dumps({"granted": len(granted), "refused": len(refused)}).encode())


def killed(url, rounds):
    """Kill a worker at a random point, again and again; the ledger after each."""
    lives = random.Random(4)
    released, unseen, over = 1, [], []
    inherited = PrivacyLedger(url)
    start = time.monotonic()
    pid, pipe = _forked(_charge_once, url)
    assert (os.waitpid(pid, 0)[1], _everything(pipe)) == (0, b".")
    longest = max(SHORT_LIFE, 2.5 * (time.monotonic() - start))  # longer on a busy machine
    for number in range(rounds):
        pid, pipe = _forked(_charge_for_ever, inherited if number % 2 else None, url)
        time.sleep(lives.uniform(0, longest))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        released += len(_everything(pipe))
        ledger = PrivacyLedger(url)  # opens clean
        account = ledger.account(SUBJECT)
        unseen.append(account.events - released)
        over.append(account.spent > ledger.budget or account.remaining < 0)
        if number % 20 == 0:
            ledger.verify()
        ledger.close()
    return {"released": released, "unseen": unseen, "over": sum(over)}


def _charge_once(out, url):
    PrivacyLedger(url).charge(SUBJECT, CERTIFICATE, 1)
    os.write(out, b".")


def _charge_for_ever(out, inherited, url):
    ledger = inherited or PrivacyLedger(url)

    def work():
        while True:
            try:
                ledger.charge(SUBJECT, CERTIFICATE, 1)
            except BudgetExhausted:
                time.sleep(SHORT_LIFE)
            else:
                os.write(out, b".")  # the release

    for _ in range(AT_ONCE - 1):
        Thread(target=work).start()
    work()


def _forked(work, *arguments):
    """A child that does ``work(out, *arguments)``, and the pipe that it writes to."""
    pipe, out = os.pipe()
    pid = os.fork()
    if pid:
        os.close(out)
        return pid, pipe
    status = 1
    try:
        os.close(pipe)
        work(out, *arguments)
        status = 0
    finally:
        os._exit(status)


def _everything(pipe):
    with os.fdopen(pipe, "rb") as source:
        return source.read()


if __name__ == "__main__":
    command, place, *numbers = sys.argv[1:]
    work = {"crowd": crowd, "killed": killed}[command]
    print(json.dumps(work(place, *map(int, numbers))))
