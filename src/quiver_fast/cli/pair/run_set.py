"""`quiver --runs`: a set of runs, alone or in turns with runs of a baseline."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType, NoneType
from typing import Any

from quiver_fast.analysis.compare.comparison import LOOKS, WORSE, Rules, median_interval, undecided
from quiver_fast.analysis.compare.sets import compare_figures, run_figures
from quiver_fast.analysis.figures.run_data import RunFigures
from quiver_fast.analysis.model.figures import SET_FIGURES
from quiver_fast.analysis.read.set_layout import BASELINE, CANDIDATE, SET_DOCUMENT, run_name
from quiver_fast.cli.analyze.document import run_document
from quiver_fast.cli.pair.baseline import read_baseline
from quiver_fast.cli.pair.campaign import Campaign, Run, Task, remove_set
from quiver_fast.cli.pair.figures_text import progress_text
from quiver_fast.cli.pair.resumed import FIGURES, TEXT
from quiver_fast.cli.pair.set_sides import Measured, make_sides, recorded
from quiver_fast.cli.shared.common import report_warning
from quiver_fast.cli.shared.console import Console
from quiver_fast.cli.shared.output import make_output_dir
from quiver_fast.cli.shared.quantities import share
from quiver_fast.cli.shared.thresholds import judged, told
from quiver_fast.errors import RecordError
from quiver_fast.words import counted


def turns(runs: int, sides: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Yield the side and the number, from 1, of each run in order: A B, B A, A B and so on.

    So a steady drift over two rounds affects both sides alike. With an odd number of rounds
    the last round has no counterpart; still each side has all its runs.
    """
    for number in range(1, runs + 1):
        for side in sides if number % 2 else reversed(sides):
            yield side, number


class RunSet(Campaign):
    """Measures a set of runs, alone or in turns with a baseline's."""

    schema, file, lines = "run-set", SET_DOCUMENT, ("order",)
    keys = MappingProxyType({
        "name": str, "side": str, "complete": bool, "reason": TEXT, "figures": FIGURES,
        "verdict": TEXT,
    })  # fmt: skip
    counts_interrupted = True

    def __init__(self, command: str, args: argparse.Namespace, console: Console) -> None:
        """See :class:`.campaign.Campaign`; ``args.runs`` or ``args.detect`` is given."""
        super().__init__(command, args, console)
        baseline = None if args.baseline is None else read_baseline(args.baseline, args)
        self._sides = make_sides(args, baseline)
        self._rules = Rules(
            share(args.relevant or "1%"), share(args.detect) if args.detect else None
        )
        # Of each side.
        self._most: int = LOOKS[-1] if args.detect else args.runs
        self._open: str | None = None
        # The baseline comes first: a mistake in it shows before anything is measured.
        order = [side for side in (BASELINE, CANDIDATE) if side in self._sides]
        of = "" if args.detect else f"/{self._asked}"
        for place, (side, number) in enumerate(turns(self._most, order), 1):
            name = self._name(side, number)
            label = f"[{place}{of}] {name}"
            self._tasks[name] = Task(name, label, self._sides[side], {"side": side})

    def _plan(self) -> Iterator[Task]:
        until = time.monotonic() + self._args.within
        for task in self._tasks.values():
            if self._detected(until):
                return
            yield task
        self._detected(until)

    def _detected(self, until: float) -> bool:
        """Say whether the runs of ``--detect`` decide, or the time is over; note what is open."""
        rounds, rest = divmod(len(self._runs), len(self._sides))
        # An earlier call went on to the runs ahead.
        if self._rules.detect is None or rest or self._ahead:
            return False
        over = time.monotonic() > until
        if rounds not in LOOKS and not over:
            return False
        comparison = self._comparison()
        names = undecided(comparison)
        if any(figure["verdict"] == WORSE for figure in comparison["figures"].values()):
            names = []
        self._open = None
        if names:
            end = "--within is over" if over else "so many are the most"
            open_ones = ", ".join(_reach(name, comparison["figures"][name]) for name in names)
            self._open = f"{counted(rounds, 'run')} of each, {end}: {open_ones}"
        return over or not names

    def _clear(self, kept: Collection[str]) -> None:
        for folder in ("", CANDIDATE, BASELINE):
            names = {Path(name).name for name in kept if str(Path(name).parent) == (folder or ".")}
            remove_set(self._directory / folder, names)
        for folder in self._sides if self._compares else ():
            make_output_dir(str(self._directory / folder))

    @property
    def _compares(self) -> bool:
        return BASELINE in self._sides

    def _name(self, side: str, number: int) -> str:
        name = run_name(number, self._most)
        return f"{side}/{name}" if self._compares else name

    def _kind(self) -> Any:
        side = (NoneType, {"complete": (bool, NoneType), "results": {"message_count": int}})
        run = {"name": str, "sender": side, "receiver": side}
        return super()._kind() | {"runs": [run], "baseline_runs": (NoneType, [run])}

    def _again(self, line: dict[str, Any], begun: dict[str, Any]) -> Run | None:
        """Return a run that an earlier call measured; None where its files tell another result."""
        if super()._again(line, begun) is None:
            return None
        task = self._tasks[line["name"]]
        try:
            with self._shown(f"Reading {task.name}") as progress:
                data = recorded(self._place(task), progress)
        except RecordError:
            return None
        run = self._run(task, Measured(data, None))
        told = [*begun["runs"], *(begun["baseline_runs"] or ())]
        before = [_results(one) for one in told if one["name"] == task.name]
        return run if before == [_results(run.document or {})] else None

    def _run(self, task: Task, taken: Measured) -> Run:
        data, reason = taken.data, taken.reason
        figures, known, document = None, None, None
        if data is not None:
            figures = run_figures(data)
            if reason is None and not figures.values:
                reason = "no messages were received"
            known = replace(figures, complete=reason is None) if figures.values else None
        ended = {"complete": reason is None, "reason": reason}
        if data is not None:
            document = run_document(data, None) | ended
        line = self._line(task, ended | {
            "figures": None if known is None else dict(known.steady),
            "verdict": None if known is None else known.verdict,
        })  # fmt: skip
        return Run(line, known is not None, known, document)

    def _text_of(self, run: Run) -> str:
        return progress_text(run.figures, run.line["reason"])

    def _end(self, run: Run) -> None:
        if not run.line["complete"] and not self._counts(run):
            self._fault = f"{run.line['name']}: {run.line['reason']}"

    def _counts(self, run: Run) -> bool:
        """Say whether the figures of a run count: an incomplete one's only if that is wanted."""
        wanted = run.line["complete"] or self._args.allow_incomplete
        return run.figures is not None and wanted

    def _of_side(self, side: str) -> list[Run]:
        return [run for run in self._known if run.line["side"] == side]

    def _figures(self, side: str) -> list[RunFigures]:
        runs = filter(self._counts, self._of_side(side))
        return [run.figures for run in runs if run.figures is not None]

    @property
    def _asked(self) -> int:
        return len(self._known) if self._args.detect else self._most * len(self._sides)

    @property
    def _complete(self) -> int:
        return sum(run.line["complete"] for run in self._known)

    def _comparison(self) -> dict[str, Any]:
        return compare_figures(self._figures(BASELINE), self._figures(CANDIDATE), self._rules)

    def _detection(self) -> dict[str, Any] | None:
        """Return what ``--detect`` came to; None without it."""
        if self._rules.detect is None:
            return None
        reason = self._stopped or self._open
        return {"change": self._rules.detect, "decided": reason is None, "reason": reason}

    def _document(self) -> dict[str, Any]:
        """Return the keys of a set; docs/analysis.md explains them."""
        figures = {side: self._figures(side) for side in self._sides}
        documents = {
            side: [run.document for run in self._of_side(side) if run.document]
            for side in self._sides
        }
        comparison = self._comparison() if self._compares else None
        return {
            "complete": self._complete == self._asked,
            "reason": self._stopped,
            "asked_runs": self._asked,
            "complete_runs": self._complete,
            "sides": {side: each.label for side, each in self._sides.items()},
            "order": [run.line for run in self._known],
            "summary": {side: _summary(runs) for side, runs in figures.items()},
            "comparison": comparison,
            "detect": self._detection(),
            "thresholds": judged(self._args.fail_if, documents[CANDIDATE], comparison),
            "runs": documents[CANDIDATE],
            "baseline_runs": documents[BASELINE] if self._compares else None,
        }

    def _verdict(self, document: dict[str, Any]) -> int:
        self._warn_of_units(document)
        return told(document["thresholds"], self._command, failed=self._fault is not None)

    def _unfinished(self) -> str:
        return f"{self._complete} of {counted(self._asked, 'run', ('is', 'are'))} complete"

    def problem(self) -> str | None:
        """See :meth:`.campaign.Campaign.problem`."""
        return None if self._fault is None else f"{self._fault}; {self._unfinished()}"

    def _warn_of_units(self, document: dict[str, Any]) -> None:
        """Warn of clocks with different units: the coarser one cuts off digits of the finer one."""
        documents = [*document["runs"], *(document["baseline_runs"] or [])]
        ends = [one["receiver"] for one in documents if one["receiver"] is not None]
        units = sorted({end["latency"]["unit"] for end in ends})
        if len(units) > 1:
            text = f"the runs record their times in {' and '.join(units)}"
            report_warning(self._command, f"{text}: their latencies differ by up to a tick")


def _results(document: Mapping[str, Any]) -> list[Any]:
    """Return of each end whether it did all that was asked, and its messages."""
    ends = [document["sender"], document["receiver"]]
    return [end and (end["complete"], end["results"]["message_count"]) for end in ends]


def _reach(name: str, figure: Mapping[str, Any]) -> str:
    """Return a figure that is open, and the change that so many runs show of it."""
    reach = figure["shown_from"]
    shown = "" if reach is None else f" (so many runs show {reach:.0%})"
    return name.replace("_", " ") + shown


def _summary(runs: Sequence[RunFigures]) -> dict[str, Any]:
    """Return the median of each figure over the runs, and its interval."""
    summary: dict[str, Any] = {"runs": len(runs), "figures": {}}
    for name, figure in SET_FIGURES.items():
        values = [run.steady[name] for run in runs if name in run.steady]
        interval = median_interval(values)
        summary["figures"][name] = {
            "unit": figure.unit,
            "median": statistics.median(values) if values else None,
            "interval": interval,
        }
    return summary
