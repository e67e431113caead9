"""`quiver-analyze`: statistics, verdicts, plots and exports of recorded runs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from operator import methodcaller
from pathlib import Path
from typing import Any

from quiver_fast.analysis.compare.comparison import Rules
from quiver_fast.analysis.compare.sets import changes_of, compare_figures, run_figures
from quiver_fast.analysis.export import hdrhistogram
from quiver_fast.analysis.export.parquet import write_parquet
from quiver_fast.analysis.figures.clock_step import largest_step, step_text
from quiver_fast.analysis.figures.run_data import RunData
from quiver_fast.analysis.figures.statistics import ending
from quiver_fast.analysis.read.answer_file import (
    Answer,
    any_compares,
    read_answers,
    without_runs,
)
from quiver_fast.analysis.read.discovery import RunFiles, local_name
from quiver_fast.analysis.read.set_layout import both_sides, rules_of
from quiver_fast.analysis.read.sources import Wanted
from quiver_fast.analysis.read.spark_options import add_spark_options
from quiver_fast.analysis.read.sweep_file import read_sweeps
from quiver_fast.analysis.sections.campaigns import answer_sentences
from quiver_fast.analysis.sections.sets import change_section, comparison_section
from quiver_fast.analysis.sections.verdicts import verdict_section
from quiver_fast.analysis.show.answers import answer_charts
from quiver_fast.analysis.show.plots import image, write_images
from quiver_fast.analysis.show.report import html_report
from quiver_fast.analysis.show.run_charts import run_charts
from quiver_fast.analysis.show.set_charts import (
    comparison_charts,
    run_dots,
    series_charts,
    sweep_charts,
)
from quiver_fast.analysis.show.text import heading_text, section_text
from quiver_fast.cli.analyze.backends import (
    BACKENDS,
    backend_of,
    choose_backend,
    find_files,
)
from quiver_fast.cli.analyze.document import run_document, whole_document
from quiver_fast.cli.analyze.text import (
    findings_text,
    overview_text,
    windows_text,
)
from quiver_fast.cli.arrow.summary_text import pair_summary_text
from quiver_fast.cli.arrow.verdict import early_text, record_warnings
from quiver_fast.cli.shared.common import (
    ArgumentParser,
    add_tool_options,
    attempt_output,
    report_error,
    report_warning,
    run_command,
)
from quiver_fast.cli.shared.console import (
    Console,
    add_format_option,
    add_page_option,
    add_verdict_options,
    check_files,
    output_file,
)
from quiver_fast.cli.shared.progress import Progress
from quiver_fast.cli.shared.quantities import named, percent, share
from quiver_fast.cli.shared.thresholds import (
    COMPARISON_HELP,
    THRESHOLD_HELP,
    Threshold,
    add_fail_if,
    incomplete,
    judged,
    refuse_comparisons,
    told,
)
from quiver_fast.errors import EXIT_FAILURE, EXIT_OK
from quiver_fast.options.rules import ANALYSIS_RULES, check
from quiver_fast.output_file import write_file

_NAME = "quiver-analyze"

_DESCRIPTION = """\
Analyse recorded transfers: the summary that the other Quiver tools print, and
steady state, stalls, clock, coordinated omission, comparison and change points.

A PATH is a file of records, a directory with such files (as the other tools
save with --output), or a glob. Sender's and receiver's files whose names differ
in nothing else are one run. Spark reads URLs as well: s3a://BUCKET/runs and
hdfs://HOST/runs, with --conf spark.hadoop.fs.s3a... as Spark's users give it.
"""

_EPILOG = """\
example usage:
  $ quiver --output run1; quiver --output run2
  $ quiver-analyze run1                              # Print the analysis
  $ quiver-analyze run2 --compare run1 --html r.html # Compare, and make a report
  $ quiver-analyze run2 --fail-if 'p99>5ms'          # Exit with 99 if it is
  $ quiver-analyze new --compare old --fail-if worse # Exit with 99 if a figure is worse

exit codes:
  0 success, 1 failure, 2 usage error, 98 --fail-if inconclusive, 99 a
  threshold is breached, cannot be judged,
  or, with --fail-if, a run is incomplete
"""

# Where one of them is asked for, the text is not all that the command gives.
_OTHER_RESULTS = (
    "html", "png", "svg", "hgrm", "hlog", "parquet", "markdown", "junit", "fail_if", "json",
)  # fmt: skip

_INTERVAL_UNITS = (("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9), ("s", 1.0))


def main(argv: list[str] | None = None) -> int:
    """Run the command with ``argv`` (``sys.argv`` by default) and return its exit code."""
    return run_command(_NAME, _run, argv)


def _run(argv: list[str]) -> int:
    args = make_parser().parse_args(argv)
    check_files(args)
    # Files of this machine need no Spark.
    args.paths, args.compare = ([*map(local_name, words)] for words in (args.paths, args.compare))
    answers = read_answers(args.paths)
    _choose_sides(args)
    asked = {flag.replace("_", "-") for flag, value in vars(args).items() if value}
    check(ANALYSIS_RULES, asked, "--{}".format)
    if not args.compare:
        refuse_comparisons(args.fail_if, "--fail-if", "without --compare")
    analysis = _analysis_of(args, answers)
    if analysis is None:
        return EXIT_OK
    text_alone = not any(getattr(args, name) for name in _OTHER_RESULTS)
    console = Console(args, required=text_alone)
    # First, because a damaged answer of a campaign ends the command at a page or a text.
    console.document(analysis.document, answers=analysis.answers)
    for write in _exports(args, analysis):
        attempt_output(write)
    return analysis.report(console)


def write_page(file: str, directory: str, fail_if: list[Threshold]) -> None:
    """Write the page of a measurement of `quiver`, as ``--html`` here does.

    Args:
        file: where it goes.
        directory: of the measurement.
        fail_if: the conditions that the page judges.

    Raises:
        QuiverError: nothing was recorded, or records are damaged.
        OSError: a file cannot be read, or the page cannot be written.
    """
    args = make_parser().parse_args([f"--html={file}", "--quiet", "--", directory])
    args.fail_if, args.allow_incomplete = fail_if, True
    answers = read_answers(args.paths)
    _choose_sides(args)
    analysis = _analysis_of(args, answers)
    if analysis is not None:
        write_file(Path(file), methodcaller("write", _page(analysis)))


def _choose_sides(args: argparse.Namespace) -> None:
    """Compare again the two sides that `quiver --runs --baseline` measured."""
    sides = both_sides(args.paths[0]) if not args.compare and len(args.paths) == 1 else None
    if sides is not None:
        of_set = rules_of(Path(args.paths[0]))
        args.detect = of_set.get("detect")
        args.relevant = args.relevant or of_set.get("relevant")
        args.paths, args.compare = [sides[0]], [sides[1]]


def _analysis_of(args: argparse.Namespace, answers: list[Answer]) -> _Analysis | None:
    """Read the runs; return None where the command ends before that."""
    conf = dict(args.conf)
    asked = backend_of(args.engine, [*args.paths, *args.compare])
    tell = None if args.quiet else partial(print, file=sys.stderr, flush=True)
    alone = without_runs(answers)
    paths = [word for word in args.paths if Path(word) not in alone]
    files = find_files(paths, args.master, conf, tell)
    base_files = find_files(args.compare, args.master, conf, tell) if args.compare else []
    runs = [*base_files, *files]
    backend = choose_backend(asked, args.master, runs, _wanted(args), conf, tell)
    if backend.warning is not None:
        report_warning(_NAME, backend.warning)
    if args.init_only:
        return None
    base = [_load(one, backend.load, args.quiet) for one in base_files]
    loaded = [_load(one, backend.load, args.quiet) for one in files]
    return _Analysis(args, backend.name, base, loaded, answers, files)


def _wanted(args: argparse.Namespace) -> Wanted:
    drawn = any((args.html, args.png, args.svg, args.hgrm, args.hlog))
    return Wanted(args.expected_interval, args.window, drawn)


def _load(
    files: RunFiles, load: Callable[[RunFiles, Callable[[int, int], None]], RunData], quiet: bool
) -> RunData:
    with Progress(f"Reading {files.name}", enabled=not quiet) as progress:
        return load(files, progress.update)


class _Analysis:
    """The documents of all runs, with their comparison, change points and thresholds."""

    def __init__(
        self,
        args: argparse.Namespace,
        backend: str,
        base: list[RunData],
        runs: list[RunData],
        answers: list[Answer],
        files: list[RunFiles],
    ) -> None:
        self.files = files
        self.base = base
        self.runs = runs
        self.answers = [] if base else answers
        self._sweeps = read_sweeps([*args.compare, *args.paths])
        self.documents = [run_document(run, args.expected_interval, args.window) for run in runs]
        detect = share(args.detect) if args.detect else None
        rules = Rules(share(args.relevant or "1%"), detect, args.trust_order)
        sides = [run_figures(run) for run in base], [run_figures(run) for run in runs]
        comparison = compare_figures(*sides, rules) if base else None
        self.document = whole_document(
            self.documents,
            backend,
            comparison,
            # Trials and points differ because they should.
            None if self._sweeps or any_compares(answers) else changes_of([*sides[0], *sides[1]]),
            self._thresholds(args, comparison),
            self.answers,
        )

    def _thresholds(
        self, args: argparse.Namespace, comparison: dict[str, Any] | None
    ) -> list[dict[str, Any]]:
        """Judge the runs and their comparison; an incomplete run is one more breach."""
        found = judged(args.fail_if, self.documents, comparison)
        if args.fail_if and not args.allow_incomplete:
            found += filter(None, map(incomplete, self.documents))
        return found

    def images(self) -> dict[str, str]:
        """Return the charts of the page as SVG; those of several runs have its number first."""
        comparison, series = self.document["comparison"], self.document["change_points"]
        charts = sweep_charts(self._sweeps)
        charts += [chart for one in self.answers for chart in answer_charts(one)]
        charts += comparison_charts(self.base, self.runs) if self.base else []
        charts += series_charts(series) if series is not None else []
        for number, (document, run) in enumerate(
            zip(self.documents, self.runs, strict=True), start=1
        ):
            prefix = f"run-{number}-" if len(self.runs) > 1 else ""
            charts += run_charts(run, document["analysis"], prefix)
        images = {chart.name: image(chart) for chart in charts}
        dots = [] if comparison is None else run_dots(comparison)
        return images | ({"comparison-runs": image(*dots)} if dots else {})

    def html(self) -> str:
        """Return the HTML report."""
        parts = list(zip(self.documents, self.runs, strict=True))
        return html_report(parts, self.document, self.base, self._sweeps, self.answers)

    def report(self, console: Console) -> int:
        """Print the analysis as text and the warnings about it; return the exit code."""
        if not console.json:
            self._show(console)
        for run in [*self.base, *self.runs]:
            _warn(run)
        verdict = told(self.document["thresholds"], _NAME)
        return verdict or (EXIT_OK if self._have_records() else EXIT_FAILURE)

    def _show(self, console: Console) -> None:
        terminal = console.terminal
        if terminal is None:
            console.show_all(self._texts())
            return
        # Only terminals pay for the import.
        from quiver_fast.cli.arrow.terminal import print_run

        console.show_all(self._overview())
        for document in self.documents:
            console.show(self._name(document).rstrip("\n"))
            verbose = console.verbose
            print_run(terminal, document, verbose=verbose)
            console.show_all((findings_text if verbose else windows_text)(document))
        console.show_all(self._verdicts())

    def _texts(self) -> Iterator[str]:
        """Yield the texts of a pipe, in order."""
        yield from self._overview()
        for document in self.documents:
            yield from (self._name(document), pair_summary_text(document))
            yield from findings_text(document)
        yield from self._verdicts()

    def _overview(self) -> Iterator[str]:
        for answer in self.answers:
            yield heading_text("ANSWER", answer_sentences(answer))
        if len(self.documents) > 1:
            yield overview_text(self.documents)

    @staticmethod
    def _name(document: dict[str, Any]) -> str:
        return heading_text("RUN", [document["name"]])

    def _verdicts(self) -> Iterator[str]:
        if self.document["comparison"] is not None:
            yield section_text(comparison_section(self.document["comparison"]))
        if self.document["change_points"] is not None:
            yield section_text(change_section(self.document["change_points"]))
        if self.document["thresholds"]:
            yield section_text(verdict_section(self.document["thresholds"]))

    def _have_records(self) -> bool:
        """Name the runs without records: a failed run may leave a summary only."""
        empty = [document["name"] for document in self.documents if not _messages(document)]
        for name in empty:
            report_error(_NAME, f"{name} has no records")
        return not empty


def _messages(document: dict[str, Any]) -> int:
    """Return the number of records of both ends, including those of other runs' messages."""
    ends = [document[role] for role in ("sender", "receiver") if document[role] is not None]
    others = document["delivery"] or {}
    own: int = sum(end["results"]["message_count"] for end in ends)
    return own + (others.get("older") or 0) + (others.get("foreign") or 0)


def _warn(run: RunData) -> None:
    """Warn of each fact that makes the figures of a run doubtful."""
    complete, reason = ending(run)
    if complete is False:
        report_warning(_NAME, f"{run.name} is incomplete: {reason or 'it does not say why'}")
    for end in (run.sender, run.receiver):
        if end is None:
            continue
        for warning in record_warnings(end["file"], end["records"]):
            report_warning(_NAME, warning)
        if end["records"]["truncated"]:
            report_warning(_NAME, f"{end['file']} ends within a record, which is left out")
    step = largest_step((run.sender, run.receiver))
    if step is not None:
        report_warning(_NAME, f"{run.name}: {step_text(step)}")
    negative = (run.delivery or {}).get("negative_latency")
    if negative:
        report_warning(_NAME, f"{run.name}: {early_text(negative)}")


def _exports(args: argparse.Namespace, analysis: _Analysis) -> Iterator[Callable[[], object]]:
    """Yield the work of each file that was asked for."""
    if args.html:
        yield lambda: write_file(Path(args.html), methodcaller("write", _page(analysis)))
    for form in ("png", "svg"):
        directory = getattr(args, form)
        if directory:
            yield partial(_write_images, Path(directory), analysis, form)
    for form, write in (("hgrm", hdrhistogram.write_hgrm), ("hlog", hdrhistogram.write_hlog)):
        file = getattr(args, form)
        if file:
            yield partial(_write_latencies, write, file, analysis)
    if args.parquet:
        yield partial(_write_parquet, args, analysis)


def _page(analysis: _Analysis) -> bytes:
    # File names need not be UTF-8, but the report is UTF-8.
    return analysis.html().encode(errors="backslashreplace")


def _write_images(directory: Path, analysis: _Analysis, form: str) -> None:
    write_images(directory, analysis.images(), form)


def _write_latencies(
    write: Callable[[Path, Sequence[RunData]], int], file: str, analysis: _Analysis
) -> None:
    _warn_of_left_out(file, write(Path(file), analysis.runs))


def _write_parquet(args: argparse.Namespace, analysis: _Analysis) -> None:
    with Progress("Writing Parquet", enabled=not args.quiet) as progress:
        write_parquet(Path(args.parquet), analysis.files, analysis.runs, progress.update)


def _warn_of_left_out(file: str, left_out: int) -> None:
    if left_out:
        what = f"{left_out} negative latencies are not in it: HdrHistogram cannot hold them"
        report_warning(_NAME, f"{file}: {what}")


def _interval(text: str) -> float:
    """Parse a duration such as ``100us`` or ``1ms`` into seconds: an argparse type."""
    for unit, factor in _INTERVAL_UNITS:
        number = text.removesuffix(unit)
        if number != text and number.isascii() and number.isdigit() and int(number):
            return int(number) * factor
    raise argparse.ArgumentTypeError(f"'{text}' is not a whole number above 0 with ns, us, ms or s")


def _window(text: str) -> int:
    """Parse a duration of whole seconds: an argparse type."""
    seconds = _interval(text)
    if seconds != int(seconds):
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number of seconds")
    return int(seconds)


def make_parser() -> ArgumentParser:
    """Return the parser of the command line."""
    parser = ArgumentParser(_NAME, _DESCRIPTION, f"{THRESHOLD_HELP}\n{COMPARISON_HELP}\n{_EPILOG}")
    parser.set_defaults(detect=None)
    add = parser.add_argument
    add(
        "paths",
        metavar="PATH",
        nargs="+",
        help="Files, directories or globs of records; URLs (s3a://, hdfs://) with Spark",
    )
    add(
        "--compare", metavar="BASE", action="append", default=[],
        help="Say whether the runs are better or worse than BASE's (may be repeated)",
    )  # fmt: skip
    add(
        "--relevant", metavar="PERCENT", type=percent,
        help="With --compare, call no smaller change better or worse (default 1%%)",
    )  # fmt: skip
    add(
        "--trust-order", action="store_true",
        help="With --compare, judge runs of which one side was made after the other, too: "
        "nothing else changed meanwhile",
    )  # fmt: skip
    add_fail_if(
        parser,
        "Exit with 99 if CONDITION holds of any run or of the comparison, if a run does not "
        "have the figure, and if a run is incomplete (may be repeated)",
    )
    add(
        "--allow-incomplete",
        action="store_true",
        help="Let --fail-if judge incomplete runs by their figures alone",
    )
    add(
        "--expected-interval",
        metavar="DURATION",
        type=_interval,
        help="Correct coordinated omission for messages expected every DURATION "
        "(default: no correction)",
    )
    add(
        "--window",
        metavar="DURATION",
        type=_window,
        help="Also give rates and latencies of windows of DURATION (whole seconds)",
    )
    add(
        "--engine",
        choices=BACKENDS,
        default="auto",
        help="Analyse here (local; numpy is the same) or with Spark "
        "(default auto: local below about a thousand million records)",
    )
    add_spark_options(parser)
    _add_outputs(parser)
    add_tool_options(parser)
    return parser


def _add_outputs(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("output options")
    add = group.add_argument
    add(
        "--json",
        action="store_true",
        help="Print the analysis as one JSON document, and nothing else but warnings and errors",
    )
    add_format_option(group)
    add_page_option(group)
    add_verdict_options(group)
    add("--png", metavar="DIR", type=named, help="Write each plot to DIR as PNG")
    add("--svg", metavar="DIR", type=named, help="Write each plot to DIR as SVG")
    add(
        "--hgrm",
        metavar="FILE",
        type=output_file,
        help="Write HdrHistogram's percentile distribution to FILE",
    )
    add(
        "--hlog",
        metavar="FILE",
        type=output_file,
        help="Write a HdrHistogram log, one interval a second, to FILE",
    )
    add(
        "--parquet",
        metavar="DIR",
        type=named,
        help="Write the records to DIR as rows, runs of equals and seconds",
    )


if __name__ == "__main__":
    sys.exit(main())
