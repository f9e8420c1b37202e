"""Dates: one secret shift a session, near their value at an epsilon, or uniform."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from typing import ClassVar

from dp_middleware import _validate
from dp_middleware.pseudonyms.cues import KEEPS
from dp_middleware.pseudonyms.draws import Draws, Free, Part, core, whole
from dp_middleware.pseudonyms.kinds import date_formats
from dp_middleware.pseudonyms.kinds.date_formats import LEAP_YEAR, DateReading, write
from dp_middleware.pseudonyms.kinds.numbers import NearKind
from dp_middleware.pseudonyms.mapping import Spoken, tried

# all dates are places on one scale, in millionths of a day, in which a year is a whole number
DAY, MONTH, YEAR = 1_000_000, 30_436_875, 365_242_500
STEPS = {"day": 7 * DAY, "yearless": DAY, "month": MONTH, "year": YEAR}
BLOCKS = {"day": 2, "month": 50, "year": 100}  # years of a grid of near points
SHIFT_YEARS = 4
LEAP_START = date(LEAP_YEAR, 1, 1).toordinal()
LEAP = range(LEAP_START, LEAP_START + 366)  # for days without a year
LAST = date.max.toordinal()
TRIES = 200
FURTHER = 60  # steps from a shifted date that is in use


@dataclass(frozen=True, kw_only=True)
class Date(NearKind, Spoken):
    """Dates in the format that they are written in; what is not read as one becomes a label.

    Guarantee:
        ``shift``: the first date of a session that has a year gets a uniform day of the same
        weekday in its four calendar years (a year or month: of any day), all others with a year
        move with it by whole weeks, months or years. A date without a year moves, around a leap
        year, as the day of the year of the first date does; where that has no year either, it gets
        a uniform one of 366 days, and the first date with a year a draw of its own. So every
        pseudonym is a function of these draws and of what is declared public. A shift of zero may
        occur: else a date would be told apart from what stands for it. ``near``: a staircase on a
        public grid of days, months or years. ``uniform``: any day of the years. Months and
        weekdays alone, and times, are uniform under each.

    Attributes:
        order: Of numeric dates: ``mdy`` or ``dmy``; default the former in English alone.
        times: ``uniform`` in their format or ``kept``, which declares them public.
        years: First and last one, for ``uniform``.
    """

    name = "date"
    numeric = True
    keeps = KEEPS["date"]
    laws: ClassVar[tuple[str, ...]] = ("shift", "near", "uniform")

    law: str = "shift"
    order: str | None = None
    times: str = "uniform"
    years: tuple[int, int] = (1950, 2030)

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate.one_of((None, "mdy", "dmy"), order=self.order)
        _validate.one_of(("uniform", "kept"), times=self.times)
        _validate.at_least(1, first=self.years[0])
        _validate.at_least(self.years[0], last=self.years[1])

    def parts(self, mention: str) -> list[Part]:
        """Returns dates and times between connectors such as "to"; all where one is not read."""
        parts, rest = self._times(mention)
        apart = date_formats.CONNECTOR.sub(lambda match: "\n" * len(match.group()), rest)
        for match in re.finditer(r"[^\n]+", apart):
            start, end = core(rest, *match.span())
            if lead := date_formats.LEAD.match(rest, start, end):
                start = lead.end()
            if start >= end:
                continue
            reading = self._read(rest[start:end])
            if reading is None:
                return whole(mention)
            grain, block = reading.grain, 0
            if self.law == "near" and grain in BLOCKS:
                block = (reading.day.year - 1) // BLOCKS[grain] * BLOCKS[grain] + 1
            parts.append(Part(start, end, f"{grain} {block} {reading.template}"))
        return sorted(parts) if parts or rest != mention else whole(mention)

    def _times(self, mention: str) -> tuple[list[Part], str]:
        """Parts of times, and the mention with blanks in their place."""
        parts, rest, done = [], mention, 0
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

    def _read(self, text: str) -> DateReading | None:
        return date_formats.read(text, self.order, self.language or "en")

    def _drawn(self, key: str, shape: str, free: Free, draws: Draws) -> str | None:
        grain, _, rest = shape.partition(" ")
        if not grain:
            return None
        if grain == "time":
            return tried(lambda: date_formats.time(rest, draws), free, TRIES)
        if grain in ("month-name", "weekday"):
            days = [(n, 1) if grain == "month-name" else (1, n) for n in range(1, 13)]
            template = shape.split(" ", 2)[2]
            every = [write(template, date(2001, month, day)) for month, day in days]
            return draws.left(list(dict.fromkeys(every)), free)
        if self.law == "shift":
            return self._shifted(key, shape, free, draws)
        if self.law == "uniform":
            grid = _grid(grain, *self.years)
            return tried(lambda: _written(shape, grid[draws.below(len(grid))]), free, TRIES)
        if not (points := self.points(shape, free)):
            return None
        return _written(shape, points[draws.pick(self.weights(key, shape, points))])

    def _value(self, key: str, shape: str) -> int:
        reading = self._read(key)
        assert reading is not None  # parts() has read it
        return index(reading.grain, reading.day)

    def _shifted(self, key: str, shape: str, free: Free, draws: Draws) -> str | None:
        """Moved as the first date of the session; further by few steps where that is in use."""
        grain, value = shape.partition(" ")[0], self._value(key, shape)
        step, shift = STEPS[grain], session_shift(grain, position(grain, value), draws)
        moved = (2 * shift + step) // (2 * step)  # the nearest number of steps
        for further in sorted(range(-FURTHER, FURTHER + 1), key=abs):
            steps = (moved + further) * (7 if grain == "day" else 1)
            text = _written(shape, value + steps)
            if text is not None and free(text):
                return text
        return None

    def points(self, shape: str, free: Free) -> list[int]:
        """For ``near``: days, months or years of the grid that are not in use, ascending."""
        grain, block, _ = shape.split(" ", 2)
        grid = _grid(grain, int(block), int(block) + BLOCKS.get(grain, 1) - 1)
        return [n for n in grid if (text := _written(shape, n)) is not None and free(text)]


def index(grain: str, day: date) -> int:
    """Number of a year, of a month, or of a day."""
    if grain == "year":
        return day.year
    return 12 * day.year + day.month - 1 if grain == "month" else day.toordinal()


def position(grain: str, index: int) -> int:
    """Where it is on the scale: its day, or the middle of its month or year."""
    if grain not in ("year", "month"):
        return index * DAY
    return DAY + (index - (1 if grain == "year" else 12)) * STEPS[grain] + STEPS[grain] // 2


def _written(shape: str, index: int) -> str | None:
    """A date by its shape and number; none beyond the years 1 to 9999."""
    grain, _, template = shape.split(" ", 2)
    with suppress(ValueError, OverflowError):
        if grain == "yearless":
            index = LEAP[(index - LEAP_START) % len(LEAP)]
        elif grain in ("year", "month"):
            year, month = (index, 0) if grain == "year" else divmod(index, 12)
            return write(template, date(year, month + 1, 1))
        return write(template, date.fromordinal(index))
    return None


def _grid(grain: str, first: int, last: int) -> range:
    """All days, months or years from a first year to a last one, or all days of a leap year."""
    if grain == "yearless":
        return LEAP
    end = date(min(last, date.max.year), 12, 31)
    return range(index(grain, date(first, 1, 1)), index(grain, end) + 1)


def targets(grain: str, position: int) -> range:
    """Lists days of its weekday (of a month or year: all) in the four years of a first date."""
    if grain == "yearless":
        return LEAP
    day = _day(position)
    first = (day.year - 1) // SHIFT_YEARS * SHIFT_YEARS + 1
    days = _grid("day", first, first + SHIFT_YEARS - 1)
    return days[(day.toordinal() - days[0]) % 7 :: 7] if grain == "day" else days


def _day(position: int) -> date:
    return date.fromordinal(min(max(position // DAY, 1), LAST))


def session_shift(grain: str, position: int, draws: Draws) -> int:
    """Tells how far dates of a session move, in millionths of a day; the first one decides."""
    first, at, day = _first_moved("date", grain, position, draws)
    if grain == "yearless":
        moved, here = (_day(each).replace(year=LEAP_YEAR).toordinal() for each in (day, at))
        return (moved - here) * DAY
    if first == "yearless":
        _, at, day = _first_moved("date with a year", grain, position, draws)
    return day - at


def _first_moved(name: str, grain: str, position: int, draws: Draws) -> tuple[str, int, int]:
    """Grain and position of the first date that came under a name, and where it was moved to."""
    grains = list(STEPS)
    if draws.agree:  # one day for all conversations
        grain, position = "day", LEAP_START * DAY
    code = draws.first(name, position * len(grains) + grains.index(grain))
    first, grain = code // len(grains), grains[code % len(grains)]
    days = targets(grain, first)
    return grain, first, days[draws.once(name, len(days))] * DAY
