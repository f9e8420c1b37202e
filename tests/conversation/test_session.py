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
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from support.cases import over
from support.ledgers import Charges
from support.talks import KEY, MECHANISM, SPACE, session, words
from support.texts import CANARY, TORTURE

import dp_middleware as dp
from dp_middleware.conversation.session import ONCE, Session, session_of
from dp_middleware.errors import EventRefused, ParameterError
from dp_middleware.sampling import sampler


@pytest.fixture(params=["memory", "file"])
def options(request, tmp_path):
    return {} if request.param == "memory" else {"memo": tmp_path / "memo.sqlite", "key": KEY}


@pytest.mark.parametrize("with_ids", [True, False])
def test_a_conversation_of_20_turns_is_charged_once_per_private_message(with_ids, options):
    books = Charges()
    talk = session(books, **options)
    transcript: list[tuple[str | None, str, str]] = []
    sent: list[dp.Release] = []
    for turn in range(20):
        question = f"{words(5, seed=turn)} {CANARY}"
        transcript.append((f"q{turn}" if with_ids else None, "user", question))
        again = talk.release_many(transcript)
        assert again[:-1] == sent  # all that was sent before is sent again, bit for bit
        answer = f"remote says {turn}"
        talk.note_remote(f"a{turn}" if with_ids else None, answer)
        transcript.append((f"a{turn}" if with_ids else None, "assistant", answer))
        sent = talk.release_many(transcript)
        assert sent[-1].text == answer
        assert sent[-1].certificate.epsilon == 0.0
    assert books.tokens == [6] * 20
    assert len({release.text for release in sent}) == 40
    assert not any(CANARY in release.text for release in sent)


def test_a_retry_is_a_replay_and_a_new_event_a_new_release(options):
    books = Charges()
    talk = session(books, **options)
    text = words(30)
    first = talk.release("m1", "user", text)
    assert all(talk.release("m1", "user", text) == first for _ in range(3))
    assert asyncio.run(talk.arelease("m1", "user", text)) == first
    second = talk.release("m2", "user", text)  # the same content: never looked up by it
    assert second.text != first.text
    assert talk.release("m1", "user", text, conversation="other").text not in (
        first.text,
        second.text,
    )
    assert books.tokens == [30, 30, 30]


def test_a_release_is_that_of_the_sanitizer():
    policy = dp.KeepPolicy.words(["w3"], label="one word")
    for mechanism in (MECHANISM, dp.SanText(epsilon=2.0), dp.MetricNoise(eta=9.0)):
        for text in [*TORTURE.values(), "w3 w1 unknown w3 w2", words(50)]:
            built = [
                dp.Sanitizer(
                    mechanism, SPACE, policy=policy, insecure_entropy=sampler.insecure_entropy(3)
                )
                for _ in range(2)
            ]
            plain = built[0].release(text)
            assert Session(built[1]).release("m", "user", text) == plain


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


def test_an_answer_without_an_id_is_known_by_its_words(options):
    talk = session(**options)
    talk.note_remote(None, "remote words")
    assert talk.release_many([(None, "assistant", "remote words")])[0].text == "remote words"
    for item in ((None, "assistant", "other words"), ("a9", "assistant", "remote words")):
        with pytest.raises(EventRefused):
            talk.release_many([item])
    private = talk.release_many([(None, "user", "remote words")])[0]  # the user may say it too
    assert private.text != "remote words"


@pytest.mark.parametrize(
    "refused",
    [
        ("a", "assistant", CANARY),
        (None, "assistant", CANARY),
        (ONCE, "assistant", CANARY),
        ("noted", "user", CANARY),
    ],
)
def test_a_transcript_is_looked_at_before_anything_is_charged(refused, options):
    books = Charges()
    talk = session(books, **options)
    talk.note_remote("noted", "remote words")
    with pytest.raises(EventRefused):
        talk.release_many([("q", "user", "w1"), refused])
    assert books.tokens == []


def test_an_unknown_answer_may_be_declared_public(options):
    talk = session(**options)
    talk.note_remote("a", "remote words")
    transcript: list[Any] = [(None, "assistant", "an example"), ("a", "assistant", "local words")]
    sent = talk.release_many(transcript, unknown="pass")
    assert [each.text for each in sent] == ["an example", "remote words"]
    declared, noted = (each.certificate for each in sent)
    assert (declared.mechanism, noted.mechanism) == ("declared-public", "remote-answer")
    assert declared.assumptions == ("declared public by the caller; nothing was checked",)
    assert noted.assumptions == ("written by the remote model, which saw released texts only",)
    with pytest.raises(ParameterError, match="expected unknown in"):
        talk.release_many(transcript, unknown="ignore")  # type: ignore[arg-type]


def test_what_is_private_at_one_epsilon_is_noted_at_none(options):
    talk = session(**options)
    release = talk.at(2.5).release("m", "user", "w1")
    for each in (talk, talk.at(2.5), talk.at(1.5)):
        with pytest.raises(EventRefused, match="released as private"):
            each.note_remote("m", "remote words")
    assert talk.at(2.5).release("m", "user", "w1") == release


def leave(own: dp.Session, text: str) -> None:
    """Notes an answer that was given up; never waits."""
    own._memo.note_left((own._digests.of("answer", own._conversation(""), text), text))


def test_a_left_answer_outlives_a_release_that_fails(options):
    own = session(Charges(budget=1), **options)
    leave(own, "nobody waits")
    with own._memo._lock:
        leave(own, "as far as it went")
    with pytest.raises(dp.BudgetExhausted):
        own.release("question", "user", words(2))
    if options:  # it is durable
        own = session(Charges(), **options)
    for said in ("nobody waits", "as far as it went"):
        assert own.release_many([(None, "assistant", said)])[0].text == said


def test_a_text_released_once_is_kept_nowhere(options):
    books = Charges()
    talk = session(books, capacity=2, scope={"tool": marked}, **options)
    text = words(30)
    kept = talk.release("m", "user", "w1")
    found = [talk.release_once("user", text), asyncio.run(talk.arelease_once("user", text))]
    found += talk.release_many([(ONCE, "user", text), (ONCE, "user", text)])
    assert len({release.text for release in found}) == 4
    assert books.tokens == [1, *[30] * 4]
    public = talk.release_once("tool", f"{CANARY} [{CANARY}]").text
    assert public.startswith(f"{CANARY} [")
    assert public.count(CANARY) == 1
    assert talk.release("m", "user", "w1") == kept
    assert len(books.tokens) == 6  # nothing pushed it out of the memo
    for items in ([(ONCE, "assistant", CANARY)], [(ONCE, "user", 7)], [(ONCE, CANARY, "")]):
        with pytest.raises(dp.DPMiddlewareError) as error:
            talk.release_many(items)  # type: ignore[arg-type]
        assert CANARY not in str(error.value)
    if options:
        assert CANARY.encode() not in options["memo"].read_bytes()


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
    assert Session(sanitizer, memo=tmp_path / "two.db", key=KEY).release("m", "user", "w1")


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
    key = os.urandom(32)
    talk = session(Charges(), memo=tmp_path / "memo.sqlite", key=key)
    secret = f"{CANARY} w1 {CANARY}"
    talk.release(f"id-{CANARY}", "user", secret)
    talk.release(f"id-{CANARY}", "user", f"w2 {secret}")
    talk.release_many([(None, "user", secret)], conversation=CANARY)
    talk.note_remote(f"a-{CANARY}", "remote words")
    with pytest.raises(EventRefused) as error:
        talk.release(f"b-{CANARY}", "assistant", secret)
    for bad in ((CANARY, CANARY, CANARY), (CANARY, "user", 7), ("", "user", CANARY)):
        with pytest.raises(dp.ParameterError) as caught:
            talk.release(*bad)  # type: ignore[arg-type]
        assert CANARY not in "".join(traceback.format_exception(caught.value))
    files = {path.name: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert b"remote words" in files["memo.sqlite"]
    for content in files.values():
        assert CANARY.encode() not in content
        assert key not in content
        assert key.hex().encode() not in content
    assert stat.S_IMODE((tmp_path / "memo.sqlite").stat().st_mode) == 0o600
    assert CANARY not in f"{talk!r}{caplog.text}{error.value}"
    with pytest.raises(TypeError, match="holds a key"):
        pickle.dumps(talk)


def test_equal_texts_leave_different_digests(tmp_path):
    talk = session(Charges(), memo=tmp_path / "m", key=KEY)
    for name in "abc":
        talk.release(name, "user", "w1")
    with sqlite3.connect(tmp_path / "m") as connection:
        rows = connection.execute("SELECT event, digest FROM memo").fetchall()
    connection.close()
    assert len(rows) == 6  # a release and a mark each
    assert len({part for row in rows for part in row if part}) == 9


@pytest.mark.parametrize("asks", ["events", "epsilons", "tasks"])
def test_many_callers_of_one_event(asks, options):
    books = Charges()
    talk = session(books, scope=marked, **options)
    text, barrier = f"[{words(9)}]", Barrier(16)

    def released(k: int) -> str:
        barrier.wait()
        if asks == "epsilons":
            return talk.at(2.0 + k % 2).release("m", "user", text).text
        return talk.release(f"m{k % 2}", "user", text).text

    async def together() -> list[str]:
        transcript = [("m0", "user", text), ("m1", "tool", text)]
        both = await asyncio.gather(*(talk.arelease_many(transcript) for _ in range(8)))
        return [release.text for pair in both for release in pair]

    with ThreadPoolExecutor(16) as pool:
        texts = asyncio.run(together()) if asks == "tasks" else [*pool.map(released, range(16))]
    assert len(set(texts[::2])) == len(set(texts[1::2])) == 1
    assert texts[0] != texts[1]
    assert books.tokens == [9, 9]


class Meeting(Charges):
    """Every charge waits until there are as many as expected."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.barrier = Barrier(number)

    def charge(self, *arguments: Any, **options: Any) -> object:
        self.barrier.wait(10)
        return super().charge(*arguments, **options)


def test_no_event_waits_for_the_charge_of_another():
    books = Meeting(8)
    talk = session(books, key=KEY)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda k: talk.release(f"m{k}", "user", words(4)), range(8)))
    assert books.tokens == [4] * 8


SHARED = """
import sys
sys.path[:0] = [{tests!r}]
from support.ledgers import Charges
from support.talks import KEY, session, words

talk = session(Charges(), memo={memo!r}, key=KEY)
print("ready", flush=True)
input()
for k in range(5):
    print(talk.release(str(k), "user", words(20, seed=k)).text)
"""


@pytest.mark.slow
def test_processes_share_a_memo(tmp_path):
    code = SHARED.format(tests=str(Path(__file__).parents[1]), memo=str(tmp_path / "memo"))
    command = [sys.executable, "-c", code]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen(command, **pipes) for _ in range(3)]  # type: ignore[call-overload]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    found = [process.communicate()[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert len(found[0].splitlines()) == 5
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
    names = {"tests": str(Path(__file__).parents[1]), "ledger": str(ledger), "memo": str(memo)}
    code = KILLED.format(when=when, **names)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == -9, done.stderr
    assert ledger.read_text() == "x"
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
    for k in range(1, 4):
        talk.release(f"m{k}", "user", "w1")
    assert talk.release("m3", "user", "w1")
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


def test_refusals(tmp_path):
    for bad in (
        {"capacity": 1}, {"expires": 0}, {"key": b"short"},
        {"key": "x" * 32}, {"memo": tmp_path / "m"}, {"memo": tmp_path / "m", "key": b"short"},
    ):  # fmt: skip
        with pytest.raises(dp.ParameterError, match="expected"):
            session(**bad)
    talk = session()
    with pytest.raises(dp.ParameterError, match="distinct event ids"):
        talk.release_many([("m", "user", "w1"), ("m", "user", "w2")])
    with pytest.raises(dp.ParameterError, match="event id"):
        talk.release(None, "user", "w1")  # type: ignore[arg-type]
    literal = dp.CusText(epsilon=1.0, candidates=3)
    careless = dp.Sanitizer(literal, SPACE, accept_infinite=True)
    assert Session(careless).release("m", "user", "w1").text
    careless.accept_infinite = False
    with pytest.raises(dp.InfiniteEpsilon):
        Session(careless).release("m", "user", "w1")


def marked(text: str) -> Any:
    """What stands in brackets is private."""
    return (match.span(1) for match in re.finditer(r"\[(.*?)\]", text))


def outside(text: str) -> str:
    return re.sub(r"\[.*?\]", "[]", text)


def test_a_scope_says_what_is_private_in_a_message(options):
    books = Charges()
    talk = session(books, scope=marked, **options)
    text = f"Dear [{CANARY} w1], it is [w2]."
    release = talk.release("m", "user", text)
    assert outside(release.text) == outside(text)
    assert CANARY not in release.text
    assert release.tokens_total - release.tokens_verbatim == 3
    assert "outside the given spans is public" in release.certificate.assumptions[-1]
    assert talk.release("m", "user", text) == release
    assert talk.release("s", "system", "all of it is public").text == "all of it is public"
    assert books.tokens == [3]
    talk.note_remote("a", "[w1]")
    assert talk.release("a", "assistant", "").text == "[w1]"  # no scope for what is public


@pytest.mark.parametrize(
    "scope", [{"assistant": marked}, {"human": marked}, {"user": [(0, 1)]}, [(0, 1)], "user"]
)
def test_a_scope_of_a_session_is_a_function(scope):
    with pytest.raises(dp.ParameterError, match="expected scope= as a function"):
        session(scope=scope)


def failing(text: str) -> Any:
    raise ValueError(f"cannot read {text}")


@pytest.mark.parametrize("scope", [failing, lambda text: [dp.Span(0, len(text), encode=failing)]])
def test_a_scope_or_an_encoder_that_fails_costs_nothing(scope):
    books = Charges()
    talk = session(books, scope=scope)
    for _ in range(2):
        with pytest.raises(dp.ParameterError, match="failed with ValueError") as error:
            talk.release("m", "user", CANARY)
        assert CANARY not in "".join(traceback.format_exception(error.value))
    assert books.tokens == []


def test_another_epsilon_is_another_release_in_the_same_memo(options):
    books = Charges()
    talk = session(books, **options)
    other = talk.at(2.5)
    text = words(30)
    first, second = talk.release("m", "user", text), other.release("m", "user", text)
    assert 2.5 * (1 - 2e-3) < second.certificate.epsilon <= 2.5
    assert first.text != second.text
    assert books.tokens == [30, 30]  # both count
    assert talk.release("m", "user", text) == first
    assert other.release("m", "user", text) == second == talk.at(2.5).release("m", "user", text)
    assert books.tokens == [30, 30]
    talk.note_remote("a", "remote words")
    assert other.release("a", "assistant", "").text == "remote words"
    other.note_remote("b", "more words")
    assert talk.release("b", "assistant", "").text == "more words"
    if options:
        again = session(books, **options).at(2.5)  # after a restart
        assert again.release("m", "user", text) == second


def test_messages_as_clients_keep_them(options):
    """Plain dicts, of Gradio and OpenAI; what else is in them is neither sent nor looked at."""
    books = Charges()
    talk = session(books, **options)
    gradio = {"metadata": {"title": CANARY}, "options": None}
    history: list[Any] = []
    for turn in range(3):
        history.append({"role": "user", "content": words(5, seed=turn), **gradio})
        talk.release_many(history)
        talk.note_remote(
            None, f"draft {turn}", transcript=[*history, {"role": "assistant", "content": "yes"}]
        )
        history.append({"role": "assistant", "content": "yes", **gradio})
    sent = talk.release_many(history)
    assert [release.text for release in sent[1::2]] == ["draft 0", "draft 1", "draft 2"]
    parts = [{"type": "text", "text": "w1"}, "w2"]
    rules = {"role": "developer", "content": parts, "name": CANARY, "id": "rules"}
    [release] = talk.release_many([rules])
    assert release.tokens_total == 2
    assert talk.release("rules", "system", "w1\n\nw2") == release
    assert books.tokens == [5, 5, 5, 2]


@over(
    "message",
    [
        {"role": "user", "content": [{"type": "image_url", "image_url": CANARY}]},
        {"role": "user", "content": {"path": CANARY}},
        {"role": CANARY, "content": "w1"},
        {"role": ["user"], "content": CANARY},
        {"content": CANARY},
        {"role": "assistant", "content": CANARY, "tool_calls": [{"id": CANARY}]},
        {"role": "user", "content": CANARY, "id": 3},
    ],
)
def test_messages_that_are_no_text_are_refused(message):
    books = Charges()
    with pytest.raises(ParameterError) as raised:
        session(books).release_many([{"role": "user", "content": "w1"}, message])
    assert CANARY not in str(raised.value)
    assert not books.tokens


def test_a_twin_for_a_subject_shares_no_release(options, tmp_path):
    ledger = dp.PrivacyLedger(f"sqlite:///{tmp_path / 'books.db'}", budget=math.inf)
    talk = Session(dp.Sanitizer(MECHANISM, SPACE, ledger=ledger, subject="all"), **options)
    text = words(30)
    ann, bob = talk.for_subject("ann"), talk.for_subject("bob")
    first = ann.release("m", "user", text)
    assert bob.release("m", "user", text).text != first.text
    assert talk.for_subject("ann").release("m", "user", text) == first
    assert talk.for_subject("all") is talk
    assert ledger.spent("ann") == ledger.spent("bob") > ledger.spent("all") == 0
    ann.note_remote("a", "an answer")
    with pytest.raises(EventRefused):
        bob.release("a", "assistant", "an answer")
    assert len({twin.digest("x") for twin in (talk, ann, bob)}) == 3


def test_a_session_is_used_and_a_sanitizer_gets_one():
    talk = session()
    assert session_of(talk) is talk
    assert session_of(talk.sanitizer).sanitizer is talk.sanitizer
    with pytest.raises(dp.ParameterError, match=r"a dp.Session or a dp.Sanitizer, got str"):
        session_of("text")
