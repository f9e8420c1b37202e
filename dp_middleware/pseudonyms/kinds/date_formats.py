"""How dates and times are written: a shape, which is public, and its fields."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from typing import NamedTuple

MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
LEAP_YEAR = 2000  # where dates without a year are looked up
PIVOT = 69  # from here on, two digits are a year after 1900, as POSIX has it

CONNECTOR = re.compile(
    r"\s+(?:to|until|till|through|and|or|at|[-\u2013\u2014])\s+|\s*[\u2013\u2014;()\n]\s*"
    r"|(?<=[0-9]{4})-(?=[0-9]{4}(?![0-9]))|(?<=[0-9])T(?=\s|$)"
)
LEAD = re.compile(
    r"(?:(?:from|since|in|on|by|before|after|between|during|early|late|mid|the|of|at|until)\b[\s-]*)+",
    re.IGNORECASE,
)
TIME = re.compile(
    r"(?<![0-9:.])(?P<hour>[01]?[0-9]|2[0-3])"
    r"(?::(?P<minute>[0-5][0-9])(?::(?P<second>[0-5][0-9])(?P<fraction>[.,][0-9]{1,9})?)?)?"
    r"(?P<blank>\s?)(?P<half>[ap]\.?m\b\.?)?(?![0-9:])",
    re.IGNORECASE,
)
ZONE = re.compile(r"Z\b|\s?(?:UTC|GMT)\b")
OFFSET = re.compile(rf"{ZONE.pattern}|[+-][0-9]{{2}}:?[0-9]{{2}}(?![0-9:])")  # behind seconds
NUMERIC = re.compile(r"([0-9]{1,4})([-/.])([0-9]{1,2})\2([0-9]{1,4})")
MONTH_YEAR = re.compile(r"([0-9]{4})(-)([0-9]{2})|([0-9]{1,2})([/.-])([0-9]{4})")
TOKEN = re.compile(
    rf"(?P<B>{'|'.join(MONTHS)})\b|(?P<b>{'|'.join(month[:3] for month in MONTHS)})t?\b"
    rf"|(?P<A>{'|'.join(WEEKDAYS)})\b|(?P<a>{'|'.join(day[:3] for day in WEEKDAYS)})(?:s|rs?)?\b"
    r"|(?P<o>[0-9]{1,2})(?:st|nd|rd|th)\b|(?P<Y>[0-9]{4})(?![0-9])|'(?P<y>[0-9]{2})(?![0-9])"
    r"|(?P<e>[0-9]{1,2})(?![0-9])|(?P<text>[\s,./-]+|of\b|the\b)",
    re.IGNORECASE,
)
GRAINS = {
    ("d", "m", "y"): "day",
    ("m", "y"): "month",
    ("y",): "year",
    ("d", "m"): "yearless",
    ("m",): "month name",
    ("w",): "weekday",
}
FIELDS = {**dict.fromkeys("Yy", "y"), **dict.fromkeys("Bbmn", "m"), **dict.fromkeys("deo", "d")}
FIELDS |= dict.fromkeys("Aa", "w")


class DateReading(NamedTuple):
    """A date that was understood.

    Attributes:
        grain: What it names: a day, month, year, yearless (day and month), month name, weekday.
        template: Its text with codes for its fields.
        fields: Numbers from 1 on of year (y), month (m), day (d), weekday (w).
    """

    grain: str
    template: str
    fields: Mapping[str, int]


def read(text: str, order: str) -> DateReading | None:
    """What a text means as a date, if it is one.

    Args:
        text: Without blanks around.
        order: Of day and month in numeric dates, mdy or dmy; where it gives none, the other.
    """
    text = re.sub(r"\s", " ", text)
    if not text.isascii():  # letters such as a long s would pass for others without case
        return None
    if match := NUMERIC.fullmatch(text):
        first, joint, second, third = match.groups()
        if len(first) == 4:
            return _numeric((first, second, third), "ymd", joint)
        orders = (order, "dmy" if order == "mdy" else "mdy")
        readings = (_numeric((first, second, third), each, joint) for each in orders)
        return next((reading for reading in readings if reading), None)
    if match := MONTH_YEAR.fullmatch(text):
        year, joint, month = match.groups()[:3]
        if year:
            return _numeric((year, month), "ym", joint)
        month, joint, year = match.groups()[3:]
        return _numeric((month, year), "my", joint)
    return _in_words(text)


def _numeric(numbers: tuple[str, ...], order: str, joint: str) -> DateReading | None:
    texts = dict(zip(order, numbers, strict=True))
    if len(texts["y"]) not in (2, 4) or any(len(texts.get(each, "")) > 2 for each in "md"):
        return None
    lengths = [texts[each] for each in "md" if each in texts]
    padded = any(each[0] == "0" for each in lengths) or all(len(each) == 2 for each in lengths)
    codes = {"y": "%Y" if len(texts["y"]) == 4 else "%y"}
    codes |= {"m": "%m", "d": "%d"} if padded else {"m": "%n", "d": "%e"}
    fields = {name: int(number) for name, number in texts.items()}
    fields["y"] = _full_year(texts["y"])
    return _checked(joint.join(codes[each] for each in order), fields)


def _in_words(text: str) -> DateReading | None:
    template, fields, place = "", dict[str, int](), 0
    while place < len(text):
        match = TOKEN.match(text, place)
        if match is None or match.lastgroup is None:
            return None
        code, word = match.lastgroup, match[match.lastgroup]
        place = match.end()
        if code == "text":
            template += word
            continue
        if FIELDS[code] in fields:
            return None
        fields[FIELDS[code]] = _number(code, word)
        if code == "e" and word[0] == "0":
            code = "d"
        template += f"'%{code}" if code == "y" else f"%{code}"
    return _checked(template, fields)


def _number(code: str, word: str) -> int:
    if code in "Bb":
        return [month[:3].lower() for month in MONTHS].index(word[:3].lower()) + 1
    if code in "Aa":
        return [day[:3].lower() for day in WEEKDAYS].index(word[:3].lower()) + 1
    return _full_year(word) if code in "Yy" else int(word)


def _full_year(digits: str) -> int:
    year = int(digits)
    return year if len(digits) > 2 else year + (1900 if year >= PIVOT else 2000)


def _checked(template: str, fields: dict[str, int]) -> DateReading | None:
    names = tuple(sorted(fields))
    grain = GRAINS.get(names) or GRAINS.get(tuple(name for name in names if name != "w"))
    if grain is None or (grain in ("month", "year", "month name") and "w" in fields):
        return None
    try:
        date(fields.get("y", LEAP_YEAR), fields.get("m", 1), fields.get("d", 1))
    except ValueError:
        return None
    return DateReading(grain, template, fields)


def write(template: str, day: date) -> str:
    """A date by a template of :func:`read`."""
    return re.sub("%(.)", lambda match: _field(match[1], day), template)


def _field(code: str, day: date) -> str:
    if code in "Aa":
        name = WEEKDAYS[day.weekday()]
        return name if code == "A" else name[:3]
    if code in "Bb":
        name = MONTHS[day.month - 1]
        return name if code == "B" else name[:3]
    if code in "Yy":
        return f"{day.year:04d}" if code == "Y" else f"{day.year % 100:02d}"
    number = day.month if code in "mn" else day.day
    if code == "o":
        last = number % 10 if number not in (11, 12, 13) else 0
        return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(last, 'th') }"
    return f"{number:02d}" if code in "md" else str(number)


def time_template(match: re.Match[str]) -> str:
    """The shape of a time: codes of its fields, and what is between them."""
    hour, half = match["hour"], match["half"]
    padded = hour[0] == "0" and len(hour) == 2
    template = ("%I" if padded else "%l") if half else ("%H" if padded else "%k")
    template += ":%M" if match["minute"] else ""
    template += ":%S" if match["second"] else ""
    if fraction := match["fraction"]:
        template += fraction[0] + "%f" * (len(fraction) - 1)
    if half:
        template += match["blank"] + ("%P" if "." in half else "%p")
        template += "." if half.endswith(".") else ""
    return template
