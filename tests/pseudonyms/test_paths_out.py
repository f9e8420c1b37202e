"""Ways on which private text could leave: races, forks, errors, other subjects, edits."""

import logging
import os
import traceback
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from support.entities import detector
from support.talks import KEY

import dp_middleware as dp
from dp_middleware.errors import ParameterError
from dp_middleware.pseudonyms.kinds import Person
from dp_middleware.pseudonyms.mapping import Pair, combined
from dp_middleware.pseudonyms.seal import Seal

pytest.importorskip("faker", reason="the lists of names are of the extra detect")

NAMES = {"Mirela Tamburi": "person", "Tom": "person"}


def session(**options):
    return dp.Pseudonyms(detector(NAMES), on_empty="pass").session(**options)


def test_threads_that_meet_one_new_entity_agree(tmp_path):
    for options in ({}, {"memo": tmp_path / "memo.sqlite", "key": KEY}):
        talk, start = session(**options), Barrier(6)

        def release(n, talk=talk, start=start):
            start.wait()
            return talk.release(str(n), "user", "Mirela Tamburi").text

        with ThreadPoolExecutor(6) as pool:
            assert len({*pool.map(release, range(6))}) == 1


def test_an_edited_message_keeps_names_and_an_entity_found_later_is_replaced_from_then_on():
    talk = session()
    first = talk.release("1", "user", "Mirela Tamburi called.").text
    edited = talk.release("1", "user", "Mirela Tamburi and Tom called.").text
    assert edited.startswith(first.removesuffix(" called."))
    assert "Tom" not in talk.release("2", "user", "so did tom and TOM").text.split()


def test_a_draw_that_fails_quotes_nothing_and_logs_nothing(caplog):
    class Broken(Person):
        def draw(self, key, shape, free, draws):
            return combined(self.name, lambda: "x", "", lambda _: False)

    talk = dp.Pseudonyms(detector(NAMES), kinds=[Broken()]).session()
    with caplog.at_level(logging.DEBUG), pytest.raises(ParameterError) as error:
        talk.release("1", "user", "Mirela Tamburi called.")
    shown = "".join(traceback.format_exception(error.value)) + caplog.text + str(error.value)
    assert "Mirela Tamburi" not in str(error.value)
    assert "Mirela" not in shown.replace(
        '"Mirela Tamburi called."', ""
    )  # but the line of this test


def test_a_mapping_of_another_subject_or_conversation_does_not_open(tmp_path):
    seal = Seal(b"k" * 32)
    sealed = seal.closed(b"Mirela", b"one")
    assert b"Mirela" not in sealed
    with pytest.raises(Exception, match=r"^(?!.*Mirela)"):
        seal.opened(sealed, b"two")
    assert "Mirela" not in repr(Pair(Person(), "given", "mirela", "Mirela", "Eva"))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_restores_and_its_draws_are_its_own():
    talk = session()
    released = talk.release("1", "user", "Mirela Tamburi").text
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        new = talk.release("2", "user", "Tom").text
        os.write(writer, f"{talk.restore(released)}/{talk.restore(new)}".encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    assert os.read(reader, 100) == b"Mirela Tamburi/Tom"
    assert "Tom" not in talk.mapping().values()
