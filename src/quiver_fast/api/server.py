"""The server pyfast as a context manager."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Any

from quiver_fast.api.ending import end
from quiver_fast.cli.shared.start import secret_pipe
from quiver_fast.errors import QuiverError, UsageError
from quiver_fast.own_process import own_command, own_environment
from quiver_fast.process import Child
from quiver_fast.server.config import parse
from quiver_fast.sockets import free_port

_MODULE = "quiver_fast.server.main"
_SECRETS = ("password", "connect_password")
_START_SECONDS = 30.0
_TICK = 0.01


class Server:
    """Our own broker on this machine, which runs as long as the ``with`` block.

    It makes each queue that a client names. It ends when this process crashes.

    Attributes:
        host: the host where it listens.
        port: the port where it listens; a free one if 0 was given.
    """

    def __init__(
        self, path: str = "q0", *, host: str = "127.0.0.1", port: int = 0, **keys: Any
    ) -> None:
        """Prepare a server.

        Args:
            path: the first queue.
            host: where to listen.
            port: where to listen; 0 for a port that is free.
            keys: other keys of the server, with ``_`` for ``-``: ``store="/var/lib/q"``,
                ``queue_limit=10_000_000``. ``docs/server.md`` lists them.

        Raises:
            UsageError: a key is unknown or wrong, or does not go with another.
        """
        self.host = host
        self.port = port
        self._path = path
        self._keys = keys
        self._child: Child | None = None
        secrets = [f"{_key(name)}={keys[name]}" for name in _SECRETS if keys.get(name) is not None]
        config = parse([*self._arguments("-"), *secrets], _argument)
        if config.unknown:
            raise UsageError(f"Server has no key {config.unknown[0].replace('-', '_')}")

    @property
    def url(self) -> str:
        """The URL of the first queue."""
        return self.url_of(self._path)

    def url_of(self, path: str) -> str:
        """Return the URL of a queue."""
        return f"{self._keys.get('scheme', 'amqp')}://{self.host}:{self.port}/{path}"

    def __enter__(self) -> Server:
        """Start the server, and return once it accepts connections.

        Raises:
            QuiverError: it does not start; the message says why.
        """
        self.port = self.port or free_port()
        with tempfile.TemporaryDirectory() as folder:
            ready = Path(folder, "ready")
            self._child = self._start(ready)
            try:
                self._wait(self._child, ready)
            except BaseException:
                self._child.kill_and_wait()
                raise
        return self

    def _start(self, ready: Path) -> Child:
        """Start the process. Passwords go through pipes, because others can read a command line."""
        pipes = {
            f"{_key(name)}-fd": secret_pipe(str(self._keys[name]))
            for name in _SECRETS
            if self._keys.get(name) is not None
        }
        given = self._arguments(ready)
        words = [*own_command(_MODULE), *given, *(f"{key}={fd}" for key, fd in pipes.items())]
        fds = tuple(pipes.values())
        try:
            return Child(words, own_environment(), pass_fds=fds, withheld="quiver-server")
        finally:
            for fd in fds:
                os.close(fd)

    def _arguments(self, ready: Path | str) -> list[str]:
        """Return the arguments of the server's contract, without passwords."""
        values = {
            "host": self.host,
            "port": self.port or "-",
            "path": self._path,
            "ready-file": ready,
            "quiet": 1,
            **{_key(name): one for name, one in self._keys.items() if name not in _SECRETS},
        }
        return [f"{key}={_text(value)}" for key, value in values.items() if value is not None]

    @staticmethod
    def _wait(child: Child, ready: Path) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while not ready.exists():
            if child.poll():
                raise QuiverError(child.ending)
            if time.monotonic() > deadline:
                raise QuiverError(f"the server is not ready after {_START_SECONDS:.0f} seconds")
            time.sleep(_TICK)

    def __exit__(self, kind: object, *_exception: object) -> None:
        """End the server in order.

        Raises:
            QuiverError: the server failed during the block, and the block raised no other error.
        """
        child, self._child = self._child, None
        if child is None:
            return
        failed = child.poll() and child.returncode
        end(child)
        if failed and kind is None:
            raise QuiverError(f"the server failed: {child.ending}")


def _key(name: str) -> str:
    return name.replace("_", "-")


def _argument(key: str) -> str:
    """Return the argument for a key of the contract. Passwords are texts here."""
    return key.removesuffix("-fd").replace("-", "_")


def _text(value: object) -> object:
    return int(value) if isinstance(value, bool) else value
