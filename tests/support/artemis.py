"""An ActiveMQ Artemis broker of the tests' own: on loopback, in a directory of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from support.processes import free_port, wait_until

VERSION = "2.40.0"
START_SECONDS = 60.0
READY = "AMQ221007"


def home() -> Path:
    """Return where Artemis is: $ARTEMIS_HOME, or where install_peers.sh puts it."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    default = cache / "quiver-fast" / f"apache-artemis-{VERSION}"
    return Path(os.environ.get("ARTEMIS_HOME") or default)


@dataclass(frozen=True)
class Artemis:
    """A running broker.

    Attributes:
        port: Where it speaks AMQP 1.0.
    """

    port: int


def _create(directory: Path, port: int) -> Path:
    """Create a broker instance that listens on `port` alone."""
    instance = directory / "broker"
    subprocess.run(
        [
            home() / "bin" / "artemis", "create", "--silent", "--user", "admin",
            "--password", "admin", "--allow-anonymous", "--no-autotune", "--nio", "--no-web",
            "--no-stomp-acceptor", "--no-mqtt-acceptor", "--no-hornetq-acceptor",
            "--host", "127.0.0.1", "--default-port", str(free_port()),
            instance,
        ],
        check=True, capture_output=True, timeout=START_SECONDS,
    )  # fmt: skip
    configuration = instance / "etc" / "broker.xml"
    text = configuration.read_text().replace(":5672?", f":{port}?")
    # An address that a sender names first becomes a queue, which keeps what is sent.
    catch_all = '<address-setting match="#">'
    assert f":{port}?" in text
    assert catch_all in text
    routing = "<default-address-routing-type>ANYCAST</default-address-routing-type>"
    queues = "<default-queue-routing-type>ANYCAST</default-queue-routing-type>"
    configuration.write_text(text.replace(catch_all, f"{catch_all}{routing}{queues}"))
    return instance


@contextlib.contextmanager
def running_artemis(directory: Path) -> Iterator[Artemis]:
    """Run a broker until the end of the block.

    Args:
        directory: An empty directory for everything the broker writes.

    Raises:
        AssertionError: It does not start; the message has the end of its log.
    """
    port = free_port()
    instance = _create(directory, port)
    log = directory / "output"
    with log.open("wb") as output:
        broker = subprocess.Popen(
            [instance / "bin" / "artemis", "run"],
            stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
        )  # fmt: skip
    try:
        wait_until(
            lambda: broker.poll() is not None or READY in log.read_text(errors="replace"),
            "Artemis answers", START_SECONDS, pause=0.2,
        )  # fmt: skip
        assert broker.poll() is None, log.read_text(errors="replace")[-2000:]
        yield Artemis(port)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(broker.pid, signal.SIGKILL)
        broker.wait()
