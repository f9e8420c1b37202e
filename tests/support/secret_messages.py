"""Messages with secrets, as people send them to models; their signs are drawn, so none is real."""

import random
import re
from pathlib import Path

_FOLDER = Path(__file__).parents[1] / "pseudonyms" / "secrets"
_DRAWN = re.compile(r"\[([^\]]+)\]\{(\d+)\}")


def messages(name: str, seed: int = 0) -> list[tuple[str, list[tuple[int, int]]]]:
    """Returns the messages of a file, each with the offsets of its secrets.

    Args:
        name: Of the file; messages are parted by ``%%``, ``<<[a-f0-9]{32}>>`` is a secret.
        seed: Of its signs.
    """
    draws = random.Random(seed)
    parts = (_FOLDER / f"{name}.txt").read_text(encoding="utf-8").split("\n%%\n")
    return [_filled(part, draws) for part in parts]


def _filled(template: str, draws: random.Random) -> tuple[str, list[tuple[int, int]]]:
    text, secrets = "", []
    for place, piece in enumerate(re.split("<<(.*?)>>", template, flags=re.DOTALL)):
        if place % 2:
            piece = _DRAWN.sub(lambda run: _run(run[1], int(run[2]), draws), piece)
            secrets.append((len(text), len(text) + len(piece)))
        text += piece
    return text, secrets


def _run(alphabet: str, length: int, draws: random.Random) -> str:
    signs = re.sub(
        "(.)-(.)", lambda ends: "".join(map(chr, range(ord(ends[1]), ord(ends[2]) + 1))), alphabet
    )
    return "".join(draws.choices(signs, k=length))
