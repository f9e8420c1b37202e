"""Numbers and texts as they are shown."""

from dp_middleware.cli import show


def test_control_characters_of_a_remote_model_do_not_reach_the_terminal():
    assert show.printable("a\x1b[2Jb\r\n\tc\x9b") == "a[2Jb\n\tc"
