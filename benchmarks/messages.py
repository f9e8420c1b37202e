"""Messages as people send them to models, with the identifiers in them; all values are made up.

Templates and values stand in messages.toml. A slot of a template is ``<kind:name.form>``, or
``<kind>`` alone; the same name is the same value, of ``person``, ``email`` and ``user`` the same
person. Templates at even places are for tuning, those at odd ones for reports alone.
"""

import random
import re
import string
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

VALUES: dict[str, Any] = tomllib.loads(Path(__file__).with_name("messages.toml").read_text("utf-8"))
CARDS = ("4111 1111 1111 1111", "5500-0000-0000-0004", "378282246310005", "6011000990139424")
IBANS = ("GB29NWBK60161331926819", "DE89 3704 0044 0532 0130 00", "FR1420041010050500013M02606")

_SLOT = re.compile(
    r"<(person|address|city|zip|phone|email|user|id|iban|card|secret|ip|date|amount|age|url|org)"
    r"(?::([a-z0-9]+)(?:\.([a-z0-9]+))?)?>"
)
_PLAIN = str.maketrans("áàäâéèêëíïîóòöôúùüßñçćęłńśźżãõ", "aaaaeeeeiiioooouuusnccelnszzao")
_SIGNS = {
    "#": string.digits,
    "@": string.ascii_uppercase,
    "&": string.ascii_uppercase + string.digits,
    "*": string.ascii_letters + string.digits,
}
_FORMS: dict[str, Callable[[str], str]] = {
    "first": lambda name: name.split()[0],
    "last": lambda name: name.split()[-1],
    "lower": str.lower,
    "firstlower": lambda name: name.split()[0].lower(),
    "upper": str.upper,
    "initial": lambda name: f"{name[0]}. {name.split()[-1]}",
    "sql": lambda name: name.replace("'", "''"),
}


class Identifier(NamedTuple):
    """Characters of a message that name somebody or something."""

    start: int
    end: int
    kind: str


class Message(NamedTuple):
    """A message, and what is private in it."""

    template: int
    language: str
    text: str
    identifiers: tuple[Identifier, ...]


def messages(half: str, fillings: int = 4, seed: int = 20261125) -> list[Message]:
    """The messages of ``"tuning"`` or ``"report"``, each template filled several times."""
    rest = {"tuning": 0, "report": 1}[half]
    return [
        _filled(number, template, random.Random(f"{seed} {number} {filling}"))
        for number, template in enumerate(VALUES["messages"])
        if number % 2 == rest
        for filling in range(fillings)
    ]


def _filled(number: int, template: dict[str, str], chance: random.Random) -> Message:
    values = _Values(template["language"], chance)
    text, end, identifiers = "", 0, []
    for slot in _SLOT.finditer(template["text"]):
        kind, name, form = slot.group(1), slot.group(2) or slot.group(1), slot.group(3)
        value = values.value(kind, name, form)
        text += template["text"][end : slot.start()]
        identifiers.append(Identifier(len(text), len(text) + len(value), kind))
        text, end = text + value, slot.end()
    return Message(number, values.language, text + template["text"][end:], tuple(identifiers))


class _Values:
    """The values of one message."""

    def __init__(self, language: str, chance: random.Random) -> None:
        self.language, self._chance = language, chance
        self._made: dict[tuple[str, str], str] = {}

    def value(self, kind: str, name: str, form: str | None) -> str:
        made = self._of(kind, name)
        if kind == "person" and form == "titled":
            return f"{self._chance.choice(['Mr', 'Ms', 'Dr.', 'Prof.'])} {made.split()[-1]}"
        return _FORMS[form](made) if form in _FORMS else made

    def _of(self, kind: str, name: str) -> str:
        if (kind, name) not in self._made:
            self._made[kind, name] = self._draw(kind, name)
        return self._made[kind, name]

    def _draw(self, kind: str, name: str) -> str:
        chance, choice = self._chance, self._chance.choice
        if kind == "person":
            given, family = self._listed("given"), self._listed("family")
            return f"{choice(given)} {choice(family)}"
        if kind in ("email", "user"):
            user = self._user(self._of("person", name))
            return f"{user}@{choice(VALUES['domains'])}" if kind == "email" else user
        if kind == "id":
            listed = {"passport": ["@########"], "plate": VALUES["plates"]}.get(name, VALUES["ids"])
            return self._digits(choice(self._listed("national") if "national" in name else listed))
        if kind in ("zip", "phone"):
            return self._digits(choice(self._listed(f"{kind}s")))
        if kind == "secret":
            listed = VALUES["secrets"]
            return self._digits(choice(listed[5:7] if name.startswith("s") else listed))
        if kind == "address":
            return choice(self._listed("addresses"))
        if kind == "ip":
            return f"10.{chance.randint(0, 255)}.{chance.randint(0, 255)}.{chance.randint(1, 254)}"
        if kind == "age":
            return str(chance.randint(5, 95))
        if kind == "url":
            return f"https://www.{_ascii(choice(self._listed('family')))}.example/portfolio"
        lists = {"city": "cities", "date": "dates", "amount": "amounts", "org": "organisations"}
        return choice({"iban": IBANS, "card": CARDS}.get(kind) or VALUES[lists[kind]])

    def _listed(self, name: str) -> list[str]:
        listed: dict[str, list[str]] = VALUES[name]
        return listed.get(self.language, listed["en"])

    def _user(self, person: str) -> str:
        first, last = map(_ascii, person.split())
        number = self._chance.randint(1, 99)
        forms = [f"{first[0]}{last}", f"{first}{number}", f"{last}_{first[0]}", f"{first}.{last}"]
        return self._chance.choice(forms)

    def _digits(self, pattern: str) -> str:
        return "".join(
            self._chance.choice(_SIGNS[sign]) if sign in _SIGNS else sign for sign in pattern
        )


def _ascii(name: str) -> str:
    return re.sub(r"[^a-z]", "", name.lower().translate(_PLAIN))
