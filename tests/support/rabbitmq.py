"""A RabbitMQ node of the tests' own: on loopback, in a directory of its own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from support.network import read_exactly
from support.peers import RABBITMQ_SERVER
from support.processes import free_port, wait_until

START_SECONDS = 60.0
# A test run that is killed runs no fixture's end; the node must not outlive it even so.
WITH_PARENT = ["setpriv", "--pdeathsig", "KILL", "--"]
SASL_HEADER = b"AMQP\x03\x01\x00\x00"


@dataclass(frozen=True)
class RabbitMQ:
    """A running node.

    Attributes:
        port: Where it speaks AMQP 1.0.
    """

    port: int
    username: str = "guest"
    password: str = "guest"


def _write_configuration(directory: Path, port: int) -> dict[str, str]:
    """Write what a node needs and return its environment."""
    (directory / "enabled_plugins").write_text("[rabbitmq_amqp1_0].\n")
    (directory / "rabbitmq.conf").write_text(
        f"listeners.tcp.local = 127.0.0.1:{port}\n"
        # Busy test machines have little free memory or disk; neither is what is tested.
        "vm_memory_high_watermark.relative = 0.8\n"
        "disk_free_limit.absolute = 1MB\n"
        "log.console = false\n"
    )
    for name in ("mnesia", "log", "home"):
        (directory / name).mkdir()
    return {
        "HOME": str(directory / "home"),  # The cookie is made there.
        "RABBITMQ_NODENAME": f"quiver-fast-{port}@localhost",
        "RABBITMQ_CONFIG_FILE": str(directory / "rabbitmq.conf"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(directory / "enabled_plugins"),
        "RABBITMQ_MNESIA_BASE": str(directory / "mnesia"),
        "RABBITMQ_LOG_BASE": str(directory / "log"),
        "RABBITMQ_CONF_ENV_FILE": os.devnull,
        "RABBITMQ_DIST_PORT": str(free_port()),
        "ERL_EPMD_PORT": str(free_port()),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        # Two schedulers are plenty; idle ones must not spin on a small machine.
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 2:2 +sbwt none +sbwtdcpu none +sbwtdio none",
        "LC_ALL": "C.UTF-8",
        # Makes the script become the node, and not its parent: one process to end.
        "RUNNING_UNDER_SYSTEMD": "1",
    }


def _answers(port: int) -> bool:
    """Tell whether the node speaks AMQP 1.0 with SASL on `port` by now."""
    try:
        with socket.create_connection(("127.0.0.1", port), 1) as probe:
            probe.sendall(SASL_HEADER)
            return read_exactly(probe, len(SASL_HEADER)) == SASL_HEADER
    except (OSError, EOFError):
        return False


@contextlib.contextmanager
def running_rabbitmq(directory: Path) -> Iterator[RabbitMQ]:
    """Run a node until the end of the block.

    Args:
        directory: An empty directory for everything the node writes.

    Raises:
        AssertionError: It does not start; the message has the end of its log.
    """
    port = free_port()
    environment = {**os.environ, **_write_configuration(directory, port)}
    with contextlib.ExitStack() as stack:
        output = stack.enter_context((directory / "output").open("wb"))
        # The node would start a port mapper as a daemon that outlives it: give it ours.
        mapper = subprocess.Popen(
            [*WITH_PARENT, "epmd"], env=environment, stdout=output, stderr=output
        )
        stack.callback(_end, mapper)
        node = subprocess.Popen(
            [*WITH_PARENT, RABBITMQ_SERVER],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        stack.callback(_end, node, group=True)
        try:
            wait_until(
                lambda: node.poll() is not None or _answers(port),
                "RabbitMQ answers",
                START_SECONDS,
                pause=0.1,
            )
        except AssertionError as error:
            raise AssertionError(f"{error}\n{_end_of_logs(directory)}") from None
        assert node.poll() is None, f"RabbitMQ does not start\n{_end_of_logs(directory)}"
        yield RabbitMQ(port)


def _end_of_logs(directory: Path) -> str:
    logs = [directory / "output", *sorted((directory / "log").glob("*.log"))]
    return json.dumps({log.name: log.read_text(errors="replace")[-1500:] for log in logs})


def _end(process: subprocess.Popen[bytes], *, group: bool = False) -> None:
    """End a process, or the whole session that it leads (the node's helpers too)."""
    if group:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.wait()
