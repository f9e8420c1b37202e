"""A private text cut into what is public and what is to be drawn for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import islice
from operator import index
from typing import Any, NamedTuple

from dp_middleware._forks import StaysHere
from dp_middleware.errors import ParameterError
from dp_middleware.vocabulary.vocabulary import Vocabulary


@dataclass(frozen=True)
class Span:
    """Private characters of a text, and how what is released for them is written there.

    For text that is written in another way than it is read, such as a string in JSON: ``text``
    is the string, ``encode`` writes one in JSON.

    Attributes:
        start: Offset of its first character.
        end: Offset behind its last.
        text: What is private, where it differs from ``source[start:end]``; this is perturbed.
        encode: Makes of the released text what stands in place of the span. It must be public:
            a function of what it is given only, and not of any private text.

    Raises:
        ParameterError: ``encode`` is not a function.
    """

    start: int
    end: int
    text: str | None = field(default=None, repr=False)
    encode: Callable[[str], str] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.encode is not None and not callable(self.encode):
            raise ParameterError("expected encode= as a function from a str to a str")

    def __getstate__(self) -> dict[str, Any]:
        if self.text is not None:
            raise TypeError("expected a span with text= to stay in its process: it is private")
        return self.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    @property
    def plain(self) -> bool:
        """Whether it is its offsets only, and so may be merged with another."""
        return self.text is None and self.encode is None

    def private(self, source: str) -> str:
        """What is to be perturbed."""
        return source[self.start : self.end] if self.text is None else self.text


Detector = Callable[[str], Iterable[Any]]
Scope = Sequence[tuple[int, int] | Span] | Detector


class Token(NamedTuple):
    """A private token. It does not show what it holds.

    Attributes:
        id: In the vocabulary, -1 for an unknown one.
        kept: Its public spelling if the policy keeps it.
        output: The id that was released for it, ``None`` before the draw and for a kept one.
    """

    id: int
    kept: str | None
    output: int | None

    def __repr__(self) -> str:
        return "Token()"


@dataclass(frozen=True, kw_only=True)
class Private(StaysHere):
    """The tokens of a span in columns, and how what is released for them is written.

    Attributes:
        ids: In the vocabulary, -1 for an unknown token.
        kept: Public spellings of the tokens that the policy keeps, ``None`` for others.
        outputs: Ids that were released, ``None`` before the draw and for kept tokens.
        encode: See :class:`Span`.
    """

    ids: tuple[int, ...] = field(repr=False)
    kept: tuple[str | None, ...] = field(repr=False)
    outputs: tuple[int | None, ...] = field(repr=False)
    encode: Callable[[str], str] | None = field(default=None, repr=False)

    @property
    def tokens(self) -> Iterable[Token]:
        """Row by row."""
        return map(Token, self.ids, self.kept, self.outputs)

    @property
    def perturbed(self) -> list[int]:
        """Ids of the tokens that are drawn for, or were."""
        return [number for number, word in zip(self.ids, self.kept, strict=True) if word is None]

    @property
    def fresh(self) -> list[int]:
        """Ids of the tokens that are to be drawn for."""
        columns = zip(self.ids, self.kept, self.outputs, strict=True)
        return [number for number, word, output in columns if word is None and output is None]

    def drawn(self, outputs: Iterator[int]) -> Private:
        """The same with the next ids released for the fresh tokens."""
        columns = zip(self.kept, self.outputs, strict=True)
        every = [next(outputs) if word is None and k is None else k for word, k in columns]
        return replace(self, outputs=tuple(every))

    def released(self, vocabulary: Vocabulary) -> str:
        """What stands in place of the span, once all is drawn."""
        words, tokens = [], vocabulary.tokens
        for word, output in zip(self.kept, self.outputs, strict=True):
            if output is not None:
                words.append(tokens[output])
            elif word is not None:
                words.append(word)
        return encoded(self.encode, vocabulary.tokenizer.join(words))


@dataclass(frozen=True, kw_only=True)
class Plan(StaysHere):
    """A text cut into public strings and private tokens, in reading order.

    Attributes:
        parts: Public as they are, or private.
        public_tokens: Number of tokens of the public parts.
        scoped: Whether a scope said what is private.
        edited: Whether the text replaces an earlier version, of which something was released.
    """

    parts: tuple[str | Private, ...] = field(repr=False)
    public_tokens: int
    scoped: bool
    edited: bool = False

    @cached_property
    def private(self) -> list[Private]:
        """The private parts, in reading order."""
        return [part for part in self.parts if isinstance(part, Private)]

    @property
    def tokens(self) -> list[Token]:
        """The private ones."""
        return [token for part in self.private for token in part.tokens]

    @property
    def tokens_total(self) -> int:
        """Public and private ones."""
        return self.public_tokens + sum(len(part.ids) for part in self.private)

    @property
    def tokens_verbatim(self) -> int:
        """Public ones, and those that the policy keeps."""
        return self.tokens_total - len(self.perturbed)

    @property
    def perturbed(self) -> list[int]:
        """Ids of the tokens that are drawn for, or were."""
        return [number for part in self.private for number in part.perturbed]

    @cached_property
    def fresh(self) -> list[int]:
        """Ids of the tokens that are to be drawn for."""
        return [number for part in self.private for number in part.fresh]

    def drawn(self, outputs: Iterable[int]) -> Plan:
        """The same with an id released for each fresh token."""
        ids = iter(outputs)
        return self._with(part.drawn(ids) for part in self.private)

    def with_outputs(self, outputs: Iterable[int | None]) -> Plan:
        """The same with the id released for each private token, ``None`` where there is none."""
        ids = iter(outputs)
        return self._with(
            replace(part, outputs=tuple(islice(ids, len(part.ids)))) for part in self.private
        )

    def _with(self, private: Iterable[Private]) -> Plan:
        """The same with other private parts."""
        others = iter(private)
        parts = tuple(part if isinstance(part, str) else next(others) for part in self.parts)
        return replace(self, parts=parts)

    def released(self, vocabulary: Vocabulary) -> str:
        """The text that goes out, once all is drawn.

        Raises:
            ParameterError: An encoder failed.
        """
        return "".join(p if isinstance(p, str) else p.released(vocabulary) for p in self.parts)


def spans_of(text: str, scope: Scope) -> list[Span]:
    """Sorted, disjoint spans; an error of a detector never carries what it was reading."""
    failed: str | None = None
    found: list[Span] = []
    try:
        every = scope(text) if callable(scope) else scope
        found = sorted(map(_span, every), key=lambda span: (span.start, span.end))
    except Exception as error:  # whatever a detector raises or returns may quote the text
        failed = type(error).__name__
    if failed is not None:
        raise ParameterError(
            f"expected spans (start, end) from {_named(scope)}, it failed with {failed}, whose "
            "message may quote the text; call it on a public text, or use another scope"
        )
    if not all(0 <= span.start <= span.end <= len(text) for span in found):
        raise ParameterError(
            f"expected spans inside the text of {len(text)} characters, got one outside from "
            f"{_named(scope)}; count characters from 0, the end is behind the last"
        )
    return _merged(found, scope)


def _named(scope: Scope) -> str:
    """What a reader knows a scope by."""
    detector: Any = scope
    while isinstance(detector, partial):
        detector = detector.func
    if not callable(detector):
        return f"the scope, a {type(detector).__name__}"
    name = getattr(detector, "__qualname__", type(detector).__qualname__)
    return f"the scope {str(name).removeprefix('_')}"


def _merged(found: list[Span], scope: Scope) -> list[Span]:
    """Plain spans that overlap or touch are one; others must stand apart."""
    merged: list[Span] = []
    for span in found:
        if span.start == span.end and not span.text:
            continue
        last = merged[-1] if merged else None
        if last is None or span.start > last.end:
            merged.append(span)
        elif last.plain and span.plain:
            merged[-1] = replace(last, end=max(span.end, last.end))
        elif span.start == last.end:
            merged.append(span)
        else:
            raise ParameterError(
                "expected spans with text= or encode= to overlap no other span, got two that do "
                f"from {_named(scope)}"
            )
    return merged


def _span(each: Any) -> Span:
    """From a span, a pair, a regular expression's match or a detector's result.

    Results of Presidio have ``start`` and ``end``; spans of spaCy count tokens in these and
    characters in ``start_char`` and ``end_char``.
    """
    if isinstance(each, Span):
        return replace(each, start=index(each.start), end=index(each.end))
    if isinstance(each, re.Match):
        return Span(*each.span())
    if hasattr(each, "start_char"):
        return Span(index(each.start_char), index(each.end_char))
    start, end = (each.start, each.end) if hasattr(each, "start") else each
    return Span(index(start), index(end))


def encoded(encode: Callable[[str], str] | None, released: str) -> str:
    """A released text as it is written in place of its span.

    Raises:
        ParameterError: The encoder failed; quotes nothing.
    """
    if encode is None:
        return released
    failed, found = "", None
    try:
        found = encode(released)
    except Exception as error:  # it may quote what it holds
        failed = f"; it failed with {type(error).__name__}"
    if not isinstance(found, str):
        raise ParameterError(f"expected encode= of a span to return a str{failed}")
    return found
