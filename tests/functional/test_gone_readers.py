"""A command whose reader leaves, as `head` does: it ends quietly, and its exit code is its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


def run_without_reader(words, errors=subprocess.PIPE):
    """Run an installed command whose standard output nobody reads; return its code and errors."""
    reader, writer = os.pipe()
    os.close(reader)
    environ = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    program = Path(sys.executable).with_name(words[0])
    try:
        done = subprocess.run(
            [program, *words[1:]], stdout=writer, stderr=errors, env=environ, text=True,
            timeout=60, check=False,
        )  # fmt: skip
    finally:
        os.close(writer)
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["quiver", "--version"],
        ["quiver", "schema", "run"],
        ["quiver-server", "--help"],
        ["quiver-arrow-pyfast"],
        ["quiver-server-pyfast", "--help"],
        ["quiver-server-rabbitmq", "--version"],
    ],
)
def test_a_text(words):
    assert run_without_reader(words) == (0, "")


@pytest.mark.parametrize(("condition", "code"), [("count<1", 0), ("count>=1", 99)])
def test_a_run_goes_on_to_its_verdict(condition, code, tmp_path):
    words = ["quiver", "-c", "10", "--fail-if", condition, "--output", str(tmp_path)]
    ended, errors = run_without_reader(words)
    assert ended == code
    assert errors.count("\n") == (code != 0)
    assert (tmp_path / "receiver-summary.json").is_file()


def test_errors_that_nobody_reads():
    reader, writer = os.pipe()
    os.close(reader)
    assert run_without_reader(["quiver", "--cuont", "1"], writer)[0] == 2
    os.close(writer)
