"""One request and its answer: what is restored was in the request, whoever asks."""

import json
import logging
import traceback
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st
from support.cases import over
from support.entities import detector
from support.texts import CANARY

import dp_middleware as dp
from dp_middleware.conversation.exchange import Reply
from dp_middleware.conversation.messages import ONCE, Message, ToolCall, of_words

NAMES = {"Mirela Tamburi": "person", "Osric Vantongeren": "person"}


@pytest.fixture
def talk():
    return dp.Pseudonyms(detector(NAMES), on_empty="pass").session()


def user(*texts, **fields):
    return Message(role="user", texts=texts, **fields)


def answer(text, *calls, **fields):
    return Message(role="assistant", texts=(text,), calls=calls, **fields)


def sent(exchange):
    return [message.text for message in exchange.sent]


def test_what_is_restored_was_in_the_request(talk):
    first = talk.exchange([user("Mirela Tamburi")])
    [name] = sent(first)
    for other in ([user("who?")], [user("w", id=ONCE)], [user("who?"), user("Osric Vantongeren")]):
        assert talk.exchange(other).restore(f"It is {name}.") == f"It is {name}."
    assert first.restore(f"It is {name}.") == "It is Mirela Tamburi."


def test_the_words_of_a_foreign_answer_restore_nothing(talk):
    """Whoever has seen what the remote model was sent cannot have it undone."""
    first = talk.exchange([user("Mirela Tamburi")])
    [name] = sent(first)
    first.answer(answer(f"Dear {name}"))
    for begun in ("who?", "Osric Vantongeren"):
        other = talk.exchange([user(begun), answer(f"Dear {name}"), user("and?")])
        assert other.restore(name) == name


@over("dropped", [0, 1])
def test_a_transcript_goes_on_where_its_answers_stand(talk, dropped):
    first = talk.exchange([user("Mirela Tamburi")])
    [name] = sent(first)
    shown = first.answer(answer(f"Dear {name}"))
    assert shown.text == "Dear Mirela Tamburi"
    second = talk.exchange([user("Mirela Tamburi"), shown, user("Is Tamburi here?")][dropped:])
    assert second.conversation == first.conversation
    assert sent(second)[-2:] == [f"Dear {name}", f"Is {name.split()[1]} here?"]
    assert second.restore(name) == "Mirela Tamburi"


def test_an_equal_request_is_an_equal_release_and_free(talk):
    asked = user("Mirela Tamburi")
    once, again, other = (
        sent(talk.exchange([user(system, aside=True), asked]))
        for system in ("be brief", "be brief", "be short")
    )
    assert once == again
    assert other[1] == once[1]


def test_tools_are_called_with_pseudonyms_unless_they_are_named(talk, caplog):
    exchange = talk.exchange([user("Mirela Tamburi")], tools=["look_up"])
    [name] = sent(exchange)
    given = json.dumps({"q": name})
    calls = [ToolCall(tool, tool, given) for tool in ("look_up", "fetch")]
    shown = exchange.shown(answer("", *calls))
    assert [json.loads(call.arguments)["q"] for call in shown.calls] == ["Mirela Tamburi", name]
    exchange.arguments("fetch", given)
    [warning] = [r for r in caplog.records if r.levelno == logging.WARNING]
    assert "tools=['fetch']" in warning.getMessage()
    everything = talk.exchange([user("Mirela Tamburi")], tools="all")
    assert everything.arguments("fetch", {"q": [name]}) == {"q": ["Mirela Tamburi"]}


def test_a_reply_in_pieces_is_the_whole_answer(talk):
    exchange = talk.exchange([user("Mirela Tamburi")], tools=["f"])
    [name] = sent(exchange)
    given = json.dumps({"q": name})
    whole = exchange.shown(answer(f"It is {name}.", ToolCall("1", "f", given)))
    reply = Reply(exchange)
    text = "".join(map(reply.text, f"It is {name}.")) + reply.close("text")
    reply.call(0, "1", "f")
    arguments = "".join(reply.arguments(piece, 0) for piece in given) + reply.close(0)
    assert (text, arguments) == (whole.text, whole.calls[0].arguments)
    reply.end()
    later = talk.exchange([user("Mirela Tamburi"), whole, user("w")])
    assert later.sent[1].calls[0].arguments == given


class Failing:
    def feed(self, piece):
        raise ValueError(piece)

    def close(self):
        raise ValueError(CANARY)


def test_a_restoration_that_fails_quotes_nothing(talk):
    exchange = replace(talk.exchange([user("Mirela Tamburi")]), _restorers=lambda *_: Failing())
    close = lambda _: exchange.restorer().close()  # noqa: E731
    for work in (exchange.restore, exchange.restorer().feed, Reply(exchange).text, close):
        with pytest.raises(dp.DPMiddlewareError, match="restoration failed with Value") as caught:
            work(CANARY)
        assert CANARY not in "".join(traceback.format_exception(caught.value))


def test_a_later_exchange_goes_on_from_one_that_it_names(talk):
    first = talk.exchange([user("Mirela Tamburi")], conversation="c")
    first.keep("resp_1")
    asked = [user("and?", id="2")]
    later = talk.exchange(asked, conversation="c", after="resp_1")
    assert later.restore(sent(first)[0]) == "Mirela Tamburi"
    with pytest.raises(dp.EventRefused):
        talk.exchange(asked, conversation="c", after="resp_2")


def test_an_extracted_answer_is_known_by_its_place(talk):
    asked = [user("Mirela Tamburi")]
    talk.exchange(asked).note_extracted((answer("yes"), answer("She is ill.")))
    assert sent(talk.exchange([*asked, answer("She is ill."), user("w")]))[1] == "yes"
    with pytest.raises(dp.EventRefused):
        talk.exchange([user("w"), answer("She is ill.")])


def test_parts_of_a_message_go_out_as_parts(session):
    """Of a sanitizer, too; a separator in a private text is none."""
    exchange = session.exchange([user("w1 w2", "w3"), user("w1\x1ew2")])
    first, second = exchange.sent
    assert [len(text.split()) for text in first.texts] == [2, 1]
    assert "\x1e" not in second.text + first.text
    assert "\x1e" not in session.release("m", "user", "w1\x1ew2").text


TEXTS = st.text(max_size=20)


@given(TEXTS, st.lists(st.tuples(TEXTS, TEXTS, TEXTS), max_size=2), st.dictionaries(TEXTS, TEXTS))
def test_an_answer_is_known_by_its_words(text, calls, extra):
    message = answer(text, *(ToolCall(*call) for call in calls), extra=extra)
    again = of_words(message.words())
    assert (again.text, again.extra, again.words()) == (text, extra, message.words())
    assert [call[:2] for call in again.calls] == [call[:2] for call in message.calls]


def test_an_answer_that_was_noted_by_hand_is_known_in_every_conversation_without_a_name(talk):
    talk.note_remote("a", "noted")
    for asked in ([user("who?")], [user("Mirela Tamburi")]):
        assert sent(talk.exchange([*asked, answer("shown", id="a")]))[1] == "noted"
    with pytest.raises(dp.EventRefused):
        talk.exchange([user("who?"), answer("shown", id="a")], conversation="c")
