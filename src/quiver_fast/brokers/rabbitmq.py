"""`quiver-server-rabbitmq`: a RabbitMQ node of the run's own, 3.x or 4.x."""

from __future__ import annotations

import base64
import hashlib
import os
import secrets
import shutil
import sys
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from quiver_fast.brokers.debian_root import DebianRoot, cached_root
from quiver_fast.brokers.launcher import Broker
from quiver_fast.errors import QuiverError, UsageError
from quiver_fast.server.config import ServerConfig
from quiver_fast.sockets import free_port

_PACKAGED = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
"""Debian's script. The one on the PATH changes user and directory."""

_ROOT = "RABBITMQ_ROOT"

_QUEUE_TYPE = "RABBITMQ_QUEUE_TYPE"
_QUEUE_TYPES = ("classic", "quorum", "stream")

_QUEUES = "/queues/"
"""The beginning of an AMQP 1.0 address of a queue, since 4.0."""


class RabbitMQ(Broker):
    """A node with one vhost, one user, one queue, and one listener."""

    name = "rabbitmq"
    product = "RabbitMQ"
    subfolders = ("mnesia", "log", "home")
    templates = "rabbitmq"

    def unavailable(self) -> str | None:
        """Return why it cannot be started here, or None."""
        root = self.root()
        if not os.access(self.home(), os.X_OK):
            how = _ROOT if root else "RABBITMQ_HOME"
            return f"RabbitMQ is not installed: no {self.home()} ({how} can say where)"
        if root is not None:
            return root.unavailable()
        if shutil.which("epmd") is None:
            return "Erlang's epmd is not on the PATH"
        return None

    def home(self) -> Path:
        """Return the server's script."""
        root = self.root()
        if root is not None:
            return root.path / _PACKAGED.relative_to("/")
        home = os.environ.get("RABBITMQ_HOME")
        return Path(home).absolute() / "sbin" / "rabbitmq-server" if home else _PACKAGED

    def root(self) -> DebianRoot | None:
        """Return the other system that it is installed in: $RABBITMQ_ROOT, or the cache's.

        That of the cache is for where this system has no RabbitMQ.
        """
        if os.environ.get(_ROOT):
            return DebianRoot(Path(os.environ[_ROOT]))
        if os.environ.get("RABBITMQ_HOME") or _PACKAGED.exists():
            return None
        root = cached_root()
        return root if root.path.exists() else None

    def values(self, config: ServerConfig, directory: Path) -> dict[str, Any]:
        """See :meth:`Broker.values`."""
        major, root = major_version(self.home()), self.root()
        return super().values(config, directory) | {
            "major": major,
            "queue": _queue(config.addresses[0], major),
            "queue_type": _queue_type(major),
            "password_hash": _hash(config.password or "guest"),
            "server": self.home() if root is None else _PACKAGED,
            "enter": [] if root is None else root.command([]),
            "distribution_port": free_port(),
            "epmd_port": free_port(),
        }


def major_version(script: Path) -> int:
    """Return the first number of the version that a server's script starts.

    Raises:
        QuiverError: no folder beside it has the version in its name.
    """
    plugins = script.resolve().parent.parent / "plugins"
    versions = sorted(int(one.name[7:].split(".")[0]) for one in plugins.glob("rabbit-[0-9]*.*"))
    if not versions:
        raise QuiverError(f"the version of RabbitMQ is unknown: no {plugins}/rabbit-VERSION")
    return versions[-1]


def _queue(path: str, major: int) -> str:
    """Return the name of the queue that ``path`` reaches; an address of 4.x has it encoded."""
    address = f"/{path.removeprefix('/')}"
    if major < 4 or not address.startswith(_QUEUES):
        return path
    return unquote(address.removeprefix(_QUEUES))


def _queue_type(major: int) -> str | None:
    """Return the type of the launcher's queue that the environment names, or None.

    Raises:
        UsageError: there is no such type.
    """
    name = os.environ.get(_QUEUE_TYPE)
    if name and (major < 4 or name not in _QUEUE_TYPES):
        kinds = f"{', '.join(_QUEUE_TYPES[:-1])} or {_QUEUE_TYPES[-1]}"
        raise UsageError(f"{_QUEUE_TYPE} is {kinds}, for RabbitMQ 4: not {name!r} for {major}")
    return name or None


def _hash(password: str) -> str:
    """Return the password as RabbitMQ keeps it: salt, and SHA-256 of salt and password."""
    salt = secrets.token_bytes(4)
    return base64.b64encode(salt + hashlib.sha256(salt + password.encode()).digest()).decode()


BROKER = RabbitMQ()

if __name__ == "__main__":
    sys.exit(BROKER.main())
