"""The table of kinds in docs/pseudonyms.md, from the classes themselves."""

import inspect

import pages

from dp_middleware.cli.show import nats
from dp_middleware.pseudonyms.kinds import Kind, default_kinds

SECTION = "kinds"


def table() -> str:
    heads = ("kind", "what stands for it", "kept, so public", "nats per value")
    kinds = default_kinds().items()
    lines = [(f"`{name}`", _law(kind), kind.keeps, nats(kind.loss)) for name, kind in kinds]
    return pages.markdown(heads, lines)


def _law(kind: Kind) -> str:
    """The first sentence of its docstring, and which law is the default."""
    sentence = " ".join((inspect.getdoc(type(kind)) or "").split("\n\n")[0].split())
    law = getattr(kind, "law", None)
    return sentence if law is None else f"{sentence} `law={law!r}`"


if __name__ == "__main__":
    pages.write(SECTION, table())
