"""Quotes of CSV: one that is not closed would carry texts into cells that go out as they are."""

from __future__ import annotations

import re
from collections.abc import Iterable

from dp_middleware.errors import ParameterError

_INSIDE = re.compile(r'(?:[^"]+|"")*+')


def refuse_open_quotes(lines: Iterable[str], separator: str) -> None:
    r"""Refuse a quoted cell that does not end where its closing quote stands.

    Arrow reads on to the next quote, however many rows later. A quote inside of a cell that begins
    with another sign is a sign like others.

    Args:
        lines: Of the file, with their ends: \\n, \\r or both.
        separator: Of cells.

    Raises:
        ParameterError: With the number of the line; quotes nothing of it.
    """
    opening = re.compile(f'(?<![^{separator}])"')  # behind a separator or the start of a line
    inside, number = False, 0
    for number, line in enumerate(lines, start=1):
        place = 0
        while True:
            if not inside:
                found = opening.search(line, place)
                if found is None:
                    break
                place = found.end()
            place = _end(line, place)
            inside = place == len(line)
            if inside:
                break
            place += 1
            if line[place : place + 1] not in ("", separator, "\r", "\n"):
                raise _refusal(number)
    if inside:
        raise _refusal(number)


def _end(line: str, place: int) -> int:
    """Where the closing quote stands; the end of the line if it is in another one."""
    found = _INSIDE.match(line, place)
    return place if found is None else found.end()


def _refusal(number: int) -> ParameterError:
    return ParameterError(
        "expected each quoted cell to end at its closing quote, got more of it, or the end of the "
        f"file, in line {number}; write quotes inside of it twice"
    )
