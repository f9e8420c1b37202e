"""Where somebody is reached: e-mail, user names, URLs, phones, IP addresses."""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from dp_middleware.errors import library
from dp_middleware.pseudonyms.draws import (
    ALPHABETS,
    CORE,
    Draws,
    Free,
    Keyed,
    Part,
    pattern,
    slots_of,
    whole,
)
from dp_middleware.pseudonyms.kinds.ids import Exact
from dp_middleware.pseudonyms.kinds.names import family_names, given_names, locale_of
from dp_middleware.pseudonyms.mapping import Spoken, combined, of_pattern, tried

DOMAINS = ("example.com", "example.org", "example.net")  # RFC 2606: nobody can have them
SCHEME = re.compile(r"(?:https?|s?ftp|ftps|wss?|ssh|git|file)://|mailto:", re.IGNORECASE)
DOCUMENTATION = ("192.0.2", "198.51.100", "203.0.113")  # RFC 5737
BENCHMARKS = ipaddress.IPv4Address("198.18.0.0")  # RFC 2544
IPV6 = ipaddress.IPv6Address("2001:db8::")  # RFC 3849
NETWORK = re.compile(r"\]?(?::[0-9]{1,5}|/[0-9]{1,3})?[\s)\]>}.,:;!?'\"]*")
ENOUGH = 2000  # draws before something counts as used up
PLAIN_PHONE = re.compile(r"[0-9+()./\s\u2010-\u2014-]*")
_REGION = re.compile(r"(?<=^valid )(\d+)-\w+")
EXTENSION = re.compile(r"\s*,?\s*(?:x|ext\.?|extension)\s*[0-9]{1,6}$", re.IGNORECASE)


def _word(names: tuple[str, ...], draws: Draws) -> str:
    """A name in small ASCII letters."""
    spelled = unicodedata.normalize("NFKD", draws.choice(names)).casefold()
    return "".join(letter for letter in spelled if letter.isascii() and letter.isalpha())


def _user(joint: str, draws: Draws) -> str:
    return _word(given_names(), draws) + joint + _word(family_names(), draws)


@dataclass(frozen=True, kw_only=True)
class Email(Exact):
    """Such as "anna.hart@example.org"."""

    name = "email"
    keeps = "a scheme before an e-mail address, such as mailto:"
    cased = False

    def _spans(self, mention: str) -> list[tuple[int, int]]:
        return _behind_scheme(mention)

    def _drawn(self, key: str, shape: str, free: Free, draws: Draws) -> str:
        domain = draws.choice(DOMAINS)
        is_free = lambda user: free(f"{user}@{domain}")  # noqa: E731
        return f"{combined(self.name, lambda: _user('.', draws), '.', is_free)}@{domain}"


@dataclass(frozen=True, kw_only=True)
class Username(Exact):
    """Such as "anna_hart"; an @ before it stays."""

    name = "username"
    keeps = "an @ before a user name"

    def _spans(self, mention: str) -> list[tuple[int, int]]:
        return [(a + (mention[a] == "@" and b - a > 1), b) for a, b, _ in whole(mention)]

    def _drawn(self, key: str, shape: str, free: Free, draws: Draws) -> str:
        return combined(self.name, lambda: _user("_", draws), "_", free)


@dataclass(frozen=True, kw_only=True)
class Url(Exact):
    """A host of a reserved domain, such as "hart-ortiz.example.com", without a path."""

    name = "url"
    keeps = "the scheme of a URL"

    def _spans(self, mention: str) -> list[tuple[int, int]]:
        return _behind_scheme(mention)

    def _drawn(self, key: str, shape: str, free: Free, draws: Draws) -> str:
        domain, names = draws.choice(DOMAINS), family_names()
        pair = lambda: f"{_word(names, draws)}-{_word(names, draws)}"  # noqa: E731
        host = combined(self.name, pair, "-", lambda host: free(f"{host}.{domain}"))
        return f"{host}.{domain}"


def _behind_scheme(mention: str) -> list[tuple[int, int]]:
    schemes = [(SCHEME.match(mention, a, b - 1), a, b) for a, b, _ in whole(mention)]
    return [(scheme.end() if scheme else a, b) for scheme, a, b in schemes]


@dataclass(frozen=True, kw_only=True)
class Phone(Exact, Spoken):
    """A valid number of the same country in the same format.

    Attributes:
        region: Country of numbers that do not name theirs, two letters; default one in which the
            language is spoken.
    """

    name = "phone"
    numeric = True
    keeps = (
        "country, number of digits, punctuation and extension of a phone number, whether it is"
        " valid; of one that is not, or has other words in it, which characters are digits,"
        " capitals or small letters, and all others"
    )

    region: str | None = None

    def _spans(self, mention: str) -> list[tuple[int, int]]:
        first = re.search(r"[\d+(]", mention)
        return [(min(a, first.start()) if first else a, b) for a, b, _ in whole(mention)]

    def _shape(self, text: str) -> str:
        """Country, digits of the number in it, and the format; or a pattern."""
        module = library("phonenumbers", "detect")
        plain = EXTENSION.sub("", text)
        digits = [n for n, character in enumerate(plain) if character.isdecimal()]
        number = self._parsed(plain, self.region or locale_of(self)[-2:]) if digits else None
        extension = text[len(plain) :]
        words = pattern(plain) + re.sub("[0-9]", "9", extension)
        if number is None or "#" in text or not PLAIN_PHONE.fullmatch(plain):
            return words
        own = module.national_significant_number(number)
        places = digits[-len(own) :]
        if "".join(plain[n] for n in places) != own:
            return words
        country = f"valid {number.country_code}-{module.region_code_for_number(number)}"
        layout = "".join("#" if n in places else c for n, c in enumerate(plain))
        return f"{country} {len(own)} {layout}{re.sub('[0-9]', '#', extension)}"

    def _parsed(self, text: str, region: str | None) -> Any:
        module = library("phonenumbers", "detect")
        with suppress(module.NumberParseException):
            number = module.parse(text, region)
            return number if module.is_valid_number(number) else None

    def ciphered(self, text: str, shape: str, law: Keyed, *, back: bool) -> str | None:
        """Encrypts the digits behind the country's code, among the valid numbers of this code."""
        format, slots = _REGION.sub(r"\1", shape), slots_of(shape)
        if shape.startswith("valid"):
            layout = shape.split(" ", 3)[3]
            slots = [(n, ALPHABETS["9"]) for n, sign in enumerate(layout) if sign == "#"]

        def fits(other: str) -> bool:
            return _REGION.sub(r"\1", self._shape(other)) == format

        return law.permuted(text, slots, fits, f"{self.name} {format}", back)

    def _drawn(self, key: str, shape: str, free: Free, draws: Draws) -> str | None:
        """Uniform among valid numbers of this country and length, or of one with the same code."""
        if not shape.startswith("valid"):  # no pattern has a v
            return of_pattern(shape, free, draws)
        _, country, length, layout = shape.split(" ", 3)
        code, region = country.split("-")
        module = library("phonenumbers", "detect")
        abroad: str | None = None
        for _ in range(ENOUGH):
            own = draws.fill("9" * int(length))
            number = self._parsed(f"+{code}{own}", None)
            if number is None or module.national_significant_number(number) != own:
                continue
            digits = iter(own + draws.fill("9" * (layout.count("#") - len(own))))
            text = "".join(next(digits) if c == "#" else c for c in layout)
            if free(text):
                if module.region_code_for_number(number) == region:
                    return text
                abroad = abroad or text
        return abroad


@dataclass(frozen=True, kw_only=True)
class Ip(Exact):
    """An address of the ranges for documentation: RFC 5737 and RFC 3849."""

    name = "ip"
    numeric = True
    keeps = (
        "version of an IP address, its port, the length of its network; of what is no address,"
        " which characters are digits, capitals or small letters, and all others"
    )
    cased = False

    def parts(self, mention: str) -> list[Part]:
        """Returns one; the length of a network or a port stays."""
        for match in re.finditer(r"[0-9A-Fa-f:.]+", mention):
            start, text = match.start(), match.group()
            for end in (len(text), max(text.rfind(":"), 0)):
                address = text[:end].rstrip(".")
                end = start + len(address)
                if NETWORK.fullmatch(mention, end) and not CORE.search(mention, 0, start):
                    with suppress(ValueError):
                        version = ipaddress.ip_address(address).version
                        return [Part(start, end, str(version))]
        return [Part(a, b, f"?{pattern(mention[a:b])}") for a, b, _ in whole(mention)]

    def _drawn(self, key: str, shape: str, free: Free, draws: Draws) -> str | None:
        """Uniform; once those for documentation are used up, of the range for benchmarks."""
        if shape.startswith("?"):
            return of_pattern(shape[1:], free, draws)
        if shape == "6":
            return combined(self.name, lambda: str(IPV6 + draws.below(1 << 96)), "", free)
        listed = [f"{net}.{host}" for net in DOCUMENTATION for host in range(1, 255)]
        text = draws.left(listed, free)
        return text or tried(lambda: str(BENCHMARKS + draws.below(1 << 17)), free, ENOUGH)
