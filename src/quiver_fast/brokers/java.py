"""Brokers in Java: their installation, and certificates in the forms that Java reads."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from quiver_fast.brokers.launcher import START_SECONDS, Broker, cached
from quiver_fast.errors import QuiverError
from quiver_fast.server.config import ServerConfig

_VARIABLE = "QUIVER_STORE_PASSWORD"
"""keytool reads the password from this variable: other users can read a command line."""

_CERTIFICATE = re.compile(
    rb"-----BEGIN (?:TRUSTED )?CERTIFICATE-----.*?-----END (?:TRUSTED )?CERTIFICATE-----\n?",
    re.DOTALL,
)


class JavaBroker(Broker):
    """A broker in Java.

    Attributes:
        variable: the environment variable that says where it is installed.
        folder: where the project's own tests install it, in the user's cache.
        program: the file below either that starts it.
    """

    variable: str
    folder: str
    program: str

    def home(self) -> Path:
        """See :meth:`Broker.home`."""
        return Path(os.environ.get(self.variable) or cached(self.folder)).absolute()

    def unavailable(self) -> str | None:
        """See :meth:`Broker.unavailable`."""
        if not (self.home() / self.program).is_file():
            return f"{self.product} is not in {self.home()} ({self.variable} can say where)"
        if shutil.which("java") is None:
            return f"{self.product} needs Java: java is not on the PATH"
        return None


def pkcs8_key(config: ServerConfig) -> bytes:
    """Return the server's key in PEM, in the one form that Java reads.

    Raises:
        QuiverError: it cannot be read, or there is no openssl.
    """
    command = ["openssl", "pkcs8", "-topk8", "-nocrypt", "-in", str(config.key)]
    return _run(command, f"key: {config.key}")


def pem_store(config: ServerConfig, file: Path) -> None:
    """Write the server's key and certificate to ``file``, in PEM.

    Raises:
        QuiverError: as :func:`pkcs8_key`, or the certificate cannot be read.
    """
    file.write_bytes(pkcs8_key(config) + _content(config.cert))


def pkcs12(config: ServerConfig, file: Path, password: str) -> None:
    """Write the server's certificate and key to ``file``, a key store that Java reads.

    Raises:
        QuiverError: they cannot be read, do not belong together, or there is no openssl.
    """
    command = [
        "openssl", "pkcs12", "-export", "-in", str(config.cert), "-inkey", str(config.key),
        "-out", str(file), "-passout", "stdin",
    ]  # fmt: skip
    _run(command, f"cert: {config.cert}, key: {config.key}", f"{password}\n".encode())


def trusted_pkcs12(config: ServerConfig, file: Path, password: str) -> None:
    """Write the certificates of the trust store to ``file``, in the form that Java trusts.

    Raises:
        QuiverError: there is none, one cannot be read, or there is no keytool.
    """
    found = _CERTIFICATE.findall(_content(config.trust_store))
    if not found:
        raise QuiverError(f"trust-store: {config.trust_store}: there is no certificate in PEM")
    # Java trusts a certificate in PKCS #12 only with an attribute that its own tool writes.
    for number, certificate in enumerate(found):
        command = [
            "keytool", "-importcert", "-noprompt", "-storetype", "PKCS12", "-keystore", str(file),
            "-storepass:env", _VARIABLE, "-alias", str(number),
        ]  # fmt: skip
        _run(command, f"trust-store: {config.trust_store}", certificate, {_VARIABLE: password})


def _content(file: str | None) -> bytes:
    try:
        return Path(str(file)).read_bytes()
    except OSError as error:
        raise QuiverError(f"scheme=amqps: {file}: {error.strerror}") from None


def _run(
    command: Sequence[str], name: str, text: bytes = b"", environment: dict[str, str] | None = None
) -> bytes:
    try:
        return subprocess.run(
            command, check=True, input=text, capture_output=True, timeout=START_SECONDS,
            env={**os.environ, **(environment or {})},
        ).stdout  # fmt: skip
    except FileNotFoundError as error:
        raise QuiverError(f"scheme=amqps: {error.filename} is not there") from None
    except subprocess.TimeoutExpired:
        raise QuiverError(f"{command[0]} took over {START_SECONDS:.0f} seconds") from None
    except subprocess.CalledProcessError as error:
        said = (error.stderr + error.stdout).decode(errors="replace").strip().splitlines()
        raise QuiverError(f"{name}: {said[0] if said else error}") from None
