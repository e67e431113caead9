"""Check an installed wheel from outside: run with the Python that it is installed in.

    cd /somewhere/else && venv/bin/python check_wheel.py [--without-tls]

Needs nothing but the wheel: no pytest, no source tree. Ends with the first
broken promise on standard error and exit code 1.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tempfile
from importlib.metadata import distribution
from pathlib import Path

import quiver_fast
from quiver_fast.proton import info

COMMANDS = (
    "quiver", "quiver-analyze", "quiver-arrow", "quiver-bench", "quiver-conform", "quiver-fleet",
    "quiver-queue", "quiver-server",
)  # fmt: skip
LAUNCHERS = (
    "activemq-artemis", "activemq-classic", "qpid-broker-j", "rabbitmq", "rabbitmq-4", "skrouterd",
)  # fmt: skip
COUNT = 1000
SECONDS = 60


def check(kept: bool, promise: str) -> None:
    """End the program unless the promise is kept."""
    if not kept:
        raise SystemExit(f"check_wheel: broken: {promise}")


def environment() -> dict[str, str]:
    """Return this environment without anything that could lend the wheel a module."""
    kept = {k: v for k, v in os.environ.items() if k not in {"PYTHONPATH", "QUIVER_HOME"}}
    return {**kept, "PYTHONSAFEPATH": "1"}


def run(name: str, *arguments: str) -> str:
    """Run a command of the wheel and return its standard output."""
    program = Path(sysconfig.get_path("scripts"), name)
    check(program.is_file(), f"{name} is installed as {program}")
    result = subprocess.run(
        [str(program), *arguments],
        env=environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=SECONDS, check=False,
    )  # fmt: skip
    line = " ".join([name, *arguments])
    check(result.returncode == 0, f"`{line}` exits 0, not {result.returncode}: {result.stderr}")
    check("Traceback" not in result.stderr, f"`{line}` shows no traceback: {result.stderr}")
    return result.stdout


def check_modules(tls: bool) -> None:
    """Check where the package is, which engine it has, and its features."""
    site = Path(sysconfig.get_path("platlib")).resolve()
    package = Path(quiver_fast.__file__).resolve().parent
    check(package.parent == site, f"quiver_fast is in {site}, not in {package.parent}")
    check(info.bundled(), "the engine is the package's own")
    notice = distribution("quiver-fast").read_text("licenses/NOTICE") or ""
    engine = f"Apache Qpid Proton {info.engine_version()} ("
    check(engine in notice, f"NOTICE has the engine's version: {engine}")
    check(quiver_fast.has("tls") is tls, f"has('tls') is {tls}")
    for feature in ("sasl-anonymous", "sasl-plain", "sasl-external", "sasl-scram", "transactions"):
        check(quiver_fast.has(feature), f"has({feature!r})")
    check(not quiver_fast.has("no-such-feature"), "an unknown feature is not there")


def check_commands() -> None:
    """Check that every command starts, prints its name and has its manual page."""
    pages = Path(sysconfig.get_path("data"), "share/man/man1")
    for name in COMMANDS:
        check((pages / f"{name}.1").is_file(), f"{pages} has the page of {name}")
        check("usage:" in run(name, "--help").lower(), f"`{name} --help` shows the usage")
        version = quiver_fast.__version__
        check(version in run(name, "--version"), f"`{name} --version` says {version}")
    told = run("quiver-arrow-pyfast")
    for fact in (quiver_fast.__version__, info.engine_version(), sysconfig.get_python_version()):
        check(fact in told, f"quiver-arrow-pyfast without arguments says {fact}: {told}")
    for name in LAUNCHERS:
        told = run(f"quiver-server-{name}")
        check(quiver_fast.__version__ in told, f"quiver-server-{name} says what it is: {told}")


def check_run() -> None:
    """Check that a real pair transfers every message, and that the files agree."""
    with tempfile.TemporaryDirectory() as scratch:
        output = Path(scratch, "output")
        table = run("quiver", "--count", str(COUNT), "--output", str(output))
        check("RESULTS" in table, f"`quiver` prints a summary: {table}")
        for role in ("sender", "receiver"):
            summary = json.loads((output / f"{role}-summary.json").read_text())
            count = summary["results"]["message_count"]
            check(count == COUNT, f"the {role} counts {COUNT} messages, not {count}")
            transfers = output / f"{role}-transfers.csv.zst"
            check(transfers.stat().st_size > 0, f"{transfers.name} has records")


def main() -> None:
    """Check everything; print one line when all is well."""
    check_modules(tls="--without-tls" not in sys.argv[1:])
    check_commands()
    check_run()
    python = sysconfig.get_python_version()
    print(f"check_wheel: quiver-fast {quiver_fast.__version__} keeps its promises on {python}")


if __name__ == "__main__":
    main()
