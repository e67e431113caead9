"""A command that is interrupted before it begins: quietly, with the shell's exit code; or after
its work, with the code of its work."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from quiver_fast.own_process import own_command

COMMANDS = [
    "quiver", "quiver-analyze", "quiver-arrow", "quiver-bench", "quiver-conform", "quiver-fleet",
    "quiver-queue", "quiver-server",
]  # fmt: skip
PROGRAMS = [
    "quiver-arrow-pyfast", "quiver-server-activemq-artemis", "quiver-server-activemq-classic",
    "quiver-server-pyfast", "quiver-server-qpid-broker-j", "quiver-server-rabbitmq",
    "quiver-server-rabbitmq-4", "quiver-server-skrouterd",
]  # fmt: skip
# Of imports of ours, from the first one behind the start.
MOMENTS = range(1, 11)

# Every command imports it: what is sent to oneself has come when kill returns.
INTERRUPTING = """
import os, signal
os.kill(os.getpid(), signal.SIGINT)
raise ImportError("the signal is ignored")
"""
# Interrupts one of our imports, given by its number.
AT_AN_IMPORT = """
import os, signal, sys
left = int(os.environ["MOMENT"])
def interrupt(event, words):
    global left
    if event == "import" and words[0].startswith("quiver_fast."):
        left -= words[0] != "quiver_fast.own_process"
        if left == 0:
            left = -1
            os.kill(os.getpid(), signal.SIGINT)
sys.addaudithook(interrupt)
"""
# Python ends its own handlers before it ends the modules.
AT_THE_END = """
import os, signal
from quiver_fast.loop import interrupt
from quiver_fast.own_process import leave_if_interrupted
class Last:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
last = Last()
leave_if_interrupted()
interrupt.install()
"""


def interrupted(directory, command):
    (directory / "argparse.py").write_text(INTERRUPTING)
    environ = {**os.environ, "PYTHONPATH": str(directory)}
    return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60)


def interrupted_at(moment, directory, command):
    (directory / "sitecustomize.py").write_text(AT_AN_IMPORT)
    environ = {**os.environ, "PYTHONPATH": str(directory), "MOMENT": str(moment)}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


def installed(name):
    return str(Path(sys.executable).with_name(name))


@pytest.mark.parametrize("name", COMMANDS)
def test_while_it_imports(tmp_path, name):
    done = interrupted(tmp_path, [installed(name), "--version"])
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_of_the_contract(tmp_path, name):
    assert interrupted_at(5, tmp_path, [installed(name), "--version"]) == (130, "", "")


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize(
    "command",
    [
        [installed("quiver")], [installed("quiver-arrow-pyfast")], own_command("quiver_fast"),
        own_command("quiver_fast.arrow.main"), [sys.executable, "-m", "quiver_fast"],
    ],
    ids=["quiver", "arrow", "quiver of the API", "arrow of quiver", "python -m quiver_fast"],
)  # fmt: skip
def test_at_each_moment_of_a_start(tmp_path, command, moment):
    assert interrupted_at(moment, tmp_path, [*command, "--version"]) == (130, "", "")


def test_where_the_signal_is_ignored_it_stays_so(tmp_path):
    """As a shell's background has it."""
    done = interrupted(tmp_path, ["sh", "-c", f"trap '' INT; exec {installed('quiver')} --version"])
    assert "the signal is ignored" in done.stderr


def test_a_second_signal_does_not_kill_a_program_that_has_ended():
    done = subprocess.run([sys.executable, "-c", AT_THE_END], capture_output=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
