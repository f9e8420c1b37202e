"""Where keys, tokens and passwords stand in a text: by their form, by words beside them, by chance.

The forms of keys follow the public rules of Gitleaks (MIT licence, (c) 2019 Zachary Rice).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from dp_middleware.pseudonyms.detection import Entity
from dp_middleware.pseudonyms.detectors.cues import alternatives
from dp_middleware.pseudonyms.kinds.secrets import CREDENTIALS, PREFIX

_PASSWORD = (
    r"pass(?:word|wort|wd|phrase|code)|kennwort|mot de passe|contrase[nñ]a|senha|wachtwoord|"
    r"has[lł]o|parola d'ordine|parola chiave|mdp|clave|ww|pwd|psk|passw|credentials?|passkey|"
    rf"{alternatives('wireless')}"
)
_TOKEN = (
    r"secret|token|api[ _-]?key|(?:access|account|auth|private|encryption|signing|license|shared|"
    r"storage|service|secret|client|master|session|subscription|app)[ _-]?key|key[ _-]?id|"
    r"session[ _-]?id|client[ _-]?secret|appid|signature|sig|sid|jwt|auth|authorization|bearer"
)
_DOOR = alternatives("door_codes")
_IS = r"(?:is|was|ist|war|lautet|lauten|(?:c['’])?est|es|é|è|jest|to|heißt)"
_QUOTED = r"(?P<q>[\"'`])(?P<quoted>(?:(?!(?P=q)(?!\w))[^\n]){1,400})(?P=q)"
_BARE = r"[^\s\"'`,;<>(){}\[\]]+"
_FORMS = re.compile(  # whatever stands around them
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----\s*(?:\\n)?(?:"
    r"(?P<pem>(?:(?!-----)[\s\S]){16,20000}?)(?:\\n|\s)*-----END|(?P<cut>(?:[\w+/=\\]{20,}\s*)+))"
    r"|\bhttps?://(?:hooks\.slack\.com|discord(?:app)?\.com/api/webhooks|\w+\.webhook\.office\.com)/"
    r"(?P<hook>[\w/@-]{20,})"
    rf"|(?<![\w/+-])(?P<key>(?:{PREFIX.pattern})[\w+/=.~-]{{16,}}(?<!\.))"
    r"|(?P<hash>\$(?:2[abxy]?|[156y]|argon2\w+|pbkdf2[\w-]*)\$[\w./,=+-]+\$?[\w./$+=]{16,})"
    r"|\b\d{4}(?:[ -]?\d{4}){2}[^\n]{0,40}?\b(?:code|csc|security)\W{1,3}(?P<card>\d{3,4})\b"
    r"|(?P<other>\b[MNO][\w-]{22,27}\.[\w-]{6}\.[\w-]{27,}|\b\d{8,10}:AA[\w-]{30,}"
    r"|(?<![\w.~-])[\w.~-]{3}\dQ~[\w.~-]{31,34}|\b(?:[A-Z0-9]{5}-){3,}[A-Z0-9]{5}\b)"
)
_ASSIGNED = re.compile(  # PASSWORD=..., "apiKey": "...", <add key=... value=...>
    rf"(?P<name>(?P<word>{_PASSWORD}|(?<![a-z])(?:pass|pw|pin|otp|pwd)\b)|{_TOKEN})"
    r"(?:[_-]?(?:value|prod|live|test|staging|dev|v?\d))?[\"'`]?\]*"
    r"(?:\s{0,3}(?:=>|:=|[=:])\s{0,3}(?:[brf](?=[\"'`]))?|[\"']\s+value=)"
    rf"(?:{_QUOTED}|(?P<bare>{_BARE}))",
    re.IGNORECASE,
)
_SAID = re.compile(  # my password for the portal is ..., user ann password ..., pw: ...
    rf"\b(?P<name>(?P<word>{_PASSWORD}|pass|pw|pin|otp|tan|cv[vc]2?|puk|{_DOOR})|{_TOKEN}|key)s?\b"
    rf"(?:[^\n.!?;:=]{{0,60}}?(?:\s{_IS}\s|:\s?|\s->\s)"
    r"|\s(?:(?:d[aeiou]l?|der|des|fürs?|for|of|van|voor)\s(?:(?:la|le|il|the|das|de|het)\s)?[\w-]{2,15}\s)?)[\"'`«„“]?(?P<bare>[^\s\"'`<>«»„“”]+)",
    re.IGNORECASE,
)
_FOREIGN = re.compile(
    r"(?:密码|密碼|口令|暗証番号|パスワード|كلمة المرور|الرقم السري)"
    r"\s?(?:是|为|為|は|هي|هو|[:=\uff1a])?\s?(?P<bare>[!-~]{4,})"
)
_CHOSEN = re.compile(  # a word that somebody chose: the password for the portal is ...
    rf"\b(?P<name>(?P<word>{_PASSWORD}))(?:\s(?!(?:and|und|et|y|e|en|i)\b)[^\s.,!?;:]+){{0,4}}?"
    rf"(?:\s{_IS}\s|:\s?|\s->\s)(?!(?:{alternatives('states')})\b)"
    r"(?P<bare>[^\W\d_]{4,})(?=[.,!?;\"']|\s(?:and|und|et|y|e|en|i|but|or)\b|\s*$)",
    re.IGNORECASE | re.MULTILINE,
)
_FLAG = re.compile(  # of commands
    r"(?P<name>\s--?(?P<word>pass(?:word|wd|phrase)?|pw|token|secret|api-?key)[ =]"
    r"|\bmysql\w*\b[^\n|]{0,99}?\s-p|\bsshpass\s+-p\s*"
    r"|\bopenssl\s[^\n|]{0,99}?\s-(?:k|K|pass)\s+(?:pass:)?"
    r"|(?:\s-u|--user)\s+[\"']?[^\s:\"']+:|\bsqlplus\s+\w+/)[\"']?(?P<bare>[^\s\"']+?)(?=[\s\"']|@/|$)"
)
_HEADER = re.compile(
    r"\b(?:Authorization[\"']?\s*[:=,]\s*[\"']?(?:Basic|Bearer|Token|ApiKey|Digest)|Bearer)\s+"
    r"(?P<bare>[\w+/=.~-]{8,})",
    re.IGNORECASE,
)
_PAIR = re.compile(r"\bauth\s*=\s*\(\s*[\"'][^\"'\n]*[\"']\s*,\s*[\"'](?P<bare>[^\"'\n]+)[\"']")
_PHRASE = re.compile(  # of twelve words and more, or some in quotes
    r"\b(?:seed|mnemonic|(?:pass|recovery |seed )phrase)\b[^\n.!?\"“]{0,20}?[\"“:]\s?"
    r"(?P<bare>[a-z]+(?: [a-z]+){3,23})(?=[\"”.\n]|\Z)",
    re.IGNORECASE,
)
_COOKIES = re.compile(r"\b(?:Set-)?Cookie[\"']?\s*:\s*(?P<all>[^\n]+)", re.IGNORECASE)
_COOKIE = re.compile(r"[\w-]+=(?P<bare>[^\s;\"',]{8,})")
_RANDOM = re.compile(r"(?<![\w/+.=@#&-])[A-Za-z0-9+/_-]{24,}+={0,2}(?![\w/+@-])")
_LONG = re.compile(r"[A-Za-z0-9]{12}")  # as no path and no name of a product has
PUBLIC = re.compile(
    r"-----BEGIN (?:[A-Z0-9 ]{0,40}PUBLIC KEY|CERTIFICATE[A-Z ]{0,40})-----[^-]++|base64,\S++|"
    r"\bssh-\w+ \S++|\bsha\d+[-:]\S++"
)
_HASH = re.compile(
    r"(?:[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{56}|[0-9a-f]{64}|[0-9a-f]{96}|[0-9a-f]{128})|"
    r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}",
    re.IGNORECASE,
)
_NONE = re.compile(  # no value, but what stands for one, or code that fetches one
    r"[$%<{\[(].*|[*xX.•_-]+|.*[({\[].*|(?:your|my|the|some|example|placeholder|changeme|redacted)"
    r"\b.*|(?:none|null|nil|true|false|undefined|str|string|bytes|int|bool|optional|any|required|"
    r"optional\S*|secretstr|text|password|passwort|token|secret|key|varchar\S*|hidden|empty|not|set)"
    r"|(?:os|process|self|this|settings|config|env|secrets|request|args|params|vault|var|local|data|"
    r"ctx|app|props|user)(?:\.\w+)+\W*",
    re.IGNORECASE | re.DOTALL,
)
_PLAIN = re.compile(r"[A-Za-z]?[^\W\d_A-Z]*(?:['’-][^\W\d_]+)*|[A-Z]+")
_DIGITS = re.compile(rf"pin|otp|tan|cv[vc]2?|puk|{_DOOR}", re.IGNORECASE)
_ENDS = ".,;:)]}\"'`"


def secrets_in(text: str) -> Iterator[Entity]:
    """Yields what opens something; parts of one may come twice.

    Checksums, UUIDs, images and public keys are none, unless a word beside them says so.
    """
    for match in CREDENTIALS.finditer(text):
        yield Entity(*match.span(), "secret")
    for match in _FORMS.finditer(text):
        name = match.lastgroup or ""
        if name != "key" or not match[name].islower() or re.search(r"\d", match[name]):
            yield Entity(*match.span(name), "secret")
    yield from _named(text)
    for match in _PHRASE.finditer(text):
        yield Entity(*match.span("bare"), "secret")
    for line in _COOKIES.finditer(text):
        for match in _COOKIE.finditer(text, *line.span("all")):
            if _is_mixed(match["bare"]):
                yield Entity(*match.span("bare"), "secret")
    for match in _RANDOM.finditer(PUBLIC.sub(lambda public: " " * len(public.group()), text)):
        if _LONG.search(match.group()) and _is_random(match.group()):
            yield Entity(*match.span(), "secret")


def _named(text: str) -> Iterator[Entity]:
    """Yields values beside the names of secrets."""
    for rule in (_ASSIGNED, _SAID, _CHOSEN, _FOREIGN, _FLAG, _PAIR, _HEADER):
        for match in _overlapping(rule, text):
            groups = match.groupdict()
            name = "quoted" if groups.get("quoted") else "bare"
            start, end = match.span(name)
            if name == "bare":
                end = start + len(text[start:end].rstrip(_ENDS))
                if text[end : end + 1] == "(":  # a call
                    continue
            sure = rule in (_CHOSEN, _FOREIGN, _FLAG, _PAIR, _HEADER)
            if _opens(text[start:end], groups.get("word"), sure, prose=rule is _SAID):
                yield Entity(start, end, "secret")


def _overlapping(rule: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """Yields matches that begin behind the name of the one before: its value may be a name."""
    place = 0
    while (match := rule.search(text, place)) is not None:
        yield match
        place = max(match.end("name") if "name" in rule.groupindex else match.end(), place + 1)


def _opens(value: str, word: str | None, sure: bool, prose: bool) -> bool:
    """Whether a value beside the name of a secret is one.

    Args:
        value: Without quotes.
        word: What names it, if that is a word for what people choose, such as a password.
        sure: Whether nothing else can stand there.
        prose: Whether it stands in a sentence.
    """
    if len(value) < 3 + (word is None or word[:2].lower() != "cv") or _NONE.fullmatch(value):
        return False
    if sure:
        return True
    if word is None:
        return _is_mixed(value) and len(value) >= 8
    if _DIGITS.fullmatch(word):
        return re.fullmatch(r"[#*]?(?=\w*\d\d)[\dA-F-]{3,8}[#*]?", value) is not None
    return not (prose and _PLAIN.fullmatch(value))


def opens(value: str) -> bool:
    """Whether the value of a field of passwords is one."""
    return _opens(value, "password", sure=True, prose=False)


def _is_mixed(value: str) -> bool:
    """Whether it has digits and letters, or capitals behind small letters, as no word has."""
    digits = any(sign.isdecimal() for sign in value)
    return (digits and any(map(str.isalpha, value))) or (len(value) >= 20 and _is_random(value))


def _is_random(value: str) -> bool:
    """Whether its signs change between classes as often as those of random ones do."""
    if _HASH.fullmatch(value):
        return False
    classes = [
        "a" if c.islower() else "A" if c.isupper() else "9" if c.isdecimal() else c for c in value
    ]
    changes = sum(one != other for one, other in pairwise(classes))
    runs = len(re.findall(r"\d+", value))
    return runs >= 2 and changes >= 0.3 * len(value)
