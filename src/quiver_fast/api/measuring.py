"""A measurement as a function: it runs `quiver` and returns its document."""

from __future__ import annotations

import io
import json
import os
import re
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Number
from pathlib import Path
from typing import Any, overload

from quiver_fast.api.ending import end
from quiver_fast.api.results import Result, Runs
from quiver_fast.errors import (
    EXIT_INCONCLUSIVE,
    EXIT_OK,
    EXIT_THRESHOLD,
    EXIT_USAGE,
    QuiverError,
    UsageError,
)
from quiver_fast.own_process import own_command, own_environment
from quiver_fast.process import STOP_GRACE, Child

# Options of other measurements, whose documents are different, and options without a measurement.
_REFUSED = (
    "baseline", "detect", "relevant", "find_rate", "within", "sweep", "resume", "churn", "churn_of",
    "hold", "print_workload", "init_only", "completion", "help", "version",
)  # fmt: skip
# Options that may be given several times.
_SEVERAL = ("fail_if", "abort_if")
# The command gives its arrows STOP_GRACE. Then it deletes its queues and saves the results.
_GRACE = 2 * STOP_GRACE
_TICK = 0.01
# A flag in a message; the callers of `measure` write its name. Only the command has --help.
_FLAG = re.compile(r"(?<![\w-])--(?!help\b)([a-z][a-z-]*)")
# The message about an option that is True, and takes a value.
_NO_VALUE = re.compile(r"argument \S*--([a-z-]+): expected one argument.*")


@overload
def measure(url: str | None = None, *, runs: None = None, **options: Any) -> Result: ...
@overload
def measure(url: str | None = None, *, runs: int, **options: Any) -> Runs: ...
def measure(url: str | None = None, *, runs: int | None = None, **options: Any) -> Result | Runs:
    """Measure as ``quiver`` does, and return the result.

    Ctrl-C ends the run in order, and raises KeyboardInterrupt. A second one kills the run.

    Args:
        url: the queue, such as ``//localhost/q0``; None for peer-to-peer.
        runs: how often to measure; None for a single result.
        options: the long options of ``quiver`` with ``_`` for ``-``: ``duration=5``,
            ``rate="10k"``, ``durable=True``. A list gives several conditions. False and
            None leave it out. Without ``output`` the files go to a new temporary directory.

    Raises:
        UsageError: an option is unknown, wrong, or of another kind of measurement.
        QuiverError: a run failed or is incomplete; the message says why.
    """
    with _started(url, {"runs": runs, **options}) as run:
        while not run.child.poll():
            time.sleep(_TICK)
        return run.result()


@overload
async def measure_async(url: str | None = None, *, runs: None = None, **options: Any) -> Result: ...
@overload
async def measure_async(url: str | None = None, *, runs: int, **options: Any) -> Runs: ...
async def measure_async(
    url: str | None = None, *, runs: int | None = None, **options: Any
) -> Result | Runs:
    """Measure as :func:`measure` does, while the event loop goes on.

    If the task is cancelled, the run ends in order before CancelledError is raised. A second
    cancellation kills its arrows.
    """
    # The import takes time, and callers have done it already.
    import asyncio

    with _started(url, {"runs": runs, **options}) as run:
        try:
            while not run.child.poll():
                await asyncio.sleep(_TICK)
        except asyncio.CancelledError:
            run.child.stop()
            while not run.child.poll():
                await asyncio.sleep(_TICK)
            raise
        return run.result()


@dataclass(frozen=True)
class _Run:
    """A started `quiver`, the file of its document, and its lines of errors."""

    child: Child
    document: Path
    errors: io.StringIO

    def result(self) -> Result | Runs:
        """Return the result of the command, which has ended."""
        code, lines = self.child.returncode, _errors(self.errors.getvalue())
        if code == EXIT_USAGE:
            raise UsageError(_FLAG.sub(_named, lines[-1]) if lines else "the options are wrong")
        if code not in (EXIT_OK, EXIT_INCONCLUSIVE, EXIT_THRESHOLD):
            raise QuiverError(lines[-1] if lines else f"quiver failed: {self.child.ending}")
        breached = tuple(lines) if code != EXIT_OK else ()
        document = json.loads(self.document.read_bytes())
        for one in document["thresholds"]:
            if one["inconclusive"]:
                text = f"fail_if {one['condition']} is inconclusive: {one['inconclusive']}"
                warnings.warn(text, stacklevel=3)
        kind = Runs if document["schema"]["name"] == "run-set" else Result
        return kind(document, breached)


@contextmanager
def _started(url: str | None, options: dict[str, Any]) -> Iterator[_Run]:
    """Start `quiver`; the end of the block leaves no process of it behind."""
    for name in _REFUSED:
        if options.get(name):
            raise UsageError(f"{name} is not for measure: use the command")
    if not isinstance(url, str | None):
        raise UsageError(f"the URL is text such as '//localhost/q0', not {url!r}")
    words = [*own_command("quiver_fast"), *_words(options), "--json"]
    # Others can read a command line, but not the environment. The URL may have a password.
    environment = own_environment() | ({} if url is None else {"QUIVER_URL": url})
    with tempfile.TemporaryDirectory() as folder:
        document, errors = Path(folder, "document.json"), io.StringIO()
        child = Child(words, environment, output=document, errors=errors, grace=_GRACE)
        try:
            yield _Run(child, document, errors)
        finally:
            end(child)


def _words(options: dict[str, Any]) -> list[str]:
    words = []
    for name, value in options.items():
        flag = f"--{name.replace('_', '-')}"
        if value is True:
            words.append(flag)
        elif value is not False and value is not None:
            several = name in _SEVERAL and isinstance(value, (list, tuple))
            values = value if several else [value]
            for each in values:
                if not isinstance(each, (str, Number, os.PathLike)):
                    raise UsageError(f"{name} takes text or a number, not {each!r}")
            words += [f"{flag}={each}" for each in values]
    return words


def _named(flag: re.Match[str]) -> str:
    """Return the argument that gives a flag."""
    return flag[1].replace("-", "_")


def _errors(text: str) -> list[str]:
    """Return the lines of a command's errors, without its name."""
    mark = "quiver: error: "
    lines = [line.removeprefix(mark) for line in text.splitlines() if line.startswith(mark)]
    return [_NO_VALUE.sub(r"--\1: expected a value, not True", line) for line in lines]
