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
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

VALUES: dict[str, Any] = tomllib.loads(Path(__file__).with_name("messages.toml").read_text("utf-8"))
LISTS = {"address": "addresses", "city": "cities", "org": "organisations"}
LISTS |= {kind: f"{kind}s" for kind in ("date", "amount", "iban", "card")}

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


class Text(NamedTuple):
    """A text with ``(start, end, kind)`` of what is private in it."""

    text: str
    language: str
    spans: list[tuple[int, int, str]]


def messages(half: str, fillings: int = 4, seed: int = 20261125) -> list[Text]:
    """The messages of ``"tuning"`` or ``"report"``, each template filled several times."""
    rest = {"tuning": 0, "report": 1}[half]
    return [
        _filled(template, random.Random(f"{seed} {number} {filling}"))
        for number, template in enumerate(VALUES["messages"])
        if number % 2 == rest
        for filling in range(fillings)
    ]


def _filled(template: dict[str, str], chance: random.Random) -> Text:
    values = _Values(template["language"], chance)
    text, end, spans = "", 0, []
    for slot in _SLOT.finditer(template["text"]):
        kind, name, form = slot.groups()
        value = values.value(kind, name or kind, form)
        text += template["text"][end : slot.start()]
        spans.append((len(text), len(text) + len(value), kind))
        text, end = text + value, slot.end()
    return Text(text + template["text"][end:], values.language, spans)


class _Values:
    def __init__(self, language: str, chance: random.Random) -> None:
        self.language, self._chance = language, chance
        self._of = cache(self._draw)

    def value(self, kind: str, name: str, form: str | None) -> str:
        made = self._of(kind, name)
        if kind == "person" and form == "titled":
            return f"{self._chance.choice(['Mr', 'Ms', 'Dr.', 'Prof.'])} {made.split()[-1]}"
        return _FORMS[form](made) if form in _FORMS else made

    def _draw(self, kind: str, name: str) -> str:
        chance, choice = self._chance, self._chance.choice
        match kind:
            case "person":
                given, family = self._listed("given"), self._listed("family")
                return f"{choice(given)} {choice(family)}"
            case "email" | "user":
                user = self._user(self._of("person", name))
                return f"{user}@{choice(VALUES['domains'])}" if kind == "email" else user
            case "id":
                own = {"passport": ["@########"], "plate": VALUES["plates"]}
                listed = own.get(name, VALUES["ids"])
                return self._spelled(self._listed("national") if "national" in name else listed)
            case "zip" | "phone":
                return self._spelled(self._listed(f"{kind}s"))
            case "secret":
                listed = VALUES["secrets"]
                return self._spelled(listed[5:7] if name.startswith("s") else listed)
            case "ip":
                return "10." + ".".join(str(chance.randint(k, 255 - k)) for k in (0, 0, 1))
            case "age":
                return str(chance.randint(5, 95))
            case "url":
                return f"https://www.{_ascii(choice(self._listed('family')))}.example/portfolio"
        return choice(self._listed(LISTS[kind]))

    def _listed(self, name: str) -> list[str]:
        listed = VALUES[name]
        return listed.get(self.language, listed["en"]) if isinstance(listed, dict) else listed

    def _user(self, person: str) -> str:
        first, last = map(_ascii, person.split())
        number = self._chance.randint(1, 99)
        forms = [f"{first[0]}{last}", f"{first}{number}", f"{last}_{first[0]}", f"{first}.{last}"]
        return self._chance.choice(forms)

    def _spelled(self, patterns: list[str]) -> str:
        """One of the patterns with signs for its marks."""
        pattern, choice = self._chance.choice(patterns), self._chance.choice
        return "".join(choice(_SIGNS[sign]) if sign in _SIGNS else sign for sign in pattern)


def _ascii(name: str) -> str:
    return re.sub(r"[^a-z]", "", name.lower().translate(_PLAIN))
