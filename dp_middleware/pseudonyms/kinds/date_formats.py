"""How dates and times are written: a shape, which is public, and its fields."""

from __future__ import annotations

import re
import string
from datetime import date
from functools import cache
from typing import NamedTuple

from dp_middleware.pseudonyms.cues import CUES, rules
from dp_middleware.pseudonyms.draws import Draws

MONTHS, DAYS = CUES["month_names"], CUES["weekday_names"]
LEAP_YEAR = 2000  # where dates without a year are looked up
PIVOT = 69  # from here on, two digits are a year after 1900, as POSIX has it
CONNECTOR, LEAD, TIME, ZONE, OFFSET, NUMERIC = rules(
    "dates", "connector", "lead", "time", "zone", "offset", "numeric"
)
DOTTED = re.compile(r"[0-9]{1,2}\. ")
SIGNS = frozenset(string.printable + "".join([*MONTHS.values(), *DAYS.values()]) + "ÀÁÄÉÛÇŚŹº°")
GRAINS = {"dmy": "day", "dmwy": "day", "my": "month", "y": "year", "dm": "yearless"}
GRAINS |= {"dmw": "yearless", "m": "month-name", "w": "weekday"}  # by fields
FIELDS = {**dict.fromkeys("Yy", "y"), **dict.fromkeys("Bbmn", "m"), **dict.fromkeys("deo", "d")}
FIELDS |= dict.fromkeys("Aa", "w")
TIMES = {"p": 2, "P": 2, "M": 60, "S": 60, "f": 10, "H": 24, "k": 24, "I": 12, "l": 12}


class DateReading(NamedTuple):
    """A date that was understood."""

    grain: str  # day, month, year, yearless (day and month), month-name or weekday
    template: str  # with codes for the fields, behind the language unless it is English
    day: date  # the first of it, in a leap year where it has none


def read(text: str, order: str | None, language: str = "en") -> DateReading | None:
    """Reads a text without blanks around as a date, if it is one.

    In numeric dates day and month are in this order, mdy (the default in English) or dmy, or in the
    other where it gives none; with full stops the day is first. A date that is none in its language
    is of the first of :data:`MONTHS` that has it; "3. April" is German and "3 de abril" Spanish
    where that is English.
    """
    text = re.sub(r"\s", " ", text)
    if not SIGNS.issuperset(text):  # letters such as a long s would pass for others without case
        return None
    if match := NUMERIC.fullmatch(text):
        first, joint, *rest = filter(None, match.groups())
        is_dmy = joint == "." or (order or ("mdy" if language == "en" else "dmy")) == "dmy"
        orders = ["dmy", "mdy"] if is_dmy else ["mdy", "dmy"]
        if len(first) == 4 or len(rest) == 1:
            orders = ["ymd" if len(first) == 4 else "my"]
        readings = (_numeric([first, *rest], each, joint) for each in orders)
    else:
        told = "de" if DOTTED.match(text) else "es" if " de " in text.lower() else "en"
        languages = (told if language == "en" else language, *MONTHS)
        readings = (_in_words(text, each) for each in languages)
    return next(filter(None, readings), None)


def _numeric(numbers: list[str], order: str, joint: str) -> DateReading | None:
    texts = dict(zip(order, numbers, strict=False))
    others = [text for field, text in texts.items() if field != "y"]
    if len(texts["y"]) not in (2, 4) or any(len(text) > 2 for text in others):
        return None
    padded = any(text[0] == "0" for text in others) or all(len(text) == 2 for text in others)
    codes = {"m": "%m", "d": "%d"} if padded else {"m": "%n", "d": "%e"}
    codes["y"] = "%Y" if len(texts["y"]) == 4 else "%y"
    fields = {field: int(text) for field, text in texts.items()} | {"y": _full_year(texts["y"])}
    return _checked(joint.join(codes[field] for field in texts), fields)


def names_of(code: str, language: str) -> list[str]:
    """Returns the months (B, b) or weekdays (A, a) of a language; none where three letters fail."""
    listed = (DAYS[language[:2]] if code in "Aa" else MONTHS[language]).split()
    names = listed if code in "AB" else [name[:3] for name in listed]
    return names if len({*names}) == len(names) else []


@cache
def _token(language: str) -> re.Pattern[str]:
    """Anything that a date is made of, by its code."""
    listed = {code: "|".join(names_of(code, language)) or "$^" for code in "BbAa"}
    return re.compile(
        rf"(?P<B>{listed['B']})\b|(?P<b>{listed['b']})t?\b"
        rf"|(?P<A>{listed['A']})\b|(?P<a>{listed['a']})(?:s|rs?)?\b"
        r"|(?P<o>[0-9]{1,2})(?:st|nd|rd|th)\b|(?P<Y>[0-9]{4})(?![0-9])|'(?P<y>[0-9]{2})(?![0-9])"
        r"|(?P<e>[0-9]{1,2})(?:er\b|\.?[º°])?(?![0-9])"
        r"|(?P<text>[\s,./-]+|(?:of|the|del?|de[nmr]|do|dia|van)\b)|(?P<other>.)",
        re.IGNORECASE | re.DOTALL,
    )


def _in_words(text: str, language: str) -> DateReading | None:
    template, fields = "" if language == "en" else f"{language}|", dict[str, int]()
    for match in _token(language).finditer(text):
        code = match.lastgroup or "other"
        word = match[code]
        if code == "text":
            template += word
            continue
        if code == "other" or FIELDS[code] in fields:
            return None
        if code in "AaBb":
            number = [name.lower() for name in names_of(code, language)].index(word.lower()) + 1
        else:
            number = _full_year(word) if code in "Yy" else int(word)
        fields[FIELDS[code]] = number
        code = "d" if code == "e" and word[0] == "0" else code
        template += f"'%{code}" if code == "y" else f"%{code}"
    if "y" not in fields and "d" in fields:  # its weekday stays
        weekday = lambda match: names_of(match[1], language)[fields["w"] - 1]  # noqa: E731
        template = re.sub("%([Aa])", weekday, template)
    return _checked(template, fields)


def _full_year(digits: str) -> int:
    year = int(digits)
    return year if len(digits) > 2 else year + (1900 if year >= PIVOT else 2000)


def _checked(template: str, fields: dict[str, int]) -> DateReading | None:
    grain = GRAINS.get("".join(sorted(fields)))
    try:
        day = date(fields.get("y", LEAP_YEAR), fields.get("m", 1), fields.get("d", 1))
    except ValueError:
        return None
    return DateReading(grain, template, day) if grain else None


def write(template: str, day: date) -> str:
    """A date by a template of :func:`read`."""
    language, _, codes = template.rpartition("|")

    def field(match: re.Match[str]) -> str:
        code = match[1]
        if code in "AaBb":
            names = names_of(code, language or "en")
            return names[day.weekday() if code in "Aa" else day.month - 1]
        if code in "Yy":
            return f"{day.year:04d}" if code == "Y" else f"{day.year % 100:02d}"
        number = day.month if code in "mn" else day.day
        if code == "o":
            last = number % 10 if number not in (11, 12, 13) else 0
            return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(last, 'th') }"
        return f"{number:02d}" if code in "md" else str(number)

    return re.sub("%(.)", field, codes)


def time_template(match: re.Match[str]) -> str:
    """The shape of a time: codes of its fields, and what is between them."""
    hour, half, fraction = match["hour"], match["half"], match["fraction"]
    padded = hour[0] == "0" and len(hour) == 2
    template = ("%I" if padded else "%l") if half else ("%H" if padded else "%k")
    template += f"{match['joint']}%M" if match["minute"] else ""
    template += ":%S" if match["second"] else ""
    template += fraction[0] + "%f" * (len(fraction) - 1) if fraction else ""
    if half:
        template += match["blank"] + ("%P" if "." in half else "%p") + "." * half.endswith(".")
    return template


def time(template: str, draws: Draws) -> str:
    """Draws a uniform time of a shape."""

    def field(match: re.Match[str]) -> str:
        code = match[1]
        drawn = draws.below(TIMES[code]) + (code in "Il")  # hours of a half from 1 on
        if code in "pP":
            return "ap"[drawn] + (".m" if code == "P" else "m")
        return f"{drawn:02d}" if code in "MSHI" else str(drawn)

    return re.sub("%(.)", field, template)
