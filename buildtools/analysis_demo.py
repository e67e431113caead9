"""Two runs' records, analysed locally and on Spark: the answers are equal.

    python buildtools/analysis_demo.py

Finds a Java; as root on a Debian-like system it installs one where none is.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from support.record_files import Traffic, write_pair  # noqa: E402

from quiver_fast.analysis.delivery import reconcile  # noqa: E402
from quiver_fast.analysis.settlement import settlement_latency  # noqa: E402
from quiver_fast.analysis.summary import receiver_sections, sender_sections  # noqa: E402
from quiver_fast.records.parser import read_transfers  # noqa: E402
from spark_analysis.java import why_java_is_missing  # noqa: E402

COUNT = 200_000
CLOSE = 1e-9


def need_java() -> None:
    """Install a headless Java if there is none and we may; else say what is missing."""
    missing = why_java_is_missing()
    if missing is None:
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise SystemExit(f"analysis-demo: {missing}")
    print("analysis-demo: installing a headless Java")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", "default-jre-headless"]
    for command in (["apt-get", "update", "-qq"], install):
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    missing = why_java_is_missing()
    if missing is not None:
        raise SystemExit(f"analysis-demo: {missing}")


def local(folder: Path) -> dict[str, Any]:
    """Analyse one run in this process."""
    sender = read_transfers(folder / "sender-transfers.csv")
    receiver = read_transfers(folder / "receiver-transfers.csv")
    received = receiver_sections(receiver)
    return {
        "sender results": sender_sections(sender)["results"],
        "settlement": settlement_latency(sender),
        "receiver results": received["results"],
        "latency": received["latency"],
        "delivery": reconcile(sender, receiver),
    }


def distributed(summaries: Path) -> dict[str, Any]:
    """Return the same of one run from a job's summaries."""
    sender = json.loads((summaries / "sender-summary.json").read_text())
    receiver = json.loads((summaries / "receiver-summary.json").read_text())
    return {
        "sender results": sender["results"],
        "settlement": sender.get("settlement"),
        "receiver results": receiver["results"],
        "latency": receiver["latency"],
        "delivery": receiver["delivery"],
    }


def equal(a: Any, b: Any) -> bool:
    """Compare; floats may differ in the last digits of a sum."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(equal(a[name], b[name]) for name in a)
    if isinstance(a, float) and isinstance(b, float):
        return abs(a - b) <= CLOSE * max(abs(a), abs(b))
    return bool(a == b)


def main() -> int:
    """Run the demonstration; return the exit code."""
    need_java()
    with tempfile.TemporaryDirectory(prefix="quiver-demo-") as name:
        runs, output = Path(name, "runs"), Path(name, "results")
        for seed, record_format in enumerate(("v2", "v3")):
            write_pair(runs / record_format, Traffic(seed, COUNT), record_format)
        job = [sys.executable, "-m", "spark_analysis.jobs", str(runs), "--output", str(output)]
        subprocess.run(job, check=True)
        same = True
        for run in ("v2", "v3"):
            here, there = local(runs / run), distributed(output / "summaries" / "runs" / run)
            for section, value in here.items():
                verdict = "equal" if equal(value, there[section]) else "DIFFERENT"
                same = same and verdict == "equal"
                print(f"run {run}  {section:18}{verdict}")
            print(f"run {run}  {json.dumps(there['delivery'])}")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
