"""The real Chronicle Queue, installed by tests/interop/install_peers.sh."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

SECONDS = 90.0
# Modules of Java that Chronicle needs access to.
EXPORTS = (
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "jdk.unsupported/sun.misc",
    "jdk.compiler/com.sun.tools.javac.file",
)
OPENS = (
    "jdk.compiler/com.sun.tools.javac",
    "java.base/java.lang",
    "java.base/java.lang.reflect",
    "java.base/java.io",
    "java.base/java.util",
)
READER = "net.openhft.chronicle.queue.ChronicleReaderMain"


def home() -> Path:
    """Return its folder: $CHRONICLE_HOME, or that of install_peers.sh."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("CHRONICLE_HOME") or cache / "quiver-fast" / "chronicle-queue")


def command(*words: object, main: str = "QueuePeer") -> list[str]:
    """Return the command of one operation; see tests/interop/java/QueuePeer.java."""
    return [
        "java",
        "-Xmx256m",
        # The second compiler does not pay for short runs.
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        "-Dchronicle.announcer.disable=true",
        *(f"--add-exports={name}=ALL-UNNAMED" for name in EXPORTS),
        *(f"--add-opens={name}=ALL-UNNAMED" for name in OPENS),
        "-cp",
        f"{home() / 'classes'}:{home() / 'lib'}/*",
        main,
        *map(str, words),
    ]


def run_java(
    *words: object, main: str = "QueuePeer", check: bool = True
) -> subprocess.CompletedProcess[str]:
    """Run one operation to its end."""
    return subprocess.run(
        command(*words, main=main), capture_output=True, text=True, check=check, timeout=SECONDS
    )


def read_queues(*directories: Path) -> list[list[tuple[int, bytes]]]:
    """Return the entries of each queue, as Java reads them."""
    *queues, rest = run_java("read", *directories).stdout.split("end\n")
    assert rest == ""
    return [entries(queue) for queue in queues]


def entries(output: str) -> list[tuple[int, bytes]]:
    """Return the entries that it printed."""
    pairs = (line.split(" ") for line in output.splitlines())
    return [(int(index), bytes.fromhex(content)) for index, content in pairs]
