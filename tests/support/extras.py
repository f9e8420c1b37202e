"""Processes in which a package is missing."""

import subprocess
import sys


def said_without(missing, imported):
    code = (
        f"import sys; sys.modules[{missing!r}] = None\n"
        "from dp_middleware.errors import MissingExtra\n"
        f"try: import {imported}\n"
        "except MissingExtra as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout
