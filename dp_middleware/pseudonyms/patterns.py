"""Patterns for what Presidio's recognisers miss; public words around a value tell its kind."""

from __future__ import annotations

CURRENCIES = "USD EUR GBP CHF JPY CNY INR AUD CAD NZD SEK NOK DKK PLN CZK HUF BRL MXN ZAR TRY ILS"
_CODES = CURRENCIES.replace(" ", "|")
_NUMBER = r"\d+(?:[.,' ]\d{3})*(?:[.,]\d{1,2})?(?!\d)"
_SCALE = r"(?:\s?(?:thousand|million|billion|bn|mn|m|k)\b)?"
_SIGNED = rf"(?:(?:US|CA|AU|A|C)?[$€£¥₹]|\b(?:{_CODES}))\s?{_NUMBER}{_SCALE}"
_NAMED = rf"\b{_NUMBER}{_SCALE}\s?(?:[$€£¥₹]|(?:{_CODES}|dollars?|euros?|pounds?|cents?)\b)"

_THINGS = (
    "account|agreement|application|badge|booking|case|certificate|claim|client|contract|customer|"
    "document|employee|file|invoice|licen[cs]e|member(?:ship)?|order|passport|patient|policy|"
    "record|ref(?:erence)?|registration|reservation|serial|student|tax|ticket|tracking|"
    "transaction|user|vat"
)
_SORT = r"(?:(?:no|nos|nr|num|number|id|ref|code)\b\.?|#)"
_BEFORE = rf"\b(?:(?:{_THINGS})\s?{_SORT}|mrn|medical record number|id(?:\snumber)?|ref\.?)"
_CODE = r"[A-Z]{0,5}[-/ ]?\d[\w/-]*\w|[A-Z]+-[\w/-]*\d[\w/-]*|\d"

_STREETS = (
    "street|st|avenue|ave|road|rd|boulevard|blvd|lane|ln|drive|dr|court|ct|square|sq|terrace|"
    "place|pl|parkway|pkwy|highway|hwy|way|crescent|close|row"
)
_UNIT = r"(?:,?\s+(?:apt|apartment|suite|ste|unit|flat|floor|room)\b\.?\s?#?\w+)?"
_WORD = r"(?:[\w.'’-]+\s+)"

AGE = (
    r"(?<=\bage[ds]?(?:\sof)?:?\s)\d{1,3}\b(?![.,]?\d)",
    r"(?<!\d[.,]?)\b\d{1,3}(?=[\s-](?:years?|yrs?|months?|weeks?)[\s-]olds?\b)",
    r"(?<!\d[.,]?)\b\d{1,3}(?=\s?(?:y/o|yo|y\.o\.)(?!\w))",
    r"(?<=\bturn(?:s|ed|ing)?\s)\d{1,3}\b(?![.,]?\d)",
)
AMOUNT = (_SIGNED, _NAMED)
IDENTIFIER = (rf"(?<={_BEFORE}\s?(?:is|was)?[:=]?\s?)(?:{_CODE})",)
ZIP = (
    r"(?<=\bzip(?:\s?code)?(?:\sis)?:?\s)\d[\w-]*(?:\s\d\w+)?",
    r"(?<=\bpost(?:al)?\s?code(?:\sis)?:?\s)\w[\w-]*(?:\s\d\w+)?",
)
STATE_ZIP = (
    r"(?<=\b[A-Z]{2},?\s)\d{5}(?:-\d{4})?\b",
    r"\b[A-Z]{1,2}\d[A-Z\d]?\s\d[A-Z]{2}\b",
    r"\b[A-Z]\d[A-Z]\s\d[A-Z]\d\b",
)
USERNAME = (r"(?<![\w@./])@(?=\w{2})[\w.]*\w",)
ADDRESS = (
    rf"(?<![\w.,/-])\d{{1,6}}[A-Z]?,?\s+{_WORD}{{1,4}}?(?:{_STREETS})\b\.?{_UNIT}",
    r"\b(?:P\.?\s?O\.?\s?)?box\s+\d+\b",
    r"\b(?:apt|apartment|suite|ste|unit|flat)\b\.?\s#?\d+\w?\b",
)

PATTERNS = {
    "AGE": AGE,
    "AMOUNT": AMOUNT,
    "ID": IDENTIFIER,
    "ZIP_CODE": ZIP,
    "USERNAME": USERNAME,
    "STREET_ADDRESS": ADDRESS,
}
"""By label, whatever the case of letters."""

CASED = {"ZIP_CODE": STATE_ZIP}
"""By label, as they are written."""
