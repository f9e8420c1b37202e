"""Running the command line on a toy space."""

from __future__ import annotations

from functools import cache

import numpy as np
from support.texts import CANARY
from typer import testing
from typer.testing import CliRunner, Result

import dp_middleware as dp
from dp_middleware.cli import app

testing._get_command = cache(testing._get_command)  # else every call builds all commands anew

WORDS = ["the", "patient", ".", *(f"w{i}" for i in range(27))]
CERTIFICATE = {
    "guarantee", "adjacency", "method", "assumptions", "claimed", "epsilon", "mechanism", "space",
    "witness", "recovery", "retention", "recovery_in_english", "retention_in_english",
}  # fmt: skip
"""Keys of a certificate as JSON."""


def toy_space() -> dp.EmbeddingSpace:
    """Thirty words with unit vectors."""
    vectors = np.random.default_rng(0).normal(size=(len(WORDS), 4))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return dp.EmbeddingSpace(dp.Vocabulary(WORDS), vectors)


def run(*arguments: object, stdin: str | bytes | None = None, code: int | None = None) -> Result:
    """The outcome of a command, on a wide screen; it quotes neither a
    traceback nor the canary.

    Args:
        arguments: Words of the command.
        stdin: Standard input.
        code: The exit code to expect, if any.
    """
    words = [str(argument) for argument in arguments]
    result = CliRunner().invoke(app, words, input=stdin, env={"COLUMNS": "200"})
    assert "Traceback" not in result.output
    assert CANARY not in result.output
    assert code is None or result.exit_code == code, result.output
    return result


def flat(text: str) -> str:
    """On one line, with one blank between words."""
    return " ".join(text.split())
