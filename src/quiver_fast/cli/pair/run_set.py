"""`quiver --runs`: a set of runs, alone or in turns with runs of a baseline."""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from quiver_fast.analysis.compare.comparison import LOOKS, WORSE, Rules, median_interval, undecided
from quiver_fast.analysis.compare.sets import compare_figures, run_figures
from quiver_fast.analysis.figures.environment import environment
from quiver_fast.analysis.figures.run_data import RunFigures
from quiver_fast.analysis.model.figures import SET_FIGURES
from quiver_fast.analysis.read.answer_file import SET
from quiver_fast.analysis.read.set_layout import (
    BASELINE,
    CANDIDATE,
    CHURN_DOCUMENT,
    HOLD_DOCUMENT,
    RATE_DOCUMENT,
    SET_DOCUMENT,
    SWEEP_DOCUMENT,
    run_name,
)
from quiver_fast.cli.analyze.document import run_document
from quiver_fast.cli.arrow.supervisor import SignalWatch
from quiver_fast.cli.arrow.verdict import exit_code
from quiver_fast.cli.pair.figures_text import campaign_text, progress_text
from quiver_fast.cli.pair.run import ROLES
from quiver_fast.cli.pair.set_sides import LOG, Measured, Place, Side, measured
from quiver_fast.cli.shared.common import error_text, report_warning
from quiver_fast.cli.shared.console import Console
from quiver_fast.cli.shared.output import ArrowFiles, make_output_dir, remove_ends, write_json
from quiver_fast.cli.shared.progress import Progress
from quiver_fast.cli.shared.quantities import share
from quiver_fast.cli.shared.thresholds import judged, told
from quiver_fast.schemas import marked
from quiver_fast.words import counted

_DOCUMENTS = (SET_DOCUMENT, RATE_DOCUMENT, SWEEP_DOCUMENT, CHURN_DOCUMENT, HOLD_DOCUMENT)


def turns(runs: int, sides: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Yield the side and the number, from 1, of each run in order: A B, B A, A B and so on.

    So a steady drift over two rounds affects both sides alike. With an odd number of rounds
    the last round has no counterpart; still each side has all its runs.
    """
    for number in range(1, runs + 1):
        for side in sides if number % 2 else reversed(sides):
            yield side, number


@dataclass(frozen=True)
class _Run:
    """One run of the set, ended.

    Attributes:
        name: its directory, below that of the set.
        side: "candidate" or "baseline".
        reason: why it is incomplete; None where it did all that was asked.
        figures: None where nothing was received.
        document: as `quiver-analyze --json` has it; None where nothing was recorded.
    """

    name: str
    side: str
    reason: str | None
    figures: RunFigures | None = None
    document: dict[str, Any] | None = None


class RunSet:
    """Measures a set of runs, and reports on them together."""

    def __init__(
        self,
        command: str,
        args: argparse.Namespace,
        sides: dict[str, Side],
        console: Console,
    ) -> None:
        """Prepare a set.

        Args:
            command: the name that messages begin with.
            args: the options of `quiver`; ``runs`` or ``detect`` is given.
            sides: the sides to measure: "candidate" and, with a baseline, "baseline".
            console: where the report goes.
        """
        self._command = command
        self._args = args
        self._sides = sides
        self._console = console
        self._signals = SignalWatch()
        self._directory = make_output_dir(args.output)
        self._rules = Rules(
            share(args.relevant or "1%"), share(args.detect) if args.detect else None
        )
        # Of each side.
        self._most: int = LOOKS[-1] if args.detect else args.runs
        self._until = math.inf
        self._open: str | None = None
        self._runs: list[_Run] = []
        self._failure: str | None = None

    def run(self) -> int:
        """Measure until all is measured or a run fails, report, and return the exit code."""
        self._console.note(f"Saving output files to '{self._directory}'")
        self._prepare_directories()
        # The baseline comes first: a mistake in it shows before anything is measured.
        order = [side for side in (BASELINE, CANDIDATE) if side in self._sides]
        with self._signals:
            self._until = time.monotonic() + self._args.within
            for side, number in turns(self._most, order):
                if self._failure is not None or self._signals.count or self._detected():
                    break
                self._take(side, number)
            self._detected()
        return self._report()

    def _detected(self) -> bool:
        """Say whether the runs of ``--detect`` decide, or the time is over; note what is open."""
        rounds, rest = divmod(len(self._runs), len(self._sides))
        if self._rules.detect is None or rest:
            return False
        over = time.monotonic() > self._until
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

    def _prepare_directories(self) -> None:
        """Make the sides' directories, without the files of an earlier set (``--force``)."""
        for directory in (self._directory, *map(self._side_directory, (CANDIDATE, BASELINE))):
            remove_set(directory)
        for side in self._sides:
            make_output_dir(str(self._side_directory(side)))

    def _side_directory(self, side: str) -> Path:
        return self._directory / side if BASELINE in self._sides else self._directory

    def _place(self, side: str, number: int) -> Place:
        directory = self._side_directory(side) / run_name(number, self._most)
        name = str(directory.relative_to(self._directory))
        return Place(name, directory)

    def _take(self, side: str, number: int) -> None:
        """Measure one run, keep its result, and print it."""
        place = self._place(side, number)
        of = "" if self._args.detect else f"/{self._asked}"
        label = f"[{len(self._runs) + 1}{of}] {place.name}"
        with Progress(label, enabled=not self._args.quiet) as progress:
            taken = measured(self._sides[side], place, self._signals, progress)
        run = _ended(place.name, side, taken)
        self._runs.append(run)
        if not self._args.quiet:
            print(f"{label}: {progress_text(run.figures, run.reason)}", file=sys.stderr, flush=True)
        for warning in taken.warnings:
            report_warning(self._command, f"{place.name}: {warning}")
        if run.reason is not None and not self._counts(run):
            self._failure = f"{place.name}: {run.reason}"

    def _counts(self, run: _Run) -> bool:
        """Say whether the figures of a run count: an incomplete one's only if that is wanted."""
        return run.figures is not None and (run.reason is None or self._args.allow_incomplete)

    def _figures(self, side: str) -> list[RunFigures]:
        runs = [run for run in self._runs if run.side == side and self._counts(run)]
        return [run.figures for run in runs if run.figures is not None]

    @property
    def _asked(self) -> int:
        return len(self._runs) if self._args.detect else self._most * len(self._sides)

    @property
    def _complete(self) -> int:
        return sum(run.reason is None for run in self._runs)

    def _comparison(self) -> dict[str, Any]:
        return compare_figures(self._figures(BASELINE), self._figures(CANDIDATE), self._rules)

    def _detection(self) -> dict[str, Any] | None:
        """Return what ``--detect`` came to; None without it."""
        if self._rules.detect is None:
            return None
        stopped = self._signals.reason or self._failure
        reason = stopped or self._open
        return {"change": self._rules.detect, "decided": reason is None, "reason": reason}

    def _document(self) -> dict[str, Any]:
        """Return the document of ``--json`` and ``set.json``; docs/analysis.md has the keys."""
        figures = {side: self._figures(side) for side in self._sides}
        compared = BASELINE in self._sides
        documents = {
            side: [run.document for run in self._runs if run.side == side and run.document]
            for side in self._sides
        }
        comparison = self._comparison() if compared else None
        return {
            "output_dir": str(self._directory),
            "workload": self._args.workload,
            "complete": self._complete == self._asked,
            "reason": self._signals.reason or self._failure,
            "asked_runs": self._asked,
            "complete_runs": self._complete,
            "sides": {side: each.label for side, each in self._sides.items()},
            "order": [_line(run) for run in self._runs],
            "summary": {side: _summary(runs) for side, runs in figures.items()},
            "comparison": comparison,
            "detect": self._detection(),
            "thresholds": judged(self._args.fail_if, documents[CANDIDATE], comparison),
            "runs": documents[CANDIDATE],
            "baseline_runs": documents[BASELINE] if compared else None,
            "environment": environment(),
        }

    def _report(self) -> int:
        """Save and print the report, and return the exit code."""
        document = marked("run-set", self._document())
        try:
            write_json(self._directory / SET_DOCUMENT, document)
        except OSError as error:
            self._failure = self._failure or error_text(error)
        self._console.document(document)
        self._console.show(campaign_text(SET, document).rstrip("\n"))
        self._warn_of_units(document)
        verdict = told(document["thresholds"], self._command)
        done = f"{self._complete} of {counted(self._asked, 'run', ('is', 'are'))} complete"
        problem = None if self._failure is None else f"{self._failure}; {done}"
        failed = exit_code(self._command, self._signals, done, problem)
        return failed or verdict

    def _warn_of_units(self, document: dict[str, Any]) -> None:
        """Warn of clocks with different units: the coarser one cuts off digits of the finer one."""
        documents = [*document["runs"], *(document["baseline_runs"] or [])]
        ends = [one["receiver"] for one in documents if one["receiver"] is not None]
        units = sorted({end["latency"]["unit"] for end in ends})
        if len(units) > 1:
            text = f"the runs record their times in {' and '.join(units)}"
            report_warning(self._command, f"{text}: their latencies differ by up to a tick")


def _ended(name: str, side: str, taken: Measured) -> _Run:
    """Return a run that was measured, with its figures and document."""
    data, reason = taken.data, taken.reason
    if data is None:
        return _Run(name, side, reason)
    figures = run_figures(data)
    if reason is None and not figures.values:
        reason = "no messages were received"
    complete = reason is None
    document = run_document(data, None) | {"complete": complete, "reason": reason}
    known = replace(figures, complete=complete) if figures.values else None
    return _Run(name, side, reason, known, document)


def _line(run: _Run) -> dict[str, Any]:
    return {
        "name": run.name,
        "side": run.side,
        "complete": run.reason is None,
        "reason": run.reason,
        "figures": None if run.figures is None else dict(run.figures.steady),
        "verdict": None if run.figures is None else run.figures.verdict,
    }


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


def remove_set(directory: Path) -> None:
    """Remove the files of an earlier set from ``directory``, and nothing else."""
    for name in _DOCUMENTS:
        (directory / name).unlink(missing_ok=True)
    remove_runs(directory)


def remove_runs(directory: Path, kept: Container[str] = ()) -> None:
    """Remove the runs of an earlier set but those named in ``kept``."""
    for entry in [directory, *directory.glob("run-*")]:
        if entry.stem in kept:
            continue
        if entry.suffix == LOG:
            entry.unlink()
        elif entry.is_dir():
            remove_ends(entry)
            for role in ROLES:
                ArrowFiles(entry, role).remove()
            if entry != directory and not any(entry.iterdir()):
                entry.rmdir()
