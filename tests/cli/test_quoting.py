"""A text that stands where an option or a command should is quoted by no error."""

import json

import pytest
from support.cases import over
from support.commands import CliRunner, app
from support.texts import CANARY
from typer.main import get_command

COMMANDS = get_command(app).commands
LOCAL = ("--extractor", "ollama:x")
NEEDED = {  # what a command needs before it reads a text
    "sanitize": (),
    "pseudonymize": (),
    "chat": ("--remote", "ollama:x", *LOCAL),
    "attack": ("bayes-on-text",),
}
TAKES_NAMES = {"--subject", "--ledger", "--instruction"}  # of a person's choice: they are used


def options_of(command):
    every = [each for each in COMMANDS[command].params if each.param_type_name == "option"]
    return [name for each in every if not each.is_flag for name in each.opts]


def placed(command):
    """A text in every place where the parser may take it for something else."""
    yield from ((f"-{letter}{CANARY} hurts",) for letter in "aefkmstxz")
    yield from ((f"--{CANARY} hurts",), (f"--{CANARY}=1",), (f"-{CANARY}", "hurts"))
    yield from (("--json=" + CANARY,), ("--nominal=" + CANARY,), (f"--mech{CANARY}",))
    for name in options_of(command):
        yield (f"{name}{CANARY} hurts",)
        if name not in TAKES_NAMES:
            yield name, f"{CANARY} hurts"
            yield (f"{name}={CANARY} hurts",) if name.startswith("--") else (name, CANARY)


@pytest.fixture(autouse=True)
def nowhere(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("OLLAMA_HOST", "http://127.0.0.1:9")
    monkeypatch.chdir(tmp_path)


def test_every_command_that_takes_a_text_is_here():
    names = {name: {each.name for each in command.params} for name, command in COMMANDS.items()}
    assert {name for name, parameters in names.items() if "text" in parameters} == set(NEEDED)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "as_json"), [*((name, False) for name in NEEDED), ("chat", True)]
)
def test_no_error_quotes_a_text_whatever_it_begins_with(command, as_json):
    for words in placed(command):
        arguments = [command, *NEEDED[command], *words, *(["--json"] if as_json else [])]
        result = CliRunner().invoke(app, arguments, input="w1")
        assert result.exit_code != 0 or CANARY in words[0], words
        assert CANARY not in result.stderr, words
        if result.exit_code:
            assert CANARY not in result.stdout, words
            assert not as_json or json.loads(result.stdout)["error"]["exit_code"]


@over("command", [*COMMANDS, "ledger"])
def test_no_other_command_quotes_what_it_does_not_know(command):
    if command in NEEDED or command == "demo":
        return
    for words in ((f"-m{CANARY}",), (f"--{CANARY}",), (CANARY, CANARY, CANARY), (f"-{CANARY}",)):
        result = CliRunner().invoke(app, [command, *words])
        assert result.exit_code != 0
        assert CANARY not in result.output, words
