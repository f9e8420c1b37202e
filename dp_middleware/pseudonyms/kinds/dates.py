"""Dates: one secret shift a session, near their value at an epsilon, or uniform."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from typing import ClassVar

from dp_middleware import _validate
from dp_middleware.pseudonyms.draws import Draws, Free, Part, core, whole
from dp_middleware.pseudonyms.kinds import calendars, date_formats
from dp_middleware.pseudonyms.kinds.date_formats import DateReading
from dp_middleware.pseudonyms.kinds.staircase import NearKind
from dp_middleware.pseudonyms.mapping import Spoken, tried

BLOCKS = {"day": 2, "month": 50, "year": 100}  # years of a grid of near points
TRIES = 200
FURTHER = 60  # steps from a shifted date that is in use


@dataclass(frozen=True, kw_only=True)
class Date(NearKind, Spoken):
    """Dates in the format that they are written in; what is not read as one becomes a label.

    Guarantee:
        ``shift``: the first date of a session that has a year gets a uniform day of the same
        weekday in its four calendar years (a year or month: of any day), all others with a year
        move with it by whole weeks, months or years. A date without a year moves, around a leap
        year, as the day of the year of the session's first date does; where that has no year
        either, it gets a uniform one of 366 days, and the first date with a year a draw of its
        own. Every pseudonym is then a function of these draws and of what is declared public, so
        nothing more is lost. A shift of zero may occur: without it a date would be told apart from
        what stands for it. ``near``: a staircase on a public grid of days,
        months or years. ``uniform``: any day of the years. Months and weekdays alone, and times,
        are uniform under each.

    Attributes:
        order: Of numeric dates: ``mdy`` or ``dmy``; default the former in English alone.
        times: ``uniform`` in their format or ``kept``, which declares them public.
        years: First and last one, for ``uniform``.
    """

    name = "date"
    numeric = True
    keeps = (
        "format and language of dates and times, each read by itself (May is a long month, 10:30"
        " has no leading zero, in 14/02/2024 the day is first); with law shift: the intervals"
        " between the dates of a session that have a year, their weekdays, and the four calendar"
        " years of the first; how many days of a leap year lie between a date without a year and"
        " the first date of the session, unless only one that comes later has a year; a weekday"
        " that is written; with law near: the two years of a day, fifty of a month, hundred of a"
        " year; times where they are kept"
    )

    laws: ClassVar[tuple[str, ...]] = ("shift", "near", "uniform")

    law: str = "shift"
    order: str | None = None
    times: str = "uniform"
    years: tuple[int, int] = (1950, 2030)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.order is not None:
            _validate.one_of(("mdy", "dmy"), order=self.order)
        _validate.one_of(("uniform", "kept"), times=self.times)
        _validate.at_least(1, first=self.years[0])
        _validate.at_least(self.years[0], last=self.years[1])

    def parts(self, mention: str) -> list[Part]:
        """Returns dates and times between connectors such as "to"; all where one is not read."""
        parts, rest = self._times(mention)
        edges = [match.span() for match in date_formats.CONNECTOR.finditer(rest)]
        starts, ends = [0, *(b for _, b in edges)], [*(a for a, _ in edges), len(rest)]
        for start, end in zip(starts, ends, strict=True):
            start, end = core(rest, start, max(start, end))
            if lead := date_formats.LEAD.match(rest, start, end):
                start = lead.end()
            if start >= end:
                continue
            reading = self._read(rest[start:end])
            if reading is None:
                return whole(mention)
            parts.append(Part(start, end, self._shape_of(reading)))
        if not parts and rest == mention:
            return whole(mention)
        return sorted(parts)

    def _times(self, mention: str) -> tuple[list[Part], str]:
        """Parts of times, and the mention with blanks in their place."""
        parts, rest = [], mention
        done = 0
        for match in date_formats.TIME.finditer(mention):
            if match.start() < done or not (match["minute"] or match["half"]):
                continue
            start, end = match.start(), match.end() if match["half"] else match.start("blank")
            if self.times == "uniform":
                parts.append(Part(start, end, f"time {date_formats.time_template(match)}"))
            zones = date_formats.OFFSET if match["second"] else date_formats.ZONE
            zone = zones.match(mention, end)
            done = zone.end() if zone else end
            rest = rest[:start] + " " * (done - start) + rest[done:]
        return parts, rest

    def _shape_of(self, reading: DateReading) -> str:
        """Grain, first year of the grid or 0, template; the weekday of a date without a year."""
        block = 0
        if self.law == "near" and reading.grain in BLOCKS:
            length = BLOCKS[reading.grain]
            block = (reading.fields["y"] - 1) // length * length + 1
        template = reading.template
        if reading.grain == "yearless" and "w" in reading.fields:
            language = template.rpartition("|")[0] or "en"
            for code in "Aa":
                names = date_formats.names_of(code, language)
                template = template.replace(f"%{code}", names[reading.fields["w"] - 1])
        return f"{reading.grain.replace(' ', '-')} {block} {template}"

    def _drawn(self, key: str, shape: str, free: Free, draws: Draws) -> str | None:
        grain, _, rest = shape.partition(" ")
        if not grain:
            return None
        if grain == "time":
            return tried(lambda: _time(rest, draws), free, TRIES)
        if grain in ("month-name", "weekday"):
            return draws.left(_names(shape), free)
        if self.law == "shift":
            return self._shifted(key, shape, free, draws)
        if self.law == "uniform":
            grid = _grid(grain, *self.years)
            return tried(lambda: _written(shape, grid[draws.below(len(grid))]), free, TRIES)
        if not (points := self.points(shape, free)):
            return None
        return _written(shape, points[draws.pick(self.weights(key, shape, points))])

    def _read(self, text: str) -> DateReading | None:
        language = self.language or "en"
        order = self.order or ("mdy" if language == "en" else "dmy")
        return date_formats.read(text, order, language)

    def _value(self, key: str, shape: str) -> int:
        reading = self._read(key)
        assert reading is not None  # parts() has read it
        return calendars.index(shape.partition(" ")[0], reading.fields)

    def _shifted(self, key: str, shape: str, free: Free, draws: Draws) -> str | None:
        """Moved as the first date of the session; further by few steps where that is in use."""
        grain, index = shape.partition(" ")[0], self._value(key, shape)
        shift = session_shift(grain, calendars.position(grain, index), draws)
        for step in sorted(range(-FURTHER, FURTHER + 1), key=abs):
            further = step * calendars.STEPS[grain]
            text = _written(shape, calendars.moved(grain, index, shift + further))
            if text is not None and free(text):
                return text
        return None

    def points(self, shape: str, free: Free) -> list[int]:
        """For ``near``: days, months or years of the grid that are not in use, ascending."""
        grain, block, _ = shape.split(" ", 2)
        last = min(int(block) + BLOCKS.get(grain, 1) - 1, date.max.year)
        grid = _grid(grain, int(block), last)
        return [n for n in grid if (text := _written(shape, n)) is not None and free(text)]


def _grid(grain: str, first: int, last: int) -> range:
    """All days, months or years from a first year to a last one, or all days of a leap year."""
    if grain == "yearless":
        return range(calendars.LEAP_DAYS)
    lowest = calendars.index(grain, {"y": first, "m": 1, "d": 1})
    return range(lowest, calendars.index(grain, {"y": last, "m": 12, "d": 31}) + 1)


def session_shift(grain: str, position: int, draws: Draws) -> int:
    """Tells how far dates of a session move, in millionths of a day; the first one decides."""
    first, at, day = _first_moved("date", grain, position, draws)
    if grain == "yearless":
        return (calendars.place_in_year(day) - calendars.place_in_year(at)) * calendars.DAY
    if first == "yearless":
        _, at, day = _first_moved("date with a year", grain, position, draws)
    return day - at


def _first_moved(name: str, grain: str, position: int, draws: Draws) -> tuple[str, int, int]:
    """Grain and position of the first date that came under a name, and where it was moved to."""
    grains = list(calendars.STEPS)
    if draws.agree:  # one day for all conversations
        grain, position = "day", calendars.LEAP_START * calendars.DAY
    code = draws.first(name, position * len(grains) + grains.index(grain))
    first, grain = code // len(grains), grains[code % len(grains)]
    targets = calendars.targets(grain, first)
    return grain, first, targets[draws.once(name, len(targets))] * calendars.DAY


def _written(shape: str, index: int) -> str | None:
    grain, _, template = shape.split(" ", 2)
    day = calendars.day_of(grain, index)
    return None if day is None else date_formats.write(template, day)


def _names(shape: str) -> list[str]:
    """All months or weekdays as a template writes them."""
    grain, _, template = shape.split(" ", 2)
    months = grain == "month-name"
    days = [date(2001, n, 1) if months else date(2001, 1, n) for n in range(1, 13 if months else 8)]
    return list(dict.fromkeys(date_formats.write(template, day) for day in days))


def _time(template: str, draws: Draws) -> str:
    """A uniform time by its template."""

    def field(match: re.Match[str]) -> str:
        first, last, form = _FIELDS[match[1]]
        drawn = first + draws.below(last - first + 1)
        return "ap"[drawn] + form if "m" in form else form.format(drawn)

    return re.sub("%(.)", field, template)


_FIELDS = {  # of times: least, largest, and how it is written
    "p": (0, 1, "m"),
    "P": (0, 1, ".m"),
    "M": (0, 59, "{:02d}"),
    "S": (0, 59, "{:02d}"),
    "f": (0, 9, "{}"),
    "H": (0, 23, "{:02d}"),
    "k": (0, 23, "{}"),
    "I": (1, 12, "{:02d}"),
    "l": (1, 12, "{}"),
}
