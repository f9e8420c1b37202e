"""Where somebody is reached, and what opens it: e-mail, URLs, phones, IP addresses, secrets."""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar

from dp_middleware.errors import library
from dp_middleware.pseudonyms.cues import CUES, KEEPS, rules, words
from dp_middleware.pseudonyms.draws import CORE, Draws, Free, Keyed, Part, pattern, slots_of, whole
from dp_middleware.pseudonyms.kinds.ids import Exact, into
from dp_middleware.pseudonyms.kinds.names import family_names, locale_of, names
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

# beginnings of keys that tell who issues them, and addresses with a password
PREFIX, CREDENTIALS = rules("secrets", "prefix", "credentials")
_USUAL, _SCHEMES = words("usual_parts"), words("schemes")
_ALPHABETS: dict[str, str] = CUES["alphabets"]  # the smallest first
_SIGNS = re.compile(r"([.:_-]|=+\Z)")
_LONGEST = 64  # signs of a run: a longer one opens no more, and costs tokens
_SHORTEST = 4  # signs; fewer become a label
_HUMAN = 16  # signs; a shorter one without a prefix may be words, whose lengths are private


class Handle(Exact):
    """Two names in small ASCII letters, under a reserved domain if it has one."""

    before: ClassVar[re.Pattern[str]]  # what stays before it
    joint: ClassVar[str]
    first: ClassVar[str] = "first_names"  # Faker's lists of the first one; then family names
    domain: ClassVar[str] = ""  # the sign before the domain

    def _spans(self, mention: str) -> list[tuple[int, int]]:
        heads = [(self.before.match(mention, a, b - 1), a, b) for a, b, _ in whole(mention)]
        return [(head.end() if head else a, b) for head, a, b in heads]

    def _drawn(self, key: str, shape: str, free: Free, draws: Draws) -> str:
        end = self.domain and self.domain + draws.choice(DOMAINS)
        first, last = names(self.first), family_names()
        pair = lambda: _small(first, draws) + self.joint + _small(last, draws)  # noqa: E731
        return combined(self.name, pair, self.joint, lambda text: free(text + end)) + end


def _small(listed: tuple[str, ...], draws: Draws) -> str:
    spelled = unicodedata.normalize("NFKD", draws.choice(listed)).casefold()
    return "".join(letter for letter in spelled if letter.isascii() and letter.isalpha())


class Email(Handle):
    """Such as "anna.hart@example.org"."""

    name = "email"
    keeps = KEEPS["email"]
    cased = False
    before = SCHEME
    joint, domain = ".", "@"


class Username(Handle):
    """Such as "anna_hart"; an @ before it stays."""

    name = "username"
    keeps = KEEPS["username"]
    before = re.compile("@")
    joint = "_"


class Url(Handle):
    """A host of a reserved domain, such as "hart-ortiz.example.com", without a path."""

    name = "url"
    keeps = KEEPS["url"]
    before = SCHEME
    joint, domain, first = "-", ".", "last_names"


@dataclass(frozen=True, kw_only=True)
class Phone(Exact, Spoken):
    """A valid number of the same country in the same format.

    Attributes:
        region: Country of numbers that do not name theirs, two letters; default one in which the
            language is spoken.
    """

    name = "phone"
    numeric = True
    keeps = KEEPS["phone"]

    region: str | None = None

    def _spans(self, mention: str) -> list[tuple[int, int]]:
        first = re.search(r"[\d+(]", mention)
        return [(min(a, first.start()) if first else a, b) for a, b, _ in whole(mention)]

    def _shape(self, text: str) -> str:
        """Country, digits of the number in it, and the format; or a pattern."""
        plain = EXTENSION.sub("", text)
        extension = text[len(plain) :]
        country, own = self._read(plain, self.region or locale_of(self)[-2:])
        digits = [n for n, character in enumerate(plain) if character.isdecimal()]
        places = digits[-len(own) :]
        is_written = own and "#" not in text and "".join(plain[n] for n in places) == own
        if not is_written or not PLAIN_PHONE.fullmatch(plain):
            return pattern(plain) + re.sub("[0-9]", "9", extension)
        layout = "".join("#" if n in places else c for n, c in enumerate(plain))
        return f"valid {country} {len(own)} {layout}{re.sub('[0-9]', '#', extension)}"

    def _read(self, text: str, region: str | None) -> tuple[str, str]:
        """Country and own digits of a valid number; of another text nothing."""
        module: Any = library("phonenumbers", "detect")
        with suppress(module.NumberParseException):
            number = module.parse(text, region)
            if module.is_valid_number(number):
                country = f"{number.country_code}-{module.region_code_for_number(number)}"
                return country, module.national_significant_number(number)
        return "", ""

    def ciphered(self, text: str, shape: str, law: Keyed, *, back: bool) -> str | None:
        """Encrypts the digits behind the country's code, among the valid numbers of this code."""
        format, layout = _REGION.sub(r"\1", shape), shape
        if shape.startswith("valid"):
            layout = "".join("9" if sign == "#" else "." for sign in shape.split(" ", 3)[3])
        fits = lambda other: _REGION.sub(r"\1", self._shape(other)) == format  # noqa: E731
        return law.permuted(text, slots_of(layout), fits, f"{self.name} {format}", back)

    def _drawn(self, key: str, shape: str, free: Free, draws: Draws) -> str | None:
        """Uniform among valid numbers of this country and length, or of one with the same code."""
        if not shape.startswith("valid"):  # no pattern has a v
            return of_pattern(shape, free, draws)
        _, country, length, layout = shape.split(" ", 3)
        code = country.split("-")[0]
        abroad: str | None = None
        for _ in range(ENOUGH):
            own = draws.fill("9" * int(length))
            found, digits = self._read(f"+{code}{own}", None)
            if digits != own:
                continue
            text = into(layout, own + draws.fill("9" * (layout.count("#") - len(own))), "#")
            if free(text):
                if found == country:
                    return text
                abroad = abroad or text
        return abroad


class Ip(Exact):
    """An address of the ranges for documentation: RFC 5737 and RFC 3849."""

    name = "ip"
    numeric = True
    keeps = KEEPS["ip"]
    cased = False

    def parts(self, mention: str) -> list[Part]:
        """Returns one; the length of a network or a port stays."""
        for match in re.finditer(r"[0-9A-Fa-f:.]+", mention):
            start, text = match.start(), match.group()
            for address in (text.rstrip("."), text.rpartition(":")[0].rstrip(".")):
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


class Secret(Exact):
    """A uniform value of the same public prefix, such as ghp_, length and alphabet."""

    name = "secret"
    keeps = KEEPS["secret"]

    def parts(self, mention: str) -> list[Part]:
        """Returns one; of a connection string of a known scheme user, password, host and path."""
        match = CREDENTIALS.fullmatch(mention)
        if match is None or not {*match["scheme"].lower().split("+")} <= _SCHEMES:
            return [Part(0, len(mention), self._shape(mention))] if mention.strip() else []
        parts = []
        for name in ("user", "password", "host", "path"):
            start, end = match.span(name)
            start += name == "path" and start < end
            usual = name in ("user", "host") and mention[start:end].lower() in _USUAL
            if start < end and not usual:
                shape = "host" if name == "host" else self._shape(mention[start:end])
                parts.append(Part(start, end, shape))
        return parts

    def _shape(self, text: str) -> str:
        """Prefix, alphabet, and an x for each sign that is drawn; empty for a label."""
        match = PREFIX.match(text)
        prefix = match.group() if match is not None and len(text) >= _HUMAN else ""
        rest = text[len(prefix) :]
        drawn = {*filter(str.isalnum, rest)}
        alphabet = next((name for name, signs in _ALPHABETS.items() if drawn <= {*signs}), "any")
        pieces = _SIGNS.split(rest) if prefix or len(text) >= _HUMAN else [rest]
        pieces[::2] = ["x" * min(len(run), _LONGEST) for run in pieces[::2]]
        layout = "".join(pieces)
        return f"{prefix} {alphabet} {layout}" if layout.count("x") >= _SHORTEST else ""

    def _drawn(self, key: str, shape: str, free: Free, draws: Draws) -> str | None:
        if shape == "host":
            return Url().draw(key, "", free, draws)
        if not shape:
            return None
        prefix, alphabet, layout = shape.split(" ")
        signs = _ALPHABETS[alphabet]
        one = lambda sign: draws.choice(signs) if sign == "x" else sign  # noqa: E731
        return tried(lambda: prefix + "".join(map(one, layout)), free)
