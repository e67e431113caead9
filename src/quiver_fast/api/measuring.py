"""A measurement as a function: it runs `quiver` and returns its document."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quiver_fast.analysis.model.units import per_millisecond
from quiver_fast.cli.shared.output import ArrowFiles
from quiver_fast.errors import EXIT_OK, EXIT_THRESHOLD, EXIT_USAGE, QuiverError, UsageError

if TYPE_CHECKING:
    from quiver_fast.records.transfers import Transfers

_COMMAND = (sys.executable, "-m", "quiver_fast.cli.pair.command")
# Options without a run, or for a set of runs or a search, whose documents are different.
_NOT_ONE_RUN = (
    "runs", "baseline", "allow_incomplete", "find_rate", "within", "sweep", "resume",
    "print_workload", "init_only",
)  # fmt: skip


@dataclass(frozen=True)
class Result:
    """The result of one measurement.

    Attributes:
        document: the document of ``quiver --json``; ``docs/analysis.md`` has its keys.
        breaches: a line for each condition of ``fail_if`` that holds.
    """

    document: dict[str, Any]
    breaches: tuple[str, ...] = ()

    @property
    def directory(self) -> Path:
        """The directory of the records and summaries."""
        return Path(self.document["output_dir"])

    @property
    def sent(self) -> int:
        """The number of messages that the sender recorded."""
        return int(self.document["sender"]["results"]["message_count"])

    @property
    def received(self) -> int:
        """The number of messages of this run that the receiver recorded."""
        return int(self.document["receiver"]["results"]["message_count"])

    @property
    def unreceived(self) -> int:
        """The number of messages that were sent and not received."""
        return int(self.document["delivery"]["unreceived"])

    @property
    def rate(self) -> float:
        """Received messages per second."""
        return float(self.document["results"]["receiver_rate"])

    def latency(self, rank: str | float = "50") -> float:
        """Return a percentile of the latency in milliseconds.

        Args:
            rank: a percentile of the document, such as 50, 99 or "99.9"; 0 is the least latency and
                100 the greatest.

        Raises:
            KeyError: the document does not have it.
        """
        latency = self.document["receiver"]["latency"]
        ticks = latency["percentiles"][f"{float(rank):g}"]
        return float(ticks / per_millisecond(latency["unit"]))

    def transfers(self, role: str) -> Transfers:
        """Return the records of "sender" or "receiver" as NumPy arrays.

        Raises:
            RecordError: the records were removed or are damaged.
        """
        from quiver_fast.records.parser import read_transfers

        summary = self.document[role]
        file = ArrowFiles(self.directory, role).records
        return read_transfers(file, record_format=summary["records"]["format"])


def measure(url: str | None = None, **options: Any) -> Result:
    """Measure once, as ``quiver`` does, and return the result.

    Args:
        url: the queue, such as ``//localhost/q0``; None for peer-to-peer.
        options: the long options of ``quiver`` with ``_`` for ``-``: ``duration=5``,
            ``rate="10k"``, ``durable=True``. A list gives an option several times. False and
            None leave it out. Without ``output`` the files go to a new temporary directory.

    Raises:
        UsageError: an option is unknown, wrong, or not for a single run.
        QuiverError: the run failed or is incomplete; the message says why.
    """
    for name in _NOT_ONE_RUN:
        if options.get(name):
            raise UsageError(f"{name} is not for a single run: use the command")
    words = [*_COMMAND, *_words(options), "--json"]
    # Others can read a command line, but not the environment. The URL may have a password.
    environment = dict(os.environ) if url is None else os.environ | {"QUIVER_URL": url}
    with tempfile.TemporaryFile("w+") as errors:
        end = subprocess.run(
            words, stdout=subprocess.PIPE, stderr=errors, env=environment, check=False
        )
        errors.seek(0)
        lines = _errors(errors.read())
    if end.returncode == EXIT_USAGE:
        raise UsageError(lines[-1] if lines else "the options are wrong")
    if end.returncode not in (EXIT_OK, EXIT_THRESHOLD):
        raise QuiverError(lines[-1] if lines else f"quiver ended with {end.returncode}")
    breached = tuple(lines) if end.returncode == EXIT_THRESHOLD else ()
    return Result(json.loads(end.stdout), breached)


def _words(options: dict[str, Any]) -> list[str]:
    words = []
    for name, value in options.items():
        flag = f"--{name.replace('_', '-')}"
        if value is True:
            words.append(flag)
        elif value is not False and value is not None:
            values = value if isinstance(value, (list, tuple)) else [value]
            words += [f"{flag}={each}" for each in values]
    return words


def _errors(text: str) -> list[str]:
    """Return the lines of a command's errors, without its name."""
    mark = "quiver: error: "
    return [line.removeprefix(mark) for line in text.splitlines() if line.startswith(mark)]
