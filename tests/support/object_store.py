"""An S3 server on this machine, and its settings for Hadoop."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyarrow.fs import S3FileSystem

from support.processes import Running, free_port, wait_until

BUCKET = "bucket"
START_SECONDS = 100.0


@dataclass(frozen=True)
class ObjectStore:
    """A running server.

    Attributes:
        settings: Hadoop's, by name.
        system: a client that may write.
    """

    settings: dict[str, str]
    system: S3FileSystem

    def put(self, folder: Path, key: str) -> str:
        """Copy a folder; return its URL."""
        for path in folder.rglob("*"):
            if path.is_file():
                name = f"{BUCKET}/{key}/{path.relative_to(folder)}"
                with self.system.open_output_stream(name, compression=None) as file:
                    file.write(path.read_bytes())
        return f"s3a://{BUCKET}/{key}"


@contextmanager
def object_store() -> Iterator[ObjectStore]:
    """Run a server with an empty bucket."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with Running(command) as server:
        wait_until(
            lambda: server.process.poll() is not None or server.listens_on(port),
            "the object store listens",
            START_SECONDS,
        )
        system = S3FileSystem(
            access_key="user",
            secret_key="word",
            endpoint_override=f"127.0.0.1:{port}",
            scheme="http",
            region="us-east-1",
            allow_bucket_creation=True,
        )
        system.create_dir(BUCKET)
        settings = {
            "fs.s3a.endpoint": f"http://127.0.0.1:{port}",
            "fs.s3a.access.key": "user",
            "fs.s3a.secret.key": "word",
            "fs.s3a.path.style.access": "true",
        }
        yield ObjectStore(settings, system)
