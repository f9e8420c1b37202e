"""Names, literals and comments of source code are private, the language's own words public."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

from dp_middleware import _validate
from dp_middleware.sanitizers.spans import Span
from dp_middleware.scopes._literals import Source, literals

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
_LINE = re.compile(r"\S(?:[^\r\n\v\f\x1c-\x1e\x85\u2028\u2029]*\S)?")
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

Encoder = Callable[[str], str]


class _Part(NamedTuple):
    """A run of the source: ``public``, or private as a ``name``, ``number`` or ``comment``."""

    kind: str
    start: int
    end: int


def code(language: str) -> Callable[[str], list[Span]]:
    """Names, literals and comments of source code.

    Public: keywords (of SQL the reserved words of clauses), also where one is used as a name;
    operators and punctuation, quotes and the letters before them, the marks at the start and end
    of comments, sigils (``@name``), blanks and line ends, those at the ends of a line of a string
    too, and with them the shape of the program. Private: every other name, builtin ones too,
    numbers, ``True`` and other constants, what is inside quotes (fields of a formatted string
    too), comments and preprocessor lines, line by line, and whatever the lexer does not know.

    Where dialects of the language may disagree on the end of a string or a comment (a backslash
    before a quote in SQL, ``$tag$``, ``#``, a string that breaks over lines, JSX, an apostrophe
    that nothing closes), **all up to the end of the text is private**.

    A release stands there as an identifier that is no keyword (as a number if it is one), as text
    without quotes, escapes and braces inside quotes, and as text without marks in a comment. A
    name that occurs twice is released twice, so the code reads but does not run.

    Args:
        language: One of :data:`LANGUAGES`.

    Raises:
        ParameterError: Another language.
    """
    _validate.one_of(LANGUAGES, language=language)
    return partial(_code, language)


def _code(language: str, text: str) -> list[Span]:
    from pygments.lexers import get_lexer_by_name

    lexer = get_lexer_by_name(language)
    every = list(literals(language, text))
    private: list[tuple[int, int, Encoder]] = [
        (*literal.inside(text), _in_literal(lexer, literal, text)) for literal in every
    ]
    for kind, start, end in _outside(every, _parts(lexer, _masked(text, every))):
        if kind == "number":
            private.append((start, end, partial(_as_number, lexer)))
        elif kind == "comment":
            private.append((start, end, _as_comment))
        elif kind == "name":
            start += bool(_SIGIL.match(text, start))
            private.append((start, end, partial(_as_name, lexer)))
    return [
        Span(*line.span(), encode=encode)
        for start, end, encode in private
        for line in _LINE.finditer(text, start, end)
    ]


def _in_literal(lexer: Any, literal: Source, text: str) -> Encoder:
    if literal.kind == "string":
        opening = text[literal.start : literal.inside(text)[0]]
        return _as_bytes if "b" in opening.lower() else _as_string
    if literal.kind == "pattern":
        return partial(_as_name, lexer)
    return _as_character if literal.kind == "character" else _as_comment


def _masked(text: str, every: list[Source]) -> str:
    """The code alone: for a comment blanks, for another literal a name in parentheses."""
    pieces, position = [], 0
    for kind, start, end in every:
        blank = kind in ("comment", "rest")
        mask = " " * (end - start) if blank else f"({'_' * (end - start - 2)})"
        pieces += [text[position:start], mask]
        position = end
    return "".join([*pieces, text[position:]])


def _outside(every: list[Source], parts: Iterable[_Part]) -> Iterator[_Part]:
    """What of the parts lies in no literal; both come in order."""
    left = deque(every)
    for kind, start, end in parts:
        while left and left[0].start < end:
            if start < left[0].start:
                yield _Part(kind, start, left[0].start)
            start = max(start, left[0].end)
            if left[0].end > end:
                break
            left.popleft()
        if start < end:
            yield _Part(kind, start, end)


def _parts(lexer: Any, text: str) -> Iterator[_Part]:
    """The whole text in runs; what the lexer leaves out is a name."""
    position = 0
    for offset, kind, value in [*lexer.get_tokens_unprocessed(f"{text}\n"), (len(text), None, "")]:
        start, end = min(offset, len(text)), min(offset + len(value), len(text))
        for part in (_Part("name", position, start), _Part(_kind(kind, value, lexer), start, end)):
            if part.end > max(part.start, position):
                yield part._replace(start=max(part.start, position))
                position = part.end


def _kind(kind: Any, value: str, lexer: Any) -> str:
    """Of a lexer's token; private unless it is known to be a word or a sign of the language."""
    from pygments.token import Comment, Keyword, Number, Operator, Punctuation

    if kind is None or not value.strip():
        return "blank"
    if kind in Number:
        return "number"
    if kind in Comment and kind not in Comment.Preproc and kind not in Comment.PreprocFile:
        return "comment"
    word = kind in Operator.Word or (kind in Keyword and kind not in Keyword.Constant)
    sign = kind in Operator or kind in Punctuation or kind in Keyword or kind in Comment.Preproc
    words = _SQL if "sql" in lexer.aliases else _KEYWORD
    if "typescript" in lexer.aliases and kind in Keyword.Type:
        words = _TYPES
    public = (word and words.fullmatch(value)) or (sign and _SIGNS.fullmatch(value))
    return "public" if public else "name"


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
