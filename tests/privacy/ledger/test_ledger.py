"""The ledger adds up what was charged, keeps kinds apart and shows damage."""

import contextlib
import math
import pickle
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from decimal import Decimal
from functools import partial
from types import SimpleNamespace

import pytest
import sqlalchemy as sa
from hypothesis import given, strategies as st
from support.cases import over, refuses
from support.certified import certified
from support.spaces import random_space
from support.texts import CANARY

import dp_middleware as dp
from dp_middleware.errors import LedgerError
from dp_middleware.privacy import ApproxDP, MetricDP, NoGuarantee, PureDP
from dp_middleware.privacy.ledger._rows import integer
from dp_middleware.privacy.ledger.ledger import PrivacyLedger
from dp_middleware.privacy.releases import receipts


def pure(epsilon):
    return certified(PureDP(epsilon=epsilon), epsilon)


METRIC = certified(MetricDP(epsilon=2.0, slack=1e-6), 5.0)
INFINITE = certified(NoGuarantee(reason="supports differ"), math.inf)


@pytest.fixture
def file_url(tmp_path):
    return f"sqlite:///{tmp_path}/ledger.db"


def test_charges_add_up_per_subject_and_unit(url):
    ledger = PrivacyLedger(url, budget=10)
    assert (ledger.spent("anna"), ledger.remaining("anna")) == (0, 10)
    receipt = ledger.charge("anna", pure(0.1), 30)
    assert (receipt.number, receipt.epsilon) == (1, 0.1)
    ledger.charge("anna", pure(0.1), 30, unit="document")
    ledger.charge("ben", pure(2.5), 7)
    assert (ledger.spent("anna"), ledger.remaining("anna")) == (3.1, 6.9)
    assert ledger.spent("ben") == 2.5
    assert ledger.subjects() == ["anna", "ben"]
    first, second = ledger.rows("anna")
    assert first.release == receipt.release_id
    assert (first.unit, first.tokens, first.epsilon) == ("occurrence", 30, 10**11)
    assert (second.unit, second.tokens, second.epsilon) == ("document", 30, 3 * 10**12)
    assert ledger.verify().epsilon == 5_600_000_000_000


def test_a_release_with_a_name_is_charged_once_whoever_comes_back(url):
    name, ledger = "0123456789abcdef" * 2, PrivacyLedger(url, budget=3)
    with pytest.raises(dp.BudgetExhausted):
        ledger.charge("anna", certified(PureDP(epsilon=9.0), 9.0), 1, release=name)
    certificate = certified(PureDP(epsilon=2.0), 2.0)
    first = ledger.charge("anna", certificate, 5, release=name)
    ledger.charge("anna", certified(PureDP(epsilon=0.5), 0.5), 1)
    again = PrivacyLedger(url).charge("anna", certificate, 5, release=name)
    assert (again.release_id, again.number, again.epsilon) == (name, 1, first.epsilon)
    assert (first.remaining, again.remaining) == (1, 0.5)
    for subject, n in (("ben", 5), ("anna", 6)):
        with pytest.raises(dp.ParameterError, match="recorded under its name"):
            ledger.charge(subject, certificate, n, release=name)
    with pytest.raises(dp.ParameterError, match="32 hexadecimal"):
        ledger.charge("anna", certificate, 5, release="mine")
    assert ledger.spent("anna") == 2.5
    assert ledger.verify().charges == 2


def test_overspending_is_refused_and_not_recorded(url):
    ledger = PrivacyLedger(url, budget=1.0)
    for _ in range(3):
        ledger.charge("anna", pure(0.3), 1)
    for epsilon in (0.3, 0.299999999999):
        with pytest.raises(dp.BudgetExhausted) as refused:
            ledger.charge("anna", pure(epsilon), 1)
        assert str(refused.value) == (
            "expected a charge of at most 0.1 nats, what is left of the budget of 1 of the subject "
            "'anna'; got 0.3; nothing was recorded"
        )
    for certificate in (INFINITE, certified(PureDP(epsilon=math.inf), math.inf)):
        with pytest.raises(dp.BudgetExhausted, match="guarantees nothing"):
            ledger.charge("anna", certificate, 1)
    ledger.charge("anna", pure(0.1), 1)
    assert (ledger.spent("anna"), ledger.remaining("anna")) == (1.0, 0.0)
    assert len(ledger.rows("anna")) == 4
    ledger.verify()


@given(epsilon=st.floats(1e-9, 1e3), times=st.integers(1, 1000))
def test_a_charge_is_rounded_up_by_less_than_a_unit(epsilon, times):
    exact = Decimal(repr(epsilon)) * times * 10**12
    assert 0 <= integer(epsilon, times) - exact < 1


def test_the_terms_are_kept_and_others_refused(url):
    open_with = lambda terms: PrivacyLedger(url, **terms)  # noqa: E731
    without = ({"metric_budget": 5}, {"window": 60})
    refuses("give budget=|budget= beside", open_with, {}, *without)
    PrivacyLedger(url, budget=3, window=60)
    again = PrivacyLedger(url)
    assert (again.budget, again.metric_budget, again.window) == (3.0, 3.0, 60.0)
    PrivacyLedger(url, budget=3, window=60).charge("anna", pure(1), 1)
    others = ({"budget": 4, "window": 60}, {"budget": 3}, {"budget": 3, "window": 61})
    refuses(r"terms of the ledger, budget=3\.0", open_with, *others)
    refuses("budget= beside", open_with, *without)


def test_all_may_create_it_at_once(url):
    with ThreadPoolExecutor(8) as pool:
        opened = list(pool.map(lambda _: PrivacyLedger(url, budget=4), range(8)))
        list(pool.map(lambda ledger: ledger.charge("anna", pure(0.5), 1), opened))
    assert opened[0].remaining("anna") == 0
    assert opened[1].verify().charges == 8


WRONG_URLS = {
    "expected": ("sqlite://", "sqlite:///:memory:", "mysql://host/name", "sqlite:///{}/no/l.db"),
    "without a driver and options": (
        "sqlite:///:{}/a.db?mode=memory",
        "sqlite:///:{}/a.db?uri=true&nolock=1",
        "sqlite+aiosqlite:///{}/a.db",
    ),
    "existing ledger": ("sqlite:///{}/typo.db",),
}


def test_a_ledger_that_would_not_last_is_refused(tmp_path):
    for told, urls in WRONG_URLS.items():
        terms = {} if told == "existing ledger" else {"budget": 1}
        places = (url.format(tmp_path) for url in urls)
        refuses(told, partial(PrivacyLedger, **terms), *places)
    place, budgets = f"sqlite:///{tmp_path}/l.db", (0, -1, math.nan, 1e-13, 1e8, "3")
    refuses("budget", lambda budget: PrivacyLedger(place, budget=budget), *budgets)
    assert not list(tmp_path.iterdir())
    for wrong in ("sqlite:///zanzibar.db", 3):
        with pytest.raises(dp.ParameterError, match=r"ledger=dp\.PrivacyLedger\(") as caught:
            dp.Sanitizer(dp.SanText(epsilon=1.0), random_space(5), ledger=wrong, subject="anna")
        assert "zanzibar" not in str(caught.value)


def test_bad_charges_are_refused(file_url):
    ledger = PrivacyLedger(file_url, budget=1)
    refuses("expected", lambda tokens: ledger.charge("anna", pure(0.1), tokens), 0, -3, 1.5)
    refuses("unit", lambda unit: ledger.charge("anna", pure(0.1), 1, unit=unit), "subject")
    refuses("epsilon >= 0", lambda e: ledger.charge("anna", pure(e), 1), -1.0, math.nan)
    delta = certified(ApproxDP(epsilon=0.1, delta=1e-6), 0.1)
    with pytest.raises(dp.IncompatibleGuarantees, match="delta"):
        ledger.charge("anna", delta, 1)
    names = ("", " ", "\u3000\n", "a\nb", "a\0b", "a\u200bb", 3, None)
    for call in (ledger.spent, ledger.rows, lambda name: ledger.charge(name, pure(1), 1)):
        refuses("subject= of printable characters", call, *names)
    assert ledger.subjects() == []


@pytest.mark.parametrize("metric_budget", [None, 5, math.inf])
def test_metric_charges_have_a_column_and_a_budget_of_their_own(url, metric_budget):
    """Of the same number unless told otherwise; no limit must be asked for, and stays."""
    terms = {} if metric_budget is None else {"metric_budget": metric_budget}
    ledger = PrivacyLedger(url, budget=5, **terms)
    ledger.charge("anna", pure(4.5), 1)  # takes nothing from the other column
    assert ledger.charge("anna", METRIC, 2, unit="document").epsilon == 0
    ledger.charge("anna", replace(METRIC, space="sphere"), 1)
    account = ledger.account("anna")
    assert (account.spent, account.remaining) == (4.5, 0.5)
    assert account.metric == {"euclidean@plane": 4.0, "euclidean@sphere": 2.0}
    rows = ledger.rows("anna")
    assert [(row.epsilon, row.slack) for row in rows] == [
        (45 * 10**11, 0),
        (0, 2 * 10**6),
        (0, 10**6),
    ]
    again = PrivacyLedger(url)
    assert again.metric_budget == (metric_budget or 5)
    if metric_budget == math.inf:
        again.charge("anna", METRIC, 10**6, unit="document")
        with pytest.raises(dp.ParameterError, match=r"metric_budget=inf; got .*budget=5\.0"):
            PrivacyLedger(url, budget=5)
    else:
        with pytest.raises(dp.BudgetExhausted, match=r"at most 1 nats per unit of distance.*got 2"):
            again.charge("anna", METRIC, 1)
    ledger.verify()


@over("kind", [dp.SanText, dp.TruncatedExponential])
def test_a_metric_channel_is_charged_its_exact_epsilon(file_url, kind):
    ledger = PrivacyLedger(file_url, budget=100)
    space = random_space()
    sanitizer = dp.Sanitizer(kind(epsilon=2.0), space, ledger=ledger, subject=kind.name)
    for _ in range(3):
        sanitizer.release("w1 w2")
    exact = dp.certify(kind(epsilon=2.0), space).epsilon
    assert exact < 0.9 * 2.0 * space.diameter
    assert [row.epsilon for row in ledger.rows(kind.name)] == [integer(exact)] * 3
    account = ledger.account(kind.name)
    assert (account.spent, account.metric) == (3 * integer(exact) / 10**12, {})
    ledger.verify()


def test_infinity_absorbs_and_is_named(url):
    ledger = PrivacyLedger(url, budget=math.inf)
    ledger.charge("anna", pure(0.5), 1)
    cause = ledger.charge("anna", INFINITE, 3)
    assert cause.epsilon == math.inf
    ledger.charge("anna", INFINITE, 1)
    ledger.charge("anna", pure(0.25), 1)
    account = ledger.account("anna")
    assert (account.spent, account.remaining) == (math.inf, 0)
    assert account.infinite_by == cause.release_id
    assert ledger.rows("anna")[-1].total == 75 * 10**10  # finite charges stay readable
    assert ledger.spent("ben") == 0
    ledger.set_budget("anna", 100)
    with pytest.raises(dp.BudgetExhausted, match=cause.release_id):
        ledger.charge("anna", pure(0.25), 1)
    for _ in range(2):  # an infinite budget holds any sum, and counting ends at infinity
        ledger.charge("ben", pure(4e6), 1)
        assert ledger.remaining("ben") == math.inf
    assert ledger.spent("ben") == math.inf
    ledger.set_budget("ben", 1)
    with pytest.raises(dp.BudgetExhausted):
        ledger.charge("ben", pure(1e-9), 1)
    ledger.verify()


@pytest.mark.parametrize("window", [None, 60])
def test_a_receipt_says_what_remains(url, window):
    clock = SimpleNamespace(now=1e9)
    ledger = PrivacyLedger(url, budget=math.inf, window=window, clock=lambda: clock.now)
    ledger.set_budget("anna", 3)
    ledger.charge("anna", pure(1), 1)
    for subject, step in (
        ("anna", lambda: ledger.charge("anna", METRIC, 1)),
        ("anna", lambda: ledger.charge("anna", pure(0.5), 2, unit="document")),
        ("anna", lambda: ledger.charge("anna", pure(0.5), 1)),
        ("ben", lambda: ledger.charge("ben", pure(1), 1)),
        ("ben", lambda: ledger.charge("ben", INFINITE, 1)),
    ):
        clock.now += 25
        with receipts() as receipt:
            charged = step()
        left = ledger.account(subject).remaining
        assert receipt.remaining == charged.remaining == ledger.remaining(subject) == left


def test_a_window_rolls(url):
    clock = SimpleNamespace(now=1e9)
    ledger = PrivacyLedger(url, budget=1, window=60, clock=lambda: clock.now)
    ledger.charge("anna", pure(0.75), 1)
    clock.now += 30
    ledger.charge("anna", pure(0.25), 1)
    clock.now += 29.5
    assert ledger.remaining("anna") == 0
    with pytest.raises(dp.BudgetExhausted, match="per 60 s"):
        ledger.charge("anna", pure(0.25), 1)
    clock.now += 0.5
    assert ledger.remaining("anna") == 0.75
    ledger.charge("anna", pure(0.75), 1)
    with pytest.raises(dp.BudgetExhausted):
        ledger.charge("anna", pure(0.25), 1)
    clock.now += 1000
    assert (ledger.spent("anna"), ledger.remaining("anna")) == (1.75, 1.0)
    ledger.verify()


def test_a_clock_that_goes_back_frees_nothing_and_time_that_is_moved_is_noticed(tmp_path, file_url):
    clock = SimpleNamespace(now=1e9)
    ledger = PrivacyLedger(file_url, budget=1, window=60, clock=lambda: clock.now)
    ledger.charge("anna", pure(1), 1)
    clock.now -= 10_000
    assert ledger.remaining("anna") == 0
    with pytest.raises(dp.BudgetExhausted):
        ledger.charge("anna", pure(1), 1)
    clock.now += 10_060
    ledger.charge("anna", pure(1), 1)
    ledger.verify()
    forge(tmp_path / "ledger.db", "UPDATE dp_releases SET time = time - 1 WHERE number = 2")
    with pytest.raises(LedgerError, match="exceeded budget at row 2"):
        ledger.verify()


def test_commits_are_synchronised(url):
    asked = {"sqlite": "PRAGMA synchronous", "postgresql": "SHOW synchronous_commit"}
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT")
    if engine.name == "postgresql":
        with engine.connect() as connection:
            name = engine.url.database
            connection.exec_driver_sql(f"ALTER DATABASE {name} SET synchronous_commit = off")
    engine.dispose()
    ledger = PrivacyLedger(url, budget=1)
    found = ledger._database.read(lambda c: c.exec_driver_sql(asked[engine.name]).scalar())
    assert found in (2, "on")


def test_rows_cannot_be_changed_by_accident(url):
    PrivacyLedger(url, budget=1).charge("anna", pure(1), 1)
    engine = sa.create_engine(url)
    for statement in (
        "UPDATE dp_releases SET epsilon = 0",
        "DELETE FROM dp_releases",
        "UPDATE dp_settings SET value = '9' WHERE name = 'budget'",
    ):
        with pytest.raises(sa.exc.DBAPIError, match="append-only"), engine.begin() as connection:
            connection.exec_driver_sql(statement)
    engine.dispose()


SET = "UPDATE dp_releases SET"
DAMAGES = {
    f"{SET} epsilon = 1 WHERE number = 2": "wrong sum at row 2",
    f"{SET} total = 5 WHERE number = 2": "wrong sum at row 2",
    f"{SET} scale = 'elsewhere' WHERE number = 2": "wrong sum at row 2",
    "DELETE FROM dp_releases WHERE number = 2": "missing row at row 3",
    "DELETE FROM dp_releases WHERE number = 1": "missing row at row 2",
    f"{SET} epsilon = -1000000000000, total = 0 WHERE number = 2": "charge that cannot be at row 2",
    f"{SET} event = 'replay' WHERE number = 2": "charge that cannot be",
    f"{SET} epsilon = {9 * 10**12}, total = {10**13} WHERE number = 2": "exceeded budget at row 2",
}


def test_damage_is_noticed(tmp_path):
    for count, (damage, finding) in enumerate(DAMAGES.items()):
        ledger = PrivacyLedger(f"sqlite:///{tmp_path}/{count}.db", budget=3)
        for _ in range(3):
            ledger.charge(CANARY, pure(1), 1)
        forge(tmp_path / f"{count}.db", damage)
        with pytest.raises(LedgerError, match=f"{finding}.* of subject 1 of 1") as caught:
            ledger.verify()
        assert CANARY not in str(caught.value)


def test_a_file_of_an_earlier_version_is_read_and_charged(tmp_path, file_url):
    ledger = PrivacyLedger(file_url, budget=3)
    for _ in range(2):
        ledger.charge("anna", pure(1), 1)
    replay = "UPDATE dp_releases SET event = 'replay', epsilon = 0, total = 1000000000000"
    forge(
        tmp_path / "ledger.db",
        f"UPDATE dp_releases SET digest = '{'f' * 64}'",
        f"{replay}, replay_of = 'x' WHERE number = 2",
    )
    again = PrivacyLedger(file_url)
    again.charge("anna", pure(2), 1)
    assert [row.event for row in again.rows("anna")] == ["charge", "replay", "charge"]
    assert (again.verify().charges, again.remaining("anna")) == (2, 0)


def forge(path, *statements):
    """What someone with the file can do."""
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        for event in ("UPDATE", "DELETE"):
            connection.execute(f"DROP TRIGGER IF EXISTS dp_releases_{event}")
        for statement in statements:
            connection.execute(statement)


def test_spellings_of_a_subject_share_a_budget_and_a_subject_may_have_one_of_its_own(url):
    ledger = PrivacyLedger(url, budget=1)
    for spelt in ("Zo\u00eb", "Zoe\u0308", " Zo\u00eb", "Zoe\u0308\n", "\u3000Zo\u00eb\t"):
        ledger.charge(spelt, pure(0.2), 1)
        with pytest.raises(dp.BudgetExhausted):
            ledger.charge(spelt, pure(0.9), 1)
    for _ in range(2):
        ledger.set_budget(spelt, 2)
    with pytest.raises(dp.ParameterError, match=r"stored, 2\.0, got budget=3\.0"):
        ledger.set_budget("Zo\u00eb", 3)
    with pytest.raises(dp.BudgetExhausted):
        ledger.charge("Zo\u00eb", pure(1.5), 1)
    with pytest.raises(dp.BudgetExhausted):
        ledger.charge("ben", pure(1.5), 1)
    assert (ledger.spent(spelt), ledger.remaining(spelt)) == (1, 1)
    assert [row.event for row in ledger.rows(spelt)] == [*["charge"] * 5, "budget"]
    assert ledger.subjects() == ["Zo\u00eb"]
    ledger.verify()


@over("closed", [False, True])
@over("other", [None, "ledger", "rubbish"])
def test_a_ledger_whose_file_is_gone_or_another_charges_nothing(tmp_path_factory, other, closed):
    folder = tmp_path_factory.mktemp("ledgers")
    ledger, path = PrivacyLedger(f"sqlite:///{folder}/ledger.db", budget=1), folder / "ledger.db"
    ledger.charge("anna", pure(0.5), 1)
    if closed:
        ledger.close()
    path.rename(folder / "kept.db")
    if other == "ledger":
        PrivacyLedger(f"sqlite:///{folder}/other.db", budget=1).close()
        (folder / "other.db").rename(path)
    elif other == "rubbish":
        path.write_bytes(b"rubbish")
    for call in (lambda: ledger.charge("anna", pure(0.1), 1), lambda: ledger.remaining("anna")):
        with pytest.raises(LedgerError, match="none or another one in its place"):
            call()
    assert path.exists() == (other is not None)
    path.unlink(missing_ok=True)
    (folder / "kept.db").rename(path)
    assert ledger.remaining("anna") == 0.5
    (folder / "b.db").hardlink_to(path)  # SQLite would keep a log for each name
    for call in (lambda: ledger.account("anna"), lambda: PrivacyLedger(f"sqlite:///{folder}/b.db")):
        with pytest.raises(LedgerError, match="one name"):
            call()


def test_another_ledger_in_the_same_file_or_database_is_noticed(url):
    ledger = PrivacyLedger(url, budget=1)
    ledger.charge("anna", pure(0.5), 1)
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        for statement in ("DROP TABLE dp_releases", "DROP TABLE dp_settings"):
            connection.exec_driver_sql(statement)
        if connection.dialect.name == "postgresql":
            connection.exec_driver_sql("DROP FUNCTION dp_append_only")
    engine.dispose()
    with pytest.raises(LedgerError, match="nothing may be released"):
        ledger.charge("anna", pure(0.5), 1)
    assert PrivacyLedger(url, budget=1).spent("anna") == 0
    with pytest.raises(LedgerError, match="another one in its place"):
        ledger.charge("anna", pure(0.5), 1)


def test_a_file_that_vanishes_while_a_charge_is_written_is_noticed(tmp_path, file_url):
    path, ledger = tmp_path / "ledger.db", PrivacyLedger(file_url, budget=1)
    ledger.charge("anna", pure(0.1), 1)
    engine = ledger._database._engine
    sa.event.listen(engine, "commit", lambda _: path.rename(tmp_path / "gone.db"))
    with pytest.raises(LedgerError, match="none or another one in its place"):
        ledger.charge("anna", pure(0.1), 1)


def test_the_file_stays_the_same_in_another_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ledger = PrivacyLedger("sqlite:///l.db", budget=1)
    ledger.close()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    ledger.charge("anna", pure(1), 1)
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert (tmp_path / "l.db").stat().st_mode & 0o077 == 0


def test_a_broken_database_says_nothing_of_the_subject(tmp_path, file_url):
    ledger = PrivacyLedger(file_url, budget=1)
    forge(tmp_path / "ledger.db", "DROP TABLE dp_releases")
    with pytest.raises(LedgerError, match="nothing may be released") as caught:
        ledger.charge(CANARY, pure(1), 1)
    assert caught.value.__context__ is None
    assert CANARY not in repr(caught.value)
    ledger.close()
    (tmp_path / "ledger.db").write_bytes(b"not a database" * 1000)
    with pytest.raises(LedgerError):
        PrivacyLedger(file_url, budget=1)


def test_a_ledger_shows_no_subject_and_a_copy_is_the_same_ledger(url):
    ledger = PrivacyLedger(url, budget=1)
    receipt = ledger.charge(CANARY, pure(0.5), 1)
    shown = [ledger, receipt, ledger.account(CANARY), *ledger.rows(CANARY)]
    assert CANARY not in repr(shown)
    copy = pickle.loads(pickle.dumps(ledger))
    copy.charge(CANARY, pure(0.5), 1)
    assert ledger.remaining(CANARY) == 0
    assert (copy.budget, repr(copy)) == (ledger.budget, repr(ledger))


def test_a_sanitizer_charges_before_it_draws(file_url):
    ledger, seen = PrivacyLedger(file_url, budget=5), []

    def entropy(count):
        seen.append(ledger.spent("anna"))
        raise OSError("no entropy")

    options = {"ledger": ledger, "subject": "anna", "insecure_entropy": entropy}
    sanitizer = dp.Sanitizer(dp.TokenExponential(epsilon=2.0), random_space(), **options)
    for _ in range(2):
        with pytest.raises(OSError, match="no entropy"):
            sanitizer.release("w1 w2")
    epsilon = sanitizer.certificate.epsilon
    assert seen == pytest.approx([epsilon, 2 * epsilon], abs=1e-9)
    assert ledger.spent("anna") == pytest.approx(2 * epsilon, abs=1e-9)
