"""Days, months and years as places on one scale, so that all of a session shift together."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date

DAY = 1_000_000  # positions are in millionths of a day, in which a year is a whole number
WEEK, MONTH, YEAR = 7 * DAY, 30_436_875, 365_242_500
STEPS = {"day": WEEK, "yearless": DAY, "month": MONTH, "year": YEAR}
LEAP_START = date(2000, 1, 1).toordinal()  # days without a year are of this one
LEAP_DAYS = 366
SHIFT_YEARS = 4
LAST = date.max.toordinal()


def index(grain: str, fields: Mapping[str, int]) -> int:
    """Number of a day, of a month, of a year, or of a day in a leap year (from 0)."""
    if grain == "year":
        return fields["y"]
    if grain == "month":
        return 12 * fields["y"] + fields["m"] - 1
    if grain == "day":
        return date(fields["y"], fields["m"], fields["d"]).toordinal()
    return date(2000, fields["m"], fields["d"]).toordinal() - LEAP_START


def position(grain: str, index: int) -> int:
    """Where it is on the scale: its day, or the middle of its month or year."""
    if grain == "year":
        return DAY + (index - 1) * YEAR + YEAR // 2
    if grain == "month":
        return DAY + (index - 12) * MONTH + MONTH // 2
    return (index + (LEAP_START if grain == "yearless" else 0)) * DAY


def day_of(grain: str, index: int) -> date | None:
    """A day of it; none beyond the years 1 to 9999."""
    if grain == "year":
        return date(index, 1, 1) if 1 <= index <= date.max.year else None
    if grain == "month":
        return date(index // 12, index % 12 + 1, 1) if 1 <= index // 12 <= date.max.year else None
    if grain == "yearless":
        return date.fromordinal(LEAP_START + index % LEAP_DAYS)
    return date.fromordinal(index) if 1 <= index <= LAST else None


def targets(grain: str, position: int) -> range:
    """Lists days that a session's first date is moved to: of the four calendar years it is in.

    For days those of its weekday, for months and years all, without a year all of a leap year.
    """
    if grain == "yearless":
        return range(LEAP_START, LEAP_START + LEAP_DAYS)
    day = min(max(position // DAY, 1), LAST)
    first = (date.fromordinal(day).year - 1) // SHIFT_YEARS * SHIFT_YEARS + 1
    start = date(first, 1, 1).toordinal()
    end = date(min(first + SHIFT_YEARS - 1, date.max.year), 12, 31).toordinal()
    if grain == "day":
        return range(start + (day - start) % 7, end + 1, 7)
    return range(start, end + 1)


def place_in_year(position: int) -> int:
    """The day of a leap year, from 0, on which a place of the scale lies."""
    day = date.fromordinal(min(max(position // DAY, 1), LAST))
    return day.replace(year=2000).toordinal() - LEAP_START


def moved(grain: str, index: int, shift: int) -> int:
    """An :func:`index` moved by the nearest number of whole weeks, months, years, or leap days."""
    step = STEPS[grain]
    steps = (2 * shift + step) // (2 * step)
    return index + (7 * steps if grain == "day" else steps)
