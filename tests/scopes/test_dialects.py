"""A keyword of the language inside a string or comment of any of its dialects is never public."""

from __future__ import annotations

import re
from typing import NamedTuple

import pytest
from hypothesis import given, settings, strategies as st

from dp_middleware import scopes

QUOTES = ("'", '"', "`", "it's")
MARKS = ("--", "#", "//", "/*", "$$", "$a$", "<", "{", "}", "${", "[")
ANY = (*QUOTES, *MARKS)


class Literal(NamedTuple):
    """A string or comment, and what may stand in it beside words."""

    opening: str
    closing: str
    inside: tuple[str, ...]


def but(*without: str, more: tuple[str, ...] = ()) -> tuple[str, ...]:
    return (*(each for each in ANY if not any(part in each for part in without)), *more)


BLOCK = Literal("/* ", " */", but("/*"))
NESTED = Literal("/* ", " */", but("/*", more=("/* ' */", "/**/")))
ISO_STRING = Literal("'", "'", but("'", more=("''", "\n")))
ISO_NAME = Literal('"', '"', but('"', more=('""',)))
DASHES = Literal("-- ", "\n", ANY)
ESCAPED = (
    Literal("'", "'", but("'", more=(r"\'", r"\\", r"\n"))),
    Literal('"', '"', but('"', more=(r"\"", r"\\", "\\\n"))),
)
TEMPLATE = Literal("`", "`", but("`", "${", more=(r"\`", r"\\", "\n", "${a}", "${f('}`')}")))
SLASHES = Literal("// ", "\n", ANY)
PATTERN = Literal("= /a", "a/;\n", ("'", '"', "`", "[/]", r"\/", "#", "(", "--", "$"))
MARKUP = (
    Literal("= <div>", "</div>;\n", ("'", "it's", '"', "`", "#", "//", "{a}", "<p>x</p>")),
    Literal("(<>", "</>)\n", ("'", "it's", "`", "//")),
    Literal("return<b>", "</b>\n", ("'", "it's", "`", "//")),
)
SCRIPT = (*ESCAPED, TEMPLATE, SLASHES, BLOCK, PATTERN, Literal("\n<!-- ", "\n", ANY))
SYSTEM = (ESCAPED[1], SLASHES, BLOCK)

DIALECTS = {
    ("sql", "standard"): (ISO_STRING, ISO_NAME, DASHES, BLOCK),
    ("sql", "mysql"): (
        Literal("'", "'", but("'", more=(r"\'", r"\\", "''"))),
        Literal('"', '"', but('"', more=(r"\"", r"\\", '""'))),
        Literal("`", "`", but("`", more=("``",))),
        *(Literal("# ", "\n", ANY), DASHES, BLOCK, Literal("_utf8'", "'", (r"\'",))),
    ),
    ("sql", "postgresql"): (
        Literal("'", "'", but("'", more=("''", "\\", "\n"))),
        Literal("E'", "'", but("'", more=(r"\'", "''", r"\\"))),
        Literal("U&'", "'", but("'", more=("''", "\\"))),
        Literal("$$", "$$", but("$$")),
        Literal("$tag$", "$tag$", ANY),
        *(ISO_NAME, DASHES, NESTED),
    ),
    ("sql", "oracle"): (
        Literal("q'[", "]'", but("it's")),
        Literal("nq'!", "!'", ANY),
        *(ISO_STRING, ISO_NAME, DASHES, BLOCK, Literal("\nREM ", "\n", ANY)),
    ),
    ("sql", "bigquery"): (
        Literal("'''", "'''", but("'", more=("\n", "it's", r"\'"))),
        Literal('"""', '"""', but('"', more=("\n", 'a"b'))),
        Literal("r'", "'", but("'", more=(r"\'", r"\d"))),
        Literal("rb'''", "'''", but("'", more=("it's",))),
        *(*ESCAPED, DASHES, Literal("# ", "\n", ANY), BLOCK),
    ),
    ("sql", "tsql"): (
        *(Literal("[", "]", but("[", more=("]]",))), Literal("N'", "'", but("'", more=("''",)))),
        *(ISO_STRING, ISO_NAME, DASHES, NESTED),
    ),
    ("sql", "snowflake"): (ISO_STRING, DASHES, SLASHES, BLOCK, Literal("$$", "$$", but("$$"))),
    ("python", "3.11"): (
        *ESCAPED,
        Literal("'''", "'''", but("'", more=("\n", "it's", "\\'''"))),
        Literal('f"""', '"""', but('"', "{", "}", "#", more=("\n", "{a}", "{{", "{b['k']!r}"))),
        Literal('f"', '"', but('"', "{", "}", more=("{a}", "{{", "}}", "{b['k']:>{c}}"))),
        Literal("rb'", "'", but("'", more=(r"\'", r"\d"))),
        Literal("# ", "\n", ANY),
    ),
    ("python", "3.14"): (
        Literal('f"', '"', but('"', "{", "}", more=("{a}", '{b["k"]}', '{"}"}', "{{", r"\{a}"))),
        Literal("t'", "'", but("'", "{", "}", more=("{a}", "{b['k']}", "{'}'}"))),
        Literal('rf"""', '"""', but('"', "{", "}", more=("{a  # }\n}", '{"""x"""}', "\n"))),
        *(*ESCAPED, Literal("# ", "\n", ANY)),
    ),
    ("python", "2"): (*ESCAPED, Literal("ur'", "'", but("'")), Literal("# ", "\n", ANY)),
    ("python", "notebook"): (
        Literal("\n%sql ", "\n", ANY),
        Literal("\n!echo ", "\n", ANY),
        *(*ESCAPED, Literal("# ", "\n", ANY)),
    ),
    ("javascript", "script"): SCRIPT,
    ("javascript", "jsx"): (*SCRIPT, *MARKUP),
    ("typescript", "script"): SCRIPT,
    ("typescript", "tsx"): (*SCRIPT, *MARKUP),
    ("java", "8"): (*SYSTEM, Literal("// ", "\\u000a", but("'", '"', "/*", "`"))),
    ("java", "17"): (*SYSTEM, Literal('"""\n', '"""', but('"', more=("\n", 'a"b', r"\"")))),
    ("c", "99"): (*SYSTEM, Literal("// ", "\n", (*ANY, "\\\n", "??/\n"))),
    ("cpp", "23"): (
        *SYSTEM,
        Literal('R"(', ')"', ANY),
        Literal('u8R"x(', ')x"', (*ANY, ')"')),
        Literal("1'000 /* ", " */", but("/*")),
    ),
    ("csharp", "12"): (
        *SYSTEM,
        Literal('@"', '"', but('"', more=('""', "\\", "\n"))),
        Literal('$"', '"', but('"', "{", "}", more=("{a}", '{b["k"]}', "{{"))),
        Literal('"""', '"""', but('"', more=("\n", 'a"b', "\\"))),
        Literal("\n#region ", "\n", ANY),
    ),
    ("go", "1"): (*SYSTEM, Literal("`", "`", but("`", more=("\n", "\\")))),
    ("rust", "2021"): (
        *(ESCAPED[1], SLASHES, NESTED),
        Literal('r"', '"', but('"', more=("\\", "\n"))),
        Literal('br##"', '"##', (*ANY, '"#')),
        Literal("<'a, 'b> \"", '"', but('"')),
    ),
}
CODE = (
    *("a", "b.c", "(d)", "1", " ", "\n", " + ", ";\n", ", ", " < ", "e[0]", " - ", "f(g, h)"),
    "\n\n",
)
WORDS = ("x", " ", "two words", ".", "3")
KEYWORDS = re.compile(r"\b(?:SELECT|FROM|WHERE|if|else|return|function|pass|fn)\b")


@st.composite
def programs(draw: st.DrawFn, secret: str, literals: tuple[Literal, ...]) -> str:
    pieces = []
    for _ in range(draw(st.integers(1, 4))):
        pieces += draw(st.lists(st.sampled_from(CODE), max_size=3))
        literal = draw(st.sampled_from(literals))
        noise = st.lists(st.sampled_from((*literal.inside, *WORDS)), max_size=4).map("".join)
        pieces += [" ", literal.opening, draw(noise), f" {secret} ", draw(noise), literal.closing]
        pieces.append(draw(st.sampled_from([" ", ";\n", " + "])))
    return "".join(pieces)


def public(text: str, language: str) -> str:
    left, position = [], 0
    for span in sorted(scopes.code(language)(text), key=lambda each: each.start):
        left.append(text[position : span.start])
        position = span.end
    return "\0".join([*left, text[position:]])


@pytest.mark.slow
@pytest.mark.parametrize(("language", "dialect"), DIALECTS, ids=map(" ".join, DIALECTS))
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_a_keyword_in_a_string_or_comment_is_private(language, dialect, data):
    secret = (
        "UNION"
        if language == "sql"
        else "while"
        if language != "rust" and language != "go"
        else "if"
    )
    text = data.draw(programs(secret, DIALECTS[language, dialect]))
    assert not re.search(rf"\b{secret}\b", public(text, language))


@pytest.mark.parametrize(
    ("language", "text", "certain"),
    [
        ("sql", r"SELECT 'it\'s' FROM 'b' WHERE c", "SELECT"),
        ("sql", "SELECT 1 -- it's fine\nFROM a WHERE b = 'c'", ...),
        ("sql", "SELECT a -- 'c\n/* d */ FROM [e] WHERE \"f\" = 'h''i';", ...),
        (
            "javascript",
            "if (a / 2 > b) {\n return `c ${d} e` } // f's\nelse { return /g[h]/i.test(j) }",
            ...,
        ),
        (
            "typescript",
            "function f<T>(a: Array<string>): void { return a.map(b => `c`); }",
            ...,
        ),
        (
            "python",
            "if a % 2:\n    return f\"b {c['d']} {{e}}\"  # f's\nelse:\n    pass\n",
            ...,
        ),
        (
            "c",
            "#include <a.h>\nint f(void) {\n  char b = '\\''; // c's\n  return \"d\\\"\" + 1;\n}",
            ...,
        ),
        ("rust", "fn f<'a>(x: &'a str) -> u8 { if x == \"b\" { return b'c'; } /* d's */ 1 }", ...),
    ],
)
def test_keywords_up_to_what_dialects_read_in_two_ways_are_public(language, text, certain):
    expected = KEYWORDS.findall(text) if certain is ... else certain.split()
    assert KEYWORDS.findall(public(text, language)) == expected
