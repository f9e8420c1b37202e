"""What tests of the scripts of papers share."""

import sys
from pathlib import Path

import pytest

PAPERS = Path(__file__).parents[2] / "benchmarks" / "papers"


@pytest.fixture(scope="module")
def scripts():
    """Scripts import each other as they do when they run."""
    with pytest.MonkeyPatch.context() as patch:
        for folder in (PAPERS.parent, PAPERS):
            patch.syspath_prepend(str(folder))
        yield
        for name in ("probing", *(path.stem for path in PAPERS.glob("*.py"))):
            sys.modules.pop(name, None)
