"""Sessions with pseudonyms: what goes out, what comes back, what is kept and what it is worth."""

import logging
import math
import os
import pickle
import re
import traceback
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from threading import Barrier

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from support.cases import over
from support.contexts import Says
from support.entities import CONTRACT, ENTITIES, HIDDEN, detector
from support.ledgers import Charges
from support.session_draws import SeededDraws
from support.talks import KEY

import dp_middleware as dp
from dp_middleware.errors import CannotCalibrate, EventRefused, ParameterError
from dp_middleware.privacy import PureDP
from dp_middleware.privacy.releases import receipts
from dp_middleware.pseudonyms.kinds import Age, Amount, Person, default_kinds
from dp_middleware.pseudonyms.mapping import Mapping, combined

pytest.importorskip("faker", reason="the lists of names are of the extra detect")


def session(entities=ENTITIES, memo=None, key=None, **options):
    return dp.Pseudonyms(detector(entities), **options).session(memo=memo, key=key)


def test_no_value_goes_out_and_all_come_back():
    talk = session()
    release = talk.release("1", "user", CONTRACT)
    for value in (*HIDDEN, "MIRELA TAMBURI", "Mirela", "Acme"):
        assert value not in release.text
    assert release.text.count("signed") == 1
    assert release.text.endswith("agreed.")
    assert talk.restore(release.text) == CONTRACT
    assert "".join(talk.restore_stream(release.text)) == CONTRACT  # sign by sign
    assert talk.restore_value({"text": [release.text], "n": 3}) == {"text": [CONTRACT], "n": 3}


def test_one_entity_has_one_pseudonym_by_parts_and_over_turns():
    talk = session()
    first = talk.release("1", "user", "Mirela Tamburi called.").text
    given, family, _ = first.split()
    again = talk.release("2", "user", "Ms Tamburi's file: MIRELA, mirela and Mirela  Tamburi.").text
    assert again == f"Ms {family}'s file: {given.upper()}, {given.lower()} and {given}  {family}."
    assert talk.release("1", "user", "Mirela Tamburi called.").text == first


def test_a_public_word_that_is_a_pseudonym_already_comes_back_as_itself():
    talk = session(on_empty="pass")
    given = talk.release("1", "user", "Mirela Tamburi called.").text.split()[0]
    second = talk.release("2", "user", f"Then {given} called.").text
    assert given not in second.split()
    assert talk.restore(second) == f"Then {given} called."


def test_no_pseudonym_occurs_in_the_public_text():
    taken = [Person().draw("", "given", lambda _: True, SeededDraws(n)) for n in range(300)]
    text = "Mirela Tamburi met " + ", ".join(sorted(set(taken)))
    out = session().release("1", "user", text).text.split()[0]
    assert out not in taken


def test_a_mapping_that_was_dropped_costs_a_charge_and_restores_nothing_wrongly(monkeypatch):
    """Without its mapping a release in the memo would go out, and its name come back as another."""
    monkeypatch.setattr("dp_middleware.pseudonyms.releasing._CONVERSATIONS", 2)
    talk = session()
    first = talk.release("1", "user", CONTRACT, conversation="a").text
    assert talk.release("1", "user", CONTRACT, conversation="a").text == first
    talk.note_remote(None, first, conversation="a")
    for other in ("b", "c"):
        talk.release("1", "user", CONTRACT, conversation=other)
    with pytest.raises(EventRefused):
        talk.release_many([(None, "assistant", first)], conversation="a")
    again = talk.release("1", "user", CONTRACT, conversation="a").text
    assert again != first  # equal by chance: far below 10^-6
    assert "Mirela" in talk.restore(again, conversation="a")
    assert len(talk._mappings) == 2


def test_the_mapping_survives_a_restart_encrypted(tmp_path):
    memo = tmp_path / "memo.sqlite"
    first = session(memo=memo, key=KEY)
    release = first.release("1", "user", CONTRACT)
    once = first.release_once("user", "Mirela Tamburi lives in Berlin.")
    second = session(memo=memo, key=KEY)
    assert second.mapping() == first.mapping()
    assert second.restore(release.text) == CONTRACT
    assert second.restore(once.text) == "Mirela Tamburi lives in Berlin."
    assert second.release("1", "user", CONTRACT) == release
    assert second.release("2", "user", "Berlin").text == first.release("3", "user", "Berlin").text
    stored = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert not [value for value in (*HIDDEN, "Tamburi") if value.encode() in stored]
    with pytest.raises(ParameterError, match="key"):
        session(memo=memo, key=b"k" * 32)


def test_a_mapping_lives_as_long_as_what_was_released_with_it(tmp_path):
    """Also without new pairs; an answer to it lives as long again."""
    now, text, later = 0.0, "Mirela Tamburi called.", "Call Mirela Tamburi."

    def opened():
        """Another process of the same conversations, after all that is too old was dropped."""
        kept = {"memo": tmp_path / "memo.sqlite", "expires": 100.0, "clock": lambda: now}
        talk = dp.Pseudonyms(detector()).session(key=KEY, **kept)
        talk.release(f"at {now}", "user", "Berlin", conversation="other")
        return talk

    talk = opened()
    first = talk.release("1", "user", text).text
    now = 90.0
    again = talk.release("2", "user", later).text
    now = 150.0
    assert opened().restore(first) == text
    assert opened().release("2", "user", later).text == again
    now = 189.0
    opened().note_remote(None, again)
    now = 288.0
    talk = opened()
    assert talk.release_many([(None, "assistant", again)])
    assert talk.restore(again) == later
    now = 292.0
    fresh = opened()
    assert fresh.mapping() == {}
    assert talk.restore(again) == again  # it was dropped in all processes
    anew = fresh.release("1", "user", text).text
    assert talk.restore(anew) == opened().restore(anew) == text
    assert talk.release("3", "user", later).text.endswith(anew.split()[1] + ".")


LISTED = [("organisation", "3Melka"), ("organisation", "Ikelda"), ("place", "5th Quaz")]
LISTED += [("email", "9@quaz.org"), ("username", "7melka"), ("username", "melka")]


@over("kind, value", LISTED)
def test_what_stands_in_a_list_comes_back_and_takes_nothing_of_its_neighbours(kind, value):
    talk, text = session({value: kind}), f"id,what\n17,{value},45\n"
    released = talk.release("1", "user", text).text
    assert re.fullmatch(r"id,what\n17,.+,45\n", released)
    assert talk.restore(released) == text
    assert set(talk.mapping().values()) == {value}


def test_numbers_in_a_list_come_back_beside_commas():
    values = {"415-555-2671": "phone", "8.8.8.8": "ip", "2024-03-01": "date", "45": "age"}
    talk = session(values)
    released = talk.release("1", "user", "; ".join(values)).text.replace("; ", ",")
    assert talk.restore(released) == ",".join(values)
    assert "".join(talk.restore_stream(released)) == ",".join(values)


def test_apostrophes_hyphens_and_escapes_of_another_hand_are_the_same():
    talk = session({"O'Brienza": "person", "Smithel-Jonesta": "person", "Quazé": "person"})
    text = "O'Brienza, Smithel-Jonesta and Quazé"
    first = talk.release("1", "user", text).text
    others = "O\u2019Brienza, Smithel\u2011Jonesta, Ms Jonesta and Quaz\\u00e9"
    released = talk.release("2", "user", others).text
    assert not re.search("Brienza|Smithel|Jonesta|Quaz", released)
    assert talk.restore(first.replace("-", "\u2011")) == text.replace("-", "\u2011")


def test_two_values_that_only_look_alike_have_two_pseudonyms():
    talk = session({"Weiss": "person", "Weiß": "person", "@ana": "username", "Ana": "person"})
    text = "Herr Weiss, Herr Weiß, Ana and @ana"
    assert talk.restore(talk.release("1", "user", text).text) == text
    assert len(talk.mapping()) == 4


def test_an_initial_at_the_end_of_a_sentence_is_not_another_one_with_its_point():
    dotted = {f"{sign}. Zar{sign.lower()}i": "person" for sign in "ABCDEFGHIJKLM"}
    text = f"{', '.join(dotted)} met P. T. Rajan"  # a detector leaves out the last point
    for _ in range(12):
        talk = session({**dotted, "P. T": "person", "Rajan": "person"})
        assert talk.restore(talk.release("1", "user", text).text) == text


@pytest.mark.timeout(20)
@over("word, kind", [("Namaa", "person"), ("1,", "number")])
def test_a_long_row_of_entities_takes_no_quadratic_time(word, kind):
    spans = [(start, start + 1, kind) for start in range(0, len(word) * 20_000, len(word))]
    talk = dp.Pseudonyms(lambda _: spans).session()
    assert talk.restore(talk.release("1", "user", word * 20_000).text) == word * 20_000


NAMES = {f"Tamburi{letter}": "person" for letter in "abcdefghijklmnopqrstuvwxyz"}


def _release_all(memo: Path, names: list[str], number: int) -> list[str]:
    talk = session(NAMES, memo=memo, key=KEY)
    return [talk.release(f"{number}-{name}", "user", f"{name} called.").text for name in names]


@pytest.mark.slow
def test_two_processes_that_race_on_one_file_agree(tmp_path):
    memo = tmp_path / "memo.sqlite"
    orders = [[*NAMES], [*reversed(NAMES)], sorted(NAMES, key=lambda name: name[-1] in "aeiou")]
    with ProcessPoolExecutor(3, mp_context=get_context("spawn")) as pool:
        runs = list(pool.map(_release_all, [memo] * 3, orders, range(3)))
    once = [dict(zip(*run, strict=True)) for run in zip(orders, runs, strict=True)]
    assert once[0] == once[1] == once[2]
    assert len(set(once[0].values())) == len(NAMES)
    reader = session(NAMES, memo=memo, key=KEY)
    assert all(reader.restore(text) == f"{name} called." for name, text in once[0].items())


def test_nothing_private_is_shown_or_pickled():
    talk = session()
    talk.release("1", "user", CONTRACT)
    shown = f"{talk!r} {talk.sanitizer!r} {vars(talk)!r}"
    assert not any(value in shown for value in HIDDEN)
    for held in (talk, *talk._mappings.values()):
        with pytest.raises(TypeError):
            pickle.dumps(held)


def test_a_text_in_which_nothing_is_found_is_refused_unless_it_is_allowed():
    with pytest.raises(ParameterError, match="on_empty") as error:
        session().release("1", "user", "nothing canary")
    assert "canary" not in str(error.value)
    assert session(on_empty="pass").release("1", "user", "nothing").text == "nothing"
    assert [session().release("1", "user", blank).text for blank in ("", " \n")] == ["", " \n"]


def test_a_failing_detector_sends_nothing_and_quotes_nothing():
    def broken(text):
        raise ValueError(text)

    with pytest.raises(ParameterError, match="failed with ValueError") as error:
        dp.Pseudonyms(broken).session().release("1", "user", "canary" * 2)
    assert "canary" * 2 not in "".join(traceback.format_exception(error.value))
    assert error.value.__cause__ is error.value.__context__ is None


def test_certificates_say_what_a_release_loses_and_what_is_public():
    talk = session()
    names = talk.release("1", "user", "Mirela Tamburi in Berlin").certificate
    assert (names.epsilon, names.guarantee, names.unit) == (0.0, PureDP(epsilon=0.0), "value")
    assert (bool(names.adjacency.kinds), bool(names.adjacency.tokens)) == (True, False)
    assert any("does not find" in sentence for sentence in names.assumptions)
    priced = talk.release("2", "user", "for $12,500.00").certificate
    assert priced.epsilon == Amount().loss <= 1.0
    assert priced.adjacency == names.adjacency
    assert talk.sanitizer.certificate.epsilon == max(Amount().loss, Age().loss)


@over("value", ["Acme", "Acme Rocket Sledge & Anvil Works"])
def test_counts_tell_of_the_release_not_of_the_values(value, sanitizer):
    release = session({value: "organisation"}).release("1", "user", f"{value} called.")
    assert (release.tokens_total, release.tokens_verbatim) == (5, 2)  # Hart-Ortiz called.
    both = session({value: "organisation"}, sanitizer=sanitizer)
    release = both.release("1", "user", f"{value} called us")
    written = sanitizer.count(both.release("2", "user", value).text)
    assert (release.tokens_total, release.tokens_verbatim) == (2 + written, 0)


SPELLINGS = ("$12,500.00", "$12,500", "12500 USD", "$12.5k", "12.500,00 dollars")


def test_one_amount_in_many_spellings_is_one_value_and_each_spelling_comes_back(tmp_path):
    books, known = Charges(), dict.fromkeys([*SPELLINGS, "12.500,00 EUR"], "amount")
    options = {"memo": tmp_path / "memo.db", "key": KEY, "ledger": books, "subject": "ann"}
    talk, text = session(known, **options), ", ".join(SPELLINGS)
    sent = talk.release("1", "user", text).text.split(", ")
    talk.release("2", "user", f"{SPELLINGS[2]} again")
    assert books.rows == [("ann", Amount().loss, 1)]
    for released, spelling in zip(sent, SPELLINGS, strict=True):
        assert re.sub("[0-9]", "9", released) == re.sub("[0-9]", "9", spelling)
        assert talk.restore(released) == spelling
    assert {re.sub("[^0-9]", "", each)[:3] for each in sent} == {sent[0][1:3] + sent[0][4]}
    talk.release("3", "user", "12.500,00 EUR")  # another currency, another value
    assert books.tokens == [1, 1]
    assert session(known, **options).restore(", ".join(sent)) == text


@over("messages", [1, 4])
def test_four_amounts_cost_four_losses_in_one_message_or_four(tmp_path, messages):
    ledger = dp.PrivacyLedger(f"sqlite:///{tmp_path}/ledger{messages}.db", budget=10)
    amounts = [f"${n}0.00" for n in range(1, 5)]
    talk = session(dict.fromkeys(amounts, "amount"), ledger=ledger, subject="ann")
    with receipts() as receipt:
        for n in range(messages):
            talk.release(str(n), "user", " ".join(amounts[n::messages]))
    spent = 4 * Amount().loss
    assert spent <= ledger.spent("ann") <= spent + 1e-11
    assert math.fsum(each.epsilon for each in receipt.charged) == pytest.approx(spent, abs=1e-12)


def test_an_exhausted_budget_draws_nothing(tmp_path):
    ledger = dp.PrivacyLedger(f"sqlite:///{tmp_path}/ledger.db", budget=1.5)
    talk = session({"$10.00": "amount", "$20.00": "amount"}, ledger=ledger, subject="ann")
    talk.release("1", "user", "$10.00")
    with pytest.raises(dp.BudgetExhausted):
        talk.release("2", "user", "$20.00")
    assert list(talk.mapping().values()) == ["$10.00"]


def test_the_rest_is_perturbed_and_one_certificate_has_both_parts(sanitizer):
    books = Charges()
    beside = dp.Sanitizer(sanitizer.mechanism, sanitizer.space, ledger=books, subject="ann")
    talk = session(sanitizer=beside)
    release = talk.release("1", "user", "red Mirela Tamburi  blue\n$12,500.00 green")
    first, _, rest = release.text.partition(" ")
    assert first in sanitizer.space.vocabulary.tokens
    assert (rest.count("  "), rest.count("\n")) == (1, 1)
    assert not re.search("Mirela|12,500", release.text)
    assert release.certificate.epsilon == max(sanitizer.certificate.epsilon, Amount().loss)
    assert release.certificate.adjacency.tokens
    assert books.rows == [("ann", Amount().loss, 1), ("ann", release.certificate.epsilon, 3)]
    assert str(release.certificate.adjacency).endswith("with the same entities found")
    restored = talk.restore(release.text)
    assert "Mirela Tamburi" in restored
    assert "$12,500.00" in restored


def test_a_drawn_word_never_touches_a_pseudonym(sanitizer):
    for _ in range(20):
        talk = session(sanitizer=sanitizer)
        restored = talk.restore(talk.release("1", "user", "(Mirela Tamburi)red,Berlin.").text)
        assert "Mirela Tamburi" in restored
        assert " Berlin " in restored


def test_a_context_sees_the_pseudonym_and_never_the_value():
    """All words are in the vocabulary: what a window would see of a name would be seen."""
    context = Says(raw=lambda ids: np.zeros((len(ids), 4)))
    space = dp.EmbeddingSpace(dp.Vocabulary(["Mirela", "Tamburi", "red", "green"]), np.eye(4))
    mechanism = dp.CapeStrict(epsilon=2.0, logit_bound=1.0, buckets=2, context="raw")
    talk = session(sanitizer=dp.Sanitizer(mechanism, space, context=context))
    talk.release("1", "user", "red Mirela Tamburi green")
    assert [number for ids in context.seen for number in ids] == [2, 3]


@pytest.fixture
def sanitizer():
    vocabulary = dp.Vocabulary(["red", "green", "blue"])
    space = dp.EmbeddingSpace(vocabulary, [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    return dp.Sanitizer(dp.TokenExponential(epsilon=2.0), space)


def test_what_does_not_go_together_is_refused():
    with pytest.raises(ParameterError, match="scope"):
        dp.Pseudonyms(detector()).session(scope=lambda text: [])
    for said, options in {"kinds": {"kinds": "person"}, "subject": {"ledger": Charges()}}.items():
        with pytest.raises(ParameterError, match=said):
            dp.Pseudonyms(detector(), **options)
    with pytest.raises(CannotCalibrate):
        session().at(2.0)


TEXTS = st.text(
    st.one_of(
        st.characters(exclude_categories=["Cs"]),
        st.sampled_from(list(" \n\t.,-'@$0123456789AaBbZz😀ﷺ漢字かなשלוםمرحبا\u200b\u202e\u0301")),
    ),
    max_size=60,
)


@over("text, start, end", [("かな값.0 1Dr.かな", 11, 12), ("שלום, שלום192.0.2.7", 0, 4)])
def test_a_label_for_a_mention_that_grew_is_apart_from_the_number_behind_it(text, start, end):
    for _ in range(10):
        talk = dp.Pseudonyms(lambda _: [(start, end, "person")]).session()
        assert talk.restore(talk.release("1", "user", text).text) == text


@settings(max_examples=100)
@given(st.data())
def test_outside_of_entities_nothing_is_lost_or_moved_and_all_is_restored(data):
    # "\x1e" parts the texts of a message; detectors see escapes of JSON decoded
    text = data.draw(TEXTS).translate({0x1E: " ", ord("\\"): "/"})
    place = st.integers(0, len(text))
    spans = st.tuples(place, place, st.sampled_from([*default_kinds(), "other"]))
    found = [(min(a, b), max(a, b), kind) for a, b, kind in data.draw(st.lists(spans, max_size=5))]
    talk = dp.Pseudonyms(lambda _: found, on_empty="pass").session()
    release = talk.release("1", "user", text)
    draft = talk.sanitizer.read(text).complete(Mapping())
    place = 0
    for start, end in draft.gaps:
        place = release.text.index(text[start:end], place) + end - start
    restored = talk.restore(release.text)
    changes_with_case = text.upper().lower() != text.lower() or text.casefold() != text.lower()
    assert restored.casefold().split() == text.casefold().split() or changes_with_case


def test_threads_that_meet_one_new_entity_agree(tmp_path):
    for options in ({}, {"memo": tmp_path / "memo.sqlite", "key": KEY}):
        talk, start = session(**options), Barrier(6)

        def release(n, talk=talk, start=start):
            start.wait()
            return talk.release(str(n), "user", "Mirela Tamburi").text

        with ThreadPoolExecutor(6) as pool:
            assert len({*pool.map(release, range(6))}) == 1


def test_a_draw_that_fails_quotes_nothing_and_logs_nothing(caplog):
    class Broken(Person):
        def draw(self, key, shape, free, draws):
            return combined(self.name, lambda: "x", "", lambda _: False)

    talk, name = session(kinds=[Broken()]), "Mirela Tamburi"
    with caplog.at_level(logging.DEBUG), pytest.raises(ParameterError) as error:
        talk.release("1", "user", name)
    assert "Mirela" not in "".join(traceback.format_exception(error.value)) + caplog.text


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_restores_and_its_draws_are_its_own():
    talk = session()
    released = talk.release("1", "user", "Mirela Tamburi").text
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        new = talk.release("2", "user", "Berlin").text
        os.write(writer, f"{talk.restore(released)}/{talk.restore(new)}".encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    assert os.read(reader, 100) == b"Mirela Tamburi/Berlin"
    assert "Berlin" not in talk.mapping().values()
