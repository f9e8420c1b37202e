"""Where strings and comments of source code end, as far as every dialect of a language agrees.

Code is read from its start. At the first place that two dialects may read in two ways, the reading
stops: what follows may be inside of a string or a comment, so all of it is one literal, ``rest``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import regex  # re of Python 3.11.0 to 3.11.4 loops for ever at some possessive quantifiers

_ENDS = r"\r\n\v\f\x1c-\x1e\x85\u2028\u2029"  # of a line, somewhere
_ESCAPE = rf"\\[^{_ENDS}]"
_BEHIND = r"(?![\w\"'`])"
_QUOTE = regex.compile(r"""\w*(\"\"\"|\'\'\'|["'`\[/])""")
_MARK = regex.compile(r"#+|//+|/\*+|--+")


class Source(NamedTuple):
    """A ``string``, ``character``, ``pattern`` or ``comment``, or the ``rest``."""

    kind: str
    start: int
    end: int

    def inside(self, text: str) -> tuple[int, int]:
        """Offsets without quotes, the letters before them, and marks of comments."""
        start, end = self.start, self.end
        if self.kind == "comment":
            mark = _MARK.match(text, start, end)
            start = mark.end() if mark else start
            closed = text.endswith("*/", start, end) and text.startswith("/*", self.start)
            return start, end - 2 if closed else end
        quote = _QUOTE.match(text, start, end)
        if quote is None or self.kind == "rest":
            return start, end
        return quote.end(), end - len(quote.group(1))


def literals(language: str, text: str) -> Iterator[Source]:
    """The strings and comments in order; what no dialect agrees on is the last, up to the end."""
    pattern, position = _PATTERNS[language], 0
    while position < len(text):
        match = pattern.match(text, position)
        if match is None:
            yield Source("rest", position, len(text))
            return
        kind, position = match.lastgroup, match.end()
        if kind in ("string", "character", "pattern", "comment"):
            yield Source(kind, *match.span())


def _quoted(quote: str, inside: str = _ESCAPE, not_behind: str = "") -> str:
    """On one line, and nothing behind it that would make it a part of a longer literal."""
    return rf"{quote}{not_behind}(?:{inside}|[^{quote}\\{_ENDS}])*+{quote}{_BEHIND}"


def _tripled(quote: str) -> str:
    return rf"{quote * 3}(?:[^{quote}\\]|\\.|{quote}(?!{quote * 2}))*+{quote * 3}{_BEHIND}"


def _formatted(quote: str) -> str:
    """A string with fields that every Python ends at the same place; no strings with braces."""
    other = _SINGLE if quote == _DOUBLE else _DOUBLE
    plain = rf"[^{{}}\"'\\#{_ENDS}]"
    field = rf"\{{(?:{plain}|{other}{plain}*+{other}|\{{{plain}*+\}})*+\}}"
    inside = rf"\{{\{{|\}}\}}|{field}"
    tripled = rf"(?:[^{quote}\\{{}}]|{inside}|\\.|{quote}(?!{quote * 2}))*+"
    once = rf"(?:[^{quote}\\{{}}{_ENDS}]|{inside}|{_ESCAPE})*+"
    return rf"{quote * 3}{tripled}{quote * 3}{_BEHIND}|{quote}{once}{quote}{_BEHIND}"


def _line(mark: str, no: str = "(?!)") -> str:
    return rf"{mark}(?:(?!{no})[^{_ENDS}])*+(?=\r?\n|\Z)"


def _block(no: str = "(?!)", not_behind: str = "") -> str:
    """Without another one's opening inside: some dialects nest them."""
    return rf"/\*{not_behind}(?:(?!{no}|\*/|/\*).)*+\*/"


def _pattern(*code: str, string: str, comment: str, **kinds: str) -> regex.Pattern[str]:
    """A literal by its kind, or a run of code, of which every sign is certain to be code."""
    literals = {"string": string, "comment": comment, **kinds}
    groups = "|".join(rf"(?P<{kind}>{one})" for kind, one in literals.items())
    return regex.compile(rf"{groups}|(?:{'|'.join(code)})++", regex.DOTALL)


def _c_like(
    *code: str, no: str = "(?!)", escape: str = _ESCAPE, prefix: str = "", more: str = "(?!)"
) -> regex.Pattern[str]:
    """``no`` stands in no comment and no string: some compilers read it before all else."""
    return _pattern(
        *(r"\s", _WORD, r"(?<!\?\?)/(?![/*\\])", r"[-+*%&|^~!=<>?:;,.()\[\]{}]", *code),
        string=prefix + _quoted(_DOUBLE, escape, rf"(?![^{_ENDS}]*\?\?/)") + f"|{more}",
        comment=rf"{_line('//', no)}|{_block(no)}",
        character=rf"{prefix}'(?:[^'\\{_ENDS}]|{escape}[^'\\{_ENDS}]{{0,9}})'{_BEHIND}",
    )


_SINGLE, _DOUBLE, _BACKTICK = "'", '"', "`"
_WORD = r"\w++(?![\"'`])"
_SIGIL = r"[@$](?=\w)"
_HASH = r"#(?![\"'#])"

_PYTHON = _pattern(
    rf"(?!\A\s*+%)(?:[^\S\n]|\n(?!\s*+%[\w%])|{_WORD}|!(?==)|%(?!%)|\\(?=\r?\n)"  # no magics
    r"|[-+*/&|^~=<>:;,.@()\[\]{}])",
    string=rf"(?i:[bu]r|rb|[rub])?+(?:{_tripled(_SINGLE)}|{_tripled(_DOUBLE)}"
    rf"|{_quoted(_SINGLE)}|{_quoted(_DOUBLE)})"
    rf"|(?i:[ft]|r[ft]|[ft]r)(?:{_formatted(_SINGLE)}|{_formatted(_DOUBLE)})",
    comment=_line("#"),
)

_BEFORE_MARKUP = (
    "await|case|default|delete|do|else|extends|in|instanceof|new|of|return|throw|typeof|void|yield"
)
_LAST = rf"(?=[^/{_ENDS}]*+(?:[{_ENDS}]|\Z))"  # no other slash on the line
_JAVASCRIPT = _pattern(
    rf"(?!(?:{_BEFORE_MARKUP})<)[\w$]++<(?![!/\"'`])",  # no JSX
    *(r"[\w$]++(?![\"'])", r"<(?![\w$>/!])", rf"/(?![/*]){_LAST}", r"-(?!->)", r"\s"),
    *(r"[#@](?=[A-Za-z_$])", r"[+*%&|^~!=>?:;,.()\[\]{}]"),
    string=rf"{_quoted(_SINGLE)}|{_quoted(_DOUBLE)}"
    rf"|`(?:[^`\\$]|\\.|\$(?!\{{)|\$\{{[^{{}}\"'`/\\]*+\}})*+`{_BEHIND}",
    comment=_line(r"(?:\A#!|//)") + "|" + _block(),
    pattern=rf"/(?![/*])(?:[^/\"'`{_ENDS}]|/(?![/*]))*/{_LAST}",
)

_SQL = _pattern(
    *(r"\s", rf"(?!(?i:rem|remark|prompt|stdin)\b){_WORD}", r"-(?!-)", r"/(?![/*])"),
    *(r"(?<![\w$])\$\d++(?![\w$])", r"[+*%&|^~!=<>?:;,.@()\]}]"),
    string="|".join(
        _quoted(quote, rf"\\[^\"'`\\{_ENDS}]|{quote * 2}(?!{quote})", rf"(?!{quote * 2})")
        for quote in (_SINGLE, _DOUBLE, _BACKTICK)
    )
    + rf"|\[[^\[\]\"'`\\$#/;{_ENDS}-]*+\](?!\])",
    comment=_line(r"--(?=\s|\Z)") + "|" + _block(not_behind="(?!M?!)"),
)

_C = _c_like(*(_HASH, r"(?<=[ \t])\\(?=\r?\n)"), no=r"\\|\?\?/", prefix="(?:u8|[uUL])?+")
_PATTERNS = {
    "python": _PYTHON,
    "javascript": _JAVASCRIPT,
    "typescript": _JAVASCRIPT,
    "sql": _SQL,
    "c": _C,
    "cpp": _C,
    "java": _c_like(_SIGIL, no=r"\\u", escape=rf"\\[^u{_ENDS}]"),
    "csharp": _c_like(_SIGIL, _HASH),
    "go": _c_like(more=rf"`[^`]*+`{_BEHIND}"),
    "rust": _c_like(r"'(?=[A-Za-z_]\w*+(?!'))", _SIGIL, _HASH, prefix="b?+"),
}
