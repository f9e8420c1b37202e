"""What tests of the scripts of papers share."""

import sys
from pathlib import Path

import pytest

PAPERS = Path(__file__).parents[2] / "benchmarks" / "papers"


@pytest.fixture(scope="module")
def scripts():
    """Scripts import each other as they do when they run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(PAPERS))
        yield
        for name in [path.stem for path in PAPERS.glob("*.py")]:
            sys.modules.pop(name, None)
