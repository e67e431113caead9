"""Missing peers in a run of the tests, and the demand for them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from support import peers

ROOT = Path(__file__).resolve().parents[2]
WITH_A_BROWSER = "tests/functional/test_analyze_command.py"


def run_without_a_browser(**environment: str) -> subprocess.CompletedProcess[str]:
    """Run the tests that need Chromium where no program of the system is found."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "QUIVER_FAST"))}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", WITH_A_BROWSER, "-k", "browser"],
        cwd=ROOT, env={**kept, "PATH": str(Path(sys.executable).parent), **environment},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_a_missing_peer_is_named_with_what_it_would_show() -> None:
    run = run_without_a_browser()
    assert run.returncode == 0, run.stdout
    assert "missing peers: make peers installs them" in run.stdout
    assert "chromium: 1 skipped, which would show that a browser draws" in run.stdout


def test_a_required_peer_that_is_missing_is_a_failure() -> None:
    run = run_without_a_browser(QUIVER_FAST_REQUIRE_PEERS="1")
    assert run.returncode == 1
    assert "QUIVER_FAST_REQUIRE_PEERS=1, but Chromium is not installed: make peers" in run.stdout


def test_every_peer_has_a_reason_to_be_there() -> None:
    assert peers._SHOWS.keys() == peers._CHECKS.keys()
