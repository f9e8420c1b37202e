"""``dp-middleware ledger`` shows, exports and verifies, and changes nothing."""

from __future__ import annotations

import csv
import io
import json
import math
import sqlite3

import pytest
from support.certified import certified
from typer.testing import CliRunner

from dp_middleware.cli.ledger import app
from dp_middleware.privacy import MetricDP, NoGuarantee, PureDP
from dp_middleware.privacy.ledger.ledger import PrivacyLedger


def run(*arguments, code=0):
    done = CliRunner().invoke(app, [str(each) for each in arguments])
    assert done.exit_code == code, done.output
    return done


@pytest.fixture
def url(tmp_path):
    ledger = PrivacyLedger(f"sqlite:///{tmp_path}/l.db", budget=math.inf)
    first = ledger.charge("anna", certified(PureDP(epsilon=0.5), 0.5), 4)
    ledger.charge("ben", certified(MetricDP(epsilon=2.0), 6.0), 4)
    ledger.record_replay("anna", first.release_id)
    ledger.charge("carl, the third", certified(NoGuarantee(reason="none"), math.inf), 1)
    ledger.close()
    return f"sqlite:///{tmp_path}/l.db"


def test_show(url):
    found = json.loads(run("show", url, "--json").stdout)
    assert (found["budget"], found["metric_budget"], found["window"]) == ("inf", "inf", None)
    anna, ben, carl = found["subjects"]
    assert (anna["spent"], anna["events"], anna["remaining"]) == (0.5, 2, "inf")
    assert (ben["spent"], ben["metric"]) == (0, {"euclidean@plane": 2.0})
    assert (carl["spent"], carl["remaining"], len(carl["infinite_by"])) == ("inf", 0, 32)
    table = run("show", url, "--subject", "anna").stdout
    assert "anna" in table
    assert "unlimited" in table
    assert "ben" not in table


def test_export(url):
    rows = [json.loads(line) for line in run("export", url).stdout.splitlines()]
    assert [row["subject"] for row in rows] == ["anna", "anna", "ben", "carl, the third"]
    assert sum(row["epsilon"] for row in rows) == 5 * 10**11
    table = list(csv.DictReader(io.StringIO(run("export", url, "--format", "csv").stdout)))
    assert [{name: str(value) for name, value in row.items()} for row in rows] == table


def test_verify(url, tmp_path):
    found = json.loads(run("verify", url, "--json").stdout)
    assert found["ok"]
    assert (found["charges"], found["replays"], found["epsilon"]) == (3, 1, 5 * 10**11)
    assert found["head"] in run("verify", url, "--head", found["head"]).stdout
    assert "rewritten" in run("verify", url, "--head", "0", code=3).stderr
    connection = sqlite3.connect(tmp_path / "l.db")
    connection.execute("DROP TRIGGER dp_releases_DELETE")
    connection.execute("DELETE FROM dp_releases WHERE subject = 'anna' AND number = 1")
    connection.commit()
    connection.close()
    assert "missing row" in run("verify", url, code=3).stderr


def test_looking_for_no_ledger_creates_none(tmp_path):
    assert "existing ledger" in run("show", f"sqlite:///{tmp_path}/l.db", code=2).stderr
    assert list(tmp_path.iterdir()) == []


def test_the_url_may_stay_out_of_the_command(url, monkeypatch):
    monkeypatch.setenv("DP_MIDDLEWARE_LEDGER", url)
    assert "intact: 3 subjects" in run("verify").stdout
