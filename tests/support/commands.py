"""Running the command line on a toy space."""

import json
from functools import cache

import numpy as np
from support.texts import CANARY
from typer import testing
from typer.testing import CliRunner

import dp_middleware as dp
from dp_middleware.cli import app

testing._get_command = cache(testing._get_command)  # else every call builds all commands anew

WORDS = ["the", "patient", ".", *(f"w{i}" for i in range(27))]
CERTIFICATE = {
    "guarantee", "adjacency", "method", "assumptions", "claimed", "epsilon", "mechanism", "space",
    "witness", "recovery", "retention", "recovery_in_english", "retention_in_english",
}  # fmt: skip
"""Keys of a certificate as JSON."""


def toy_space():
    vectors = np.random.default_rng(0).normal(size=(len(WORDS), 4))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return dp.EmbeddingSpace(dp.Vocabulary(WORDS), vectors)


def run(*arguments, stdin=None, code=None):
    """The outcome of a command, on a wide screen; it quotes neither a traceback nor the canary."""
    words = [str(argument) for argument in arguments]
    result = CliRunner().invoke(app, words, input=stdin, env={"COLUMNS": "200"})
    assert "Traceback" not in result.output
    assert CANARY not in result.output
    assert code is None or result.exit_code == code, result.output
    return result


def refused(*arguments, as_json=False):
    """The outcome of a command that is refused on one line, with --json as a document too."""
    first, *others = arguments
    result = run(first, *["--json"] * as_json, *others)
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    error = json.loads(result.stdout)["error"] if as_json else None
    assert error is None or error["exit_code"] == result.exit_code
    assert error is None or f"error: {error['message']}\n" == result.stderr
    assert as_json or result.stdout == ""
    return result


def flat(text):
    return " ".join(text.split())
