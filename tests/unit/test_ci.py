"""Failing tests in the stages of CI."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
STAGES = ROOT / ".ci" / "stages.sh"

SCRIPT = """
. "$(dirname "$0")/stages.sh"
stage test steady test
stage next echo next
"""

# A `make` whose first run has failures, and whose second run has those of $AGAIN.
MAKE = """#!/bin/sh
cache=.pytest_cache/v/cache/lastfailed
case $* in
"test IN_PARALLEL= PYTEST_ARGS=--last-failed --last-failed-no-failures none")
    echo "$AGAIN"
    case $AGAIN in *failed*) exit 2 ;; esac ;;
test)
    echo "$FIRST"
    [ -z "$FAILED" ] && exit 0
    mkdir -p .pytest_cache/v/cache
    [ "$FAILED" = crash ] || echo "$FAILED" >$cache
    exit 2 ;;
*) echo "not expected: $*"; exit 3 ;;
esac
"""

FIRST = "===== {} failed, 100 passed, 1 error in 9.00s (0:00:09) ====="


def run(folder: Path, **words: str) -> tuple[int, list[str]]:
    """Run two stages, the first of which tests; return the exit code and the lines."""
    (folder / ".ci").mkdir()
    shutil.copy(STAGES, folder / ".ci")
    script = folder / ".ci" / "run"
    script.write_text(SCRIPT)
    programs = folder / ".venv" / "bin"
    programs.mkdir(parents=True)
    (programs / "python").symlink_to(shutil.which("python3") or "")
    (programs / "make").write_text(MAKE)
    (programs / "make").chmod(0o755)
    found = {"FIRST": "", "AGAIN": "", "FAILED": ""} | words
    path = f"{programs}:{os.environ['PATH']}"
    end = subprocess.run(
        ["bash", script], env=os.environ | found | {"PATH": path},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=100, check=False,
    )  # fmt: skip
    return end.returncode, end.stdout.splitlines()


@pytest.fixture(autouse=True)
def _with_the_stages() -> None:
    if not STAGES.exists():
        pytest.skip("an installation has no .ci")


def test_all_pass(tmp_path: Path) -> None:
    code, lines = run(tmp_path, FIRST="==== 100 passed, 2 skipped in 9.00s ====")
    assert code == 0
    assert lines[-2:] == ["unsteady: 0", "100 passed, 0 failed"]


def test_what_passes_alone_is_named(tmp_path: Path) -> None:
    failed = '{"tests/a.py::test_one[x - y]": true, "tests/a.py::test_two": true}'
    again = "==== 2 passed in 1.00s ===="
    code, lines = run(tmp_path, FIRST=FIRST.format(1), FAILED=failed, AGAIN=again)
    assert code == 0
    assert "UNSTEADY tests/a.py::test_one[x - y]" in lines
    assert "UNSTEADY tests/a.py::test_two" in lines
    assert "next" in lines
    assert lines[-2:] == ["unsteady: 2", "102 passed, 0 failed"]


def test_what_fails_again_fails(tmp_path: Path) -> None:
    again = "==== 1 failed, 1 passed in 1.00s ===="
    code, lines = run(tmp_path, FIRST=FIRST.format(1), FAILED='{"a": true, "b": 1}', AGAIN=again)
    assert code == 1
    assert "next" not in lines
    assert lines[-2:] == ["unsteady: 0", "101 passed, 1 failed"]


def test_many_failures_are_not_chance(tmp_path: Path) -> None:
    failed = str({f"t{number}": 1 for number in range(6)}).replace("'", '"')
    code, lines = run(tmp_path, FIRST=FIRST.format(5), FAILED=failed)
    assert code == 1
    assert "more than 5 tests failed" in lines
    assert lines[-2:] == ["unsteady: 0", "100 passed, 6 failed"]


def test_a_crash_is_no_chance(tmp_path: Path) -> None:
    code, lines = run(tmp_path, FIRST="INTERNALERROR", FAILED="crash")
    assert code == 1
    assert lines[-2:] == ["unsteady: 0", "0 passed, 0 failed"]


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("dpkg"), reason="Debian and root")
def test_an_architecture_that_nothing_emulates_is_one_line() -> None:
    words = [ROOT / ".ci" / "bare_debian.sh", "true"]
    env = os.environ | {"DEBIAN_ARCH": "vax"}
    end = subprocess.run(words, env=env, capture_output=True, text=True, timeout=100, check=False)
    assert end.returncode == 1
    assert re.fullmatch("bare_debian.sh: DEBIAN_ARCH=vax: expected arm64 or \\w+\n", end.stderr)
