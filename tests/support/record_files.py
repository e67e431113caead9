"""Files of records made by a generator: faults of delivery included, and always the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

START = {"ms": 1_700_000_000_000, "us": 1_700_000_000_000_000, "ns": 1_700_000_000_000_000_000}
SETTLED_EVERY = 256


class Traffic:
    """The messages of one run: ``count`` sends at ``rate`` per second, and their receipts.

    Some are lost, duplicated, foreign, reordered, and some arrive before they are sent.
    """

    def __init__(self, seed: int, count: int, rate: int = 50_000, unit: str = "ms") -> None:
        random = np.random.default_rng(seed)
        ticks = START[unit] // START["ms"] * 1000
        self.unit = unit
        self.ids = np.arange(1, count + 1)
        self.sent = START[unit] + self.ids * ticks // rate
        arriving = random.random(count) > 0.001
        twice = random.random(count) < 0.0005
        places = np.sort(np.concatenate((np.flatnonzero(arriving), np.flatnonzero(twice))))
        late = places + np.where(random.random(len(places)) < 0.002, 40, 0)
        places = places[np.argsort(late, kind="stable")]
        delay = random.geometric(0.4, len(places)) * max(1, ticks // 1000) - ticks // 1000
        delay[random.random(len(places)) < 0.0003] = -3
        self.received_ids = self.ids[places]
        self.stamps = self.sent[places]
        self.received = self.stamps + delay
        self._add_foreign(ticks)
        self.settle = self.sent + random.integers(1, ticks // 100, count)

    def _add_foreign(self, ticks: int) -> None:
        """Put two messages of an earlier run before the first."""
        self.received_ids = np.concatenate(([7, 10**12], self.received_ids))
        self.stamps = np.concatenate(([self.sent[0] - ticks] * 2, self.stamps))
        self.received = np.concatenate(([self.sent[0]] * 2, self.received))


def write_pair(folder: Path, traffic: Traffic, record_format: str) -> None:
    """Write both ends' records of ``traffic`` into ``folder``."""
    folder.mkdir(parents=True)
    write(folder / "sender-transfers.csv", sender_lines(traffic, record_format))
    write(folder / "receiver-transfers.csv", receiver_lines(traffic, record_format))


def write(path: Path, lines: list[str]) -> None:
    path.write_text("".join(lines))


def append(path: Path, text: str) -> None:
    """Append to a file, or make it, in one step for readers."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name("beside")
    beside.write_text((path.read_text() if path.exists() else "") + text)
    beside.replace(path)


def sender_lines(traffic: Traffic, record_format: str) -> list[str]:
    if record_format == "v3":
        return [f"{sent},0\n" for sent in traffic.sent]
    lines = [f"{id_},{sent}\n" for id_, sent in zip(traffic.ids, traffic.sent, strict=True)]
    if record_format == "v1":
        return lines
    return _with_settlements(lines, traffic.ids, traffic.settle)


def _with_settlements(
    lines: list[str], ids: NDArray[np.int64], times: NDArray[np.int64]
) -> list[str]:
    """Settle each message some lines after it was sent; never settle a few."""
    out: list[str] = []
    window = 100
    for place in range(len(lines) + window):
        if place < len(lines):
            out.append(lines[place])
        settled = place - window
        if settled >= 0 and settled % 1000 != 999:
            prefix = "S" if settled % SETTLED_EVERY == 0 else "s"
            out.append(f"{prefix}{ids[settled]},{times[settled]}\n")
    return out


def receiver_lines(traffic: Traffic, record_format: str) -> list[str]:
    times = zip(traffic.stamps, traffic.received, strict=True)
    if record_format == "v3":
        return [f"{sent},{received}\n" for sent, received in times]
    return [
        f"{id_},{sent},{received}\n"
        for id_, (sent, received) in zip(traffic.received_ids, times, strict=True)
    ]


def streamed(traffic: Traffic, message: int) -> list[str]:
    """Return the lines of an arrow in streaming mode; the last is of an earlier run.

    Args:
        traffic: the run.
        message: the message of the other lines.
    """
    sent, old = int(traffic.sent[message]), int(traffic.sent[0]) - 5
    kinds = [("B", sent, 4, 7, 7), ("F", sent, 4, 85, 70), ("F", sent, -1, 72, 1)]
    return [
        f"{kind},{time},{sent + first},{sent + end},{size}\n"
        for kind, time, first, end, size in [*kinds, ("F", old, 2, 9, 1000)]
    ]


def with_streams(lines: list[str], traffic: Traffic, apart: int = 0) -> list[str]:
    """Put lines of streaming mode among records, one after every hundred.

    Args:
        lines: the records.
        traffic: the run.
        apart: number of messages between the messages of two neighbouring lines.
    """
    found, last = [], len(traffic.sent) - 1
    for number, start in enumerate(range(0, len(lines), 100)):
        extra = streamed(traffic, min(3 + number * apart, last))
        found += [*lines[start : start + 100], extra[number % len(extra)]]
    return found
