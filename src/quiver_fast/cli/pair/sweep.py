"""`quiver --sweep`: one measurement for each value of an option, or of two."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from typing import Any

from quiver_fast.analysis.figures.environment import environment
from quiver_fast.analysis.read.answer_file import SWEEP
from quiver_fast.analysis.read.set_layout import SWEEP_DOCUMENT, run_name
from quiver_fast.analysis.read.sweep_file import sweep_document
from quiver_fast.cli.arrow.supervisor import SignalWatch
from quiver_fast.cli.arrow.verdict import exit_code
from quiver_fast.cli.pair.figures_text import campaign_text, place_text
from quiver_fast.cli.pair.found_rate import Judged, judged
from quiver_fast.cli.pair.run_set import remove_runs, remove_set
from quiver_fast.cli.pair.set_sides import OwnSide, Place, measured, pair_label
from quiver_fast.cli.pair.sweep_points import Point
from quiver_fast.cli.shared.common import error_text, report_warning
from quiver_fast.cli.shared.console import Console
from quiver_fast.cli.shared.output import make_output_dir, write_json
from quiver_fast.cli.shared.progress import Progress
from quiver_fast.errors import UsageError
from quiver_fast.schemas import marked


@dataclass(frozen=True)
class _Place:
    """The run at one point.

    Attributes:
        name: its directory, below that of the sweep.
        point: the values of the options.
        found: how the run ended.
    """

    name: str
    point: Point
    found: Judged


class Sweep:
    """Measures at one point after the other, and reports them all."""

    def __init__(
        self, command: str, args: argparse.Namespace, points: list[Point], console: Console
    ) -> None:
        """Prepare a sweep.

        Args:
            command: the name that messages begin with.
            args: the options of `quiver`, checked.
            points: the points to measure, in this order.
            console: where the report goes.

        Raises:
            UsageError: a point cannot be measured.
        """
        self._command, self._args, self._points, self._console = command, args, points, console
        self._labels = [_label(self._args_at(point), point) for point in points]
        self._signals = SignalWatch()
        self._places: list[_Place] = []
        self._fault: str | None = None

    def run(self) -> int:
        """Measure until all is measured or nothing is received; return the exit code."""
        self._directory = make_output_dir(self._args.output)
        self._console.note(f"Saving output files to '{self._directory}'")
        kept = self._kept() if self._args.resume else {}
        if self._args.resume:
            remove_runs(self._directory, kept)
        else:
            remove_set(self._directory)
        with self._signals:
            for point, label in zip(self._points, self._labels, strict=True):
                if self._fault is not None or self._signals.count:
                    break
                name = run_name(len(self._places) + 1, len(self._points))
                if name in kept:
                    self._places.append(kept[name])
                else:
                    # So that a killed sweep can be resumed.
                    self._save()
                    self._measure(name, point, label)
        return self._report()

    def _kept(self) -> dict[str, _Place]:
        """Return, by name, the complete points of the sweep to resume.

        Raises:
            RecordError: the document of that sweep is damaged.
        """
        points = {
            run_name(number, len(self._points)): point
            for number, point in enumerate(self._points, 1)
        }
        lines = sweep_document(self._directory / SWEEP_DOCUMENT)["points"]
        return {
            name: _Place(
                name, points[name], Judged(True, line.get("reason"), figures=line["figures"])
            )
            for line in lines
            if (name := line.get("name")) in points
            and line.get("complete") is True
            and line["values"] == points[name].values
        }

    def _args_at(self, point: Point) -> argparse.Namespace:
        return argparse.Namespace(**(vars(self._args) | point.given))

    def _measure(self, name: str, point: Point, target: str) -> None:
        """Measure at a point and print the result."""
        number = len(self._places) + 1
        values = " ".join(f"{option}={value}" for option, value in point.values.items())
        label = f"[{number}/{len(self._points)}] {values}"
        with Progress(label, enabled=not self._args.quiet) as progress:
            place = Place(name, self._directory / name)
            side = OwnSide(target, self._args_at(point))
            taken = measured(side, place, self._signals, progress)
        if self._signals.count:
            return
        reached = _Place(name, point, judged(taken, []))
        self._places.append(reached)
        if not self._args.quiet:
            print(f"{label}: {place_text(_line(reached))}", file=sys.stderr, flush=True)
        for warning in taken.warnings:
            report_warning(self._command, f"{name}: {warning}")
        if reached.found.figures is None and not reached.found.complete:
            # The target is not there, or refuses: the next point would not do better.
            self._fault = f"{name}: {reached.found.failure}"

    def _document(self) -> dict[str, Any]:
        """Return the document of ``--json`` and ``sweep.json``; docs/load.md has the keys."""
        return {
            "output_dir": str(self._directory),
            "workload": self._args.workload,
            "target": pair_label(self._args),
            "options": [*self._points[0].values],
            "complete": all(place.found.complete for place in self._places) and not self._missing,
            "reason": self._signals.reason or self._fault,
            "points": [_line(place) for place in self._places],
            "environment": environment(),
        }

    @property
    def _missing(self) -> int:
        return len(self._points) - len(self._places)

    def _save(self) -> dict[str, Any]:
        """Save the document of the points so far, and return it."""
        document = marked("sweep", self._document())
        try:
            write_json(self._directory / SWEEP_DOCUMENT, document)
        except OSError as error:
            self._fault = self._fault or error_text(error)
        return document

    def _report(self) -> int:
        """Save and print the report, and return the exit code."""
        document = self._save()
        self._console.document(document)
        self._console.show(campaign_text(SWEEP, document).rstrip("\n"))
        incomplete = [place for place in self._places if not place.found.complete]
        if self._fault is None and incomplete:
            self._fault = f"{incomplete[0].name}: {incomplete[0].found.failure}"
        return exit_code(self._command, self._signals, "the sweep was not over", self._fault)


def _label(args: argparse.Namespace, point: Point) -> str:
    try:
        return pair_label(args)
    except UsageError as error:
        values = " ".join(f"{option}={value}" for option, value in point.values.items())
        raise UsageError(f"--sweep: at {values}: {error}") from None


def _line(place: _Place) -> dict[str, Any]:
    return {
        "name": place.name,
        "values": place.point.values,
        "complete": place.found.complete,
        "sustained": place.found.failure is None,
        "reason": place.found.failure,
        "figures": place.found.figures,
    }
