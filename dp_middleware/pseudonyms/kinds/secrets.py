"""What opens something: keys, tokens, passwords, connection strings."""

from __future__ import annotations

import re
import string
from dataclasses import dataclass

from dp_middleware.pseudonyms import cues
from dp_middleware.pseudonyms.draws import Draws, Free, Part
from dp_middleware.pseudonyms.kinds.contacts import Url
from dp_middleware.pseudonyms.kinds.ids import Exact
from dp_middleware.pseudonyms.mapping import tried

# beginnings of keys that tell who issues them: public, of the rules of Gitleaks and of issuers
(PREFIX,) = cues.rules("secrets", "prefix")
CREDENTIALS = re.compile(
    r"(?<![a-z0-9+.-])(?P<scheme>[a-z][a-z0-9+.-]{1,30})://(?P<user>[^\s:/@\"'`<>]{0,99}):"
    r"(?P<password>[^\s\"'`<>]{1,300})@"
    r"(?P<host>[^\s/:?#@\"'`<>,;)]+)(?::\d{1,5}\b)?(?P<path>[/?#,:][^\s\"'`<>)]*)?",
    re.IGNORECASE,
)
_USUAL, _SCHEMES = cues.words("usual_parts"), cues.words("schemes")
_ALPHABETS = {
    "digits": string.digits,
    "hex": "0123456789abcdef",
    "HEX": "0123456789ABCDEF",
    "small": string.ascii_lowercase + string.digits,
    "capital": string.ascii_uppercase + string.digits,
    "any": string.ascii_letters + string.digits,
}
_SIGNS = re.compile(r"[.:_-]|=+\Z")
_LONGEST = 64  # signs of a run: a longer one opens no more, and costs tokens
_SHORTEST = 4  # signs; fewer become a label
_HUMAN = 16  # signs; a shorter one without a prefix may be words, whose lengths are private


@dataclass(frozen=True, kw_only=True)
class Secret(Exact):
    """A uniform value of the same public prefix, such as ghp_, length and alphabet."""

    name = "secret"
    keeps = (
        "issuer's prefix of a secret such as ghp_, its length up to 64 signs, the smallest of six"
        " alphabets that its letters and digits are of, of one of 16 signs or with a prefix also"
        " where its . : - _ and = at the end are; of a connection string scheme, port, which parts"
        " it has, and users and hosts of a public list such as root and localhost"
    )

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
        structured = prefix or len(text) >= _HUMAN
        ends = [match.span() for match in _SIGNS.finditer(rest)] if structured else []
        layout, place = "", 0
        for start, end in [*ends, (len(rest), len(rest))]:
            layout += "x" * min(start - place, _LONGEST) + rest[start:end]
            place = end
        return f"{prefix} {alphabet} {layout}" if layout.count("x") >= _SHORTEST else ""

    def _drawn(self, key: str, shape: str, free: Free, draws: Draws) -> str | None:
        if shape == "host":
            return Url().draw(key, "", free, draws)
        if not shape:
            return None
        prefix, alphabet, layout = shape.split(" ")
        signs = _ALPHABETS[alphabet]

        def candidate() -> str:
            drawn = (draws.choice(signs) if sign == "x" else sign for sign in layout)
            return prefix + "".join(drawn)

        return tried(candidate, free)
