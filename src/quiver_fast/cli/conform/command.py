"""`quiver-conform`: judge whether a server, a client or an arrow is AMQP 1.0, clause by clause."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime, timezone
from operator import methodcaller
from pathlib import Path
from typing import Any

from quiver_fast import __version__
from quiver_fast.cli.conform import document as documents
from quiver_fast.cli.conform import text
from quiver_fast.cli.conform.subjects import client_subject, server_subject
from quiver_fast.cli.shared.common import (
    ArgumentParser,
    add_completion_option,
    add_tls_options,
    attempt_output,
    print_text,
    report_warning,
    require_output,
    run_command,
)
from quiver_fast.cli.shared.console import (
    Console,
    add_verdict_options,
    check_files,
    output_file,
)
from quiver_fast.cli.shared.output import (
    check_output_dir,
    make_output_dir,
    write_json,
    write_text,
)
from quiver_fast.cli.shared.quantities import duration, named, part_duration, positive_count, within
from quiver_fast.conform import runner
from quiver_fast.conform.case import BROKEN, CONTRACT, MUST, SHOULD, Case, select
from quiver_fast.conform.cases import CASES
from quiver_fast.conform.server import ServerSubject
from quiver_fast.errors import EXIT_FAILURE, EXIT_INTERRUPTED, EXIT_OK, UsageError, visible
from quiver_fast.output_file import write_file

_NAME = "quiver-conform"

_DESCRIPTION = """\
Judge whether a server, a client or an arrow is AMQP 1.0, clause by clause.

'quiver-conform' is one of the Quiver tools for testing the performance of
message servers and APIs.
"""

_EPILOG = """\
verdicts:
  kept                  The peer did what the clause demands
  broken                It did not; the lines below tell what was due, what came,
                        and the frames
  disputed              It did not, and the clause can be read in another way
  unobservable          The clause cannot be judged here; the line tells why

queues:
  Each case has a queue of its own, by the management of RabbitMQ 4, or a dynamic node.
  For another server give --address; its '{}' is a number for each case. No other
  queue is touched.

clients:
  --client starts the command for each case, against a peer on this host. These words
  of it are replaced: {host}, {port}, {url}, {address}. The environment has the URL
  as QUIVER_CONFORM_URL. An arrow is started by its contract, to send and to receive.

example usage:
  $ quiver-conform //localhost
  $ quiver-conform //localhost --only 2.6,4
  $ quiver-conform //localhost --output broker --html page.html
  $ quiver-conform --matrix broker other --html matrix.html
  $ quiver-conform --arrow qpid-proton-python
  $ quiver-conform --client -- ./my-sender {url}
  $ quiver-conform --list

exit codes:
  0 no clause is broken (--strict: none of SHOULD either), 1 one is, or the run is
  not complete, 2 usage error, 130 interrupted
"""


_JUDGING = {
    "url", "arrow", "client", "only", "strict", "timeout", "patience", "jobs", "verbose", "output",
    "force", "json", "markdown", "junit", "html",
}  # fmt: skip
# What goes with a word that decides on the work; with a server, all does.
_TOGETHER = {
    "matrix": {"matrix", "html", "markdown"},
    "list": {"list", "url", "arrow", "client", "only", "verbose"},
    "arrow": _JUDGING,
    "client": _JUDGING,
}


def main(argv: list[str] | None = None) -> int:
    """Run the command with ``argv`` (``sys.argv`` by default) and return its exit code."""
    return run_command(_NAME, _run, argv)


def _run(argv: list[str]) -> int:
    args = _parsed(argv)
    _check_together(args)
    check_files(args)
    if args.matrix:
        return _show_matrix(args)
    only = [one.strip() for one in (args.only or "").split(",") if one.strip()]
    if args.only and not only:
        raise UsageError(f"--only names no clause: '{args.only}'")
    cases = select((case for case in CASES if case.who in _kinds(args)), only)
    require_output()
    if args.list:
        for case in cases:
            print(text.listed(case, args.verbose))
        return EXIT_OK
    given = [one for one in (args.url, args.arrow, args.client) if one]
    if len(given) != 1:
        problem = "only one of URL, --arrow and --client may be given"
        raise UsageError(problem if given else f"URL is missing (see {_NAME} --help)")
    check_output_dir(args.output, (), args.force)
    with _ended_by_signals():
        return _judge(cases, args, only)


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Take SIGTERM and SIGHUP as Ctrl-C: programs end, queues go, and files are written."""
    before = {
        number: signal.signal(number, signal.default_int_handler)
        for number in (signal.SIGTERM, signal.SIGHUP)
        # As by nohup.
        if signal.getsignal(number) != signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _parsed(argv: list[str]) -> argparse.Namespace:
    """Return the options; argparse cannot tell the words of --client from its own."""
    flag = "--client"
    end = argv.index(flag) if flag in argv else len(argv)
    args = make_parser().parse_args(argv[:end])
    if end < len(argv):
        command = argv[end + 1 :]
        args.client = command[1:] if command[:1] == ["--"] else command
        if not args.client:
            raise UsageError(f"{flag}: the command is missing, as in {flag} -- COMMAND")
    return args


def _check_together(args: argparse.Namespace) -> None:
    """Refuse options that would be ignored.

    Raises:
        UsageError: there is one.
    """
    mode = next((name for name in _TOGETHER if getattr(args, name)), None)
    if mode is None:
        return
    for action in make_parser()._actions:
        name = action.dest
        if getattr(args, name, action.default) == action.default or name in _TOGETHER[mode]:
            continue
        flag = action.option_strings[-1] if action.option_strings else "URL"
        raise UsageError(f"{flag} does not go with --{mode}")


def _kinds(args: argparse.Namespace) -> tuple[str, ...]:
    """Return whose cases are due: an arrow is a client, too."""
    if args.arrow is not None:
        return ("client", "arrow")
    return ("server",) if args.client is None else ("client",)


def _judge(cases: list[Case], args: argparse.Namespace, only: list[str]) -> int:
    console, began = Console(args, required=True), datetime.now(timezone.utc)
    part = ""

    def tell(result: runner.Result) -> None:
        nonlocal part
        lines = list(text.result_lines(result, args.verbose))
        if (title := text.part_of(result.case.id)) != part:
            part = title
            lines = ["", part, *lines]
        console.show("\n".join(lines))

    found = client_subject(args) if args.url is None else server_subject(args)
    with closing(found) as subject:
        console.show(f"{_NAME}: {subject.title}")
        report = runner.run(cases, subject, jobs=args.jobs, seconds=args.timeout, tell=tell)
        if isinstance(subject, ServerSubject) and report.reason is None:
            subject.look_for_harm()
    console.show(f"\n{text.counts_line(report.counts)}")
    for line in (*filter(None, [report.reason]), *subject.stayed):
        report_warning(_NAME, line)
    if any((args.json, args.output, args.html, args.markdown, args.junit)):
        _write(documents.conformance(report, subject, args, only, began), args, console)
    levels = (MUST, CONTRACT, *([SHOULD] if args.strict else []))
    broken = any(one.verdict == BROKEN and one.case.level in levels for one in report.results)
    if report.interrupted:
        return EXIT_INTERRUPTED
    return EXIT_FAILURE if broken or report.reason or subject.stayed else EXIT_OK


def _write(document: dict[str, Any], args: argparse.Namespace, console: Console) -> None:
    """Write the document, and the files that are made of it."""
    if args.output is not None:
        file = make_output_dir(args.output) / documents.FILE
        attempt_output(lambda: write_json(file, document))
    if args.html is not None:
        from quiver_fast.cli.conform.page import conformance_html

        attempt_output(lambda: write_text(Path(args.html), conformance_html([document])))
    console.document(document)


def _show_matrix(args: argparse.Namespace) -> int:
    """Print the counts of documents, and write their page and their tables."""
    # The imports are slow: no other run needs them.
    from quiver_fast.cli.conform.matrix import Matrix, matrix_markdown
    from quiver_fast.cli.conform.page import conformance_html

    found = [documents.read(place) for place in args.matrix]
    try:
        matrix = Matrix(found)
        page, tables = conformance_html(found), matrix_markdown(matrix)
        lines = [
            f"{name}: {text.counts_line(one['counts'])}"
            for name, one in zip(matrix.names, found, strict=True)
        ]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"a document of --matrix is damaged: {error!r}") from None
    print_text("".join(f"{visible(line)}\n" for line in lines))
    if args.html is not None:
        attempt_output(lambda: write_text(Path(args.html), page))
    if args.markdown is not None:
        data = tables.encode(errors="backslashreplace")
        attempt_output(lambda: write_file(Path(args.markdown), methodcaller("write", data),
                                          append=True))  # fmt: skip
    return EXIT_OK


def make_parser() -> ArgumentParser:
    """Return the parser of the command line."""
    parser = ArgumentParser(_NAME, _DESCRIPTION, _EPILOG)
    # `Console` knows it; a judgement without its lines tells nothing.
    parser.set_defaults(quiet=False)
    add = parser.add_argument
    add("url", metavar="URL", nargs="?", help="The server: [amqp:|amqps:]//HOST[:PORT]")
    add("--arrow", metavar="NAME", type=named,
        help="Judge an implementation of Quiver, such as pyfast, in place of a server")  # fmt: skip
    add("--client", metavar="COMMAND", nargs=argparse.REMAINDER,
        help="Judge the client that COMMAND starts; all words from here on are of COMMAND: "
        "--client -- COMMAND")  # fmt: skip
    add("--only", metavar="ID,…", type=named,
        help="Judge only the clauses whose ids begin so, such as 2.6 or 2.6.6/1")  # fmt: skip
    add("--list", action="store_true", help="List the clauses; with --verbose their faults too")
    add("--strict", action="store_true", help="Fail for a broken SHOULD too")
    add("--address", metavar="TEXT", type=named,
        help="Use this queue, and empty it; '{}' in it is a number for each case")  # fmt: skip
    add("--timeout", metavar="TIME", type=within(duration, 1, 86_400), default=120,
        help="The most time for all cases (default 120s)")  # fmt: skip
    add("--patience", metavar="TIME", type=within(part_duration, 0.01, 3600), default=5.0,
        help="The time for an answer of the server (default 5s)")  # fmt: skip
    add("--jobs", metavar="COUNT", type=within(positive_count, 1, 100), default=8,
        help="How many cases run at the same time (default 8)")  # fmt: skip
    add("-v", "--verbose", action="store_true", help="Show the frames of each case")
    _add_output_options(parser.add_argument_group("output options"))
    add_tls_options(parser)
    add_completion_option(parser)
    add("--version", action="version", version=f"%(prog)s {__version__}",
        help="Print the version and exit")  # fmt: skip
    return parser


def _add_output_options(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--output", metavar="DIR", type=named, help=f"Save the results as DIR/{documents.FILE}")
    add("--force", action="store_true", help="Use DIR even if it is not empty")
    add("--json", action="store_true",
        help="Print the results as one JSON document on standard output, everything else on "
        "standard error")  # fmt: skip
    add_verdict_options(group)
    add("--html", metavar="FILE", type=output_file,
        help="Write a page with the verdicts and the frames of each break to FILE")  # fmt: skip
    add("--matrix", metavar="DIR", nargs="+",
        help="Judge nothing: put the results in these directories beside each other, for --html "
        "and --markdown")  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
