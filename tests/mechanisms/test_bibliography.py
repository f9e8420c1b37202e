"""Every entry is BibTeX with what it needs, and every mechanism's keys have an entry."""

import re
from typing import ClassVar

import pytest
from support.cases import over
from support.spaces import space_of

import dp_middleware as dp
from dp_middleware.mechanisms import MECHANISMS
from dp_middleware.mechanisms.base import Mechanism
from dp_middleware.mechanisms.bibliography import BIBTEX, FRAMEWORKS, citations


def parse(entry):
    """Type, key and fields of one BibTeX entry, of a field a line."""
    head, *lines, last = entry.replace("\n    ", " ").split("\n")
    kind, key = re.fullmatch(r"@(\w+)\{(\w+),", head).groups()
    commas = [","] * (len(lines) - 1) + [""]
    fields = [
        re.fullmatch(rf"  (\w+) = \{{(.*)\}}{comma}", line).groups()
        for line, comma in zip(lines, commas, strict=True)
    ]
    assert last == "}"
    assert len(dict(fields)) == len(fields)
    assert all(value.count("{") == value.count("}") for _, value in fields)
    return kind, key, dict(fields)


@over("key", BIBTEX)
def test_an_entry_is_bibtex(key):
    kind, own, fields = parse(BIBTEX[key])
    assert own == key
    needed = {"inproceedings": {"booktitle"}, "article": {"journal"}, "misc": {"eprint"}}[kind]
    assert {"author", "title", "year"} | needed <= set(fields)
    assert all(value.strip() for value in fields.values())
    assert re.fullmatch(r"(19|20)\d\d", fields["year"])
    assert all(name.strip() for name in fields["author"].split(" and "))
    assert BIBTEX[key].isascii()


@over("name", MECHANISMS)
def test_every_mechanism_says_whom_to_cite(name):
    assert MECHANISMS[name].references
    assert citations(MECHANISMS[name]) == "\n\n".join(
        BIBTEX[key] for key in MECHANISMS[name].references
    )


def test_frameworks_are_cited_too():
    sanitizer = dp.Sanitizer(dp.TokenExponential(epsilon=1.0), space_of([[1.0], [0.5]]))

    def chat(messages):
        return ""

    rewrite = dp.PrivRewrite(sanitizer, generator=chat)
    for what in (rewrite, dp.PrivRewrite, dp.PrivRewriteNaive):
        assert citations(what) == "\n\n".join([BIBTEX["privrewrite"], BIBTEX["mcsherry2007"]])
    assert dp.citations(dp.InferDPT) == BIBTEX["inferdpt2023"]
    asks = dp.InferDPT(sanitizer, remote=chat, extractor=dp.chat_model(chat, local=True))
    assert citations(asks) == BIBTEX["inferdpt2023"]
    for name, keys in FRAMEWORKS.items():
        assert getattr(dp, name).__name__ == name  # the class is there, under this name
        assert set(keys) <= set(BIBTEX)


def test_a_namesake_of_a_framework_is_not_cited():
    namesake = type("InferDPT", (), {})
    for what in (namesake, namesake(), dp.Release):
        with pytest.raises(dp.ParameterError, match="expected a mechanism, InferDPT"):
            citations(what)


def test_what_cannot_be_cited_is_refused():
    class Foreign(Mechanism):
        name: ClassVar[str] = "foreign"
        references: ClassVar[tuple[str, ...]] = ("nobody1900",)

    with pytest.raises(dp.ParameterError, match="nobody1900"):
        citations(Foreign)
    with pytest.raises(dp.ParameterError, match="expected a mechanism"):
        citations("santext")
