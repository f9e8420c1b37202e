"""How dates and times are written: a shape, which is public, and its fields."""

from __future__ import annotations

import re
import string
from collections.abc import Mapping
from datetime import date
from functools import cache
from typing import NamedTuple

from dp_middleware.pseudonyms.cues import CUES

MONTHS, DAYS = CUES["month_names"], CUES["weekday_names"]
LEAP_YEAR = 2000  # where dates without a year are looked up
PIVOT = 69  # from here on, two digits are a year after 1900, as POSIX has it

CONNECTOR = re.compile(
    r"\s+(?:to|until|till|through|and|or|at|bis|und|um|au|et|à|al|y|e|a|tot|en|om|do|i|o|[-\u2013\u2014])\s+|\s*[\u2013\u2014;()\n]\s*"
    r"|(?<=[0-9]{4})-(?=[0-9]{4}(?![0-9]))|(?<=[0-9])T(?=\s|$)"
)
LEAD = re.compile(
    r"(?:(?:from|since|in|on|by|before|after|between|during|early|late|mid|the|of|at|until"
    r"|le|du|el|del|il|dal|am|den|dem|vom|op|dnia)\b[\s-]*)+",
    re.IGNORECASE,
)
TIME = re.compile(
    r"(?<![0-9:.])(?P<hour>[01]?[0-9]|2[0-3])"
    r"(?:(?P<joint>[:h])(?P<minute>[0-5][0-9])(?::(?P<second>[0-5][0-9])(?P<fraction>[.,][0-9]{1,9})?)?)?"
    r"(?P<blank>\s?)(?P<half>[ap]\.?m\b\.?)?(?![0-9:])",
    re.IGNORECASE,
)
ZONE = re.compile(r"Z\b|\s?(?:UTC|GMT)\b")
OFFSET = re.compile(rf"{ZONE.pattern}|[+-][0-9]{{2}}:?[0-9]{{2}}(?![0-9:])")  # behind seconds
NUMERIC = re.compile(r"([0-9]{1,4})([-/.])([0-9]{1,2})\2([0-9]{1,4})")
MONTH_YEAR = re.compile(r"([0-9]{4})(-)([0-9]{2})|([0-9]{1,2})([/.-])([0-9]{4})")
DOTTED = re.compile(r"[0-9]{1,2}\. ")
SIGNS = frozenset(string.printable + "".join([*MONTHS.values(), *DAYS.values()]) + "ÀÁÄÉÛÇŚŹº°")
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
    """A date that was understood."""

    grain: str  # day, month, year, yearless (day and month), month name or weekday
    template: str  # with codes for the fields, behind the language unless it is English
    fields: Mapping[str, int]  # year (y), month (m), day (d) and weekday (w) from 1 on


def read(text: str, order: str, language: str = "en") -> DateReading | None:
    """Reads a text without blanks around as a date, if it is one.

    In numeric dates day and month are in this order, mdy or dmy, or in the other where it gives
    none; with full stops the day is first. A date that is none in its language is of the first of
    :data:`MONTHS` that has it; "3. April" is German and "3 de abril" Spanish where that is English.
    """
    text = re.sub(r"\s", " ", text)
    if not SIGNS.issuperset(text):  # letters such as a long s would pass for others without case
        return None
    if match := NUMERIC.fullmatch(text):
        first, joint, second, third = match.groups()
        if len(first) == 4:
            return _numeric((first, second, third), "ymd", joint)
        orders = ("mdy", "dmy") if order == "mdy" and joint != "." else ("dmy", "mdy")
        readings = (_numeric((first, second, third), each, joint) for each in orders)
        return next((reading for reading in readings if reading), None)
    if match := MONTH_YEAR.fullmatch(text):
        first, joint, second = match.groups()[:3] if match[1] else match.groups()[3:]
        return _numeric((first, second), "ym" if match[1] else "my", joint)
    first = language
    if language == "en":
        first = "de" if DOTTED.match(text) else "es" if " de " in text.lower() else "en"
    return next((found for each in (first, *MONTHS) if (found := _in_words(text, each))), None)


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


def names_of(code: str, language: str) -> list[str]:
    """Returns the months (B, b) or weekdays (A, a) of a language; none where three letters fail."""
    listed = (DAYS[language[:2]] if code in "Aa" else MONTHS[language]).split()
    names = listed if code in "AB" else [name[:3] for name in listed]
    return names if len({*names}) == len(names) else []


@cache
def _token(language: str) -> re.Pattern[str]:
    """Anything that a date is made of."""
    listed = {code: "|".join(names_of(code, language)) or "$^" for code in "BbAa"}
    return re.compile(
        rf"(?P<B>{listed['B']})\b|(?P<b>{listed['b']})t?\b"
        rf"|(?P<A>{listed['A']})\b|(?P<a>{listed['a']})(?:s|rs?)?\b"
        r"|(?P<o>[0-9]{1,2})(?:st|nd|rd|th)\b|(?P<Y>[0-9]{4})(?![0-9])|'(?P<y>[0-9]{2})(?![0-9])"
        r"|(?P<e>[0-9]{1,2})(?:er\b|\.?[º°])?(?![0-9])"
        r"|(?P<text>[\s,./-]+|(?:of|the|del?|de[nmr]|do|dia|van)\b)",
        re.IGNORECASE,
    )


def _in_words(text: str, language: str) -> DateReading | None:
    template, fields, place = "" if language == "en" else f"{language}|", dict[str, int](), 0
    while place < len(text):
        match = _token(language).match(text, place)
        if match is None or match.lastgroup is None:
            return None
        code, word = match.lastgroup, match[match.lastgroup]
        place = match.end()
        if code == "text":
            template += word
            continue
        if FIELDS[code] in fields:
            return None
        fields[FIELDS[code]] = _number(code, word, language)
        if code == "e" and word[0] == "0":
            code = "d"
        template += f"'%{code}" if code == "y" else f"%{code}"
    return _checked(template, fields)


def _number(code: str, word: str, language: str) -> int:
    if code in "AaBb":
        return [name.lower() for name in names_of(code, language)].index(word.lower()) + 1
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
    language, _, codes = template.rpartition("|")
    return re.sub("%(.)", lambda match: _field(match[1], day, language or "en"), codes)


def _field(code: str, day: date, language: str) -> str:
    if code in "AaBb":
        return names_of(code, language)[day.weekday() if code in "Aa" else day.month - 1]
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
    template += f"{match['joint']}%M" if match["minute"] else ""
    template += ":%S" if match["second"] else ""
    if fraction := match["fraction"]:
        template += fraction[0] + "%f" * (len(fraction) - 1)
    if half:
        template += match["blank"] + ("%P" if "." in half else "%p")
        template += "." if half.endswith(".") else ""
    return template
