"""`quiver-server-activemq-artemis`: an ActiveMQ Artemis broker made on the fly."""

from __future__ import annotations

import re
import secrets
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from quiver_fast.brokers import java
from quiver_fast.brokers.launcher import START_SECONDS
from quiver_fast.errors import QuiverError, UsageError
from quiver_fast.server.config import ServerConfig

_ADMIN = "admin"
"""User name and password of a broker that needs none of its clients."""

_ENCODED = "ENC("
"""Artemis takes a password with this beginning for an encoded one."""


class Artemis(java.JavaBroker):
    """A broker with one acceptor and one queue; others come into being on demand."""

    name = "activemq-artemis"
    product = "ActiveMQ Artemis"
    variable = "ARTEMIS_HOME"
    folder = "apache-artemis-2.40.0"
    program = "bin/artemis"
    templates = "activemq-artemis"

    def values(self, config: ServerConfig, directory: Path) -> dict[str, Any]:
        """Create an instance, with the stores that it reads."""
        if (config.password or "").startswith(_ENCODED):
            raise UsageError(f"{self.product} takes no password that begins with {_ENCODED}")
        instance = directory / "broker"
        self._create(instance, config)
        etc = instance / "etc"
        key_store, trust_store = etc / "server.pem", etc / "trust.pem"
        if config.scheme == "amqps":
            java.pem_store(config, key_store)
        if config.trust_store is not None:
            shutil.copyfile(config.trust_store, trust_store)
        return super().values(config, directory) | {
            "changed": _changed,
            "created": (etc / "broker.xml").read_text(encoding="utf-8"),
            "key_store": key_store,
            "trust_store": trust_store,
        }

    def _create(self, instance: Path, config: ServerConfig) -> None:
        access = "--require-login" if config.user else "--allow-anonymous"
        # The real password is written later: other users can read a command line.
        command = [
            str(self.home() / self.program), "create", "--silent", "--user", _ADMIN,
            "--password", secrets.token_hex(16), access, "--no-autotune", "--nio", "--no-web",
            str(instance),
        ]  # fmt: skip
        try:
            subprocess.run(
                command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, timeout=START_SECONDS,
            )  # fmt: skip
        except subprocess.CalledProcessError as error:
            output = error.output.decode(errors="replace").strip().splitlines()
            raise QuiverError(f"artemis create: {output[-1] if output else error}") from None
        except subprocess.TimeoutExpired:
            raise QuiverError(f"artemis create took over {START_SECONDS:.0f} seconds") from None


def _changed(text: str, changes: dict[str, str]) -> str:
    """Return a file with other texts in place of the parts that some patterns match.

    Raises:
        QuiverError: a part is not there, or more than once.
    """
    for pattern, replacement in changes.items():
        parts = re.split(pattern, text, flags=re.DOTALL)
        if len(parts) != 2:
            raise QuiverError(f"this Artemis creates a broker.xml without {pattern}")
        text = replacement.join(parts)
    return text


BROKER = Artemis()

if __name__ == "__main__":
    sys.exit(BROKER.main())
