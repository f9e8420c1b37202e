"""``dp-middleware ledger`` shows, exports and verifies, and changes nothing."""

import json
import math
import sqlite3

import pytest
from support.certified import certified
from support.commands import run

from dp_middleware.privacy import MetricDP, NoGuarantee, PureDP
from dp_middleware.privacy.ledger.ledger import PrivacyLedger


def ledger(verb, url, *arguments, code=0):
    return run("ledger", verb, "--ledger", url, *arguments, code=code)


@pytest.fixture
def url(tmp_path):
    book = PrivacyLedger(f"sqlite:///{tmp_path}/l.db", budget=math.inf)
    book.charge("anna", certified(PureDP(epsilon=0.5), 0.5), 4)
    book.charge("ben", certified(MetricDP(epsilon=2.0), 6.0), 4)
    book.set_budget("anna", math.inf)
    book.charge("carl, the third", certified(NoGuarantee(reason="none"), math.inf), 1)
    book.close()
    return f"sqlite:///{tmp_path}/l.db"


def test_show(url):
    found = json.loads(ledger("show", url, "--json").stdout)
    assert (found["budget"], found["metric_budget"], found["window"]) == ("inf", "inf", None)
    anna, ben, carl = found["subjects"]
    assert (anna["charged"], anna["events"], anna["remaining"]) == (0.5, 2, "inf")
    assert (ben["charged"], ben["metric"]) == (0, {"euclidean@plane": 2.0})
    assert (carl["charged"], carl["remaining"], len(carl["infinite_by"])) == ("inf", 0, 32)
    table = ledger("show", url, "--subject", "anna").stdout
    assert "anna" in table
    assert "inf" in table
    assert "ben" not in table


def test_export(url):
    rows = [json.loads(line) for line in ledger("export", url).stdout.splitlines()]
    assert [row["subject"] for row in rows] == ["anna", "anna", "ben", "carl, the third"]
    assert sum(row["epsilon"] for row in rows) == 5 * 10**11


def test_verify(url, tmp_path):
    found = json.loads(ledger("verify", url, "--json").stdout)
    assert found["ok"]
    assert (found["charges"], found["epsilon"]) == (3, 5 * 10**11)
    assert "intact: " in ledger("verify", url).stdout
    connection = sqlite3.connect(tmp_path / "l.db")
    connection.execute("DROP TRIGGER dp_releases_DELETE")
    connection.execute("DELETE FROM dp_releases WHERE subject = 'anna' AND number = 1")
    connection.commit()
    connection.close()
    assert "missing row" in ledger("verify", url, code=3).stderr
