"""A pytest plugin: fixtures for a broker and a measurement, for the tests of other projects.

pytest loads it by its entry point, at each start, so imports that take time wait for the first
use of a fixture. ``docs/api.md`` shows its use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from quiver_fast.api import Server

_EXAMPLE = "fail_if='p99>5ms'"


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    text = f"quiver(**options): options of each `measure()` of the test, such as {_EXAMPLE}"
    config.addinivalue_line("markers", text)


@pytest.fixture(scope="session")
def amqp_server() -> Iterator[Server]:
    """A broker for all tests of the session; it makes each queue that a client names."""
    from quiver_fast.api import Server

    with Server() as server:
        yield server


@pytest.fixture
def measure(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Any]:
    """:func:`quiver_fast.api.measure`, whose files go below the test's directory.

    It takes the options of the test's marker ``quiver`` and those of its call, which win. A wrong
    option fails the test, and so does a condition of ``fail_if`` that holds.
    """
    from quiver_fast import api

    # The nearest marker wins: that of the test, then of its class, then of its module.
    markers = list(request.node.iter_markers("quiver"))[::-1]
    if any(marker.args for marker in markers):
        pytest.fail(f"quiver: the marker takes options by name, such as {_EXAMPLE}", pytrace=False)
    defaults = {name: value for marker in markers for name, value in marker.kwargs.items()}
    calls = 0

    def measured(url: str | None = None, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        output = tmp_path / f"quiver-{calls:02}"
        try:
            result = api.measure(url, **{"output": output, **defaults, **options})
            reasons = result.breaches
        except api.UsageError as error:
            reasons = (f"quiver: {error}",)
        if reasons:
            pytest.fail("\n".join(reasons), pytrace=False)
        return result

    return measured
