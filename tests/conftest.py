"""Fixtures and markers of the whole test suite."""

from __future__ import annotations

import signal
from collections import Counter
from typing import Any

import pytest
from hypothesis import settings
from support import measured
from support.certificates import Certificates, make_certificates
from support.measured import (  # noqa: F401  # pytest finds them here
    figure,
    pytest_pyfunc_call,
    pytest_runtest_protocol,
)
from support.peers import HOW, PEERS, are_required, what_it_shows, why_missing
from xdist.scheduler import LoadFileScheduling

# How long an example takes is up to what else the machine does.
settings.register_profile("any machine", deadline=None)
# `make check` and the gate try the same few examples each time; `make test-all` tries all, and
# others each time.
settings.register_profile("quick", deadline=None, max_examples=25, derandomize=True)
settings.load_profile("any machine")

# Folders whose files share what is slow to start: brokers, a Spark session. One process runs each.
SHARING = ("tests/interop/", "tests/spark/")

# The property of a test that names the peer which it lacks.
MISSING = "missing peer"

# A shell that runs the tests in its background has them, and all they start, ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add what `make measure` says."""
    parser.addoption(
        "--measure", action="store_true", help="judge measured tests by the median of three runs"
    )


class Scheduling(LoadFileScheduling):
    """A file's tests stay in one process, and so do those of a folder that shares."""

    def _split_scope(self, nodeid: str) -> str:
        shared = (folder for folder in SHARING if nodeid.startswith(folder))
        return next(shared, super()._split_scope(nodeid))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduling | None:
    """Return the scheduler of `--dist loadfile`."""
    return Scheduling(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_report_header(config: pytest.Config) -> str | None:
    """Name the missing peers before any test runs: who reads the end has waited for it."""
    missing = [name for name in PEERS if why_missing(name) is not None]
    if hasattr(config, "workerinput") or not missing:
        return None
    return f"missing peers, whose tests are skipped ({HOW} installs them): {', '.join(missing)}"


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test whose peer is not here, or fail it where peers are required."""
    for marker in item.iter_markers("peer"):
        reason = why_missing(marker.args[0])
        if reason is None:
            continue
        if are_required():
            pytest.fail(f"QUIVER_FAST_REQUIRE_PEERS=1, but {reason}")
        item.user_properties.append((MISSING, marker.args[0]))
        pytest.skip(reason)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say at the end what was measured, which peers are missing, and what stays unproven."""
    measured.write_table(terminalreporter)
    skipped = terminalreporter.stats.get("skipped", [])
    properties = (pair for report in skipped for pair in report.user_properties)
    missing = Counter(value for name, value in properties if name == MISSING)
    if not missing:
        return
    terminalreporter.section(f"missing peers: {HOW} installs them")
    for name, tests in missing.items():
        terminalreporter.line(f"{name}: {tests} skipped, which would show {what_it_shows(name)}")


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Certificates for this run."""
    return make_certificates(tmp_path_factory.mktemp("certificates"))
