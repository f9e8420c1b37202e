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

_ABROAD = (  # the word for a street ends the name, or begins it
    r"[A-Z]\w*(?:stra(?:ss|ß)e|str\.|gasse|weg|platz|allee|gade|gatan|vägen|vej|veien|straat|"
    r"laan|plein|katu|kuja|tie)",
    r"(?:[Vv]ia|[Rr]ue|[Cc]alle|[Rr]ua|[Aa]venida|[Pp]laza|[Pp]iazza|[Uu]l\.)"
    r"(?:\s(?:d[aeio]s?\s|de la\s)?[A-Z][\w.'’-]*){1,3}",
)

_MONTHS = (
    "(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|"
    r"sep(?:t(?:ember)?)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\b\.?"
)
_DAY = r"\b[0-3]?\d(?:st|nd|rd|th)?"
_YEAR = r"(?:1[5-9]|20)\d\d"
_DASH = "[\N{EN DASH}\N{EM DASH}-]"

_TITLE = r"\b(?:Mr|Mrs|Ms|Miss|Mx|Dr|Prof|Professor|Sir|Dame|Herr|Frau|Señora?)\b\.?\s"
_CALLED = r"\b(?:[Nn]ame(?:\s?is|d)?:?|Dear|Hi,?|Hello,?|Regards,|Sincerely,)\s"
_NOBODY = r"(?!(?:Sir|Madam|Customer|Team|All|Colleagues?|Friends?|There|I|My|We|The|Please)\b)"
_NAME = r"[A-Z][\w’'-]*\w(?:[ ](?:[A-Z]\.|[A-Z][\w’'-]*\w)){0,3}(?<!['’]s)"

AGE = (
    r"(?<=\bage[ds]?(?:\sof)?:?\s)\d{1,3}\b(?![.,]?\d)",
    r"(?<!\d[.,]?)\b\d{1,3}(?=[\s-](?:years?|yrs?|months?|weeks?)[\s-]olds?\b)",
    r"(?<!\d[.,]?)\b\d{1,3}(?=\s?(?:y/o|yo|y\.o\.)(?!\w))",
    r"(?<=\bturn(?:s|ed|ing)?\s)\d{1,3}\b(?![.,]?\d)",
)
CARD = (
    r"(?<=\b(?:card|cc|visa|mastercard|amex|maestro)(?:\s(?:number|no\.?))?(?:\sis)?\s?[:#]?\s?)"
    r"\d(?:[ -]?\d){11,18}\b",
)
DATE = (
    rf"{_DAY}\s(?:of\s)?{_MONTHS}(?:,?\s{_YEAR}\b)?",
    rf"\b{_MONTHS}\s{_DAY}\b(?:,?\s{_YEAR}\b)?",
    rf"\b{_MONTHS},?\s{_YEAR}\b",
    rf"\b{_YEAR}(?=\s?{_DASH}\s?{_YEAR}\b)",
    rf"(?<=\b{_YEAR}\s?{_DASH}\s?){_YEAR}\b",
    r"\b[0-2]?\d:[0-5]\d(?::[0-5]\d)?(?:\s?[ap]\.?m\b\.?)?",
)
PHONE = (
    r"(?<=\b(?:phone|telephone|tel|mobile|cell|fax)\b\.?(?:\s(?:number|no\.?))?(?:\sis)?:?\s{0,2})"
    r"\+?[\d(](?:[().\s-]{0,2}\d){5,14}\b",
)
ZIP = (
    r"(?<=\bzip(?:\s?code)?(?:\sis)?:?\s)\d[\w-]*(?:\s\d\w+)?",
    r"(?<=\bpost(?:al)?\s?code(?:\sis)?:?\s)\w[\w-]*(?:\s\d\w+)?",
)
STATE_ZIP = (
    r"(?<=\b[A-Z]{2},?\s)\d{5}(?:-\d{4})?\b",
    r"\b[A-Z]{1,2}\d[A-Z\d]?\s\d[A-Z]{2}\b",
    r"\b[A-Z]\d[A-Z]\s\d[A-Z]\d\b",
)
ADDRESS = (
    rf"(?<![\w.,/-])\d{{1,6}}[A-Z]?,?\s+{_WORD}{{1,4}}?(?:{_STREETS})\b\.?{_UNIT}",
    r"\b(?:P\.?\s?O\.?\s?)?box\s+\d+\b",
    r"\b(?:apt|apartment|suite|ste|unit|flat)\b\.?\s#?\d+\w?\b",
)

PATTERNS = {
    "AGE": AGE,
    "AMOUNT": (_SIGNED, _NAMED),
    "CREDIT_CARD": CARD,
    "DATE": DATE,
    "EMAIL_ADDRESS": (r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+",),  # of any domain
    "ID": (rf"(?<={_BEFORE}\s?(?:is|was)?[:=]?\s?)(?:{_CODE})",),
    "PHONE_NUMBER": PHONE,
    "STREET_ADDRESS": ADDRESS,
    "USERNAME": (r"(?<![\w@./])@(?=\w{2})[\w.]*\w",),
    "ZIP_CODE": ZIP,
}
"""By label, whatever the case of letters."""

CASED = {
    "PERSON": (f"(?<={_TITLE}){_NAME}", f"(?<={_CALLED}){_NOBODY}{_NAME}"),
    "STREET_ADDRESS": tuple(rf"(?:\b\d{{1,6}}\s)?\b{each}\s\d{{1,5}}[a-z]?\b" for each in _ABROAD),
    "ZIP_CODE": STATE_ZIP,
}
"""By label, as they are written."""
