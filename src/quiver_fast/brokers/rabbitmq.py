"""`quiver-server-rabbitmq`: a RabbitMQ node of the run's own, 3.x or 4.x."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import secrets
import shutil
import sys
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from quiver_fast.brokers.debian_root import DebianRoot, cached_root
from quiver_fast.brokers.launcher import Broker, Daemon
from quiver_fast.errors import QuiverError
from quiver_fast.server.config import ServerConfig
from quiver_fast.sockets import free_port

_PACKAGED = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
"""Debian's script. The one on the PATH changes user and directory."""

_ROOT = "RABBITMQ_ROOT"

_GUEST = "guest"
"""RabbitMQ's user for clients without a name, and its password."""

_QUEUES = "/queues/"
"""The beginning of an AMQP 1.0 address of a queue, since 4.0."""


class RabbitMQ(Broker):
    """A node with one vhost, one user, one queue, and one listener."""

    name = "rabbitmq"
    product = "RabbitMQ"

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
        return Path(home) / "sbin" / "rabbitmq-server" if home else _PACKAGED

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

    def prepare(self, config: ServerConfig, directory: Path) -> list[Daemon]:
        """Write the node's files; see :meth:`Broker.prepare`."""
        major = major_version(self.home())
        for name in ("mnesia", "log", "home"):
            (directory / name).mkdir()
        # From 4.0 on, AMQP 1.0 is the broker's own.
        plugins = "rabbitmq_amqp1_0" if major < 4 else ""
        (directory / "enabled_plugins").write_text(f"[{plugins}].\n")
        (directory / "rabbitmq.conf").write_text("")
        definitions = directory / "definitions.json"
        definitions.write_text(json.dumps(_definitions(config, major)))
        (directory / "advanced.config").write_text(_configuration(config, definitions, major))
        environment = _environment(config, directory)
        root = self.root()
        server = str(self.home() if root is None else _PACKAGED)
        # The node would start a port mapper as a daemon that outlives it: start one before.
        commands = {"epmd": ["epmd"], "rabbitmq": [server]}
        return [
            Daemon(name, command if root is None else root.command(command), environment)
            for name, command in commands.items()
        ]


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


def _definitions(config: ServerConfig, major: int) -> dict[str, Any]:
    """Return the node's users and queues; with these it makes none of its own."""
    user, password = config.user or _GUEST, config.password or _GUEST
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    # The plugin of 3.x makes a transient queue for a link whose terminus is not durable,
    # and refuses another. 4.x has transient queues only where they are enabled.
    queue = {"durable": major >= 4, "auto_delete": False, "arguments": {}}
    return {
        "vhosts": [{"name": "/"}],
        "users": [{
            "name": user, "tags": "administrator", "password_hash": _hash(password),
            "hashing_algorithm": "rabbit_password_hashing_sha256",
        }],
        "permissions": [{"user": user, "vhost": "/", **everything}],
        "queues": [{"name": _queue(config.addresses[0], major), "vhost": "/", **queue}],
    }  # fmt: skip


def _queue(path: str, major: int) -> str:
    """Return the name of the queue that ``path`` reaches; an address of 4.x has it encoded."""
    address = f"/{path.removeprefix('/')}"
    if major < 4 or not address.startswith(_QUEUES):
        return path
    return unquote(address.removeprefix(_QUEUES))


def _hash(password: str) -> str:
    """Return the password as RabbitMQ keeps it: salt, and SHA-256 of salt and password."""
    salt = secrets.token_bytes(4)
    return base64.b64encode(salt + hashlib.sha256(salt + password.encode()).digest()).decode()


def _configuration(config: ServerConfig, definitions: Path, major: int) -> str:
    """Return the node's settings as Erlang terms."""
    where = f"[{{{_text(config.host)}, {config.port}}}]"
    listeners = ("[]", where) if config.scheme == "amqps" else (where, "[]")
    anonymous, applications = _anonymous(config, major)
    return (
        "[{rabbit, ["
        f"{{tcp_listeners, {listeners[0]}}}, {{ssl_listeners, {listeners[1]}}}, "
        f"{{ssl_options, [{_tls(config)}]}}, "
        f"{{load_definitions, {_text(str(definitions))}}}, {anonymous}"
        # So that little free memory or disk does not stop producers.
        "{vm_memory_high_watermark, 0.8}, {disk_free_limit, 1000000}"
        f"]}}{applications}].\n"
    )


def _anonymous(config: ServerConfig, major: int) -> tuple[str, str]:
    """Return the user of clients without a name: settings of the node, and of its plugin.

    With a configured user, such clients are refused.
    """
    if major < 4:
        name = "none" if config.user else _text(_GUEST)
        return "", f", {{rabbitmq_amqp1_0, [{{default_user, {name}}}]}}"
    if config.user:
        # ANONYMOUS would be refused as well, but only after it has been offered.
        return "{auth_mechanisms, ['PLAIN']}, {anonymous_login_user, none}, ", ""
    return (
        "{auth_mechanisms, ['PLAIN', 'ANONYMOUS']}, "
        f'{{anonymous_login_user, <<"{_GUEST}">>}}, {{anonymous_login_pass, <<"{_GUEST}">>}}, '
    ), ""


def _tls(config: ServerConfig) -> str:
    files = {"certfile": config.cert, "keyfile": config.key, "cacertfile": config.trust_store}
    options = [f"{{{key}, {_text(file)}}}" for key, file in files.items() if file is not None]
    if config.trust_store is not None:
        options += ["{verify, verify_peer}", "{fail_if_no_peer_cert, true}"]
    return ", ".join(options)


def _text(text: str) -> str:
    """Return an Erlang string: any characters, as the list of their code points."""
    return f"[{','.join(str(ord(character)) for character in text)}]"


def _environment(config: ServerConfig, directory: Path) -> dict[str, str]:
    return {
        "HOME": str(directory / "home"),  # The cookie is made there.
        "RABBITMQ_NODENAME": f"quiver-fast-{config.port}@localhost",
        "RABBITMQ_CONFIG_FILE": str(directory / "rabbitmq.conf"),
        "RABBITMQ_ADVANCED_CONFIG_FILE": str(directory / "advanced.config"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(directory / "enabled_plugins"),
        "RABBITMQ_MNESIA_BASE": str(directory / "mnesia"),
        "RABBITMQ_LOG_BASE": str(directory / "log"),
        "RABBITMQ_CONF_ENV_FILE": os.devnull,
        "RABBITMQ_DIST_PORT": str(free_port()),
        "ERL_EPMD_PORT": str(free_port()),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "LC_ALL": "C.UTF-8",
        # Makes the script become the node, and not its parent: one process to end.
        "RUNNING_UNDER_SYSTEMD": "1",
    }


BROKER = RabbitMQ()

if __name__ == "__main__":
    sys.exit(BROKER.main())
