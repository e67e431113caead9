"""Measure two pairs, analyse them here and on Spark, and compare: `make analysis-demo`.

    python buildtools/analysis_demo.py DURATION

Both backends must give the same figures. The report and the comparison stay in
build/analysis-demo.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
OUTPUT = ROOT / "build" / "analysis-demo"
BIN = Path(sys.executable).parent
# The candidate of the comparison: the same with bodies of ten kilobytes.
PAIRS: dict[str, list[str]] = {"base": [], "candidate": ["--body-size", "10000"]}


def run(*command: str) -> str:
    """Run a command to its end and return its standard output."""
    print("$", " ".join([Path(command[0]).name, *command[1:]]), flush=True)
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def analyse(engine: str) -> Any:
    """Return the document of the candidate, compared with the base."""
    command = [str(BIN / "quiver-analyze"), str(OUTPUT / "candidate"), "--quiet", "--json"]
    command += ["--compare", str(OUTPUT / "base"), "--engine", engine]
    if engine == "local":
        command += ["--html", str(OUTPUT / "report.html")]
    document = json.loads(run(*command))
    del document["engine"]
    return document


def main() -> int:
    """Run the demonstration; return the exit code."""
    sys.path.insert(0, str(ROOT))
    from spark_analysis.java import why_java_is_missing

    missing = why_java_is_missing()
    if missing is not None:
        raise SystemExit(f"analysis-demo: {missing}")
    [duration] = sys.argv[1:]
    shutil.rmtree(OUTPUT, ignore_errors=True)
    OUTPUT.mkdir(parents=True)
    for name, options in PAIRS.items():
        arguments = ["--duration", duration, "--output", str(OUTPUT / name), *options]
        run(str(BIN / "quiver"), *arguments)
    here, there = analyse("local"), analyse("spark")
    print(f"{'figure':28}{'base':>14}{'candidate':>14}  verdict")
    for name, figure in there["comparison"]["figures"].items():
        label = f"{name} [{figure['unit']}]"
        values = "".join(f"{figure[side] or 0:14.6g}" for side in ("base", "candidate"))
        print(f"{label:28}{values}  {figure['verdict']}")
    print("delivery:", json.dumps(there["delivery"]))
    print("report:", OUTPUT.relative_to(ROOT) / "report.html")
    same = bool(here == there)
    print("Spark and the local backend", "agree on every figure" if same else "DISAGREE")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
