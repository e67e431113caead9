"""The records of a run of many ends, made up: some messages are lost, doubled or disturbed."""

from __future__ import annotations

import json
import random
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from quiver_fast.analysis.figures.run_data import RunData
from quiver_fast.analysis.read.discovery import find_runs
from quiver_fast.analysis.read.sources import load_run
from support.summaries import config

START = 1_700_000_000_000_000
FIRST_IDS = 10**13


class Receipt(NamedTuple):
    """One line of a receiver."""

    id: int
    sent: int
    received: int


class Ends:
    """The records of some senders and receivers of one queue; some messages are lost or doubled.

    ``fan_out``: each receiver gets a copy of each message, of which some are lost or doubled.
    """

    def __init__(
        self, seed: int, senders: int, receivers: int, messages: int = 700, *, fan_out: bool = False
    ) -> None:
        chance = random.Random(seed)
        self.fan_out = fan_out
        self.sent = [
            [(number * FIRST_IDS + 1 + i, START + 40 * i + number) for i in range(messages)]
            for number in range(senders)
        ]
        self.settled = [
            [(key, time + chance.randrange(1, 900)) for key, time in sends] for sends in self.sent
        ]
        self.received: list[list[Receipt]] = [[] for _ in range(receivers)]
        for key, time in sorted(chain.from_iterable(self.sent), key=lambda send: send[1]):
            for copy in self.received if fan_out else [None]:
                if chance.random() < 0.02:
                    continue
                for _ in range(2 if chance.random() < 0.02 else 1):
                    receipt = Receipt(key, time, time + chance.randrange(-200, 5000))
                    one = self.received[chance.randrange(receivers)] if copy is None else copy
                    one.append(receipt)
        for lines in self.received:
            if len(lines) > 1:
                self._disturb(lines, chance)

    @staticmethod
    def _disturb(lines: list[Receipt], chance: random.Random) -> None:
        for _ in range(20):
            place = chance.randrange(len(lines) - 1)
            lines[place], lines[place + 1] = lines[place + 1], lines[place]

    def sender_text(self, number: int, ids: bool = True) -> str:
        if not ids:
            return "".join(f"{time},0\n" for _, time in self.sent[number])
        lines = [f"{key},{time}\n" for key, time in self.sent[number]]
        settled = [f"s{key},{time}\n" for key, time in self.settled[number]]
        settled[0] = "S" + settled[0][1:]
        return "".join(lines + settled)

    def receiver_text(self, number: int, ids: bool = True) -> str:
        return "".join(
            f"{one.id},{one.sent},{one.received}\n" if ids else f"{one.sent},{one.received}\n"
            for one in self.received[number]
        )

    def write(self, folder: Path, ids: bool = True) -> RunData:
        folder.mkdir()
        for number in range(len(self.sent)):
            (folder / f"sender.{number}-transfers.csv").write_text(self.sender_text(number, ids))
        for number in range(len(self.received)):
            text = self.receiver_text(number, ids)
            (folder / f"receiver.{number}-transfers.csv").write_text(text)
        return loaded(folder)

    def write_processes(
        self, folder: Path, senders: int, receivers: int, *, ids: bool = True, told: bool = True,
        queues: int = 1,
    ) -> RunData:  # fmt: skip
        """Write the records of processes with so many senders, or receivers, each.

        ``told``: the records name the end of each line.
        """
        folder.mkdir()
        for role, made, text, members in (
            ("sender", self.sent, self.sender_text, senders),
            ("receiver", self.received, self.receiver_text, receivers),
        ):
            for number, first in enumerate(range(0, len(made), members)):
                of_process = range(first, min(first + members, len(made)))
                lines = [text(end, ids).splitlines(keepends=True) for end in of_process]
                if told and len(lines) > 1:
                    lines = [
                        [f"@{end}\n{line}" for line in of_end]
                        for end, of_end in zip(of_process, lines, strict=True)
                    ]
                # In turns, as ends of one process record.
                mixed = "".join(line for row in zip_longest(*lines, fillvalue="") for line in row)
                (folder / f"{role}.{number}-transfers.csv").write_text(mixed)
                document = self._summary(
                    number, of_process, [len(made[end]) for end in of_process], queues
                )
                (folder / f"{role}.{number}-summary.json").write_text(json.dumps(document))
        return loaded(folder)

    def _summary(
        self, number: int, of_process: range, counts: list[int], queues: int
    ) -> dict[str, Any]:
        """Return the summary of a process with several ends; no queue was read to its end."""
        ends = {
            "number": number, "queue": 0, "queues": queues, "senders": len(self.sent),
            "receivers": len(self.received), "first": of_process.start, "members": len(of_process),
            "url": "//localhost/q", "path": "q", "count": 0, "rate": 0, "rate_steps": None,
        } | ({"fan_out": True} if self.fan_out else {})  # fmt: skip
        return {
            "config": config(credit_window=10, duration=60) | {"ends": ends},
            "complete": False,
            "reason": None,
            "exit_code": 0,
            "arrow": {"drained_at": None, "ends": {"first": of_process.start, "counts": counts}},
        }

    def write_as_one(self, folder: Path, ids: bool = True) -> RunData:
        """Write a pair whose files are all records of each side, one end after another."""
        folder.mkdir()
        texts = [self.sender_text(number, ids) for number in range(len(self.sent))]
        (folder / "sender-transfers.csv").write_text("".join(texts))
        texts = [self.receiver_text(number, ids) for number in range(len(self.received))]
        (folder / "receiver-transfers.csv").write_text("".join(texts))
        return loaded(folder)


def loaded(folder: Path) -> RunData:
    (run,) = find_runs([str(folder)])
    return load_run(run, lambda _done, _total: None)
