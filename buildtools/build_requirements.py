"""Print what pyproject.toml requires of a build, one requirement per line.

`make` builds in its own virtual environment: in pip's isolated one Cython's
files are always new, and so every module would be translated again each time.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

# tomllib came with Python 3.11; this must run on 3.10 before anything is installed.
text = (Path(__file__).resolve().parent.parent / "pyproject.toml").read_text()
match = re.search(r"^\[build-system\].*?^requires = (\[.*?\])", text, re.MULTILINE | re.DOTALL)
if match is None:
    raise SystemExit("pyproject.toml: no build-system.requires")
for requirement in ast.literal_eval(match[1]):
    print(requirement)
