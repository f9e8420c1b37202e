"""Where text may be recorded: in every process, its console, logs and warnings."""

import io
import logging
import sys
import warnings
from abc import ABC, abstractmethod
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from importlib.util import find_spec

from support.contract._reading import text_of


class Notes:
    """What was recorded, as text, in order."""

    def __init__(self):
        self._seen = []

    def note(self, *values):
        """Record values now: they may change or be closed later."""
        self._seen.append(text_of(values))

    def text(self):
        return "\n".join(list(self._seen))


class Recorder(ABC):
    """Some sources, recorded inside ``with``; ``handlers`` are for a config of LangChain."""

    handlers = ()

    @abstractmethod
    def recording(self):
        """Switch recording on, and everything back as it was at the end."""

    @abstractmethod
    def read(self):
        """Source -> everything that was recorded there, as text."""


class Console(Recorder):
    """Whatever Python writes to standard output and error, as far as pytest has not captured it.

    Pytest takes the streams back between the phases of a test.
    """

    def __init__(self, captured=None):
        self._written, self._captured = io.StringIO(), captured

    @contextmanager
    def recording(self):
        if self._captured is not None:
            yield
            return
        with redirect_stdout(self._written), redirect_stderr(self._written):
            yield

    def read(self):
        if self._captured is not None:
            self._written.writelines(self._captured())
        return {"console": self._written.getvalue()}


class Logs(Recorder):
    """All log records of level DEBUG and up, also of loggers that do not propagate."""

    def __init__(self):
        self._notes = Notes()

    @contextmanager
    def recording(self):
        """On the root logger and on those that do not propagate; other handlers see no more."""
        handler = _LogHandler(self._notes)
        known = logging.root.manager.loggerDict.values()
        loggers = [logger for logger in known if isinstance(logger, logging.Logger)]
        tops = [logging.root, *(logger for logger in loggers if not logger.propagate)]
        silent = [logger for logger in loggers if logger.level > logging.DEBUG]
        handlers = list(logging.root.handlers)
        levels = [(each, each.level) for each in (*tops, *silent, *handlers)]
        for other in handlers:
            other.level = max(other.level, logging.root.level)
        for logger in [*tops, *silent]:
            logger.level = logging.DEBUG
        for logger in tops:
            logger.addHandler(handler)
        _forget_levels()
        try:
            yield
        finally:
            for each, level in levels:
                each.level = level
            _forget_levels()
            for logger in tops:
                logger.removeHandler(handler)

    def read(self):
        return {"logs": self._notes.text()}


def _forget_levels():
    """Every logger remembers what it is enabled for, and forgets it when any level is set.

    To forget takes as long as there are loggers, so the levels above are set without.
    """
    logging.root.setLevel(logging.root.level)


class _LogHandler(logging.Handler):
    def __init__(self, notes):
        super().__init__()
        self._notes = notes

    def emit(self, record):
        error = record.exc_info[1] if record.exc_info else None
        self._notes.note(self.format(record), record.args, record.__dict__, error)


class Warnings(Recorder):
    """All warnings; none is raised or shown."""

    def __init__(self):
        self._caught = []

    @contextmanager
    def recording(self):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self._caught = caught
            yield

    def read(self):
        return {"warnings": text_of([each.message for each in self._caught])}


def installed(package):
    """Whether a framework is there to be recorded; ``None`` in ``sys.modules`` hides one."""
    if package in sys.modules:
        return sys.modules[package] is not None
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:
        return False
