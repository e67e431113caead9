"""`quiver-server-qpid-broker-j`: an Apache Qpid Broker-J that keeps all in memory."""

from __future__ import annotations

import os
import secrets
import sys
from pathlib import Path
from typing import Any

from quiver_fast.brokers import java
from quiver_fast.server.config import ServerConfig


class BrokerJ(java.JavaBroker):
    """A broker with one port and a virtual host in memory that makes queues on demand."""

    name = "qpid-broker-j"
    product = "Apache Qpid Broker-J"
    variable = "QPID_BROKER_J_HOME"
    folder = "qpid-broker-j-9.2.0"
    program = "bin/qpid-server"
    templates = "qpid-broker-j"

    def values(self, config: ServerConfig, directory: Path) -> dict[str, Any]:
        """Write the key store: of keys in PEM, the broker reads those of RSA alone."""
        store, password = directory / "server.p12", secrets.token_hex(16)
        if config.scheme == "amqps":
            java.pkcs12(config, store, password)
        return super().values(config, directory) | {
            "key_store": store,
            "store_password": password,
            "trust_store": os.path.abspath(config.trust_store or ""),
            "options": os.environ.get("QPID_OPTS", ""),
        }


BROKER = BrokerJ()

if __name__ == "__main__":
    sys.exit(BROKER.main())
