"""Arrows as processes: ours and those of other engines, alone and in pairs."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from support.processes import END_SECONDS, REPOSITORY, Finished, Running, free_port, run

INTEROP = REPOSITORY / "tests" / "interop"

COMMANDS: Mapping[str, tuple[str, ...]] = {
    "pyfast": (sys.executable, "-m", "quiver_fast.arrow.main"),
    # The executable that other projects' wrappers start.
    "impl": (sys.executable, str(REPOSITORY / "impls" / "quiver-arrow-pyfast")),
    "proton": (sys.executable, str(INTEROP / "peers" / "proton_arrow.py")),
    "rhea": (shutil.which("node") or "node", str(INTEROP / "peers" / "rhea_arrow.js")),
}

# How long a server may wait for another peer when its own has failed.
GRACE_SECONDS = 3.0

OPPOSITE = {"send": "receive", "receive": "send", "active": "passive", "passive": "active"}


def arguments(operation: str, port: int | str, **changes: object) -> list[str]:
    """Return the key=value arguments of contract v3.

    Args:
        operation: `send` or `receive`.
        port: Port to connect to or listen on.
        changes: Keys to change or add, with `_` for `-`; None leaves a key out.
    """
    keys: dict[str, object] = {
        "connection-mode": "client",
        "channel-mode": "active",
        "operation": operation,
        "id": f"test-{operation}",
        "host": "127.0.0.1",
        "port": port,
        "path": "queue0",
        "duration": 0,
        "count": 100,
        "rate": 0,
        "body-size": 100,
        "credit-window": 50,
        "transaction-size": 0,
        "durable": 0,
        "set-message-id": 0,
    }
    keys.update({name.replace("_", "-"): value for name, value in changes.items()})
    return [f"{key}={value}" for key, value in keys.items() if value is not None]


def arguments_v2(operation: str, port: int | str, **changes: object) -> list[str]:
    """Return the key=value arguments of contract v2, which has `settlement` instead."""
    changes = {"settlement": 0, **changes}
    return arguments(operation, port, rate=None, set_message_id=None, **changes)


def pyfast(*words: str) -> list[str]:
    """Return the command line of our arrow."""
    return [*COMMANDS["pyfast"], *words]


def run_pyfast(*words: str, timeout: float = END_SECONDS, **options: object) -> Finished:
    """Run our arrow to its end."""
    return run(pyfast(*words), timeout, **options)


def run_at(peer: AbstractContextManager[Any], operation: str, **changes: object) -> Finished:
    """Run our arrow at a peer, which has a port, to its end; a fault of the peer is raised."""
    with peer as met:
        return run_pyfast(*arguments(operation, met.port, **changes))


@dataclass(frozen=True)
class Pair:
    """How both ends of one run ended."""

    sender: Finished
    receiver: Finished

    def check(self, count: int) -> None:
        """Both succeed, say nothing on stderr, and record `count` transfers each."""
        for name, end in (("sender", self.sender), ("receiver", self.receiver)):
            assert (end.code, end.stderr) == (0, ""), f"{name}: {end}"
        transfers = [line for line in self.sender.lines if line[0] not in "Ss"]
        assert len(transfers) == count
        assert len(self.receiver.lines) == count


def run_pair(
    sender: str,
    receiver: str,
    *,
    server: str = "receive",
    active: str = "client",
    timeout: float = END_SECONDS,
    contract: Callable[..., list[str]] = arguments,
    sender_options: Mapping[str, object] | None = None,
    receiver_options: Mapping[str, object] | None = None,
    **both: object,
) -> Pair:
    """Run two arrows against each other over loopback.

    Args:
        sender: Name in COMMANDS of the sending arrow.
        receiver: Name in COMMANDS of the receiving arrow.
        server: The operation that listens, `send` or `receive`.
        active: Which end opens session and link, `client` or `server`.
        timeout: Seconds for each end.
        contract: Function that makes the arguments.
        sender_options: Keys for the sender only.
        receiver_options: Keys for the receiver only.
        both: Keys for both.
    """
    port = free_port()
    own = {"send": dict(sender_options or {}), "receive": dict(receiver_options or {})}
    names = {"send": sender, "receive": receiver}

    def command(operation: str, mode: str) -> list[str]:
        keys = {
            **both,
            **own[operation],
            "connection_mode": mode,
            "channel_mode": "active" if active == mode else "passive",
        }
        return [*COMMANDS[names[operation]], *contract(operation, port, **keys)]

    client = OPPOSITE[server]
    with Running(command(server, "server")) as listening:
        listening.wait_until_listening(port)
        with Running(command(client, "client")) as connecting:
            ends = {client: connecting.wait(timeout)}
            try:
                ends[server] = listening.wait(timeout if ends[client].code == 0 else GRACE_SECONDS)
            except AssertionError as hang:
                raise AssertionError(f"{hang}\nthe client: {ends[client]}") from None
    return Pair(sender=ends["send"], receiver=ends["receive"])
