"""Counts the files of the library that a call crosses, and its changes from one to another."""

import sys
import threading
from dis import opname

_PARTS = ("/dp_middleware/", "_dp_middleware/")
_NOT = ("/tests/",)
_NAMES = frozenset({"<module>", "<lambda>", "<genexpr>", "<listcomp>", "<dictcomp>", "<setcomp>"})


class Way:
    """Counts the calls of functions of the library, in this thread and in those that begin in it.

    Attributes:
        files: Paths of the files.
        calls: Number of calls; a coroutine or a generator that goes on is no new one.
        changes: Number of calls that stand in another file than the call before.
    """

    def __init__(self):
        self.forget()

    def forget(self):
        self.files, self.calls, self.changes, self._last = set[str](), 0, 0, ""

    def _note(self, frame, event, argument):
        code = frame.f_code
        if event != "call" or code.co_name in _NAMES or _goes_on(frame):
            return
        file = code.co_filename
        if any(part in file for part in _NOT) or not any(part in file for part in _PARTS):
            return
        self.files.add(file)
        self.calls += 1
        self.changes += file != self._last
        self._last = file

    def __enter__(self):
        threading.setprofile(self._note)
        sys.setprofile(self._note)
        return self

    def __exit__(self, *details):
        sys.setprofile(None)
        threading.setprofile(None)


def _goes_on(frame):
    """Tells whether a coroutine or generator goes on where it paused: its RESUME says so."""
    place, code = max(frame.f_lasti, 0), frame.f_code.co_code
    return opname[code[place]] == "RESUME" and code[place + 1] & 3 != 0
