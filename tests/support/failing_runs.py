"""Runs with failures of connections, made up: lines, summaries beside them, and a slow ledger."""

from __future__ import annotations

import json
import random
import statistics
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from support.ends_records import loaded
from support.summaries import config

START = 1_700_000_000 * 10**9
TICK = {"ms": 10**6, "us": 10**3, "ns": 1}
SECONDS = 6
TOGETHER = 10**8


class Line(NamedTuple):
    """One line of a process: ``receipt``s have both times, settlements only ``time``."""

    end: int
    kind: str
    id: int
    sent: int
    time: int


class FailingRun:
    """Some processes of senders and of receivers; each has ``members`` ends.

    Attributes:
        lines: of each sender and each receiver.
        failures: likewise, as the summaries have them.
    """

    def __init__(
        self, chance: random.Random, processes: int = 1, members: int = 1, *, unit: str = "ms",
        hashed: bool = False, messages: int = 80, late: float = 0.2,
    ) -> None:  # fmt: skip
        self.unit, self.members, self._hashed = unit, members, hashed
        self._chance = chance
        ends = processes * members
        self.lines = {role: [[] for _ in range(processes)] for role in ("sender", "receiver")}
        self.failures: dict[str, list[list[dict[str, Any]]]] = {
            role: [list(self._failures(role, process)) for process in range(processes)]
            for role in self.lines
        }
        for number in range(messages):
            self._message(number + 1, chance.randrange(ends), ends, late)
        for process in self.lines["sender"] + self.lines["receiver"]:
            process.sort(key=lambda line: line.time)

    def _time(self, first: int = 0) -> int:
        return self._chance.randrange(first, SECONDS * 10**9 // TICK[self.unit])

    def _message(self, number: int, end: int, ends: int, late: float) -> None:
        chance, sent = self._chance, self._time()
        if chance.random() < 0.95:
            self._add("sender", Line(end, "sent", number, sent, sent))
        for _ in range(chance.choices((0, 1, 2), (20, 78, 2))[0]):
            self._add("sender", Line(end, "settled", number, 0, self._time(sent)))
        for _ in range(chance.choices((0, 1, 2, 3, 4), (10, 50, 20, 10, 10))[0]):
            time = self._time(sent) if chance.random() < late else sent + chance.randrange(40)
            self._add("receiver", Line(chance.randrange(ends), "received", number, sent, time))

    def _add(self, role: str, line: Line) -> None:
        self.lines[role][line.end // self.members].append(line)

    def _failures(self, role: str, process: int) -> Iterator[dict[str, Any]]:
        chance = self._chance
        for _ in range(chance.choices((0, 1, 3), (2, 5, 3))[0]):
            lost = chance.randrange(SECONDS * 10**9)
            back = lost + chance.choice((10**5, 10**7, chance.randrange(2 * 10**9)))
            first = process * self.members + chance.randrange(self.members)
            ranges = [sorted((chance.randrange(1, 90), chance.randrange(1, 90)))]
            in_doubt = chance.choice(([], ranges)) if role == "sender" else []
            yield {
                "ends": [0, 0] if self.members == 1 else [first, first],
                "lost_at": START + lost,
                "back_at": None if chance.random() < 0.1 else START + back,
                "reason": chance.choice(("reset", "closed")),
                "attempts": chance.randrange(1, 9),
                "pause": chance.randrange(100) / 100,
                "place": None,
                "in_doubt": in_doubt,
                "resent": [] if self._hashed else in_doubt,
            }

    def _text(self, line: Line, chance: int) -> str:
        base = START // TICK[self.unit]
        name = f"m-{line.id}" if self._hashed and line.id % 3 == 0 else f"{line.id}"
        end = f"@{line.end}\n" if self.members > 1 else ""
        if line.kind == "sent":
            return f"{end}{name},{base + line.sent}\n"
        if line.kind == "settled":
            return f"{end}{'Ss'[chance]}{name},{base + line.time}\n"
        return f"{end}{name},{base + line.sent},{base + line.time}\n"

    def write(self, folder: Path, **outcome: Any) -> None:
        """Write its files; ``outcome`` changes the reports of the arrows."""
        folder.mkdir(exist_ok=True)
        alone = len(self.lines["sender"]) * self.members == 1
        for role, processes in self.lines.items():
            for number, lines in enumerate(processes):
                name = role if alone else f"{role}.{number}"
                texts = [self._text(line, self._chance.randrange(2)) for line in lines]
                (folder / f"{name}-transfers.csv").write_text("".join(texts))
                summary = self._summary(role, number, alone) | {
                    "failures": self.failures[role][number]
                }
                report = {"settled_at": None, "drained_at": None} | outcome
                (folder / f"{name}-summary.json").write_text(json.dumps(summary | {
                    "arrow": report | summary["arrow"]}))  # fmt: skip

    def _summary(self, role: str, number: int, alone: bool) -> dict[str, Any]:
        ends = {
            "number": number, "queue": 0, "queues": 1, "senders": len(self.lines["sender"]),
            "receivers": len(self.lines["receiver"]), "first": number * self.members,
            "members": self.members, "url": "//localhost/q", "path": "q", "count": 0, "rate": 0,
            "rate_steps": None,
        }  # fmt: skip
        operation = {"sender": "send", "receiver": "receive"}[role]
        several = {} if alone else {"ends": ends}
        counts = {"ends": {"first": ends["first"], "counts": [0] * self.members}}
        return {
            "config": config(operation, credit_window=10) | several,
            "complete": True,
            "reason": None,
            "exit_code": 0,
            "arrow": {} if alone else counts,
        }

    def slow_ledger(self) -> dict[str, Any]:
        """Return the ledger by loops over the lines."""
        sent, settled, received = ({} for _ in range(3))
        tables = {"sent": sent, "settled": settled, "received": received}
        for line in (line for side in self.lines.values() for lines in side for line in lines):
            tables[line.kind].setdefault(line.id, []).append(line)
        receipts = [line for lines in received.values() for line in lines]
        earliest = min((one.sent for lines in sent.values() for one in lines), default=None)
        own = [one for one in receipts if earliest is None or one.sent >= earliest]
        copies = [
            n for one in self._all("sender") for a, b in one["resent"] for n in range(a, b + 1)
        ]
        found = dict.fromkeys(
            ("acknowledged_received", "acknowledged_unreceived", "in_doubt_received",
             "in_doubt_unreceived", "resent_received", "redelivered", "duplicate"), 0
        )  # fmt: skip
        for number in sent:
            arrivals = [line for line in own if line.id == number]
            state = "acknowledged" if number in settled else "in_doubt"
            found[f"{state}_{'received' if arrivals else 'unreceived'}"] += 1
            for name, count in self._further(arrivals, copies.count(number)).items():
                found[name] += count
        failures = self._slow_failures(own, sent, settled)
        gaps = [one["receiver_gap"] for one in failures]
        return found | {
            "resent": len(copies),
            "refused": 0,
            "gap": None if None in gaps else max(gaps, default=0.0),
            "failures": failures,
        }

    def _all(self, *roles: str) -> list[dict[str, Any]]:
        return [one for role in roles for process in self.failures[role] for one in process]

    def _life(self, line: Line) -> tuple[int, int, bool]:
        """Return the end, its connections that were lost before, and whether one was later."""
        process = self.failures["receiver"][line.end // self.members]
        base = START // TICK[self.unit]
        lost = []
        for one in process:
            if self.members == 1 or one["ends"][0] == line.end:
                lost.append(one["lost_at"] // TICK[self.unit] - base)
                if one["back_at"] and one["back_at"] // TICK[self.unit] - base == lost[-1]:
                    lost.append(lost[-1] - 1)
        before = sum(one < line.time for one in lost)
        return line.end, before, before < len(lost)

    def _further(self, arrivals: list[Line], copies: int) -> dict[str, int]:
        """Explain arrivals one by one, those in lives that ended last."""
        lives: dict[tuple[int, int, bool], int] = {}
        found = {"resent_received": 0, "redelivered": 0, "duplicate": 0}
        instances, ended, first = 1 + copies, 0, True
        likely = 0
        for line in arrivals:
            life = self._life(line)
            lives[life] = lives.get(life, 0) + 1
            if lives[life] > 1 + copies:
                found["duplicate"] += 1
                continue
            likely += 1
            ended += life[2]
        for number in range(likely):
            if number < instances:
                found["resent_received"] += not first
                first = False
            elif ended:
                found["redelivered"] += 1
                ended -= 1
            else:
                found["duplicate"] += 1
        return found

    def _slow_failures(self, own: list[Line], sent: Any, settled: Any) -> list[dict[str, Any]]:
        groups: list[list[dict[str, Any]]] = []
        for one in sorted(self._all("sender", "receiver"), key=lambda one: one["lost_at"]):
            if groups and any(
                one["lost_at"] <= (other["back_at"] or groups[-1][-1]["lost_at"]) + TOGETHER
                for other in groups[-1]
            ):
                groups[-1].append(one)
            else:
                groups.append([one])
        receipts, known = [line.time for line in own], [one.time for one in own if one.id in sent]
        levels = self._levels([line for line in own if line.id in sent])
        settlements = [line.time for lines in settled.values() for line in lines]
        sends = [line.time for lines in sent.values() for line in lines]
        found = []
        for number, group in enumerate(groups):
            at = group[0]["lost_at"]
            backs = [one["back_at"] for one in group]
            back = max((one for one in backs if one is not None), default=None)
            stop = groups[number + 1][0]["lost_at"] if number + 1 < len(groups) else None
            found.append({
                "at": at,
                "seconds": None if None in backs or back is None else (back - at) / 10**9,
                "connections": len(group),
                "attempts": sum(one["attempts"] for one in group),
                "pause": max(one["pause"] for one in group),
                "in_doubt": sum(b - a + 1 for one in group for a, b in one["in_doubt"]),
                "reason": group[0]["reason"],
                "receiver_gap": self._gap(receipts, at, back),
                "sender_gap": self._gap(settlements, at, back),
                "recovered_seconds": self._recovered(levels, groups[0][0]["lost_at"], at, stop),
                "highest_backlog": self._backlog(sends, known, at, stop),
                "fault": None,
            })  # fmt: skip
        return found

    def _levels(self, receipts: list[Line]) -> dict[int, float]:
        """Return the p99 of each second that has receipts."""
        seconds: dict[int, list[int]] = {}
        for line in receipts:
            second = (line.time * TICK[self.unit] + START) // 10**9
            seconds.setdefault(second, []).append(line.time - line.sent)
        return {second: float(np.percentile(each, 99)) for second, each in seconds.items()}

    def _recovered(
        self, levels: dict[int, float], first: int, at: int, stop: int | None
    ) -> float | None:
        before = [level for second, level in levels.items() if second < first // 10**9]
        start = at // 10**9
        end = max(levels, default=0) + 1 if stop is None else max(stop // 10**9, start + 1)
        if not before:
            return None
        usual = statistics.median(before)
        limit = max(2 * usual, usual + 1)
        for back in range(start, end - 2):
            if all(levels.get(second, limit + 1) <= limit for second in range(back, back + 3)):
                return max(back - at / 10**9, 0.0)
        return None

    def _gap(self, times: list[int], at: int, back: int | None) -> float | None:
        base, tick = START // TICK[self.unit], TICK[self.unit]
        if back is None:
            return None
        begin, end = at // tick - base, back // tick - base
        before, after = [t for t in times if t <= begin], [t for t in times if t >= end]
        if not before or not after:
            return None
        near = sorted(t for t in times if max(before) <= t <= min(after))
        pauses = [b - a for a, b in pairwise(near)]
        return max(pauses, default=0) / (10**9 // tick)

    def _backlog(self, sends: list[int], receipts: list[int], at: int, stop: int | None) -> int:
        def second(time: int) -> int:
            return (time * TICK[self.unit] + START) // 10**9

        last = max(map(second, [*sends, *receipts]), default=0)
        end = last + 1 if stop is None else stop // 10**9
        levels = [
            sum(second(t) <= now for t in sends) - sum(second(t) <= now for t in receipts)
            for now in range(at // 10**9, max(end, at // 10**9 + 1))
        ]
        return max([0, *levels])

    def ledger(self, folder: Path, **outcome: Any) -> dict[str, Any]:
        """Write the run, and return the ledger that the local engine makes of it."""
        self.write(folder, **outcome)
        found: dict[str, Any] = loaded(folder).sections["ledger"]
        return found
