"""Sessions with pseudonyms: what goes out, what comes back, what is kept and what it is worth."""

import math
import pickle
import re
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from support.entities import CONTRACT, ENTITIES, HIDDEN, detector
from support.ledgers import Charges
from support.session_draws import SeededDraws
from support.talks import KEY

import dp_middleware as dp
from dp_middleware.contexts import Context
from dp_middleware.errors import CannotCalibrate, EventRefused, ParameterError
from dp_middleware.privacy import PureDP
from dp_middleware.privacy.releases import receipts
from dp_middleware.pseudonyms.kinds import Age, Amount, Person
from dp_middleware.pseudonyms.mapping import Mapping

pytest.importorskip("faker", reason="the lists of names are of the extra detect")


def session(entities=ENTITIES, **options):
    kept = {name: options.pop(name) for name in ("memo", "key") if name in options}
    return dp.Pseudonyms(detector(entities), **options).session(**kept)


def test_no_value_goes_out_and_all_come_back():
    talk = session()
    release = talk.release("1", "user", CONTRACT)
    for value in (*HIDDEN, "MIRELA TAMBURI", "Mirela", "Acme"):
        assert value not in release.text
    assert release.text.count("signed") == 1
    assert release.text.endswith("agreed.")
    assert talk.restore(release.text) == CONTRACT
    assert "".join(talk.restore_stream(release.text)) == CONTRACT  # sign by sign
    value = {"text": [release.text], "n": 3}
    assert talk.restore_value(value) == {"text": [CONTRACT], "n": 3}


def test_one_entity_has_one_pseudonym_by_parts_and_over_turns():
    talk = session()
    first = talk.release("1", "user", "Mirela Tamburi called.").text
    given, family = first.split()[:2]
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
    for value in (*HIDDEN, "Tamburi"):
        assert value.encode() not in stored
    with pytest.raises(ParameterError, match="key"):
        session(memo=memo, key=b"k" * 32)


def test_a_mapping_lives_as_long_as_what_was_released_with_it(tmp_path):
    """Also without new pairs; an answer to it lives as long again."""
    memo, now = tmp_path / "memo.sqlite", 0.0

    def opened():
        """Another process of the same conversations, after all that is too old was dropped."""
        kept = {"memo": memo, "key": KEY, "expires": 100.0, "clock": lambda: now}
        talk = dp.Pseudonyms(detector()).session(**kept)
        talk.release(f"at {now}", "user", "Berlin", conversation="other")
        return talk

    talk = opened()
    first = talk.release("1", "user", "Mirela Tamburi called.").text
    now = 90.0
    again = talk.release("2", "user", "Call Mirela Tamburi.").text
    now = 150.0
    assert opened().restore(first) == "Mirela Tamburi called."
    assert opened().release("2", "user", "Call Mirela Tamburi.").text == again
    now = 189.0
    opened().note_remote(None, again)
    now = 288.0
    talk = opened()
    assert talk.release_many([(None, "assistant", again)])
    assert talk.restore(again) == "Call Mirela Tamburi."
    now = 292.0
    fresh = opened()
    assert fresh.mapping() == {}
    assert talk.restore(again) == again  # it was dropped in all processes
    anew = fresh.release("1", "user", "Mirela Tamburi called.").text
    assert talk.restore(anew) == opened().restore(anew) == "Mirela Tamburi called."
    assert talk.release("3", "user", "Call Mirela Tamburi.").text.endswith(anew.split()[1] + ".")


def test_what_stands_in_a_list_comes_back_and_takes_nothing_of_its_neighbours():
    for kind, values in {
        "organisation": ("3Melka", "Ikelda"),
        "place": ("5th Quaz", "Perulia"),
        "email": ("9@quaz.org", "ana@quaz.org"),
        "username": ("7melka", "melka"),
    }.items():
        for value in values:
            talk = session({value: kind})
            text = f"id,what\n17,{value},45\n"
            released = talk.release("1", "user", text).text
            assert released.startswith("id,what\n17,")
            assert released.endswith(",45\n")
            assert talk.restore(released) == text
            assert set(talk.mapping().values()) == {value}
    values = {"415-555-2671": "phone", "8.8.8.8": "ip", "2024-03-01": "date", "45": "age"}
    talk = session(values)
    released = talk.release("1", "user", "; ".join(values)).text
    assert talk.restore(released.replace("; ", ",")) == ",".join(values)
    assert "".join(talk.restore_stream(released.replace("; ", ","))) == ",".join(values)


def test_apostrophes_hyphens_and_escapes_of_another_hand_are_the_same():
    talk = session({"O'Brienza": "person", "Smithel-Jonesta": "person", "Quazé": "person"})
    text = "O'Brienza, Smithel-Jonesta and Quazé"
    talk.release("1", "user", text)
    others = "O\u2019Brienza, Smithel\u2011Jonesta, Ms Jonesta and Quaz\\u00e9"
    released = talk.release("2", "user", others).text
    for value in ("Brienza", "Smithel", "Jonesta", "Quaz"):
        assert value not in released
    told = talk.release("1", "user", text).text.replace("-", "\u2011")
    assert talk.restore(told) == text.replace("-", "\u2011")


def test_two_values_that_only_look_alike_have_two_pseudonyms():
    talk = session({"Weiss": "person", "Weiß": "person", "@ana": "username", "Ana": "person"})
    text = "Herr Weiss, Herr Weiß, Ana and @ana"
    released = talk.release("1", "user", text).text
    assert len(talk.mapping()) == 4
    assert talk.restore(released) == text


@pytest.mark.timeout(20)
@pytest.mark.parametrize(("word", "kind"), [("Namaa", "person"), ("1,", "number")])
def test_a_long_row_of_entities_takes_no_quadratic_time(word, kind):
    starts = range(0, len(word) * 20_000, len(word))
    spans = [(start, start + 1, kind) for start in starts]
    talk = dp.Pseudonyms(lambda _: spans).session()
    assert talk.restore(talk.release("1", "user", word * 20_000).text) == word * 20_000


NAMES = {f"Tamburi{letter}": "person" for letter in "abcdefghijklmnopqrstuvwxyz"}


def _release_all(memo: Path, names: list[str], number: int) -> list[str]:
    talk = session(NAMES, memo=memo, key=KEY)
    return [talk.release(f"{number}-{name}", "user", f"{name} called.").text for name in names]


@pytest.mark.slow
def test_two_processes_that_race_on_one_file_agree(tmp_path):
    memo = tmp_path / "memo.sqlite"
    orders = [
        list(NAMES),
        list(reversed(NAMES)),
        sorted(NAMES, key=lambda name: name[-1] in "aeiou"),
    ]
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
    shown = repr(talk) + repr(talk.sanitizer) + repr(vars(talk))
    assert not any(value in shown for value in HIDDEN)
    with pytest.raises(TypeError):
        pickle.dumps(talk)
    for mapping in talk._mappings.values():
        with pytest.raises(TypeError):
            pickle.dumps(mapping)


def test_a_text_in_which_nothing_is_found_is_refused_unless_it_is_allowed():
    with pytest.raises(ParameterError, match="on_empty") as error:
        session().release("1", "user", "nothing canary")
    assert "canary" not in str(error.value)
    assert session(on_empty="pass").release("1", "user", "nothing").text == "nothing"
    assert session().release("1", "user", " \n").text == " \n"
    assert session().release("2", "user", "").text == ""


def test_a_failing_detector_sends_nothing_and_quotes_nothing():
    def broken(text):
        raise ValueError(text)

    with pytest.raises(ParameterError) as error:
        dp.Pseudonyms(broken).session().release("1", "user", "canary")
    assert "canary" not in str(error.value)
    assert error.value.__cause__ is None


def test_remote_answers_go_out_as_they_were_whatever_is_shown():
    talk = session()
    released = talk.release("1", "user", "Mirela Tamburi").text
    talk.note_remote("2", f"Dear {released}")
    history = [(None, "user", "Mirela Tamburi"), (None, "assistant", "Hello Mirela Tamburi")]
    named = talk.release_many(history[:1])[0].text
    talk.note_remote(None, f"Hello {named}", transcript=history)
    sent = talk.release_many(
        [("1", "user", "Mirela Tamburi"), ("2", "assistant", "Dear Mirela Tamburi")]
    )
    assert sent[1].text == f"Dear {released}"
    assert talk.release_many(history)[1].text == f"Hello {named}"
    with pytest.raises(EventRefused):
        talk.release_many([(None, "assistant", "Hello Mirela Tamburi!")])


def test_certificates_say_what_a_release_loses_and_what_is_public():
    talk = session()
    names = talk.release("1", "user", "Mirela Tamburi in Berlin").certificate
    assert (names.epsilon, names.guarantee, names.unit) == (0.0, PureDP(epsilon=0.0), "value")
    assert names.adjacency.kinds
    assert not names.adjacency.tokens
    assert any("does not find" in sentence for sentence in names.assumptions)
    priced = talk.release("2", "user", "for $12,500.00").certificate
    assert priced.epsilon == Amount().loss <= 1.0
    assert priced.adjacency == names.adjacency
    assert talk.sanitizer.certificate.epsilon == max(Amount().loss, Age().loss)


def test_counts_tell_of_the_release_not_of_the_values(space_and_sanitizer):
    for value in ("Acme", "Acme Rocket Sledge & Anvil Works"):
        talk = session({value: "organisation"})
        release = talk.release("1", "user", f"{value} called.")
        assert (release.tokens_total, release.tokens_verbatim) == (5, 2)  # Hart-Ortiz called.
        both = session({value: "organisation"}, sanitizer=space_and_sanitizer[1])
        release = both.release("1", "user", f"{value} called us")
        written = both.sanitizer.sanitizer.count(both.release("2", "user", value).text)
        assert (release.tokens_total, release.tokens_verbatim) == (2 + written, 0)


def test_values_that_stay_near_are_charged_once_each():
    books = Charges()
    talk = session(ledger=books, subject="ann")
    talk.release("1", "user", "Mirela Tamburi in Berlin")
    assert books.rows == []
    talk.release("2", "user", "$12,500.00 and $12,500.00")
    talk.release("3", "user", "$12,500.00 again")
    assert books.rows == [("ann", Amount().loss, 1)]


SPELLINGS = ("$12,500.00", "$12,500", "12500 USD", "$12.5k", "12.500,00 dollars")


def test_one_amount_in_many_spellings_is_one_value_and_each_spelling_comes_back(tmp_path):
    books, known = Charges(), dict.fromkeys([*SPELLINGS, "12.500,00 EUR"], "amount")
    options = {"memo": tmp_path / "memo.db", "key": bytes(32)}
    talk = session(known, ledger=books, subject="ann", **options)
    text = ", ".join(SPELLINGS)
    release = talk.release("1", "user", text)
    assert books.rows == [("ann", Amount().loss, 1)]
    sent = release.text.split(", ")
    assert [re.sub("[0-9]", "9", each) for each in sent] == [
        re.sub("[0-9]", "9", each) for each in SPELLINGS
    ]
    assert {re.sub("[^0-9]", "", each)[:3] for each in sent} == {sent[0][1:3] + sent[0][4]}
    assert talk.restore(release.text) == text
    assert [talk.restore(each) for each in sent] == [*SPELLINGS]
    talk.release("2", "user", "12.500,00 EUR")  # another currency, another value
    assert books.tokens == [1, 1]
    again = session(known, ledger=books, subject="ann", **options)
    assert again.restore(release.text) == text


@pytest.mark.parametrize("messages", [1, 4])
def test_four_amounts_cost_four_losses_in_one_message_or_four(tmp_path, messages):
    ledger = dp.PrivacyLedger(f"sqlite:///{tmp_path}/ledger.db", budget=10)
    amounts = [f"${n}0.00" for n in range(1, 5)]
    talk = session(dict.fromkeys(amounts, "amount"), ledger=ledger, subject="ann")
    with receipts() as receipt:
        for n in range(messages):
            talk.release(str(n), "user", " ".join(amounts[n::messages]))
    spent = 4 * Amount().loss
    assert ledger.spent("ann") == pytest.approx(spent, abs=1e-11)
    assert ledger.spent("ann") >= spent
    assert math.fsum(each.epsilon for each in receipt.charged) == pytest.approx(spent, abs=1e-12)


def test_an_exhausted_budget_draws_nothing(tmp_path):
    ledger = dp.PrivacyLedger(f"sqlite:///{tmp_path}/ledger.db", budget=1.5)
    talk = session({"$10.00": "amount", "$20.00": "amount"}, ledger=ledger, subject="ann")
    talk.release("1", "user", "$10.00")
    with pytest.raises(dp.BudgetExhausted):
        talk.release("2", "user", "$20.00")
    assert list(talk.mapping().values()) == ["$10.00"]


def test_the_rest_is_perturbed_and_one_certificate_has_both_parts(space_and_sanitizer):
    space, sanitizer = space_and_sanitizer
    books = Charges()
    beside = dp.Sanitizer(sanitizer.mechanism, space, ledger=books, subject="ann")
    talk = dp.Pseudonyms(detector(), sanitizer=beside).session()
    release = talk.release("1", "user", "red Mirela Tamburi  blue\n$12,500.00 green")
    first, _, rest = release.text.partition(" ")
    assert first in space.vocabulary.tokens
    assert rest.count("  ") == 1
    assert "\n" in rest
    assert "Mirela" not in release.text
    assert "12,500" not in release.text
    own = sanitizer.certificate.epsilon
    assert release.certificate.epsilon == max(own, Amount().loss)
    assert release.certificate.adjacency.tokens
    assert books.rows == [("ann", Amount().loss, 1), ("ann", release.certificate.epsilon, 3)]
    assert str(release.certificate.adjacency).endswith("with the same entities found")
    restored = talk.restore(release.text)
    assert "Mirela Tamburi" in restored
    assert "$12,500.00" in restored
    assert not math.isinf(release.certificate.epsilon)


def test_a_drawn_word_never_touches_a_pseudonym(space_and_sanitizer):
    _, sanitizer = space_and_sanitizer
    for _ in range(20):
        talk = dp.Pseudonyms(detector(), sanitizer=sanitizer).session()
        release = talk.release("1", "user", "(Mirela Tamburi)red,Berlin.")
        assert "Mirela Tamburi" in talk.restore(release.text)
        assert " Berlin " in talk.restore(release.text)


def test_a_context_sees_the_pseudonym_and_never_the_value():
    """All words are in the vocabulary: what a window would see of a name would be seen."""
    names = ["Mirela", "Tamburi"]
    seen = []

    class Listening(Context):
        window = 9

        def logits(self, ids, space):
            seen.extend(ids)
            return np.zeros((len(ids), len(space)))

        def start(self, space):
            raise AssertionError("a raw context starts no stream")

    space = dp.EmbeddingSpace(dp.Vocabulary([*names, "red", "green"]), np.eye(4))
    mechanism = dp.CapeStrict(epsilon=2.0, logit_bound=1.0, buckets=2, context="raw")
    beside = dp.Sanitizer(mechanism, space, context=Listening())
    talk = dp.Pseudonyms(detector(), sanitizer=beside).session()
    talk.release("1", "user", "red Mirela Tamburi green")
    assert seen == [2, 3]


@pytest.fixture
def space_and_sanitizer():
    space = dp.EmbeddingSpace(
        dp.Vocabulary(["red", "green", "blue"]), [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
    )
    return space, dp.Sanitizer(dp.TokenExponential(epsilon=2.0), space)


def test_what_does_not_go_together_is_refused(space_and_sanitizer):
    with pytest.raises(ParameterError, match="scope"):
        dp.Pseudonyms(detector()).session(scope=lambda text: [])
    with pytest.raises(ParameterError, match="kinds"):
        dp.Pseudonyms(detector(), kinds="person")
    with pytest.raises(ParameterError, match="subject"):
        dp.Pseudonyms(detector(), ledger=Charges())
    with pytest.raises(CannotCalibrate):
        session().at(2.0)


TEXTS = st.text(
    st.one_of(
        st.characters(exclude_categories=["Cs"]),
        st.sampled_from(list(" \n\t.,-'@$0123456789AaBbZz😀ﷺ漢字かなשלוםمرحبا\u200b\u202e\u0301")),
    ),
    max_size=60,
)


@pytest.mark.parametrize(
    ("text", "start", "end"), [("かな값.0 1Dr.かな", 11, 12), ("שלום, שלום192.0.2.7", 0, 4)]
)
def test_a_label_for_a_mention_that_grew_is_apart_from_the_number_behind_it(text, start, end):
    for _ in range(10):
        talk = dp.Pseudonyms(lambda _: [(start, end, "person")]).session()
        assert talk.restore(talk.release("1", "user", text).text) == text


@settings(max_examples=100)
@given(st.data())
def test_outside_of_entities_nothing_is_lost_or_moved_and_all_is_restored(data):
    from dp_middleware.pseudonyms.kinds import default_kinds

    text = data.draw(TEXTS).replace("\x1e", " ")  # that parts the texts of a message
    place = st.integers(0, len(text))
    kinds = st.sampled_from([*default_kinds(), "other"])
    spans = data.draw(st.lists(st.tuples(place, place, kinds), max_size=5))
    found = [(min(a, b), max(a, b), kind) for a, b, kind in spans]
    talk = dp.Pseudonyms(lambda _: found, on_empty="pass").session()
    release = talk.release("1", "user", text)
    draft = talk.sanitizer.read(text).complete(Mapping())
    place = 0
    for start, end in draft.gaps:
        place = release.text.index(text[start:end], place) + end - start
    restored = talk.restore(release.text)
    assert restored.casefold().split() == text.casefold().split() or _changes_with_case(text)


def _changes_with_case(text):
    return text.upper().lower() != text.lower() or text.casefold() != text.lower()
