"""Measured tests: figures beside their limits, and the median of three runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.measured import Figure, median, show, verdict

TESTS = Path(__file__).parent.parent

CONFTEST = """
from support import measured
from support.measured import figure, pytest_pyfunc_call, pytest_runtest_protocol

def pytest_addoption(parser):
    parser.addoption("--measure", action="store_true")

def pytest_configure(config):
    config.addinivalue_line("markers", "measured: judged")

def pytest_terminal_summary(terminalreporter):
    measured.write_table(terminalreporter)
"""

# Each test takes the next of its values when it runs.
FILE = """
import pytest

values = {values}

@pytest.fixture(scope="module")
def shared():
    yield iter(values)

values = iter(values)

@pytest.mark.measured
def test_it(figure, shared):
    value = next(values)
    assert value >= 0, "broken"
    figure("bytes kept", value, at_most=10 << 20, unit="B")

def test_other(shared):
    pass
"""


def run(folder: Path, values: list[int], *words: str) -> subprocess.CompletedProcess[str]:
    """Run a file of tests with a measured one that takes these values, in MiB."""
    (folder / "conftest.py").write_text(CONFTEST)
    text = FILE.format(values=[value << 20 for value in values])
    (folder / "test_one.py").write_text(text)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words, "."],
        cwd=folder, env=os.environ | {"PYTHONPATH": str(TESTS)}, text=True, capture_output=True,
        timeout=100, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("values", "passes", "words"),
    [
        ([9], True, "bytes kept: 9 MiB (at most 10 MiB)\n"),
        ([11, 9, 8], True, "bytes kept: 9 MiB (at most 10 MiB)   median of 3"),
        ([11, 9, 12], False, "the median of 3 runs: bytes kept: 11 MiB (at most 10 MiB)"),
        ([-1, 9, 9], True, "bytes kept: 9 MiB (at most 10 MiB)"),
        ([-1, 9, -1], False, "broken"),
    ],
)
def test_the_median_decides(tmp_path: Path, values: list[int], passes: bool, words: str) -> None:
    end = run(tmp_path, values, "--measure")
    assert words in end.stdout, end
    assert (end.returncode == 0) is passes
    assert ("2 passed" if passes else "1 failed, 1 passed") in end.stdout


def test_one_run_decides_elsewhere(tmp_path: Path) -> None:
    end = run(tmp_path, [11, 9, 8])
    assert end.returncode == 1
    assert "BeyondLimitError: bytes kept: 11 MiB (at most 10 MiB)" in end.stdout


def figures(**values: float) -> Figure:
    """Return a run's figures, each with limits of 1 and 2."""
    made = Figure()
    for name, value in values.items():
        made(name, value, at_least=1, at_most=2, unit="s")
    return made


def test_medians_are_of_each_figure() -> None:
    runs = [figures(a=1, b=9), figures(a=9, b=1), figures(a=1.5, b=1)]
    assert [taken.value for taken, _ in median(runs)] == [1.5, 1]
    assert verdict(runs, 0) is None
    runs[2] = figures(a=0.5, b=0.5)
    assert verdict(runs, 0) is None
    runs[1] = figures(a=0.5, b=1)
    assert verdict(runs, 0) == "a: 0.5 s (at least 1 s, at most 2 s)"


def test_a_figure_has_a_limit() -> None:
    with pytest.raises(AssertionError, match="needs a limit"):
        Figure()("a", 1)


def test_units() -> None:
    made = Figure()
    made("kept", 3 << 30, at_most=1 << 20, unit="B")
    made("ratio", 1.23456, at_most=4)
    assert [show(taken) for taken in made.taken] == [
        "kept: 3 GiB (at most 1 MiB)",
        "ratio: 1.235 (at most 4)",
    ]
