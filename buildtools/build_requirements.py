"""Print the requirements of pyproject.toml: one per line.

    python buildtools/build_requirements.py             to build
    python buildtools/build_requirements.py --run       to run
    python buildtools/build_requirements.py EXTRA …     to run, with these extras

`make` builds in its own virtual environment: in pip's isolated one Cython's
files are always new, and so every module would be translated again each time.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

# tomllib came with Python 3.11; this must run on 3.10 before anything is installed.
TEXT = (Path(__file__).resolve().parent.parent / "pyproject.toml").read_text()


def requirements(table: str, key: str) -> list[str]:
    """Return the list of strings of a key in a table.

    Raises:
        SystemExit: there is none.
    """
    pattern = rf"^\[{re.escape(table)}\]$(?:(?!^\[).)*?^{re.escape(key)} = (\[.*?\]$)"
    match = re.search(pattern, TEXT, re.MULTILINE | re.DOTALL)
    if match is None:
        raise SystemExit(f"pyproject.toml: no {table}.{key}")
    found: list[str] = ast.literal_eval(match[1])
    return found


def wanted(words: list[str]) -> list[str]:
    """Return the requirements of a build, or of the project and some of its extras."""
    if not words:
        return requirements("build-system", "requires")
    found = requirements("project", "dependencies")
    for extra in words if words != ["--run"] else []:
        found += requirements("project.optional-dependencies", extra)
    return found


if __name__ == "__main__":
    sys.stdout.writelines(f"{requirement}\n" for requirement in wanted(sys.argv[1:]))
