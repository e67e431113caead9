"""Each executable says what it is and how to use it: commands, arrow, servers."""

import importlib
import runpy
import sys
from pathlib import Path

import pytest

import quiver_fast
from quiver_fast.cli import commands

IMPLS = Path(__file__).resolve().parents[2] / "impls"
PROGRAMS = sorted(file.name for file in IMPLS.iterdir())
COMMANDS = sorted(commands.__all__)


def name_of(command):
    return "quiver" if command == "pair" else f"quiver-{command}"


def said_by(executable, word, monkeypatch, capsys):
    """Return what an executable prints when it gets one word."""
    monkeypatch.setattr(sys, "argv", [executable, word])
    if executable in PROGRAMS:
        with pytest.raises(SystemExit) as end:
            runpy.run_path(str(IMPLS / executable), run_name="__main__")
        assert end.value.code == 0
    else:
        main = importlib.import_module(f"quiver_fast.cli.{executable}.command").main
        assert main() == 0
    output, errors = capsys.readouterr()
    assert errors == ""
    return output


@pytest.mark.parametrize("executable", [*COMMANDS, *PROGRAMS])
def test_version(executable, monkeypatch, capsys):
    name = executable if executable in PROGRAMS else name_of(executable)
    said = said_by(executable, "--version", monkeypatch, capsys)
    assert said == f"{name} {quiver_fast.__version__}\n"


@pytest.mark.parametrize("word", ["-h", "--help"])
@pytest.mark.parametrize("executable", [*COMMANDS, *PROGRAMS])
def test_help(executable, word, monkeypatch, capsys):
    said = said_by(executable, word, monkeypatch, capsys)
    name = executable if executable in PROGRAMS else name_of(executable)
    assert said.lower().startswith(f"usage: {name}")
    assert "--version" in said
