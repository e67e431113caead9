"""A private network and a few private files of a test, in which commands run unchanged.

An example names the default ports, `broker.example` and `/var/lib`. In a namespace it gets
them, whatever else runs on this machine, and leaves nothing behind.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.processes import Running, wait_until

# TCP_LISTEN in /proc/net/tcp.
LISTENING = "0A"

# The names in the examples lead to this host; files in /var/lib are in memory.
SET_UP = """
"$2" -c "$3"
mount --bind "$1" /etc/hosts
[ -z "$4" ] || mount --bind "$4" /etc/resolv.conf
mount -t tmpfs none /var/lib
echo ready
exec sleep 3600
"""
# The loopback interface is brought up as netdevice(7) says: SIOCSIFFLAGS, IFF_UP | IFF_RUNNING.
LOOPBACK_UP = """
import fcntl, socket, struct
with socket.socket() as any_socket:
    fcntl.ioctl(any_socket, 0x8914, struct.pack("16sH22x", b"lo", 0x41))
"""
HOSTS = "127.0.0.1 localhost broker.example example.net\n::1 localhost\n"


@dataclass(frozen=True)
class Namespace:
    """A namespace, and the folder of its commands.

    Attributes:
        pid: of a process inside.
        directory: the folder of the commands.
        environment: variables besides those inherited.
    """

    pid: int
    directory: Path
    environment: dict[str, str]

    def start(self, line: str) -> Running:
        """Start a line of shell; the process is that of its last command."""
        user = [] if os.geteuid() == 0 else ["--user", "--preserve-credentials"]
        words = ["nsenter", f"--target={self.pid}", *user, "--net", "--mount", "sh", "-c"]
        return Running([*words, f"cd '{self.directory}' && exec {line}"], env=self.environment)

    def listens(self, port: int) -> bool:
        """Say whether a process inside listens on a port."""
        for name in ("tcp", "tcp6"):
            for row in Path(f"/proc/{self.pid}/net/{name}").read_text().splitlines()[1:]:
                _, local, _, state, *_ = row.split()
                if state == LISTENING and int(local.rpartition(":")[2], 16) == port:
                    return True
        return False

    @contextmanager
    def serving(self, line: str, port: int) -> Iterator[Running]:
        """Run a server until the end of the block, which it must reach alive."""
        with self.start(line) as running:
            wait_until(
                lambda: self.listens(port) or running.process.poll() is not None,
                f"somebody listens on {port}: {line}",
            )
            assert running.process.poll() is None, running.wait()
            yield running
            assert running.process.poll() is None, running.wait()
            running.process.terminate()
            running.wait()


@contextmanager
def namespace(
    directory: Path, environment: dict[str, str], hosts: str = HOSTS, resolver: str = ""
) -> Iterator[Namespace]:
    """Make a namespace for the time of the block; skip the test if that is not allowed.

    Args:
        directory: the folder of the commands.
        environment: variables besides those inherited.
        hosts: the content of /etc/hosts.
        resolver: the content of /etc/resolv.conf; empty for that of this machine.
    """
    (directory / "hosts").write_text(hosts)
    (directory / "resolver").write_text(resolver)
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    files = [str(directory / "hosts"), str(directory / "resolver") if resolver else ""]
    arguments = [files[0], sys.executable, LOOPBACK_UP, files[1]]
    words = ["unshare", *user, "--net", "--mount", "sh", "-ec", SET_UP, "sh", *arguments]
    try:
        running = Running(words)
    except FileNotFoundError:
        pytest.skip("no namespaces: there is no unshare here")
    with running:
        wait_until(
            lambda: bool(running.stdout_so_far()) or running.process.poll() is not None,
            "the namespace is there",
        )
        if running.process.poll() is not None:
            pytest.skip(f"no namespaces here: {running.wait().stderr}")
        yield Namespace(running.process.pid, directory, environment)
