"""Streams of arrows: their records, and the memory of the arrows."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from support.arrows import arguments, pyfast
from support.processes import Finished, Running, free_port

ENDLESS = 10**15


@dataclass(frozen=True)
class Recorded:
    """The lines that an arrow printed in streaming mode.

    Attributes:
        transfers: the records.
        body_bytes: bytes of bodies.
        whole: messages whose body is complete.
        first_byte: (send time, time of the first byte) of each of them.
    """

    transfers: list[str]
    body_bytes: int
    whole: int
    first_byte: list[tuple[int, int]]

    @classmethod
    def by(cls, end: Finished) -> Recorded:
        """Read what an arrow printed."""
        streamed = [line.split(",") for line in end.lines if line[0] in "FB"]
        whole = [fields for fields in streamed if fields[0] == "F"]
        return cls(
            transfers=[line for line in end.lines if line[0] not in "FB"],
            body_bytes=sum(int(fields[4]) for fields in streamed),
            whole=len(whole),
            first_byte=[(int(fields[1]), int(fields[2])) for fields in whole],
        )


def rearm_peak(process: int) -> None:
    """Reset the kernel's peak of the resident memory."""
    Path(f"/proc/{process}/clear_refs").write_text("5")


def cpu_seconds(process: int) -> float:
    """Return how long a process has run, by its own clock."""
    return sum(psutil.Process(process).cpu_times()[:2])


def peak_bytes(process: int) -> int:
    """Return the peak of the resident memory since its reset."""
    status = dict(
        line.split(":", 1) for line in Path(f"/proc/{process}/status").read_text().splitlines()
    )
    return int(status["VmHWM"].split()[0]) * 1024


@contextlib.contextmanager
def running_pair(**both: object) -> Iterator[tuple[Running, Running]]:
    """Run a sender that connects to a receiver; yield both while they work."""
    port = free_port()
    listening = pyfast(
        *arguments("receive", port, connection_mode="server", channel_mode="passive", **both)
    )
    with Running(listening) as receiver:
        receiver.wait_until_listening(port)
        with Running(pyfast(*arguments("send", port, **both))) as sender:
            yield sender, receiver
