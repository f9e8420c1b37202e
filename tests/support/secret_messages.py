"""Messages with secrets, as people send them to models; their signs are drawn, so none is real."""

import random
import re
from pathlib import Path

_FOLDER = Path(__file__).parents[1] / "pseudonyms" / "secrets"
_DRAWN = re.compile(r"\[([^\]]+)\]\{(\d+)\}")


def messages(name, seed=0):
    """The messages of a file, parted by ``%%``, each with the offsets of its secrets.

    ``<<[a-f0-9]{32}>>`` is a secret of drawn signs.
    """
    draws = random.Random(seed)
    parts = (_FOLDER / f"{name}.txt").read_text(encoding="utf-8").split("\n%%\n")
    return [_filled(part, draws) for part in parts]


def _filled(template, draws):
    text, secrets = "", []
    for place, piece in enumerate(re.split("<<(.*?)>>", template, flags=re.DOTALL)):
        if place % 2:
            piece = _DRAWN.sub(lambda run: _run(run[1], int(run[2]), draws), piece)
            secrets.append((len(text), len(text) + len(piece)))
        text += piece
    return text, secrets


def _run(alphabet, length, draws):
    signs = re.sub(
        "(.)-(.)", lambda ends: "".join(map(chr, range(ord(ends[1]), ord(ends[2]) + 1))), alphabet
    )
    return "".join(draws.choices(signs, k=length))
