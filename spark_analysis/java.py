"""Finding the Java that Spark runs on."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

OLDEST_JAVA = 17
_TIMEOUT = 20


def find_java() -> str | None:
    """Return the ``java`` that Spark would start: of JAVA_HOME, else of PATH; or None."""
    home = os.environ.get("JAVA_HOME")
    if home:
        program = Path(home, "bin", "java")
        return str(program) if os.access(program, os.X_OK) else None
    return shutil.which("java")


def why_java_is_missing() -> str | None:
    """Return in one line why Spark's Java is missing or too old; None if it is neither."""
    java = find_java()
    if java is None:
        where = "in JAVA_HOME" if os.environ.get("JAVA_HOME") else "in JAVA_HOME or PATH"
        return f"Spark needs Java {OLDEST_JAVA} or newer, and none is {where}"
    version = _version(java)
    if version is None or version < OLDEST_JAVA:
        return f"Spark needs Java {OLDEST_JAVA} or newer; {java} is {version or 'not working'}"
    return None


def _version(java: str) -> int | None:
    """Return the feature release (17 for 17.0.15), or None if it does not tell."""
    try:
        answer = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=_TIMEOUT, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r'version "(\d+)', answer.stderr)
    return None if match is None else int(match[1])
