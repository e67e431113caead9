"""`quiver-server-activemq-classic`: an ActiveMQ Classic broker with one AMQP connector."""

from __future__ import annotations

import os
import secrets
import sys
from pathlib import Path
from typing import Any

from quiver_fast.brokers import java
from quiver_fast.server.config import ServerConfig

_MEMORY = "-Xms64M -Xmx1G"
"""The memory options of the broker's own script; ACTIVEMQ_OPTS_MEMORY overrides them."""


class Classic(java.JavaBroker):
    """A broker with one connector and one queue; others come into being on demand."""

    name = "activemq-classic"
    product = "ActiveMQ Classic"
    variable = "ACTIVEMQ_HOME"
    folder = "apache-activemq-5.17.6"
    program = "bin/activemq.jar"
    subfolders = ("conf",)
    templates = "activemq-classic"

    def values(self, config: ServerConfig, directory: Path) -> dict[str, Any]:
        """Write the stores that Java reads."""
        conf, password = directory / "conf", secrets.token_hex(16)
        key_store, trust_store = conf / "server.p12", conf / "trust.p12"
        if config.scheme == "amqps":
            java.pkcs12(config, key_store, password)
        if config.trust_store is not None:
            java.trusted_pkcs12(config, trust_store, password)
        return super().values(config, directory) | {
            "conf": conf,
            "key_store": key_store,
            "trust_store": trust_store,
            "store_password": password,
            "memory_options": os.environ.get("ACTIVEMQ_OPTS_MEMORY", _MEMORY).split(),
        }


BROKER = Classic()

if __name__ == "__main__":
    sys.exit(BROKER.main())
