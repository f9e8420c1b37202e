"""What programs share: options, JSON lines, new processes, tables, and sections of the pages."""

import argparse
import gzip
import inspect
import json
import os
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
LISTS = tomllib.loads(Path(__file__).with_name("lists.toml").read_text("utf-8"))
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))


def options(text: str | None, *places: str, **defaults: Any) -> argparse.Namespace:
    """Reads the command line of a program, whose docstring is the help.

    Places are paths, whose names may end with argparse's ?, * or +. The default of an option says
    what it takes: ``False`` a flag, a list several values, a tuple one of its own. A type, also in
    a list, has no default.
    """
    made = argparse.ArgumentParser(
        description=text, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for place in places:
        name = place.rstrip("?*+")
        made.add_argument(name, type=Path, nargs=place.removeprefix(name) or None)
    for name, value in defaults.items():
        first = value[0] if isinstance(value, list | tuple) else value
        kind, default = (first, None) if isinstance(first, type) else (type(first), value)
        how: dict[str, Any] = {"type": kind, "default": default}
        if value is False:
            how = {"action": "store_true"}
        elif isinstance(value, tuple):
            how |= {"choices": value, "default": first}
        elif isinstance(value, list):
            how |= {"nargs": "*", "action": "store" if default else "extend"}
        made.add_argument(f"--{name.replace('_', '-')}", **how)
    return made.parse_args()


def records(path: Path) -> list[dict[str, Any]]:
    """The lines of a file of JSON, which may be packed."""
    content = path.read_bytes()
    lines = (gzip.decompress(content) if path.suffix == ".gz" else content).splitlines()
    return [json.loads(line) for line in lines]


def store(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Keeps what a table is made of beside its program."""
    path.write_text(json.dumps([*rows], indent=1) + "\n")


def timed(
    work: Callable[..., Any], *arguments: Any, clock: Callable[[], float] = time.process_time
) -> tuple[float, Any]:
    """Seconds, of processor time of this process if no other clock is given, and the result."""
    started = clock()
    result = work(*arguments)
    return clock() - started, result


def peak_kb() -> int:
    """The most resident memory of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    [peak] = [line for line in lines if line.startswith("VmHWM")]
    return int(peak.split()[1])


def child(work: Callable[..., Any], *arguments: Any, **environment: str) -> Any:
    """What a function of a program returns in a new process; arguments and result are JSON."""
    name = Path(inspect.getfile(work)).stem
    code = f"import json, sys, {name} as program\n"
    code += f"print(json.dumps(program.{work.__name__}(*json.load(sys.stdin))))"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment}
    given, command = json.dumps(arguments).encode(), [sys.executable, "-c", code]
    done = subprocess.run(command, env=env, input=given, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def row(cells: Iterable[str]) -> str:
    """A line of a table; a bar inside a cell is escaped."""
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def markdown(heads: Sequence[str], lines: Iterable[Iterable[str]] = ()) -> str:
    """A table, or its first two lines."""
    return "\n".join([row(heads), "|" + "---|" * len(heads), *map(row, lines)])


def section(name: str) -> str:
    """What stands between the comments of a section, on the one page that has it."""
    return _parts(name)[2].strip("\n")


def write(name: str, content: str) -> None:
    """Replaces a section."""
    page, before, _, after = _parts(name)
    page.write_text(f"{before}\n{content}\n{after}", "utf-8")


def _parts(name: str) -> tuple[Path, str, str, str]:
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    [page] = [page for page in PAGES if begin in page.read_text("utf-8")]
    before, rest = page.read_text("utf-8").split(begin)
    content, after = rest.split(end)
    return page, before + begin, content, end + after
