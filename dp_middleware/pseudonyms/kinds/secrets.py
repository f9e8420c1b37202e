"""What opens something: keys, tokens, passwords, connection strings."""

from __future__ import annotations

import re
import string
from dataclasses import dataclass

from dp_middleware.pseudonyms.draws import Draws, Free, Part, words
from dp_middleware.pseudonyms.kinds.contacts import Url
from dp_middleware.pseudonyms.kinds.ids import Exact
from dp_middleware.pseudonyms.mapping import tried

# beginnings of keys that tell who issues them: public, of the rules of Gitleaks and of issuers
PREFIXES = words(
    "github_pat_ ghp_ gho_ ghu_ ghs_ ghr_ glpat- glptt- gldt- glrt- glcbt- glsoat- sk-proj- sk- SK "
    "sk-svcacct- sk-admin- sk-ant-api03- sk-ant-admin01- sk-ant-oat01- sk-or-v1- sk_live_ AC eyJ "
    "sk_test_ rk_live_ rk_test_ pk_live_ pk_test_ whsec_ xoxb- xoxp- xoxa- xoxr- xoxs- xoxo- xoxe- "
    "xoxe.xoxp- xapp-1- AKIA ASIA ABIA ACCA AIza ya29. GOCSPX- npm_ pypi- SG. hf_ api_org_ gsk_ "
    "pplx- xai- r8_ dop_v1_ doo_v1_ dor_v1_ dapi hvs. hvb. key- shpat_ shpca_ shppa_ shpss_ pul- "
    "sntryu_ sntrys_ lin_api_ ntn_ secret_ figd_ PMAK- rubygems_ dckr_pat_ glsa_ glc_ xkeysib- "
    "sq0atp- sq0csp- EAAA tfp_ fo1_ NRAK- NRJS- ops_ dp.pt. duffel_live_ duffel_test_ pscale_tkn_ "
    "pscale_pw_ rdme_ shippo_live_ shippo_test_ sm_pat_ CLOJARS_ AGE-SECRET-KEY-1 EZAK EZTK LTAI "
    "cfut_ nfp_ sbp_ vercel_ tskey- atlasv1 ATATT3 ATCTT3"
)
PREFIX = re.compile("|".join(map(re.escape, sorted(PREFIXES, reverse=True))))
CREDENTIALS = re.compile(
    r"(?<![a-z0-9+.-])(?P<scheme>[a-z][a-z0-9+.-]{1,30})://(?P<user>[^\s:/@\"'`<>]{0,99}):"
    r"(?P<password>[^\s\"'`<>]{1,300})@"
    r"(?P<host>[^\s/:?#@\"'`<>,;)]+)(?::\d{1,5}\b)?(?P<path>[/?#,:][^\s\"'`<>)]*)?",
    re.IGNORECASE,
)
_USUAL = words(
    "root admin user guest postgres mysql mongo redis rabbitmq sa app git oauth2 x-access-token "
    "localhost 127.0.0.1 0.0.0.0 db database cache host github.com gitlab.com bitbucket.org"
)
_SCHEMES = words(
    "amqp amqps asyncpg aiomysql cassandra clickhouse couchbase elasticsearch ftp ftps git "
    "http https imap imaps jdbc kafka ldap ldaps mariadb mongodb mqtt mqtts mssql mysql "
    "nats oracle postgres postgresql psycopg psycopg2 pymysql pyodbc redis rediss rtsp sftp "
    "smtp smtps snowflake socks5 sqlite sqlserver srv ssh svn ws wss"
)
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
