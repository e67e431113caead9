"""The results of measurements: of one run, and of several."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quiver_fast.analysis.model.figures import SET_FIGURES
from quiver_fast.analysis.model.units import NO_RATE, in_milliseconds
from quiver_fast.analysis.read.set_layout import CANDIDATE
from quiver_fast.cli.shared.output import ArrowFiles
from quiver_fast.errors import QuiverError, RecordError
from quiver_fast.extras import optional_module
from quiver_fast.words import counted

if TYPE_CHECKING:
    import pandas
    import pyarrow

    from quiver_fast.records.transfers import Transfers


_NO_LATENCY = "no message was received: there is no latency"


@dataclass(frozen=True, repr=False)
class Result:
    """The result of one run.

    Attributes:
        document: the document of ``quiver --json``, or one of the ``runs`` in that of
            ``quiver --runs --json``; ``docs/analysis.md`` has its keys.
        breaches: a line for each condition of ``fail_if`` that holds.
    """

    document: dict[str, Any]
    breaches: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the figures in a few lines."""
        return "\n".join([*_headline(self.document), *self.breaches, f"Files: {self.directory}"])

    def __repr__(self) -> str:
        """Return the figures in one line."""
        return f"<Result: {'; '.join(_headline(self.document))}>"

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
        """Received messages per second.

        Raises:
            QuiverError: the messages are too few for a rate.
        """
        return _known(self.document["results"]["receiver_rate"], NO_RATE)

    def latency(self, rank: str | float = "50") -> float:
        """Return a percentile of the latency in milliseconds.

        Args:
            rank: a percentile of the document, such as 50, 99 or "99.9"; 0 is the least latency and
                100 the greatest.

        Raises:
            KeyError: the document does not have it.
            QuiverError: no message was received.
        """
        latency = self.document["receiver"]["latency"]
        return _known(in_milliseconds(latency, f"{float(rank):g}"), _NO_LATENCY)

    def transfers(self, role: str) -> Transfers:
        """Return the records of "sender" or "receiver" as NumPy arrays.

        Args:
            role: with many ends there is a file for each process: "sender.0", "sender.1" and so on.

        Raises:
            RecordError: the records are not there or are damaged.
        """
        from quiver_fast.records.parser import read_transfers

        summary = self.document[role.partition(".")[0]]
        file = ArrowFiles(self.directory, role).records
        if not file.exists():
            raise RecordError(f"there are no records of {role} in '{self.directory}'")
        return read_transfers(file, record_format=summary["records"]["format"])

    def to_arrow(self, role: str = "receiver") -> pyarrow.Table:
        """Return all records of "receiver" or "sender" as a table, a row for each message.

        The columns are ``sent``, for the receiver also ``received`` and ``latency``, and ``id`` if
        the records have ids; an id that is no number is null. Their types say the clock's unit.
        They wrap the arrays of :meth:`transfers`.

        Raises:
            QuiverError: pyarrow is not installed, or the records are not there or are damaged.
        """
        arrow = optional_module("pyarrow", "to_arrow")
        ends = [end for end in self.document.get("ends", []) if end["role"] == role]
        roles = [f"{role}.{end['number']}" for end in ends] or [role]
        return arrow.concat_tables([_table(arrow, self.transfers(each)) for each in roles])

    def to_pandas(self, role: str = "receiver") -> pandas.DataFrame:
        """Return :meth:`to_arrow` as a data frame.

        Raises:
            QuiverError: pandas or pyarrow is not installed, or the records are not there or are
                damaged.
        """
        optional_module("pandas", "to_pandas", extra="pandas")
        return self.to_arrow(role).to_pandas()


@dataclass(frozen=True, repr=False)
class Runs:
    """The results of several runs of one measurement.

    Attributes:
        document: the document of ``quiver --runs --json``; ``docs/comparing.md`` explains it.
        breaches: a line for each condition of ``fail_if`` and each run for which it holds.
    """

    document: dict[str, Any]
    breaches: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return a line for each run."""
        lines = [f"{run['name']}: {'; '.join(_headline(run))}" for run in self.document["runs"]]
        return "\n".join([*lines, *self.breaches, f"Files: {self.directory}"])

    def __repr__(self) -> str:
        """Return the number of runs and their directory."""
        return f"<Runs: {counted(len(self.document['runs']), 'run')} in {self.directory}>"

    @property
    def directory(self) -> Path:
        """The directory that has a directory for each run."""
        return Path(self.document["output_dir"])

    @property
    def results(self) -> tuple[Result, ...]:
        """The result of each run, in order."""
        return tuple(
            Result(run, tuple(line for line in self.breaches if line.endswith(f"({run['name']})")))
            for run in self.document["runs"]
        )

    @property
    def rate(self) -> float:
        """The median over the runs of received messages per second, in the steady state.

        Raises:
            QuiverError: no run has messages enough for a rate.
        """
        return self._median("message_rate", NO_RATE)

    def latency(self, rank: str | float = "50") -> float:
        """Return the median over the runs of a percentile of the steady state, in milliseconds.

        Args:
            rank: 50, 99, or 100 for the greatest latency.

        Raises:
            KeyError: the document has no median of it.
            QuiverError: no message was received.
        """
        keys = {one.rank: key for key, one in SET_FIGURES.items()}
        return self._median(keys[float(rank)], _NO_LATENCY)

    def _median(self, figure: str, missing: str) -> float:
        return _known(self.document["summary"][CANDIDATE]["figures"][figure]["median"], missing)


def _known(value: float | None, missing: str) -> float:
    """Return a figure of a document; raise a QuiverError with ``missing`` where it has none."""
    if value is None:
        raise QuiverError(missing)
    return float(value)


def _headline(document: dict[str, Any]) -> list[str]:
    # Rich is slow to import, and only a result that is printed needs it.
    from quiver_fast.cli.arrow.terminal import headline

    return [line.plain for line in headline(document)]


def _table(arrow: Any, records: Transfers) -> pyarrow.Table:
    time = arrow.timestamp(records.time_unit, "UTC")
    columns = {"sent": arrow.array(records.sent).view(time)}
    if records.received is not None:
        latency = arrow.array(records.received - records.sent)
        columns["received"] = arrow.array(records.received).view(time)
        columns["latency"] = latency.view(arrow.duration(records.time_unit))
    if records.ids is not None:
        hashed = None if records.ids_high is None else records.ids_high < 0
        columns["id"] = arrow.array(records.ids, mask=hashed)
    return arrow.table(columns)
