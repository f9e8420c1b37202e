"""Arguments and options that commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

DEFAULT_SUBJECT = "default"
SPACES = ("default", "wordpieces", "glove", "cl100k", "o200k")
UNITS = ("occurrence", "text", "sentence")
KEEPS = ("stop-words", "nltk-stop-words", "punctuation")
ON_LANGUAGE = ("refuse", "warn", "pass")
MODEL_FORMS = "openai:MODEL, openai:MODEL@URL or ollama:MODEL"

Words = Annotated[
    list[str] | None, typer.Argument(metavar="TEXT", help="The text; - or nothing: standard input.")
]
File = Annotated[Path | None, typer.Option("--file", "-f", help="Read the text from a file.")]
OnLanguage = Annotated[
    str, typer.Option(metavar="|".join(ON_LANGUAGE), help="For a text in an unknown language.")
]
Nominal = Annotated[
    bool, typer.Option("--nominal", help="Take --epsilon as the mechanism's own parameter instead.")
]
Space = Annotated[str, typer.Option(metavar="|".join(SPACES), help="Vocabulary and vectors.")]
ListSize = Annotated[
    float | None,
    typer.Option(metavar="SHARE", help="For rantext: of the vocabulary in a list on average."),
]
Keeps = Annotated[
    list[str] | None,
    typer.Option(metavar="|".join(KEEPS), help="Release these tokens unchanged; repeatable."),
]
WithinClasses = Annotated[
    bool,
    typer.Option("--within-classes", help="Certify within the mechanism's public classes only."),
]
Context = Annotated[
    str | None,
    typer.Option(help="Local model of cape and the like: masked:NAME or causal:NAME. Reads texts."),
]
Ledger = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        envvar="DP_MIDDLEWARE_LEDGER",
        help="sqlite:///FILE or postgresql+psycopg://HOST/NAME, passwords in the variable alone; "
        "with --budget or --subject, and in `ledger`, by default a file in your data folder.",
    ),
]
Budget = Annotated[
    float | None,
    typer.Option(
        "--budget", metavar="NATS", help="Per subject. Set once; later runs must repeat it."
    ),
]
Subject = Annotated[
    str | None,
    typer.Option(metavar="NAME", help=f"Pseudonym of who pays; default: '{DEFAULT_SUBJECT}'."),
]
Payer = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Without --subject, who pays for, and has, all rows."),
]
Mapping = Annotated[
    Path | None,
    typer.Option(help="File that keeps the originals, encrypted; of files: FILE.mapping."),
]
Key = Annotated[
    Path | None, typer.Option(help="File with its key; default: one in your data folder.")
]
Keyed = Annotated[
    bool,
    typer.Option("--keyed", help="Pseudonyms follow from --key: the same wherever that key is."),
]
Conversation = Annotated[str, typer.Option(metavar="NAME", help="Each has its own pseudonyms.")]
Column = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        "-c",
        metavar="NAME[=KIND]",
        help="Release this column; repeatable. A KIND, such as email, is for pseudonyms.",
    ),
]
Columns = Annotated[
    str | None, typer.Option(metavar="NAMES", help="Several, as name=person,mail=email,notes.")
]
AsJson = Annotated[bool, typer.Option("--json", help="For machines.")]
