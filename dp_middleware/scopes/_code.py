"""Names, literals and comments of source code are private, the language's own words public."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from dp_middleware import _validate
from dp_middleware._plan import Span

LANGUAGES = (
    "python",
    "javascript",
    "typescript",
    "java",
    "c",
    "cpp",
    "csharp",
    "go",
    "rust",
    "sql",
)
"""Languages in which what the lexer calls a keyword is a word of the language and no name."""

_KEYWORD = re.compile(r"[A-Za-z_]{1,24}", re.ASCII)
_SIGNS = re.compile(r"[!-/:-@\[-^`{-~]+")  # ASCII, without "_"
_SIGIL = re.compile(r"[@$#'](?=\w)")
_OPENING = re.compile(r"""(?:[rRbBfFuU]{1,2}|u8|L|\$@?|@\$?)?(\"\"\"|\'\'\'|"|'|`)""")
_COMMENT = re.compile(r"#+|//+|/\*+|--+")
_LINE = re.compile(r"\S(?:[^\r\n\v\f\x1c-\x1e\x85\u2028\u2029]*\S)?")
_OPENS, _CLOSES = re.compile(r"\$?\{"), re.compile(r"(?:![rsa])?\}")
_FORMAT = re.compile(r"(?:![rsa])?:")
_NOT_IN_COMMENTS = re.compile(r"[^\w ,.;?!()-]|-(?=-)")
_NOT_IN_STRINGS = re.compile(r"[^\w ,.;:?!=+()/-]")
_NUMBER = re.compile(r"0|[1-9][0-9]{0,17}", re.ASCII)
_SQL = re.compile(
    "(?i:add|all|alter|and|any|as|asc|between|by|case|check|column|constraint|"
    "create|cross|default|delete|desc|distinct|drop|else|end|except|exists|"
    "explain|foreign|from|full|group|having|if|in|index|inner|insert|"
    "intersect|into|is|join|key|left|like|limit|natural|not|offset|on|or|"
    "order|outer|primary|recursive|references|returning|right|select|set|table|"
    "then|truncate|union|unique|update|using|values|view|when|where|window|"
    "with)"
)
"""What is a keyword here; SQL's own hundreds are also the words of which columns are named."""

_TYPES = re.compile("any|bigint|boolean|never|number|object|string|symbol|unknown|void")
"""What is a type here; TypeScript's lexer takes for one whatever stands behind ``name:``."""

_HAVE_CHARACTERS = ("java", "c", "cpp", "csharp", "go", "rust")

_PRIVATE = ("name", "number", "string", "comment")

Encoder = Callable[[str], str]


class _Part(NamedTuple):
    """A run of the source; private if it is a ``name``, ``number``, ``string`` or ``comment``."""

    kind: str
    start: int
    end: int


def code(language: str) -> Callable[[str], list[Span]]:
    """Names, literals and comments of source code.

    Public: keywords (of SQL the reserved words of clauses), also where one is used as a name;
    operators and punctuation, quotes and the letters before them, the marks at the start and end
    of comments, sigils (``@name``), blanks and line ends, those at the ends of a line of a string
    too, and with them the shape of the program. Private: every other name, builtin ones too,
    numbers, ``True`` and other constants, what is inside quotes, comments and preprocessor lines,
    line by line, and whatever the lexer does not know.

    A release stands there as an identifier that is no keyword (as a number if it is one), as text
    without quotes, escapes and braces inside quotes, and as text without marks in a comment. A
    name that occurs twice is released twice, so the code reads but does not run.

    Args:
        language: One of :data:`LANGUAGES`.

    Raises:
        ParameterError: Another language.
    """
    _validate.one_of(LANGUAGES, language=language)
    return partial(_spans, language)


def _spans(language: str, text: str) -> list[Span]:
    from pygments.lexers import get_lexer_by_name

    lexer = get_lexer_by_name(language)
    characters = language in _HAVE_CHARACTERS
    spans: list[Span] = []
    quotes = [""]  # of the strings that are open, by depth of interpolation
    for kind, start, end in _parts(lexer, text):
        encode: Encoder = partial(_as_name, lexer)
        if kind == "opens":
            quotes.append("")
        elif kind == "closes" and len(quotes) > 1:
            quotes.pop()
        elif kind == "number":
            encode = partial(_as_number, lexer)
        elif kind == "comment":
            (start, end), encode = _inside_comment(text, start, end), _as_comment
        elif kind == "string":
            first, last, quote, left_open = _inside_quotes(text, start, end, quotes[-1])
            opened = text[start:first]
            start, end, quotes[-1] = first, last, left_open
            if quote and characters and quote == "'":
                encode = _as_character
            elif quote:
                encode = _as_bytes if "b" in opened.lower() else _as_string
        elif _SIGIL.match(text, start):
            start += 1
        if kind in _PRIVATE:
            spans += [
                Span(*line.span(), encode=encode) for line in _LINE.finditer(text, start, end)
            ]
    return spans


def _parts(lexer: Any, text: str) -> Iterator[_Part]:
    """The whole text in runs; what the lexer leaves out is a name. Runs of a literal are one."""
    last = _Part("blank", 0, 0)
    for offset, kind, value in [*lexer.get_tokens_unprocessed(f"{text}\n"), (len(text), None, "")]:
        start, end = min(offset, len(text)), min(offset + len(value), len(text))
        pieces = [_Part("name", last.end, start), _Part(_kind(kind, value, lexer), start, end)]
        for part in pieces:
            start = max(part.start, last.end)
            if start >= part.end:
                continue
            joined = part.kind == last.kind in _PRIVATE and not text[:start].endswith("\n")
            if not joined:
                yield last
            last = _Part(part.kind, last.start if joined else start, part.end)
    yield last


def _kind(kind: Any, value: str, lexer: Any) -> str:
    """Of a lexer's token; private unless it is known to be a word or a sign of the language."""
    from pygments.token import Comment, Keyword, Number, Operator, Punctuation, String

    if kind is None or not value.strip():
        return "blank"
    if kind in String.Interpol and _OPENS.fullmatch(value):
        return "opens"
    if kind in String.Interpol and _CLOSES.fullmatch(value):
        return "closes"
    if kind in String.Interpol and _FORMAT.fullmatch(value):
        return "public"
    if kind in String:
        return "string"
    if kind in Number:
        return "number"
    if kind in Comment and kind not in Comment.Preproc and kind not in Comment.PreprocFile:
        return "comment"
    word = kind in Operator.Word or (kind in Keyword and kind not in Keyword.Constant)
    sign = kind in Operator or kind in Punctuation or kind in Keyword or kind in Comment.Preproc
    public = (word and _words(kind, lexer).fullmatch(value)) or (sign and _SIGNS.fullmatch(value))
    return "public" if public else "name"


def _words(kind: Any, lexer: Any) -> re.Pattern[str]:
    """What is a word of the language, of that which its lexer says to be one."""
    from pygments.token import Keyword

    if "sql" in lexer.aliases:
        return _SQL
    return _TYPES if "typescript" in lexer.aliases and kind in Keyword.Type else _KEYWORD


def _inside_comment(text: str, start: int, end: int) -> tuple[int, int]:
    opening = _COMMENT.match(text, start, end)
    if opening is None:
        return start, end
    start = opening.end()
    closed = opening.group().startswith("/*") and text.endswith("*/", start, end)
    return start, end - 2 if closed else end


def _inside_quotes(text: str, start: int, end: int, quote: str) -> tuple[int, int, str, str]:
    """What is between the quotes, which quotes (if any), and which are still open behind it."""
    if not quote:
        opening = _OPENING.match(text, start, end)
        if opening is None:
            return start, end, "", ""
        start, quote = opening.end(), opening.group(1)
    if text.endswith(quote, start, end):
        return start, end - len(quote), quote, ""
    return start, end, quote, quote


def _as_name(lexer: Any, released: str) -> str:
    """An identifier that the language has no other use for."""
    from pygments.token import Name

    name = re.sub(r"\W+", "_", released, flags=re.ASCII).strip("_") or "_"
    name = f"_{name}" if name[0].isdigit() else name
    _, kind, value = next(iter(lexer.get_tokens_unprocessed(f"{name} x = 1\n")))
    return name if kind in Name and value == name else f"{name}_"


def _as_number(lexer: Any, released: str) -> str:
    return released if _NUMBER.fullmatch(released) else _as_name(lexer, released)


def _as_string(released: str) -> str:
    return " ".join(_NOT_IN_STRINGS.sub(" ", released).split())


def _as_bytes(released: str) -> str:
    """A literal of bytes takes ASCII only."""
    return _as_string(re.sub(r"[^\x00-\x7f]", " ", released))


def _as_character(released: str) -> str:
    letters = re.sub(r"[\W_]", "", released, flags=re.ASCII)
    return letters[:1] or "x"


def _as_comment(released: str) -> str:
    return " ".join(_NOT_IN_COMMENTS.sub(" ", released).split())
