"""The table of kinds in docs/pseudonyms.md, from the classes themselves."""

import inspect

import pages

from dp_middleware.cli.show import nats
from dp_middleware.pseudonyms.kinds import default_kinds

SECTION = "kinds"
HEADS = ("kind", "what stands for it", "kept, so public", "nats per value")


def table() -> str:
    """Of each kind the first sentence of its docstring, and which law is the default."""
    lines = []
    for name, kind in default_kinds().items():
        sentence = " ".join((inspect.getdoc(type(kind)) or "").split("\n\n")[0].split())
        law = getattr(kind, "law", None)
        told = sentence if law is None else f"{sentence} `law={law!r}`"
        lines.append((f"`{name}`", told, kind.keeps, nats(kind.loss)))
    return pages.markdown(HEADS, lines)


if __name__ == "__main__":
    pages.write(SECTION, table())
