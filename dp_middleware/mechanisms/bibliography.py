"""Whom to cite: the BibTeX entries behind every mechanism and framework."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dp_middleware.errors import ParameterError
from dp_middleware.mechanisms.base import Mechanism

_SOURCE = Path(__file__).parent / "data" / "references.bib"

BIBTEX: dict[str, str] = {
    entry[entry.index("{") + 1 : entry.index(",")]: entry
    for entry in _SOURCE.read_text(encoding="utf-8").rstrip().split("\n\n")
}
"""BibTeX entries by their keys."""

FRAMEWORKS: dict[str, tuple[str, ...]] = {
    "InferDPT": ("inferdpt2023",),
    "PrivRewrite": ("privrewrite", "mcsherry2007"),
}
"""Keys of :data:`BIBTEX` by the name of a class, of which others may be derived."""


def citations(what: Any) -> str:
    """Returns the BibTeX of a mechanism, ``InferDPT`` or ``PrivRewrite``, or of a class of these.

    Cite the mechanism of a framework's sanitizer as well. ParameterError: no such thing or key.
    """
    kind = what if isinstance(what, type) else type(what)
    bases = [b for b in kind.__mro__ if b.__module__.startswith("dp_middleware.frameworks.")]
    names = [base.__name__ for base in bases if base.__name__ in FRAMEWORKS]
    if not names and not issubclass(kind, Mechanism):
        raise ParameterError(f"expected a mechanism, InferDPT or PrivRewrite, got {kind.__name__}")
    keys = FRAMEWORKS[names[0]] if names else what.references  # of its parts, too, if it has some
    if missing := [key for key in keys if key not in BIBTEX]:
        raise ParameterError(f"expected references to be keys of BIBTEX, got {missing}")
    return "\n\n".join(BIBTEX[key] for key in keys)
