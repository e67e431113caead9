"""What goes where: results on standard output, everything else on standard error."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

__all__ = ["Console", "add_console_options"]


class Console:
    """Prints under ``--quiet``, ``--verbose`` and ``--json``.

    With ``--json`` standard output carries one JSON document and nothing else;
    tables and summaries go to standard error then.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        self.quiet: bool = args.quiet
        self._verbose: bool = args.verbose
        self._json: bool = args.json

    def show(self, text: str) -> None:
        """Print a part of the normal output at once, unless quiet."""
        if not self.quiet:
            print(text, file=sys.stderr if self._json else sys.stdout, flush=True)

    def note(self, text: str) -> None:
        """Print a detail on standard error, if verbose."""
        if self._verbose:
            print(text, file=sys.stderr, flush=True)

    def document(self, document: dict[str, Any]) -> None:
        """Print ``document`` on standard output, if it was asked for."""
        if self._json:
            print(json.dumps(document, indent=2), flush=True)


def add_console_options(parser: argparse.ArgumentParser) -> None:
    """Add the options about output that both measuring commands have."""
    parser.add_argument(
        "--output",
        metavar="DIR",
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
