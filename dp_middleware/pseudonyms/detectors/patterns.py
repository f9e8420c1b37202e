"""Patterns of what is written in signs of its own: contacts, ids, dates, amounts, ages, paths."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from dp_middleware.errors import needs
from dp_middleware.pseudonyms.detection import Entity
from dp_middleware.pseudonyms.detectors.cues import alternatives

with needs("detect"):
    import regex
    from stdnum import iban, luhn

_FOREIGN = regex.compile(
    r"[^\P{L}\p{Latin}](?:[^\P{L}\p{Latin}]|\p{M}|[ \u200c\u200d\u200e-])*[^\P{L}\p{Latin}]\p{M}*",
    regex.V1,
)
_CODES = "USD|EUR|GBP|CHF|JPY|CNY|INR|AUD|CAD|NZD|SEK|NOK|DKK|PLN|CZK|HUF|BRL|MXN|ZAR|TRY|ILS|zł|kr"
_NUMBER = r"\d+(?:[.,' ]\d{3})*(?:[.,]\d{1,2})?(?!\d)"
_SCALE = r"(?:\s?(?:thousand|million|billion|bn|mn|m|k)\b)?"
_MONTHS = rf"(?:{alternatives('months')})\b\.?"
_DAY = r"\b[0-3]?\d(?:st|nd|rd|th|\.?[º°]|\.|er)?"
_YEAR = r"(?:1[5-9]|20)\d\d"
_DASH = "[\N{EN DASH}\N{EM DASH}-]"
_EXTENSION = r"(?:,?\s?(?:x|ext(?:ension|\.)?)\s?\d{1,6})?"
_AGES = r"(?:years?\sold|ans|años|anni|anos|Jahren?|jaar|lat)\b"
_PHONED = rf"\b(?:{alternatives('phoned')})\b"
_LATIN = r"[^\W\d_]"

PATTERNS: dict[str, tuple[str, ...]] = {
    "email": (
        r"(?<![\w.+-])[\w.+-]{1,64}@(?!\d+\.\d)[\w-]+(?:\.[\w-]+)+",
        r"(?<![\w@./+-])[a-z][\w.+-]+@(?!(?:latest|next|beta|alpha|canary|main|master|head)\b)"
        r"[a-z][a-z\d-]+(?![\w.@-])",
    ),
    "url": (
        r"\b(?:https?|ftp|ssh|file)://[^\s<>\"'`]+[^\s<>\"'`.,;:!?)\]}*_]",
        r"\bwww\.[^\s<>\"'`]+[^\s<>\"'`.,;:!?)\]}*_]",
        r"(?<![\w@./-])(?:[a-z0-9-]+\.)+(?:com|org|net|io|co\.uk|de|fr|es|it|nl|pl|eu|info|biz|edu|gov|local|lan|internal|intranet|intra|corp|home|example|test|invalid|localdomain)"
        r"(?:/[^\s<>\"'`]*[^\s<>\"'`.,;:!?)\]}])?(?![\w@.-]*@|\w|\.\w)",
    ),
    "ip": (
        r"(?<![\w.])(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)(?:/\d\d?)?(?![\w]|\.\d)",
        r"(?<![\w:.])(?:[0-9a-f]{1,4}:){7}[0-9a-f]{1,4}(?![\w:])",
        r"(?<![\w:.])(?:[0-9a-f]{1,4}:){1,6}(?::[0-9a-f]{1,4}){1,6}(?![\w:])",
    ),
    "iban": (
        r"\b[A-Z]{2}\d{2}(?:\s?[A-Z\d]{4}){2,7}(?:\s?[A-Z\d]{1,3})?\b",
        r"(?-i:\b[A-Z]{2})\d{2}(?=(?:\s?[A-Z]?){0,6}(?:\s?\d){8})(?:\s?[A-Z\d]{4}){3,7}(?:\s?[A-Z\d]{1,3})?\b",
    ),
    "card": (
        r"(?<![\d.-])\d(?:[ -]?\d){12,18}(?![\d-])",
        r"\b(?:card|cc|visa|mastercard|amex|maestro)(?:\s(?:number|no\.?))?(?:\sis)?\s?[:#]?\s?"
        r"(?P<v>\d(?:[ -]?\d){11,18})\b",
        r"\b(?:card|karte|carte|tarjeta|carta|cartão|kaart|karta)\b\W+(?:\w+\W+){0,3}?(?:ending|end\w*|"
        r"fin\w*|termin\w+|eindig\w+|kończ\w+)\W(?:\w{1,6}\W){0,2}(?P<v>\d{4})\b",
        r"[*x•]{2,}[ -]?(?P<v>\d{4})\b",
    ),
    "ssn": (r"(?<![\d-])(?!000|666|9\d\d)\d{3}-(?!00)\d{2}-(?!0000)\d{4}(?![\d-])",),
    "phone": (
        rf"(?<![\w+])(?:\+|00)[1-9]\d{{0,2}}(?:[\s().\-/]{{0,2}}\d){{6,13}}(?!\d){_EXTENSION}(?!\w)",
        rf"(?<![\w.])\(\d{{2,5}}\)[\s.\-/]?\d[\d\s.\-/]{{4,12}}\d(?!\d){_EXTENSION}(?!\w)",
        rf"(?<![\w.-])(?:1[-. ])?\d{{3}}([-. ])\d{{3}}\1\d{{4}}(?!\d){_EXTENSION}(?![\w-])",
        rf"(?<![\w.-])\d{{3}}-\d{{4}}{_EXTENSION}(?![\w-])",
        r"(?<![\w.-])0\d{1,4}(?:[ /-]| [/-] )\d[\d /-]{4,11}\d(?![\w-])",
        r"(?<![\w.-])0\d{9,10}(?![\w-])",
        r"(?<![\w.,-])\d{2,3}(?:([ .])\d{2,3}){2,4}(?![\w-]|[.,]\d)",
        rf"\b(?:{alternatives('extensions')})\b[.:]?\s?(?P<v>[{_DASH[1:]}?\d{{2,5}})(?!\w)",
        rf"{_PHONED}\W{{0,3}}(?:\s?(?:[^\W\d]{{1,6}}|numer|number)){{0,3}}\W{{0,3}}"
        r"(?P<v>\+?[\d(](?:[().\s/-]{0,2}\d){5,14})\b",
    ),
    "id": (
        r"(?<![\w:])(?:[0-9a-f]{2}[:-]){5}[0-9a-f]{2}(?![\w:])",
        r"(?<![\w.,$€£+/-])(?!(?:1[5-9]|20)\d\d-(?:(?:1[5-9]|20)\d\d|\d\d-\d\d)\b)"
        r"(?:\d[ -]?){6,}\d(?![\w]|[.,]\d|\s?[%€$£])",
        r"(?<!\w)[12]\s?\d{2}\s?(?:0[1-9]|1[0-2]|[2-9]\d)\s?\d[\dAB]\s?\d{3}\s?\d{3}(?:\s?\d{2})?(?!\w)",
        r"(?<!\w)(?:\d{2,}(?:[ -]?(?:[x•#]{2,}|\*{3,}))+[ -]?|\d{4,}\*\*)\d{2,}(?!\w)",
    ),
    "username": (
        r"(?<![\w@./])@(?=\w{2})[\w.-]*\w",
        r"(?:/home/|/Users/|\\Users\\|\\Documents and Settings\\)(?P<v>[^\s/\\:\"'<>]+)",
        r"//(?P<v>[^\s/:@]+)(?=:[^\s/@]+@)",
        r"(?P<v>\b[a-z][\w.-]+)(?=@\d{1,3}\.\d)",
        r"\b(?:github|gitlab|bitbucket)\.(?:com|org)[:/](?P<v>[\w-]+)",
    ),
    "zip": (
        r"\b(?:zip|post(?:al)?)(?:\s?code)?(?:\sis)?:?\s(?P<v>\d[\w-]*(?:\s\d\w+)?|[A-Z]{1,2}\d\w?\s\d[A-Z]{2})",
        r"\b[A-Z]{2},?\s(?P<v>\d{5}(?:-\d{4})?)\b",
    ),
    "age": (
        r"\bage[ds]?(?:\sof)?:?\s(?P<v>\d{1,3})\b(?![.,]?\d)",
        r"(?<!\d[.,]?)\b(?P<v>\d{1,3})[\s-](?:years?|yrs?|months?|weeks?)[\s-]olds?\b",
        r"(?<!\d[.,]?)\b(?P<v>\d{1,3})\s?(?:y/o|yo|y\.o\.)(?!\w)",
        rf"\b(?P<v>\d{{1,2}})(?=\s(?:and|or|et|ou|y|e|o|und|oder|en|of|i|lub)\s\d{{1,2}}\s{_AGES})",
        r"\bturn(?:s|ed|ing)?\s(?P<v>\d{1,3})\b(?![.,]?\d)",
        r"(?<!\d[.,]?)\b(?P<v>\d{1,3})(?:\s(?:(?:Jahre?|Monate?|Wochen?) alt|ans|años|anni|anos|lat"
        r"|(?:jaar|maanden|weken) oud)|[\s-]?(?:jährig|jarig|letni)\w*|enne)\b",
    ),
    "amount": (
        rf"(?:(?:US|CA|AU|A|C|R)?[$€£¥₹]|\b(?:{_CODES}))\s?{_NUMBER}{_SCALE}",
        rf"\b{_NUMBER}{_SCALE}\s?(?:[$€£¥₹]|(?:{_CODES}|dollars?|euros?|pounds?|cents?|franken|francs?|złotych|złote)\b)",
        rf"{_NUMBER}\s?[万千億亿]?(?:元|円|块|人民币|日元|원|ريال|درهم|جنيه|دينار)",
    ),
    "date": (
        rf"{_DAY}\s(?:of\s|de\s|d[eu]\s)?{_MONTHS}(?:,?\s(?:del?\s)?{_YEAR}\b)?",
        rf"\b{_MONTHS}\s{_DAY}\b(?:,?\s{_YEAR}\b)?",
        rf"\b{_MONTHS},?\s(?:del?\s)?{_YEAR}\b",
        r"(?<![\w.-])\d{4}[-/.](?:0?[1-9]|1[0-2])[-/.][0-3]?\d(?![\d-]|\.\d)",
        r"(?<![\w.-])[0-3]?\d([-/.])[0-3]?\d\1(?:\d{4}|\d{2})(?![\d-]|\.\d)",
        rf"\b{_YEAR}(?=\s?{_DASH}\s?{_YEAR}\b)",
        rf"(?<=\b{_YEAR}\s?{_DASH}\s?){_YEAR}\b",
        rf"\b(?:in|since|until|from|by|before|after|circa|born|died|of|and|seit|depuis|desde|dal|sinds|od)\s(?P<v>{_YEAR})\b(?!\s?[%€$£])",
        r"\b[0-2]?\d(?::|h(?=\d\d\b))[0-5]\d(?::[0-5]\d)?(?:\s?[ap]\.?m\b\.?)?",
    ),
}
"""By kind, whatever the case of letters."""

CASED: dict[str, tuple[str, ...]] = {
    "person": (  # how a name sounds
        r"\[[^\[\]\n]{0,60}[ˈˌəɪʊɔɛʃʒʁŋθðɑʌæɡɣχɲʎ][^\[\]\n]{0,60}\]",
    ),
    "zip": (
        r"\b[A-Z]{1,2}\d[A-Z\d]?\s\d[A-Z]{2}\b",
        r"\b[A-Z]\d[A-Z]\s\d[A-Z]\d\b",
        rf"\b(?:[A-Z]{{1,2}}-)?\d{{5}}(?=\s\p{{Lu}}{_LATIN}+)",
        r"\b\d{4}\s?[A-Z]{2}(?=\s\p{Lu}|\b)(?!\d)",
        r"\b\d{2}-\d{3}(?=\s\p{Lu})",
        r"\b\d{4}-\d{3}\b",
    ),
    "id": (
        r"(?<![\w-])(?=[A-Z]{0,2}\d\w{0,3} [A-Z]{0,2}\d)(?=[\d ]*[A-Z])(?=(?:[A-Z ]*\d){5})"
        r"(?:(?!20\d\d)[A-Z]{0,2}\d[A-Z0-9]{0,3} ){2,}[A-Z]{0,2}\d[A-Z0-9]{0,3}(?![\w-]|[.,]\d)",
        r"(?<![\w-])[A-Z]{2}\d{2} ?[A-Z]{3}(?![\w-])",
        r"(?<![\w-])[A-Z]{1,3}([ -])\d{2,4}\1[A-Z]{1,3}(?![\w-])",
    ),
}
"""By kind, as they are written."""


def _is_card(text: str) -> bool:
    digits = regex.sub(r"\D", "", text)
    return luhn.is_valid(digits) and len(set(digits)) > 1


_CHECKS: dict[tuple[str, int], Callable[[str], Any]] = {
    ("card", 0): _is_card,
    ("iban", 0): iban.is_valid,
}
"""What must hold of the text of a pattern, by kind and place."""


@cache
def _compiled() -> list[tuple[str, int, Any]]:
    return [
        (kind, number, regex.compile(pattern, flags | regex.MULTILINE))
        for table, flags in ((PATTERNS, regex.IGNORECASE), (CASED, 0))
        for kind, patterns in table.items()
        for number, pattern in enumerate(patterns)
    ]


def matches(text: str) -> Iterator[Entity]:
    """What the patterns find, which may overlap."""
    for kind, number, pattern in _compiled():
        is_valid = _CHECKS.get((kind, number))
        for match in pattern.finditer(text):
            start, end = match.span("v" if "v" in pattern.groupindex else 0)
            if is_valid is None or is_valid(text[start:end]):
                yield Entity(start, end, kind)


def by_script(text: str) -> Iterator[Entity]:
    """Yields words in another script than the text's: names as their bearers write them."""
    letters = sum(map(str.isalpha, text))
    spans = [match.span() for match in _FOREIGN.finditer(text)]
    if sum(end - start for start, end in spans) * 3 < letters:
        yield from (Entity(start, end, "person") for start, end in spans)
