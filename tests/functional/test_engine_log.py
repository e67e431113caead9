"""PN_LOG prints the engine's frames, and no password: neither a client's nor a server's."""

from __future__ import annotations

import base64
import sys
from pathlib import Path

import pytest
from support.certificates import Certificates
from support.processes import run
from support.server import running_server

PASSWORD = "open-sesame-3141"
USER = {"user": "alice", "password": PASSWORD}
RESPONSE = b"\0alice\0" + PASSWORD.encode()


def spellings() -> list[str]:
    """The password as a log may have it; dumps break lines, so a part of it does."""
    hexadecimal = " ".join(f"{byte:02x}" for byte in PASSWORD.encode())
    codes = [base64.b64encode(secret).decode() for secret in (PASSWORD.encode(), RESPONSE)]
    return [PASSWORD, "sesame", hexadecimal[:11], *codes]


@pytest.mark.parametrize("level", ["frame", "raw", "trace", "all"])
@pytest.mark.parametrize("scheme", ["amqp", "amqps"])
def test_no_log_shows_a_password(
    tmp_path: Path, certificates: Certificates, scheme: str, level: str
) -> None:
    environment = {"PN_LOG": level}
    keys = certificates.server.keys() if scheme == "amqps" else {}
    running = running_server(
        tmp_path, scheme=scheme, says=" ", environment=environment, sasl_mechanisms="PLAIN",
        **keys, **USER,
    )  # fmt: skip
    with running as server:
        ended = run(
            [
                sys.executable, "-m", "quiver_fast.cli.arrow.command", "send", "--count", "1",
                "--sasl-mechanisms", "PLAIN",
                *(["--trust-store", certificates.authority] if scheme == "amqps" else []),
                f"{scheme}://alice:{PASSWORD}@localhost:{server.port}/q",
            ],
            env=environment,
        )  # fmt: skip
        assert ended.code == 0, ended
        server_ended = server.end()
    for log in (ended.stderr, server_ended.stderr):
        for spelling in spellings():
            assert spelling not in log
        if level == "frame":
            assert "@sasl-init" in log
            assert "(not shown)" in log
            # Transfers are not the engine's: the arrow's data plane has them.
            assert "@attach" in log
