"""`quiver-server-rabbitmq`: a RabbitMQ node of the run's own, with the AMQP 1.0 plugin."""

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

from quiver_fast.brokers.launcher import Broker, Daemon, main
from quiver_fast.engine.sockets import free_port
from quiver_fast.server.config import ServerConfig

__all__ = ["BROKER", "RabbitMQ", "start"]

_PACKAGED = "/usr/lib/rabbitmq/bin/rabbitmq-server"
"""Debian's. Its script on the PATH is another, which changes user and directory."""

_GUEST = "guest"
"""Who clients without a name are, and the password of that user, as RabbitMQ has it."""


class RabbitMQ(Broker):
    """A node with one vhost, one user, one queue, and one listener."""

    name = "rabbitmq"
    product = "RabbitMQ with the plugin rabbitmq_amqp1_0"

    def unavailable(self) -> str | None:
        """Return why it cannot be started here, or None."""
        if not os.access(self.home(), os.X_OK):
            return f"RabbitMQ is not installed: no {self.home()} (RABBITMQ_HOME can say where)"
        if shutil.which("epmd") is None:
            return "Erlang's epmd is not on the PATH"
        return None

    def home(self) -> Path:
        """Return the server's script."""
        home = os.environ.get("RABBITMQ_HOME")
        return Path(home) / "sbin" / "rabbitmq-server" if home else Path(_PACKAGED)

    def prepare(self, config: ServerConfig, directory: Path) -> list[Daemon]:
        """Write the node's files; see :meth:`Broker.prepare`."""
        for name in ("mnesia", "log", "home"):
            (directory / name).mkdir()
        (directory / "enabled_plugins").write_text("[rabbitmq_amqp1_0].\n")
        (directory / "rabbitmq.conf").write_text("")
        definitions = directory / "definitions.json"
        definitions.write_text(json.dumps(_definitions(config)))
        (directory / "advanced.config").write_text(_configuration(config, definitions))
        environment = _environment(config, directory)
        # The node would start a port mapper as a daemon that outlives it: give it ours.
        return [
            Daemon("epmd", ["epmd"], environment),
            Daemon("rabbitmq", [str(self.home())], environment),
        ]


def _definitions(config: ServerConfig) -> dict[str, Any]:
    """Return the node's users and queues; with these it makes none of its own."""
    user, password = config.user or _GUEST, config.password or _GUEST
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    # As the plugin makes it for a link whose terminus is not durable; another would be refused.
    queue = {"durable": False, "auto_delete": False, "arguments": {}}
    return {
        "vhosts": [{"name": "/"}],
        "users": [{
            "name": user, "tags": "administrator", "password_hash": _hash(password),
            "hashing_algorithm": "rabbit_password_hashing_sha256",
        }],
        "permissions": [{"user": user, "vhost": "/", **everything}],
        "queues": [{"name": config.addresses[0], "vhost": "/", **queue}],
    }  # fmt: skip


def _hash(password: str) -> str:
    """Return the password as RabbitMQ keeps it: salt, and SHA-256 of salt and password."""
    salt = secrets.token_bytes(4)
    return base64.b64encode(salt + hashlib.sha256(salt + password.encode()).digest()).decode()


def _configuration(config: ServerConfig, definitions: Path) -> str:
    """Return the node's settings as Erlang terms."""
    where = f"[{{{_text(config.host)}, {config.port}}}]"
    listeners = ("[]", where) if config.scheme == "amqps" else (where, "[]")
    # With a user, clients without a name are nobody.
    anonymous = "none" if config.user else _text(_GUEST)
    return (
        "[{rabbit, ["
        f"{{tcp_listeners, {listeners[0]}}}, {{ssl_listeners, {listeners[1]}}}, "
        f"{{ssl_options, [{_tls(config)}]}}, "
        f"{{load_definitions, {_text(str(definitions))}}}, "
        # A busy machine's little free memory or disk is not what is measured.
        "{vm_memory_high_watermark, 0.8}, {disk_free_limit, 1000000}"
        f"]}}, {{rabbitmq_amqp1_0, [{{default_user, {anonymous}}}]}}].\n"
    )


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


def start(words: list[str]) -> int:
    """Launch the broker as ``words`` say; return the exit code."""
    return main(BROKER, words)


if __name__ == "__main__":
    sys.exit(start(sys.argv[1:]))
