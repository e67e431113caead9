"""`quiver-bench --suite`: the cases of a suite, at one server or in turns with a baseline."""

from __future__ import annotations

import argparse
import shlex
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from quiver_fast.analysis.compare.comparison import NOT_COMPARABLE, Sample, compare
from quiver_fast.analysis.compare.sets import run_figures
from quiver_fast.analysis.read.set_layout import BASELINE, CANDIDATE
from quiver_fast.cli.analyze.document import run_document
from quiver_fast.cli.arrow.supervisor import SignalWatch
from quiver_fast.cli.bench.cases import SUITES, TOPICS, Case
from quiver_fast.cli.bench.cell import READY_PATIENCE, cell_url
from quiver_fast.cli.bench.table import suite_text, value_text
from quiver_fast.cli.pair.campaign import Campaign, Run, Task
from quiver_fast.cli.pair.command import make_parser
from quiver_fast.cli.pair.connecting import ChurnRun, HoldRun, Target
from quiver_fast.cli.pair.options import check_set_options
from quiver_fast.cli.pair.resumed import FIGURES, TEXT, read_begun
from quiver_fast.cli.pair.run_set import turns
from quiver_fast.cli.pair.set_sides import Measured, OwnSide, Place, pair_label
from quiver_fast.cli.pair.warm_up import warm_up, warm_up_text
from quiver_fast.cli.pair.workload import read_arguments
from quiver_fast.cli.server.plan import ServerPlan
from quiver_fast.cli.server.run import ServerRun
from quiver_fast.cli.shared.common import report_error
from quiver_fast.cli.shared.console import Console
from quiver_fast.cli.shared.implementations import find_server
from quiver_fast.cli.shared.output import make_output_dir, write_json
from quiver_fast.cli.shared.progress import Progress
from quiver_fast.cli.shared.url import begins_url, shown_words
from quiver_fast.errors import EXIT_FAILURE, EXIT_OK, UsageError
from quiver_fast.management.addresses import has_paths
from quiver_fast.sockets import free_port

SUITE_DOCUMENT = "suite.json"
# The fields of a comparison that the document has.
_KEPT = ("base", "candidate", "base_runs", "candidate_runs", "change", "interval", "verdict")


class _CaseSide:
    """Measures a case once at a server."""

    def __init__(self, case: Case, url: str, duration: int) -> None:
        """Check the options of a case.

        Raises:
            UsageError: they cannot be followed at this URL.
        """
        self.case, self._url, self._duration = case, f"{url}-{case.name}", duration
        self.args = self._arguments(self._url)
        self.label = self._url if case.connects else pair_label(self.args)

    def _arguments(self, url: str, *more: str) -> argparse.Namespace:
        words = [url, *shlex.split(self.case.options), *more]
        words += [f"--duration={self._duration}", "--quiet"]
        args = read_arguments(make_parser(), words, {})
        check_set_options(args)
        return args

    def meet(self, product: str, version: str) -> str | None:
        """Use the addresses and queues that a broker has; return why it cannot have the case."""
        case, deletes = self.case, has_paths(product, version)
        if case.product not in ("", product):
            return f"only {case.product} has it"
        if case.copies:
            if product not in TOPICS:
                return f"no address of {product or 'this server'} is known to copy messages"
            place, options = TOPICS[product]
            slash = self._url.index("/", self._url.index("//") + 2) + 1
            path = place.format(self._url[slash:])
            self.args = self._arguments(self._url[:slash] + path, *options.split())
        elif not self.args.hold:
            # Each run has new queues, if the broker can delete them, and else empty ones.
            self.args.unique_queue = deletes
            self.args.declare = self.args.purge = not deletes
        return None

    def measure(self, place: Place, signals: SignalWatch, progress: Progress) -> Measured:
        """See :class:`.set_sides.Side`; ``known`` has the figures of the case by name."""
        if self.case.connects:
            return self._connect(place, signals)
        taken = OwnSide(self.label, self.args).measure(place, signals, progress)
        if taken.data is None:
            return taken
        document, steady = run_document(taken.data, None), run_figures(taken.data).steady
        found = {
            one.name: steady.get(one.key or "", one.of_run(document)) for one in self.case.figures
        }
        return Measured(None, taken.reason, taken.warnings, {"figures": found})

    def _connect(self, place: Place, signals: SignalWatch) -> Measured:
        place.directory.mkdir()
        with place.log.open("a", encoding="utf-8", errors="backslashreplace") as log:
            kind = ChurnRun if self.args.churn else HoldRun
            run = kind(self.label, self.args, Console(self.args, log))
            run.measure(place.directory, signals)
            document = run.document()
        write_json(place.directory / run.file, document)
        reason = next(run.problems(document), signals.reason)
        found = {one.name: one.of_run(document) for one in self.case.figures}
        return Measured(None, reason, known={"figures": found})


class Suite(Campaign):
    """Measures each case of a suite as often as a verdict needs."""

    schema, file, lines = "suite", SUITE_DOCUMENT, ("runs",)
    unfinished = "the suite was not over"
    warns = False
    keys = MappingProxyType({
        "name": str, "case": str, "side": str, "complete": bool, "reason": TEXT,
        "figures": FIGURES,
    })  # fmt: skip

    def __init__(self, command: str, args: argparse.Namespace, console: Console) -> None:
        """See :class:`.campaign.Campaign`.

        Raises:
            UsageError: a server, a case or the baseline is not there.
        """
        super().__init__(command, args, console)
        if args.url and not begins_url(args.url):
            raise UsageError(f"--url: '{args.url}' does not begin with // or SCHEME://")
        self._own_url = None if args.url else cell_url(args, free_port())
        url = args.url if self._own_url is None else self._own_url.shown
        self._server = None if self._own_url is None else find_server(args.include_servers)
        self._before = None if args.baseline is None else _earlier(args.baseline, args.suite)
        in_turns = args.baseline is not None and self._before is None
        self._urls = {BASELINE: args.baseline} if in_turns else {}
        self._urls[CANDIDATE] = url
        self._cases = {case.name: case for case in SUITES[args.suite]}
        self._sides: dict[str, list[_CaseSide]] = {side: [] for side in self._urls}
        self._left_out: dict[str, str] = {}
        for case in self._cases.values():
            for side, each in self._urls.items():
                self._sides[side].append(_CaseSide(case, each, self._args.duration))
            for side, number in turns(case.runs, [*self._urls]):
                self._add(case, side, number)

    def _add(self, case: Case, side: str, number: int) -> None:
        name = f"{case.name}/{side}-{number}"
        label = f"[{len(self._tasks) + 1}/{self._asked}] {name}"
        asked = {"case": case.name, "side": side}
        self._tasks[name] = Task(name, label, self._sides[side][-1], asked)

    @property
    def _asked(self) -> int:
        return sum(case.runs for case in self._cases.values()) * len(self._urls)

    def measure(
        self, directory: Path, signals: SignalWatch, progress: Progress | None = None
    ) -> None:
        """See :meth:`.campaign.Campaign.measure`; a server of its own runs meanwhile."""
        if self._server is None or self._own_url is None:
            super().measure(directory, signals, progress)
            return
        place = make_output_dir(str(directory / "server"))
        plan = ServerPlan(self._server, self._own_url, str((place / "ready").absolute()))
        server, problem = ServerRun(plan, place / "output.txt"), None
        server.start()
        try:
            if server.wait_until_ready(signals, READY_PATIENCE):
                super().measure(directory, signals, progress)
        finally:
            problem = server.end()
        self._fault = self._fault or problem

    def _plan(self) -> Iterator[Task]:
        """Yield the runs; a case that failed is not tried again."""
        for side in self._urls:
            self._meet(side)
        is_warm = False
        for task in self._tasks.values():
            case = self._cases[task.asked["case"]]
            if case.name not in {**self._left_out, **self._failed}:
                # Idle connections are those of a server that has just started.
                if not (is_warm or case.connects):
                    self._warm_up()
                    is_warm = True
                yield task

    def _meet(self, side: str) -> None:
        """Fit the cases to a server, by the product in its open frame.

        Raises:
            QuiverError: the server cannot be reached, or refuses.
        """
        sides = self._sides[side]
        with self._signals.raising(), Target(sides[0].args).opened() as connection:
            peer = connection.identity()
        reasons = {one.case.name: one.meet(peer["product"], peer["version"]) for one in sides}
        self._left_out |= {name: reason for name, reason in reasons.items() if reason}

    def _warm_up(self) -> None:
        for side, url in self._urls.items():
            args = next(one.args for one in self._sides[side] if not one.case.connects)
            args.warm_up = self._args.warm_up
            with self._shown(f"warm-up of {url}") as progress:
                found = warm_up(args, url, self._directory, self._signals, progress)
            if found is not None and not self._signals.count:
                self._tell(warm_up_text(found))

    def _clear(self, kept: Collection[str]) -> None:
        """Remove the directories of the cases, but for runs that are kept."""
        for task in self._tasks.values():
            place = self._place(task)
            if task.name not in kept:
                shutil.rmtree(place.directory, ignore_errors=True)
                place.log.unlink(missing_ok=True)

    def _place(self, task: Task) -> Place:
        place = super()._place(task)
        place.directory.parent.mkdir(exist_ok=True)
        return place

    def _run(self, task: Task, taken: Measured) -> Run:
        figures = taken.known.get("figures")
        ended = {"complete": taken.reason is None, "reason": taken.reason, "figures": figures}
        return Run(self._line(task, ended), figures is not None)

    def _text_of(self, run: Run) -> str:
        found, figures = run.line["figures"] or {}, self._cases[run.line["case"]].figures
        shown = (f"{one.name} {value_text(found[one.name], one.unit)}"
                 for one in figures if one.name in found)  # fmt: skip
        return "; ".join(filter(None, (run.line["reason"], ", ".join(shown))))

    @property
    def _failed(self) -> dict[str, str]:
        """The reason of each case that failed."""
        lines = (run.line for run in self._known)
        return {one["case"]: f"{one['name']}: {one['reason']}" for one in lines if one["reason"]}

    def _document(self) -> dict[str, Any]:
        """Return the keys of a suite; docs/bench.md explains them."""
        return {
            "suite": self._args.suite,
            "target": shown_words(self._args.url or self._args.include_servers),
            "baseline": self._args.baseline and shown_words(self._args.baseline),
            "complete": len(self._known) == self._asked and not self._failed,
            "reason": self._stopped,
            "failed": self._failed,
            "left_out": self._left_out,
            "runs": [run.line for run in self._known],
            "cases": [self._compared(case) for case in self._cases.values()],
        }

    def _compared(self, case: Case) -> dict[str, Any]:
        """Return the figures of a case: at the server alone, or against the baseline's."""
        lines = [run.line for run in self._known]
        before = self._before or [one for one in lines if one["side"] == BASELINE]
        after = [one for one in lines if one["side"] == CANDIDATE]
        apart = self._before is not None and not self._args.trust_order
        found = compare(
            _samples(case, before),
            _samples(case, after),
            {one.name: one.is_load for one in case.figures},
            dict.fromkeys((one.name for one in case.figures), NOT_COMPARABLE) if apart else None,
        )
        figures = {
            one.name: {"unit": one.unit, **{key: getattr(found[one.name], key) for key in _KEPT}}
            for one in case.figures
        }
        return {"name": case.name, "options": case.options, "figures": figures}

    def _workload(self) -> dict[str, Any]:
        return {"suite": self._args.suite, "duration": self._args.duration}

    def _text(self, document: dict[str, Any]) -> str:
        return suite_text(document)

    def _verdict(self, document: dict[str, Any]) -> int:
        for reason in document["failed"].values():
            report_error(self._command, reason)
        return EXIT_FAILURE if document["failed"] else EXIT_OK


def _samples(case: Case, lines: Sequence[Mapping[str, Any]]) -> dict[str, list[Sample]]:
    """Return each figure of the complete runs of a case."""
    of_case = [one["figures"] for one in lines if one["case"] == case.name and one["complete"]]
    return {
        figure.name: [
            Sample(found[figure.name]) for found in of_case if found.get(figure.name) is not None
        ]
        for figure in case.figures
    }


def _earlier(baseline: str, suite: str) -> list[dict[str, Any]] | None:
    """Return the candidate's runs of an earlier suite in a directory; None for a URL.

    Raises:
        UsageError: there is no such suite.
    """
    if begins_url(baseline):
        return None
    file = Path(baseline) / SUITE_DOCUMENT
    if not file.is_file():
        raise UsageError(f"--baseline: '{baseline}' is no URL, and there is no {file}")
    document = read_begun(file, {"suite": str, "runs": [Suite.keys]})
    if document["suite"] != suite:
        raise UsageError(f"--baseline: {file} is of suite {document['suite']}")
    return [one for one in document["runs"] if one["side"] == CANDIDATE]
