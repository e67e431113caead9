"""The bench's runner against an arrow that listens and says nothing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench import runner  # noqa: E402
from bench.runner import Case, RunError  # noqa: E402

LISTENS_FOR_EVER = """
import socket, sys, time
port = int(dict(a.split("=", 1) for a in sys.argv[1:])["port"])
listener = socket.create_server(("127.0.0.1", port))
time.sleep(60)
"""


def test_an_arrow_that_hangs_is_ended() -> None:
    hanging = [sys.executable, "-c", LISTENS_FOR_EVER]
    with pytest.raises(RunError, match=r"still running after 0\.3 s"):
        runner.run_pair([sys.executable, "-c", ""], hanging, Case(10, timeout=0.3))
