"""Translate every .pyx on its own and fail on any warning, performance hint or unused name.

``--annotate DIR`` also writes HTML that shows which lines call Python.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
sys.path.insert(0, str(ROOT))

from buildtools.cython_options import DIRECTIVES  # noqa: E402
from buildtools.cython_unused import unused  # noqa: E402


def translate(module: Path, output: Path, options: list[str]) -> str:
    """Run Cython on ``module``; return its warnings, empty if there are none."""
    target = output / module.relative_to(SOURCE).with_suffix(".c")
    target.parent.mkdir(parents=True, exist_ok=True)
    directives = [f"--directive={name}={value}" for name, value in DIRECTIVES.items()]
    command = [
        sys.executable, "-m", "cython", "-I", str(SOURCE),
        *directives, *options, "-o", str(target), str(module),
    ]  # fmt: skip
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    said = (result.stdout + result.stderr).strip()
    return said or ("" if result.returncode == 0 else f"{module}: Cython failed without a word")


def main() -> int:
    """Check all modules; return 1 on any finding."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--annotate", metavar="DIR", type=Path)
    arguments = parser.parse_args()
    options = ["--annotate"] if arguments.annotate else []
    modules = sorted(SOURCE.rglob("*.pyx"))
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(os.cpu_count()) as pool:
        output = arguments.annotate or Path(scratch)
        said = list(pool.map(lambda module: translate(module, output, options), modules))
    said += unused(SOURCE)
    for text in filter(None, said):
        sys.stderr.write(f"{text}\n")
    return 1 if any(said) else 0


if __name__ == "__main__":
    sys.exit(main())
