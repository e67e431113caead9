"""A pytest plugin: fixtures for a broker and a measurement, for the tests of other projects.

pytest loads it by its entry point. ``docs/api.md`` shows its use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from quiver_fast.api import Result, Server


@pytest.fixture(scope="session")
def amqp_server() -> Iterator[Server]:
    """A broker for all tests of the session; it makes each queue that a client names."""
    # The imports are slow: only tests that use the fixture wait for them.
    from quiver_fast.api.server import Server

    with Server() as server:
        yield server


@pytest.fixture
def quiver_measure(tmp_path: Path) -> Callable[..., Result]:
    """:func:`quiver_fast.api.measure`, whose files go below the test's directory.

    A condition of ``fail_if`` that holds fails the test.
    """
    from quiver_fast.api.measuring import measure

    runs = 0

    def measured(url: str | None = None, **options: Any) -> Result:
        nonlocal runs
        runs += 1
        options.setdefault("output", tmp_path / f"quiver-{runs:02}")
        result: Result = measure(url, **options)
        if result.breaches:
            pytest.fail("; ".join(result.breaches), pytrace=False)
        return result

    return measured
