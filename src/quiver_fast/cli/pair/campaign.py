"""The frame of every campaign: `quiver --runs`, `--find-rate`, `--sweep`, and `quiver-bench`.

A campaign makes one run after the other in a directory, and reports on all of them in one
document. The plan yields the runs, and may look at those that have ended. The document is saved
before the first run and after each: `--resume` takes it from there, whatever ended the campaign.
`--churn` and `--hold` (:mod:`.connecting`) have the same frame without a plan.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from quiver_fast.analysis.figures.environment import environment
from quiver_fast.analysis.figures.run_data import RunFigures
from quiver_fast.analysis.read.answer_file import KINDS
from quiver_fast.analysis.read.set_layout import DOCUMENTS
from quiver_fast.cli.arrow.supervisor import SignalWatch
from quiver_fast.cli.arrow.verdict import exit_code
from quiver_fast.cli.pair.figures_text import campaign_text
from quiver_fast.cli.pair.resumed import read_begun
from quiver_fast.cli.pair.run import ROLES
from quiver_fast.cli.pair.set_sides import LOG, Measured, Place, Side, measured
from quiver_fast.cli.shared.common import error_text, report_warning
from quiver_fast.cli.shared.console import Console
from quiver_fast.cli.shared.output import (
    ArrowFiles,
    make_output_dir,
    remove_ends,
    write_json,
    write_text,
)
from quiver_fast.cli.shared.progress import Progress
from quiver_fast.errors import EXIT_OK, SignalError
from quiver_fast.schemas import marked


@dataclass(frozen=True)
class Task:
    """A run to make.

    Attributes:
        name: its directory, below that of the campaign.
        label: its name while it runs.
        side: what is measured.
        asked: the values that tell it from the other runs, as its line has them.
    """

    name: str
    label: str
    side: Side
    asked: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Run:
    """A run that has ended.

    Attributes:
        line: its line in the document of the campaign.
        received: it received messages.
        figures: None where nothing was received, or where the line has all figures.
        document: as `quiver-analyze --json` has it, where the campaign's document includes it.
    """

    line: dict[str, Any]
    received: bool = True
    figures: RunFigures | None = None
    document: dict[str, Any] | None = None


class Campaign:
    """Makes the runs of a plan, and reports on them together; subclasses have the plan."""

    schema: str
    """The name of the document's schema."""
    file: str
    """The file of the document."""
    lines: tuple[str, ...] = ()
    """The keys that lead to the runs' lines in the document."""
    keys: Mapping[str, Any] = {}
    """The keys of such a line, and the kinds of their values (:func:`.resumed.fits`)."""
    unfinished: str
    """The report of a campaign that a signal ended."""
    warns = True
    """Whether the warnings of each run are told."""
    counts_interrupted = False
    """Whether a run that a signal ended has a line."""

    def __init__(self, command: str, args: argparse.Namespace, console: Console) -> None:
        """Prepare a campaign.

        Args:
            command: the name that messages begin with.
            args: the options, checked.
            console: where the report goes.

        Raises:
            UsageError: an option has a value that this campaign cannot have.
        """
        self._command, self._args, self._console = command, args, console
        self._signals = SignalWatch()
        self._tasks: dict[str, Task] = {}
        self._runs: list[Run] = []
        self._ahead: dict[str, Run] = {}
        self._fault: str | None = None
        self._directory = Path()
        self._progress: Progress | None = None

    def run(self) -> int:
        """Measure until the plan, a fault or a signal ends it; report, and return the exit code."""
        directory = make_output_dir(self._args.output)
        self._console.note(f"Saving output files to '{directory}'")
        with self._signals:
            self.measure(directory, self._signals)
        return self._report()

    def measure(
        self, directory: Path, signals: SignalWatch, progress: Progress | None = None
    ) -> None:
        """Make the runs.

        Args:
            directory: where all files go.
            signals: the watch on signals, entered.
            progress: where each run is shown, and nothing else is told or saved; None for a line
                of its own.
        """
        self._directory, self._signals, self._progress = directory, signals, progress
        resumes = self._args.resume and progress is None
        if resumes:
            self._ahead = self._found()
        self._clear({*self._ahead, self.file} if resumes else ())
        if progress is None:
            self._save()
        for task in self._plan():
            if self._fault is not None or signals.count:
                break
            run = self._ahead.pop(task.name, None)
            if run is not None:
                self._console.note(f"{task.label}: finished earlier")
            elif (run := self._take(task)) is None:
                break
            self._runs.append(run)
            self._end(run)
            if progress is None:
                self._save()

    def _found(self) -> dict[str, Run]:
        """Return the runs that are kept, by name; a signal meanwhile leaves all as it was."""
        try:
            with self._signals.raising():
                return {run.line["name"]: run for run in self._kept()}
        except SignalError as error:
            raise error.during("reading the finished runs") from None

    @property
    def _known(self) -> list[Run]:
        """The runs that have ended, and then those kept that the plan has not come to."""
        return [*self._runs, *self._ahead.values()]

    def _plan(self) -> Iterator[Task]:
        """Yield the runs."""
        yield from self._tasks.values()

    def _run(self, task: Task, taken: Measured) -> Run:
        """Return a run that was measured."""
        raise NotImplementedError

    def _line(self, task: Task, found: Mapping[str, Any]) -> dict[str, Any]:
        """Return the line of a run: the keys that this campaign has, in their order."""
        known = {"name": task.name, **task.asked, **found}
        return {key: known[key] for key in self.keys}

    def _text_of(self, run: Run) -> str:
        """Return a run that has ended as a part of one line; empty where it has another line."""
        return ""

    def _end(self, run: Run) -> None:
        """Look at a run that has ended: its fault may be one of all runs."""

    def _document(self) -> dict[str, Any]:
        """Return the document without the keys that all campaigns share."""
        raise NotImplementedError

    def _text(self, document: dict[str, Any]) -> str:
        """Return the printed report."""
        return campaign_text(KINDS[self.file], document)

    def _files(self, document: dict[str, Any]) -> Mapping[str, str]:
        """Return the texts that are saved beside the document, by file name."""
        return {}

    def _unfinished(self) -> str:
        return self.unfinished

    def problem(self) -> str | None:
        """Return why the campaign failed; None if it did not."""
        return self._fault

    def _verdict(self, document: dict[str, Any]) -> int:
        """Tell the verdicts and warnings on the whole, and return their exit code."""
        return EXIT_OK

    def _kept(self) -> list[Run]:
        """Return the runs of the campaign that is resumed which are not made again.

        Raises:
            UsageError: its document is damaged.
        """
        document = read_begun(self._directory / self.file, self._kind())
        lines: Any = document
        for key in self.lines:
            lines = lines[key]
        kept = (self._again(line, document) for line in lines)
        return [run for run in kept if run is not None]

    def _kind(self) -> Any:
        """Return the kind of a document that can be resumed."""
        kind: Any = [self.keys]
        for key in reversed(self.lines):
            kind = {key: kind}
        return kind

    def _again(self, line: dict[str, Any], begun: dict[str, Any]) -> Run | None:
        """Return the run of a line of the document ``begun``; None if it is made again."""
        task = self._tasks.get(line["name"])
        return Run(line) if task and line["complete"] and line == {**line, **task.asked} else None

    def _clear(self, kept: Collection[str]) -> None:
        """Remove the files of an earlier campaign, but for runs that are kept."""
        remove_set(self._directory, kept)

    def _take(self, task: Task) -> Run | None:
        """Make a run and tell its result; return None where a signal ended it."""
        place = self._place(task)
        with self._shown(task.label) as progress:
            taken = measured(task.side, place, self._signals, progress)
        if self._signals.count and not self.counts_interrupted:
            return None
        run = self._run(task, taken)
        if text := self._text_of(run):
            self._tell(f"{task.label}: {text}")
        for warning in taken.warnings if self.warns else ():
            report_warning(self._command, f"{task.name}: {warning}")
        return run

    def _place(self, task: Task) -> Place:
        return Place(task.name, self._directory / task.name)

    def _shown(self, label: str) -> contextlib.AbstractContextManager[Progress]:
        """Return where a run is shown: in the given place, or in a line of its own."""
        if self._progress is not None:
            return contextlib.nullcontext(self._progress)
        return Progress(label, enabled=not self._args.quiet)

    def _tell(self, text: str) -> None:
        if self._progress is None and not self._args.quiet:
            print(text, file=sys.stderr, flush=True)

    @property
    def _stopped(self) -> str | None:
        """Why it ended early."""
        return self._signals.reason or self._fault

    def document(self) -> dict[str, Any]:
        """Return the document of ``--json``, which is saved, too; the documents have its keys."""
        return marked(self.schema, {
            "output_dir": str(self._directory),
            "workload": self._workload(),
            **self._document(),
            "environment": environment(),
        })  # fmt: skip

    def _workload(self) -> dict[str, Any]:
        found: dict[str, Any] = self._args.workload
        return found

    def _save(self) -> dict[str, Any]:
        """Save the document of the runs so far, and return it."""
        document = self.document()
        try:
            write_json(self._directory / self.file, document)
            for name, text in self._files(document).items():
                write_text(self._directory / name, text)
        except OSError as error:
            self._fault = self._fault or error_text(error)
        return document

    def _report(self) -> int:
        """Save and print the report, and return the exit code."""
        document = self._save()
        self._console.document(document)
        self._console.show(self._text(document).rstrip("\n"))
        verdict = self._verdict(document)
        ended = exit_code(self._command, self._signals, self._unfinished(), self.problem())
        return ended or verdict


def remove_set(directory: Path, kept: Collection[str] = ()) -> None:
    """Remove the files of an earlier campaign, and nothing else; not those of ``kept`` names."""
    for name in {*DOCUMENTS}.difference(kept):
        (directory / name).unlink(missing_ok=True)
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
