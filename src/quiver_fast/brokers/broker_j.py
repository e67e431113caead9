"""`quiver-server-qpid-broker-j`: an Apache Qpid Broker-J that keeps all in memory."""

from __future__ import annotations

import json
import os
import secrets
import sys
from pathlib import Path
from typing import Any

from quiver_fast.brokers import java
from quiver_fast.brokers.launcher import Daemon
from quiver_fast.server.config import ServerConfig

_MODEL = "9.0"
"""The version of the broker's configuration that this one is written for."""

_NO_DERBY_LOG = "-Dderby.stream.error.file=/dev/null"
"""An unused store of the broker would leave a log in the current directory."""


class BrokerJ(java.JavaBroker):
    """A broker with one port and a virtual host in memory that makes queues on demand."""

    name = "qpid-broker-j"
    product = "Apache Qpid Broker-J"
    variable = "QPID_BROKER_J_HOME"
    folder = "qpid-broker-j-9.2.0"
    program = "bin/qpid-server"

    def prepare(self, config: ServerConfig, directory: Path) -> list[Daemon]:
        """Write the broker's configuration; see :meth:`Broker.prepare`."""
        file = directory / "config.json"
        file.write_text(json.dumps(_configuration(config, directory), indent=1))
        command = [
            str(self.file), "-st", "Memory", "-icp", str(file),
            # A certificate that cannot be used ends it, instead of a broker without a port.
            "-prop", "broker.failStartupWithErroredChild=true",
        ]  # fmt: skip
        environment = {
            "QPID_HOME": str(self.home()),
            "QPID_WORK": str(directory),
            "QPID_OPTS": f"{os.environ.get('QPID_OPTS', '')} {_NO_DERBY_LOG}",
        }
        return [Daemon("qpid", command, environment)]


def _configuration(config: ServerConfig, directory: Path) -> dict[str, Any]:
    return {
        "name": f"quiver-fast-{config.port}",
        "modelVersion": _MODEL,
        "authenticationproviders": [_authentication(config)],
        **_stores(config, directory),
        "brokerloggers": [{
            "name": "console", "type": "Console", "consoleStreamTarget": "STDERR",
            "brokerloginclusionrules": [
                {"name": "all", "type": "NameAndLevel", "loggerName": "ROOT", "level": "WARN"}
            ],
        }],
        "ports": [_port(config)],
        "virtualhostnodes": [{
            "name": "default", "type": "Memory", "defaultVirtualHostNode": True,
            "virtualHostInitialConfiguration": json.dumps(_host(config)),
        }],
    }  # fmt: skip


def _authentication(config: ServerConfig) -> dict[str, Any]:
    if config.user is None:
        return {"name": "users", "type": "Anonymous"}
    user = {"name": config.user, "type": "managed", "password": config.password}
    return {
        "name": "users", "type": "Plain", "users": [user],
        # PLAIN is otherwise for TLS alone.
        "secureOnlyMechanisms": [],
        # This broker reads names and passwords of these in ASCII, and ours may be any text.
        "disabledMechanisms": ["CRAM-MD5", "CRAM-MD5-HEX", "SCRAM-SHA-1", "SCRAM-SHA-256"],
    }  # fmt: skip


def _port(config: ServerConfig) -> dict[str, Any]:
    port: dict[str, Any] = {
        "name": "clients",
        "type": "AMQP",
        "port": config.port,
        "bindingAddress": config.host,
        "authenticationProvider": "users",
        "protocols": ["AMQP_1_0"],
        "transports": ["SSL" if config.scheme == "amqps" else "TCP"],
        "virtualhostaliases": [
            # A client's open names the host that it connects to, whichever that is.
            {
                "name": "every",
                "type": "patternMatchingAlias",
                "pattern": ".*",
                "virtualHostNode": "default",
            }
        ],
    }
    if config.scheme == "amqps":
        port["keyStore"] = "server"
    if config.trust_store is not None:
        port |= {"trustStores": ["trusted"], "needClientAuth": True}
    return port


def _stores(config: ServerConfig, directory: Path) -> dict[str, Any]:
    """Return the entities that hold certificates.

    The broker reads no keys in PEM but those of RSA.
    """
    stores: dict[str, Any] = {}
    if config.scheme == "amqps":
        store, password = directory / "server.p12", secrets.token_hex(16)
        java.pkcs12(config, store, password)
        stores["keystores"] = [{
            "name": "server", "type": "FileKeyStore", "storeUrl": str(store),
            "keyStoreType": "PKCS12", "password": password,
        }]  # fmt: skip
    if config.trust_store is not None:
        file = os.path.abspath(config.trust_store)
        stores["truststores"] = [
            {"name": "trusted", "type": "NonJavaTrustStore", "certificatesUrl": file}
        ]
    return stores


def _host(config: ServerConfig) -> dict[str, Any]:
    automatic = {
        "pattern": ".*", "nodeType": "queue", "createdOnPublish": True, "createdOnConsume": True,
        "attributes": {},
    }  # fmt: skip
    return {
        "type": "Memory",
        "nodeAutoCreationPolicies": [automatic],
        "queues": [{"name": config.addresses[0], "type": "standard"}],
    }


BROKER = BrokerJ()

if __name__ == "__main__":
    sys.exit(BROKER.main())
