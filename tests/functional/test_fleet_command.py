"""`quiver-fleet` before Spark starts: refused arguments and their messages."""

from __future__ import annotations

import sys

import pytest
from support.processes import run

from quiver_fast.extras import how_to_install

FLEET = (sys.executable, "-m", "quiver_fast.cli.fleet.command")
URL = "//127.0.0.1/q0"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "nothing to run: write a URL and options of quiver after --"),
        (["--hosts", "2"], "nothing to run"),
        (["--"], "a fleet needs a URL or --peer-to-peer"),
        (["--peer-to-peer", "--", URL], "--peer-to-peer does not go with a URL"),
        (
            ["--correct-clocks", "--", URL],
            "--correct-clocks needs --record-format v2",
        ),
        (["--hosts", "0", "--", URL], "--hosts"),
        (["--hosts", "3", "--", URL, "--senders", "2"], "3 hosts are more than --senders 2"),
        (["--work-dir", "here", "--", URL], "'here' is not absolute"),
        (["--conf", "x", "--", URL], "'x' is not NAME=VALUE"),
        (["--", URL, "--runs", "2"], "unrecognized arguments: --runs"),
        (["--", "csp://localhost/q"], "a csp URL does not go with"),
        (["--", URL, "--fault", "1s run true"], "--fault does not go with a fleet"),
        (["--", URL, "--server", "pyfast"], "--server does not go with a fleet"),
        (["--", URL, "--warmup", "5s", "--duration", "20s"], "--warmup does not go with"),
    ],
)
def test_usage_errors(words: list[str], message: str) -> None:
    finished = run([*FLEET, *words])
    assert finished.code == 2, finished
    [line] = finished.stderr.splitlines()
    assert line.startswith("quiver-fleet: error: ")
    assert message in line


def test_without_spark_one_line_says_what_to_install() -> None:
    source = (
        "import sys; sys.modules['pyspark'] = None\n"
        "from quiver_fast.cli.fleet.command import main\n"
        f"sys.exit(main(['--', {URL!r}]))"
    )
    finished = run([sys.executable, "-c", source])
    assert finished.code == 1
    [line] = finished.stderr.splitlines()
    assert line == (
        "quiver-fleet: error: quiver-fleet needs pyspark, which is not installed: "
        + how_to_install("spark")
    )
