"""HDFS on this machine: a namenode and a datanode in one process, of Hadoop's own tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pyspark
from fsspec.implementations.webhdfs import WebHDFS

from support.processes import Running, free_port, wait_until

START_SECONDS = 100.0
_MAIN = "org.apache.hadoop.test.MiniDFSClusterManager"


def home() -> Path:
    """Return the folder of install_peers.sh with the jars of Hadoop that Spark lacks."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("HDFS_HOME") or cache / "quiver-fast" / "hdfs")


@dataclass(frozen=True)
class Hdfs:
    """A running cluster.

    Attributes:
        authority: host and port of its URLs.
        settings: Hadoop's, by name.
        system: a client that may write.
    """

    authority: str
    settings: dict[str, str]
    system: WebHDFS

    def put(self, folder: Path, key: str) -> str:
        """Copy a folder; return its URL."""
        self.system.put(str(folder), f"/{key}", recursive=True)
        return f"hdfs://{self.authority}/{key}"


@contextmanager
def hdfs(folder: Path) -> Iterator[Hdfs]:
    """Run an empty cluster whose data are in ``folder``."""
    ports = free_port(), free_port()
    jars = Path(pyspark.__file__).parent / "jars"
    options = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    command = ["java", *options, "-cp", f"{home()}/*:{jars}/*", _MAIN, "-format"]
    command += ["-nnport", str(ports[0]), "-httpport", str(ports[1])]
    command += ["-D", "dfs.permissions.enabled=false", "-D", f"hdfs.minidfs.basedir={folder}"]
    with Running(command):
        system = WebHDFS("127.0.0.1", port=ports[1], use_listings_cache=False)

        def is_up() -> bool:
            with suppress(OSError, RuntimeError):
                system.pipe_file("/up", b"a datanode takes blocks")
                return True
            return False

        wait_until(is_up, "HDFS takes a file", START_SECONDS, pause=0.5)
        settings = {"dfs.namenode.http-address": f"0.0.0.0:{ports[1]}"}
        yield Hdfs(f"127.0.0.1:{ports[0]}", settings, system)
