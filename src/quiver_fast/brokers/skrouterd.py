"""`quiver-server-skrouterd`: the Skupper router, alone, with one listener."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

from quiver_fast.brokers.launcher import Broker, Daemon, refuse
from quiver_fast.server.config import ServerConfig

_PROGRAM = "skrouterd"


class Skrouterd(Broker):
    """The router as a standalone one: it hands messages over and keeps none."""

    name = "skrouterd"
    product = "Skupper router (skrouterd)"

    def unavailable(self) -> str | None:
        """Return why it cannot be started here, or None."""
        return None if shutil.which(_PROGRAM) else "skrouterd is not on the PATH"

    def home(self) -> Path:
        """Return the router's program."""
        return Path(shutil.which(_PROGRAM) or _PROGRAM)

    def prepare(self, config: ServerConfig, directory: Path) -> list[Daemon]:
        """Write the router's configuration; see :meth:`Broker.prepare`."""
        # It takes passwords only from a Cyrus SASL database, which is the system's.
        refuse(config, self.product, "user")
        file = directory / "skrouterd.json"
        file.write_text(json.dumps(_entities(config), indent=1))
        return [Daemon(self.name, [str(self.home()), "--conf", str(file)])]


def _entities(config: ServerConfig) -> list[tuple[str, dict[str, Any]]]:
    """Return the configuration's entities, as the router's JSON form has them."""
    listener: dict[str, Any] = {
        "name": "clients",
        "host": config.host,
        "port": str(config.port),
        "role": "normal",
        "saslMechanisms": "EXTERNAL" if config.trust_store else "ANONYMOUS",
        "authenticatePeer": config.trust_store is not None,
        # The window of a session. With the default one, the router ends the connection of a peer
        # that sends 1 MB: "connection delivery buffer limit exceeded".
        "maxSessionFrames": 128,
    }
    entities: list[tuple[str, dict[str, Any]]] = [
        ("router", {"mode": "standalone", "id": f"quiver-{config.port}"}),
        ("address", {"prefix": config.addresses[0], "distribution": "balanced"}),
        ("log", {"module": "DEFAULT", "enable": "warning+"}),
    ]
    if config.scheme == "amqps":
        listener |= {"sslProfile": "server", "requireSsl": True}
        profile = {"name": "server", "certFile": config.cert, "privateKeyFile": config.key}
        if config.trust_store is not None:
            profile["caCertFile"] = config.trust_store
        entities.append(("sslProfile", profile))
    return [*entities, ("listener", listener)]


BROKER = Skrouterd()

if __name__ == "__main__":
    sys.exit(BROKER.main())
