"""`quiver-server-activemq-artemis`: an ActiveMQ Artemis broker made on the fly."""

from __future__ import annotations

import re
import secrets
import shutil
import subprocess
import sys
from pathlib import Path
from xml.sax.saxutils import escape

from quiver_fast.brokers import java
from quiver_fast.brokers.launcher import START_SECONDS, Daemon
from quiver_fast.errors import QuiverError, UsageError
from quiver_fast.server.config import ServerConfig

_ADMIN = "admin"
"""User name and password of a broker that needs none of its clients."""

_ENCODED = "ENC("
"""Artemis takes a password with this beginning for an encoded one."""

_QUEUES = (
    "<default-address-routing-type>ANYCAST</default-address-routing-type>"
    "<default-queue-routing-type>ANYCAST</default-queue-routing-type>"
)
_CATCH_ALL = '<address-setting match="#">'


class Artemis(java.JavaBroker):
    """A broker with one acceptor and one queue; others come into being on demand."""

    name = "activemq-artemis"
    product = "ActiveMQ Artemis"
    variable = "ARTEMIS_HOME"
    folder = "apache-artemis-2.40.0"
    program = "bin/artemis"

    def prepare(self, config: ServerConfig, directory: Path) -> list[Daemon]:
        """Create an instance; see :meth:`Broker.prepare`."""
        if (config.password or "").startswith(_ENCODED):
            raise UsageError(f"{self.product} takes no password that begins with {_ENCODED}")
        instance = directory / "broker"
        self._create(instance, config)
        etc = instance / "etc"
        user, password = config.user or _ADMIN, config.password or _ADMIN
        (etc / "artemis-users.properties").write_text(
            f"{_property(user)} = {_property(password)}\n"
        )
        (etc / "artemis-roles.properties").write_text(f"amq = {_property(user)}\n")
        file = etc / "broker.xml"
        file.write_text(
            _configuration(file.read_text(), _acceptor(config, etc), config.addresses[0])
        )
        return [Daemon("artemis", [str(instance / "bin" / "artemis"), "run"])]

    def _create(self, instance: Path, config: ServerConfig) -> None:
        access = "--require-login" if config.user else "--allow-anonymous"
        # The real password is written later: other users can read a command line.
        command = [
            str(self.file), "create", "--silent", "--user", _ADMIN,
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


def _configuration(text: str, acceptor: str, queue: str) -> str:
    """Return a created instance's broker.xml with our acceptor alone, and the queue."""
    name = escape(queue, {'"': "&quot;"})
    address = f'<address name="{name}"><anycast><queue name="{name}"/></anycast></address>'
    acceptors = f'<acceptors><acceptor name="clients">{escape(acceptor)}</acceptor></acceptors>'
    changes = [
        (r"<acceptors>.*</acceptors>", acceptors),
        (r"<addresses>", f"<addresses>{address}"),
        # An address that a sender names first becomes a queue, which keeps its messages.
        (re.escape(_CATCH_ALL), f"{_CATCH_ALL}{_QUEUES}"),
    ]
    for pattern, replacement in changes:
        parts = re.split(pattern, text, flags=re.DOTALL)
        if len(parts) != 2:
            raise QuiverError(f"this Artemis creates a broker.xml without {pattern}")
        text = replacement.join(parts)
    return text


def _acceptor(config: ServerConfig, etc: Path) -> str:
    """Return the acceptor's URL. CORE is the protocol of Artemis's own JMS client."""
    options = ["protocols=AMQP,CORE", "amqpCredits=1000", "amqpLowCredits=300"]
    if config.user is not None:
        # Without this option the broker offers ANONYMOUS, and refuses it afterwards.
        options.append("saslMechanisms=PLAIN")
    if config.scheme == "amqps":
        store = etc / "server.pem"
        java.pem_store(config, store)
        options += ["sslEnabled=true", f"keyStorePath={store}", "keyStoreType=PEM"]
    if config.trust_store is not None:
        trusted = etc / "trust.pem"
        shutil.copyfile(config.trust_store, trusted)
        options += [f"trustStorePath={trusted}", "trustStoreType=PEMCA", "needClientAuth=true"]
    return f"tcp://{config.host}:{config.port}?{';'.join(options)}"


def _property(text: str) -> str:
    """Return ``text`` as a key or a value of a Java properties file."""
    return "".join(f"\\u{unit:04x}" for unit in _utf16(text))


def _utf16(text: str) -> list[int]:
    data = text.encode("utf-16-be")
    return [int.from_bytes(data[i : i + 2], "big") for i in range(0, len(data), 2)]


BROKER = Artemis()

if __name__ == "__main__":
    sys.exit(BROKER.main())
