"""A command that is interrupted before it begins: quietly, with the shell's exit code."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

COMMANDS = [
    "quiver", "quiver-analyze", "quiver-arrow", "quiver-bench", "quiver-queue", "quiver-server",
]  # fmt: skip

# Every command imports it: what is sent to oneself has come when kill returns.
INTERRUPTING = """
import os, signal
os.kill(os.getpid(), signal.SIGINT)
raise ImportError("the signal is ignored")
"""


def interrupted(directory, command):
    (directory / "argparse.py").write_text(INTERRUPTING)
    environ = {**os.environ, "PYTHONPATH": str(directory)}
    return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60)


def installed(name):
    return str(Path(sys.executable).with_name(name))


@pytest.mark.parametrize("name", COMMANDS)
def test_while_it_imports(tmp_path, name):
    done = interrupted(tmp_path, [installed(name), "--version"])
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_where_the_signal_is_ignored_it_stays_so(tmp_path):
    """As a shell's background has it."""
    done = interrupted(tmp_path, ["sh", "-c", f"trap '' INT; exec {installed('quiver')} --version"])
    assert "the signal is ignored" in done.stderr
