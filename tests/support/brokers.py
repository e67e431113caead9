"""Other projects' brokers, started by our launchers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from support.server import Server, running_server

START_SECONDS = 90.0
END_SECONDS = 30.0
# Idle schedulers must not spin where many tests share a small machine.
ENVIRONMENT = {
    "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 2:2 +sbwt none +sbwtdcpu none +sbwtdio none"
}


@contextlib.contextmanager
def running_broker(module: str, directory: Path, **keys: object) -> Iterator[Server]:
    """Run a broker until the end of the block.

    Args:
        module: Its launcher's name in quiver_fast.brokers.
        directory: Where its ready file goes.
        keys: As of `support.server.command`.
    """
    with running_server(
        directory,
        module=f"quiver_fast.brokers.{module}",
        start_seconds=START_SECONDS,
        end_seconds=END_SECONDS,
        environment=ENVIRONMENT,
        **keys,
    ) as server:
        yield server
