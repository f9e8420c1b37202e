"""Arguments and options that commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

DEFAULT_SUBJECT = "default"


class SpaceName(StrEnum):
    """Vocabularies with vectors that the command line offers."""

    default = "default"
    wordpieces = "wordpieces"
    glove = "glove"
    cl100k = "cl100k"
    o200k = "o200k"


class UnitName(StrEnum):
    """What epsilon protects."""

    occurrence = "occurrence"
    text = "text"
    sentence = "sentence"


class Keep(StrEnum):
    """Public lists of tokens that may be released unchanged."""

    stop_words = "stop-words"
    nltk_stop_words = "nltk-stop-words"
    punctuation = "punctuation"


class OnLanguageName(StrEnum):
    """What happens to a text in a language whose names the detector does not know."""

    refuse = "refuse"
    warn = "warn"
    let = "pass"


CHOICES: dict[str, type[StrEnum]] = {
    "--space": SpaceName,
    "--unit": UnitName,
    "--keep": Keep,
    "--on-language": OnLanguageName,
}
"""What an option takes, for its error: releases of Typer differ in where they keep it."""

MODEL_FORMS = "openai:MODEL, openai:MODEL@URL or ollama:MODEL"

Words = Annotated[
    list[str] | None, typer.Argument(metavar="TEXT", help="The text; - or nothing: standard input.")
]
File = Annotated[Path | None, typer.Option("--file", "-f", help="Read the text from a file.")]
OnLanguage = Annotated[
    OnLanguageName,
    typer.Option(
        "--on-language", help="What happens to a text in a language whose names are not known."
    ),
]
Epsilon = Annotated[
    float,
    typer.Option("--epsilon", "-e", help="Nats per token, sentence or text, certified exactly."),
]
UnitOption = Annotated[
    UnitName,
    typer.Option(
        "--unit",
        help="What epsilon protects: a token, or the whole text, or a sentence (key words are "
        "released).",
    ),
]
Nominal = Annotated[
    bool, typer.Option("--nominal", help="Take --epsilon as the mechanism's own parameter instead.")
]
MechanismName = Annotated[
    str | None,
    typer.Option("--mechanism", "-m", help="See `dp-middleware mechanisms`; default: the first."),
]
SpaceOption = Annotated[SpaceName, typer.Option("--space", help="Vocabulary and vectors.")]
ListSize = Annotated[
    float | None,
    typer.Option(
        "--list-size",
        metavar="SHARE",
        help="For rantext: candidate lists of this share of the vocabulary on average, such as "
        ".05, in place of its published constants.",
    ),
]
Keeps = Annotated[
    list[Keep] | None,
    typer.Option("--keep", help="Release these tokens unchanged; repeatable. Certified as such."),
]
WithinClasses = Annotated[
    bool,
    typer.Option("--within-classes", help="Certify within the mechanism's public classes only."),
]
ContextOption = Annotated[
    str | None,
    typer.Option(
        "--context",
        help="For cape, cape-strict, contextual-response: a local model, masked:NAME or "
        "causal:NAME. Reads the text.",
    ),
]
AcceptInfinite = Annotated[
    bool,
    typer.Option("--accept-infinite", help="With --nominal: release though nothing is guaranteed."),
]
Ledger = Annotated[
    str | None,
    typer.Option(
        "--ledger",
        metavar="URL",
        envvar="DP_MIDDLEWARE_LEDGER",
        help="Charge this privacy ledger; with --budget or --subject alone, a file in your data "
        "folder.",
    ),
]
Budget = Annotated[
    float | None,
    typer.Option(
        "--budget", metavar="NATS", help="Per subject; creates the ledger, then must be the same."
    ),
]
MetricBudget = Annotated[
    float | None,
    typer.Option(
        "--metric-budget",
        metavar="NATS",
        help="With --budget, per unit of distance, which noise mechanisms cost: default as many "
        "nats as --budget; inf for no limit.",
    ),
]
Subject = Annotated[
    str | None,
    typer.Option(
        "--subject",
        metavar="NAME",
        help=f"Whose budget is charged, a pseudonym; default: '{DEFAULT_SUBJECT}'.",
    ),
]
Payer = Annotated[
    str | None,
    typer.Option(
        "--payer",
        metavar="NAME",
        help="Without --subject, whose budget all rows are charged to, and whose pseudonyms they "
        f"are; default: '{DEFAULT_SUBJECT}'.",
    ),
]
Mapping = Annotated[
    Path | None,
    typer.Option(
        "--mapping",
        help="File that keeps the originals, encrypted; default: that with pseudonyms and "
        "'.mapping'.",
    ),
]
Key = Annotated[
    Path | None,
    typer.Option("--key", help="File with its key; default: one in your data folder."),
]
Keyed = Annotated[
    bool,
    typer.Option("--keyed", help="Pseudonyms follow from --key: the same wherever that key is."),
]
Conversation = Annotated[
    str, typer.Option("--conversation", metavar="NAME", help="Each has pseudonyms of its own.")
]
Column = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        "-c",
        metavar="NAME",
        help="Release this column; repeatable. With --pseudonyms also NAME=KIND, such as "
        "mail=email: each cell is one value.",
    ),
]
Columns = Annotated[
    str | None,
    typer.Option("--columns", metavar="NAMES", help="Several, as name=person,mail=email,notes."),
]
AsJson = Annotated[bool, typer.Option("--json", help="For machines.")]
