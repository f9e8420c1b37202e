"""Every entry is BibTeX with what it needs, and every mechanism's keys have an entry."""

import re
from typing import ClassVar

from support.cases import over, refuses
from support.spaces import space_of

import dp_middleware as dp
from dp_middleware.mechanisms import MECHANISMS
from dp_middleware.mechanisms.base import Mechanism
from dp_middleware.mechanisms.bibliography import BIBTEX, FRAMEWORKS, citations


@over("key", BIBTEX)
def test_an_entry_is_bibtex(key):
    """Of a field a line, with commas between."""
    entry = BIBTEX[key].replace("\n    ", " ")
    field = r"  (\w+) = \{(.*)\}"
    whole = re.fullmatch(rf"@(\w+)\{{{key},\n({field},\n)*{field}\n\}}", entry)
    found = re.findall(rf"^{field}", entry, re.MULTILINE)
    fields = dict(found)
    needed = {"inproceedings": {"booktitle"}, "article": {"journal"}, "misc": {"eprint"}}[whole[1]]
    assert {"author", "title", "year"} | needed <= set(fields)
    assert len(fields) == len(found)
    assert all(value.strip() and value.count("{") == value.count("}") for _, value in found)
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
    chat = dp.chat_model(lambda messages: "", local=True)
    rewrite = dp.PrivRewrite(sanitizer, generator=chat)
    for what in (rewrite, dp.PrivRewrite, dp.PrivRewriteNaive):
        assert citations(what) == "\n\n".join([BIBTEX["privrewrite"], BIBTEX["mcsherry2007"]])
    for what in (dp.InferDPT, dp.InferDPT(sanitizer, remote=chat, extractor=chat)):
        assert dp.citations(what) == BIBTEX["inferdpt2023"]
    for name, keys in FRAMEWORKS.items():
        assert getattr(dp, name).__name__ == name  # the class is there, under this name
        assert set(keys) <= set(BIBTEX)


def test_what_cannot_be_cited_is_refused():
    class Foreign(Mechanism):
        name: ClassVar[str] = "foreign"
        references: ClassVar[tuple[str, ...]] = ("nobody1900",)

    namesake = type("InferDPT", (), {})
    wrong = (Foreign, namesake, namesake(), dp.Release, "santext")
    refuses(r"nobody1900|expected a mechanism, InferDPT", citations, *wrong)
