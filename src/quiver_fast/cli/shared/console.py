"""The console: results go to standard output, everything else to standard error."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from quiver_fast.analysis.export.json_text import json_pieces
from quiver_fast.cli.shared.common import attempt_output, despite_lost_output
from quiver_fast.cli.shared.quantities import named
from quiver_fast.errors import UsageError, visible
from quiver_fast.output_file import is_stream

UPSTREAM = "upstream"
"""The format that upstream prints, byte for byte."""


class Console:
    """Prints under ``--quiet``, ``--verbose`` and ``--json``.

    With ``--json`` standard output carries one JSON document and nothing else;
    tables and summaries go to standard error then. If standard output
    cannot be written, the work goes on, and its exit code tells how it ended.
    """

    def __init__(
        self, args: argparse.Namespace, log: TextIO | None = None, *, required: bool = False
    ) -> None:
        """Obey the options.

        Args:
            args: the options.
            log: where everything goes, and nothing to the terminal; None for the terminal.
            required: the text is all that the command gives, so that it fails if the text is lost.
        """
        self._required = required
        self.quiet: bool = args.quiet
        self.errors = log
        """Where a child's standard error goes; None for our own."""
        self.verbose: bool = args.verbose
        # Commands without the option have one layout.
        self._format: str = vars(args).get("format", UPSTREAM)
        self.json: bool = args.json
        # Commands without verdicts have no such options.
        self._files = {
            name: Path(file) for name in ("markdown", "junit") if (file := vars(args).get(name))
        }

    @property
    def progress(self) -> bool:
        """Whether to show the progress of long work."""
        return not self.quiet and self.errors is None

    @property
    def terminal(self) -> TextIO | None:
        """The terminal that shows the normal output; None if the output is upstream's text.

        Pipes and files get upstream's text. So do terminals that cannot move the cursor, or any
        terminal with NO_COLOR or ``--format upstream``.
        """
        plain = os.environ.get("NO_COLOR") or os.environ.get("TERM", "dumb") in ("dumb", "unknown")
        if self.quiet or self.errors or plain or self._format == UPSTREAM:
            return None
        return self._out if self._out.isatty() else None

    def show(self, text: str) -> None:
        """Print a part of the normal output at once, unless quiet."""
        if not self.quiet or self.errors:
            with self._despite_lost_output():
                print(visible(text), file=self._out, flush=True)

    def show_all(self, texts: Iterable[str]) -> None:
        """Print texts one after the other as :meth:`show` does, without their last newlines."""
        if self.quiet and not self.errors:
            return
        ending = ""
        with self._despite_lost_output():
            for text in map(visible, texts):
                shown = text.rstrip("\n")
                if shown:
                    self._out.write(ending + shown)
                    ending = ""
                ending += text[len(shown) :]
            if ending:
                print(file=self._out, flush=True)

    def _despite_lost_output(self) -> AbstractContextManager[None]:
        # A log is a file of the results.
        return nullcontext() if self.errors else despite_lost_output(required=self._required)

    @property
    def _out(self) -> TextIO:
        return self.errors or (sys.stderr if self.json else sys.stdout)

    def note(self, text: str) -> None:
        """Print a detail on standard error, if verbose."""
        if self.verbose or self.errors:
            print(visible(text), file=self.errors or sys.stderr, flush=True)

    def document(self, document: dict[str, Any], **beside: Any) -> None:
        """Print ``document`` if ``--json`` asks for it, and write the files of verdicts.

        Args:
            document: the document.
            beside: further keys for the files.
        """
        # First, because a damaged answer of a campaign ends the command at the files.
        if self.json:
            with despite_lost_output(required=True):
                sys.stdout.writelines(json_pieces(document))
                print(flush=True)
        if self._files:
            # The import is slow: only a run with such a file waits for it.
            from quiver_fast.cli.shared import verdict_files

            known = document | beside
            for name, file in self._files.items():
                attempt_output(partial(getattr(verdict_files, f"write_{name}"), file, known))


def add_console_options(parser: argparse.ArgumentParser) -> None:
    """Add the output options of the measuring commands."""
    parser.add_argument(
        "--output",
        metavar="DIR",
        type=named,
        help="Save output files to DIR (default: a new temporary directory)",
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="Use DIR even if it is not empty, replacing files of earlier runs",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="Print the results as one JSON document on standard output, "
        "everything else on standard error",
    )


def add_format_option(parser: argparse._ActionsContainer) -> None:
    """Add the option that chooses between the terminal's layout and upstream's text."""
    parser.add_argument(
        "--format",
        metavar="FORMAT",
        choices=["auto", UPSTREAM],
        default="auto",
        help="Print tables and summaries as a terminal shows them best ('auto'), or as upstream "
        "prints them ('upstream'); pipes always get upstream's text (default auto)",
    )


def add_page_option(parser: argparse._ActionsContainer) -> None:
    """Add the option for a page of HTML."""
    what = "Write a page with the answer, charts and tables to FILE"
    parser.add_argument("--html", metavar="FILE", type=output_file, help=what)


def add_verdict_options(parser: argparse._ActionsContainer) -> None:
    """Add the options for files that continuous integration shows."""
    for flag, what in (
        ("--markdown", "Append the few figures and the verdicts to FILE as Markdown"),
        ("--junit", "Write the verdicts to FILE as JUnit's XML, a test case each"),
    ):
        parser.add_argument(flag, metavar="FILE", type=output_file, help=what)


def check_files(args: argparse.Namespace) -> None:
    """Refuse one file for two results, of which one would replace the other.

    Raises:
        UsageError: two options name it.
    """
    flags: dict[Path, str] = {}
    for name in ("html", "markdown", "junit", "hgrm", "hlog"):
        file = vars(args).get(name)
        if file and not is_stream(Path(file)):
            first = flags.setdefault(Path(file).resolve(), f"--{name}")
            if first != f"--{name}":
                raise UsageError(f"{first} and --{name} name one file, {file}: only one would stay")


def output_file(text: str) -> str:
    """Refuse a file that cannot be written, before a run is wasted: an argparse type."""
    file = Path(named(text))
    if text == "-":
        raise argparse.ArgumentTypeError("'-' is no file: write /dev/stdout")
    if not file.parent.is_dir():
        raise argparse.ArgumentTypeError(f"'{text}': there is no folder {file.parent}")
    if file.is_dir():
        raise argparse.ArgumentTypeError(f"'{text}' is a folder")
    if not os.access(file if file.exists() else file.parent, os.W_OK):
        raise argparse.ArgumentTypeError(f"'{text}' cannot be written")
    return text
