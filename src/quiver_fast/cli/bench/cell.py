"""One combination of `quiver-bench`: run, judged, and kept."""

from __future__ import annotations

import argparse
import shutil
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Any

from quiver_fast.analysis.model.ranks import BENCH
from quiver_fast.analysis.model.units import in_milliseconds
from quiver_fast.cli.arrow.progress import Limits, RunProgress
from quiver_fast.cli.arrow.supervisor import SignalWatch
from quiver_fast.cli.bench.matrix import Cell
from quiver_fast.cli.pair.ends_run import make_plans, make_run
from quiver_fast.cli.pair.resumed import NUMBER, TEXT, read_begun
from quiver_fast.cli.pair.run import PairPlans
from quiver_fast.cli.pair.set_sides import Measured, Place
from quiver_fast.cli.pair.warm_up import warm_up, warm_up_text
from quiver_fast.cli.server.plan import ServerPlan
from quiver_fast.cli.server.run import ServerRun
from quiver_fast.cli.shared.console import Console
from quiver_fast.cli.shared.output import make_output_dir, write_json
from quiver_fast.cli.shared.progress import Progress
from quiver_fast.cli.shared.url import AddressUrl, parse_url
from quiver_fast.errors import QuiverError, UsageError
from quiver_fast.schemas import marked
from quiver_fast.sockets import free_port

PASSED, FAILED = "PASSED", "FAILED"

_RESULT = "result.json"
# The kind of a result (:func:`.resumed.fits`).
_KIND = {
    **dict.fromkeys(("name", "sender", "receiver", "status", "output_dir"), str),
    **dict.fromkeys(("count", "unreceived", "lost", "older", "duplicate"), (int, NoneType)),
    **dict.fromkeys(("duration", "rate"), NUMBER),
    "server": TEXT, "reason": TEXT, "workload": (dict, NoneType), "warm_up": (dict, NoneType),
    "broker": (NoneType, dict.fromkeys(("product", "version", "command"), TEXT)),
    "latency_ms": (NoneType, dict.fromkeys(BENCH, (int, float))),
    "cpu_us": dict.fromkeys(("sender", "server", "receiver"), NUMBER),
    "found_rate": (NoneType, {"reason": TEXT, **dict.fromkeys(("rate", "low", "high"), NUMBER)}),
}  # fmt: skip
READY_PATIENCE = 150.0
"""Seconds within which a server must be ready."""
_QUEUE = "q0"


def kept_result(cell: Cell, output_dir: Path) -> dict[str, Any] | None:
    """Return the result of ``cell`` that an earlier run kept whole in ``output_dir``, or None."""
    place = output_dir / cell.path / _RESULT
    try:
        result = read_begun(place, _KIND) if place.is_file() else {}
    except UsageError:
        return None
    whole = result.get("name") == cell.name and result["status"] in (PASSED, FAILED)
    return result if whole else None


class CellPlace(Place):
    """Where a combination goes: its pair, with the log, and its server and result beside it."""

    @property
    def log(self) -> Path:
        """The file that gets the output of the pair."""
        return self.directory / "output.txt"


def place_of(cell: Cell, output_dir: Path) -> CellPlace:
    """Return the place of a combination, without the files of an earlier bench."""
    directory = output_dir / cell.path
    shutil.rmtree(directory, ignore_errors=True)
    return CellPlace(cell.name, make_output_dir(str(directory / "pair")))


class CellSide:
    """Measures a combination. Only a complete run is a success."""

    def __init__(self, cell: Cell, args: argparse.Namespace) -> None:
        """Take a combination, and the arguments of `quiver-bench`."""
        self.label = cell.name
        self._cell, self._args = cell, args

    def measure(self, place: Place, signals: SignalWatch, progress: Progress) -> Measured:
        """See :func:`.set_sides.measured`; ``known`` has what :meth:`_CellRun.run` returns."""
        with place.log.open("a", encoding="utf-8", errors="backslashreplace") as log:
            console = Console(self._args, log)
            run = _CellRun(self._cell, self._args, place.directory, console, signals, progress)
            known: dict[str, Any] = {}
            try:
                known = run.run()
                reason = known["document"]["reason"]
            except QuiverError as error:
                reason = str(error)
            except Exception as error:
                # An error of ours fails the combination, and must not end the whole bench.
                traceback.print_exc(file=log)
                reason = f"unexpected {type(error).__name__}: {error}"
            if reason is not None:
                console.note(f"{FAILED}: {reason}")
        return Measured(None, reason, known=known)


@dataclass
class _CellRun:
    """Runs the server of a cell, if it has one, and the pair."""

    _cell: Cell
    _args: argparse.Namespace
    _directory: Path
    _console: Console
    _signals: SignalWatch
    _progress: Progress

    def run(self) -> dict[str, Any]:
        """Return the pair's ``document``, and the server's ``server_cpu_ms`` and ``command``.

        The last two are None without a server.
        """
        if self._cell.server is None:
            document = self._pair(*self._plans(None))
            return {"document": document, "server_cpu_ms": None, "command": None}
        url = cell_url(self._args, free_port())
        server = ServerRun(self._server_plan(url), self._directory.parent / "server" / "output.txt")
        server.start()
        try:
            if not server.wait_until_ready(self._signals, READY_PATIENCE):
                raise QuiverError(self._signals.reason or "")
            plans, args = self._plans(url)
            warmed = None if args.find_rate else self._warm_up(args)
            # Messages do not cause the CPU of the server's start and end.
            before = server.cpu_ms()
            document = self._pair(plans, args) | ({} if args.find_rate else {"warm_up": warmed})
            server.check_alive()
            used = server.cpu_ms() - before
        finally:
            problem = server.end()
        if problem is not None:
            raise QuiverError(problem)
        return {"document": document, "server_cpu_ms": used, "command": server.shown_command}

    def _server_plan(self, url: AddressUrl) -> ServerPlan:
        if self._cell.server is None:
            raise RuntimeError("the cell has no server")
        directory = make_output_dir(str(self._directory.parent / "server"))
        return ServerPlan(
            implementation=self._cell.server,
            url=url,
            ready_file=str((directory / "ready").absolute()),
            options={key: vars(self._args)[key] for key in ("cert", "key")},
            verbose=self._args.verbose,
        )

    def _plans(self, url: AddressUrl | None) -> tuple[PairPlans, argparse.Namespace]:
        args = pair_arguments(self._cell, self._args, url)
        return make_plans(args), args

    def _warm_up(self, args: argparse.Namespace) -> dict[str, Any] | None:
        """Warm the server up, and say so."""
        found = warm_up(args, self._cell.name, self._directory, self._signals, self._progress)
        if found is not None:
            self._console.note(warm_up_text(found))
        return found

    def _pair(self, plans: PairPlans, args: argparse.Namespace) -> dict[str, Any]:
        if args.find_rate:
            conditions = [condition.condition for condition in args.find_rate]
            args.workload = (plans.workload or {}) | {
                "find-rate": conditions,
                "within": args.within,
            }
            # The import is slow: only a search waits for it.
            from quiver_fast.cli.pair.found_rate import FindRate

            search = FindRate("quiver-bench", args, self._console, self._cell.name)
            search.measure(self._directory, self._signals, self._progress)
            return search.document() | {"reason": search.problem()}
        shown = RunProgress(self._progress, Limits(self._args.count, self._args.duration))
        run = make_run(plans, self._directory, self._console, self._signals, shown)
        run.run()
        return run.analyse() | {"workload": plans.workload}


def cell_url(args: argparse.Namespace, port: int) -> AddressUrl:
    """Return the URL of a cell's queue."""
    return parse_url(f"{'amqps' if args.cert else 'amqp'}://localhost:{port}/{_QUEUE}")


def pair_arguments(
    cell: Cell, args: argparse.Namespace, url: AddressUrl | None
) -> argparse.Namespace:
    """Return the arguments of `quiver` for this cell."""
    return argparse.Namespace(**{
        **vars(args),
        # The certificate is the server's; the arrows have none.
        **dict.fromkeys(("cert", "key", "username", "password_file", "sasl_mechanisms")),
        "expose_password": False,
        # Each cell has a server of its own, with one empty queue.
        "address": None,
        **dict.fromkeys(("purge", "delete", "unique_queue", "durable_queue"), False),
        **dict.fromkeys(("queue_type", "routing"), None),
        "queue_argument": [],
        "declare": (args.queues or 1) > 1,
        "url": None if url is None else url.shown,
        "sender": cell.sender.name,
        "receiver": cell.receiver.name,
    })  # fmt: skip


def saved_result(cell: Cell, directory: Path, taken: Measured) -> dict[str, Any]:
    """Save the result of a cell in its directory, and return it.

    Keys: ``name``, ``sender``, ``server`` (None if peer-to-peer), ``receiver``, ``status``,
    ``reason``, ``output_dir``, and the following, which are None if unknown: ``broker``
    (``product`` and ``version`` from its open frame, and the ``command`` that started it),
    ``warm_up`` (of :func:`.warm_up.warm_up`),
    ``workload`` (the options of `quiver` for the run), ``count`` (messages received),
    ``duration`` (seconds), ``rate`` (messages/s, end to end), ``latency_ms`` by percentile,
    ``cpu_us`` per message by role, and numbers of messages: ``unreceived`` (sent, and lost or still
    in the queue when the receiver ended), ``lost`` (unreceived and proven to be lost),
    ``older`` (left in the queue by an earlier run) and ``duplicate``. With --find-rate
    ``found_rate`` is the result of the search, ``rate`` the rate that was found, and the other
    figures are None.
    """
    measured, document = taken.known, taken.known.get("document") or {}
    result = marked("bench-result", {
        "name": cell.name,
        "sender": cell.sender.name,
        "server": None if cell.server is None else cell.server.name,
        "receiver": cell.receiver.name,
        "status": PASSED if taken.reason is None else FAILED,
        "reason": taken.reason,
        "output_dir": str(directory),
        "workload": document.get("workload"),
        "broker": None if cell.server is None else _broker(document, measured.get("command")),
        "warm_up": document.get("warm_up"),
        **_figures(document, measured.get("server_cpu_ms")),
    })  # fmt: skip
    write_json(directory / _RESULT, result)
    return result


def _figures(document: dict[str, Any], server_cpu_ms: int | None) -> dict[str, Any]:
    results, delivery = document.get("results") or {}, document.get("delivery") or {}
    found = document.get("found_rate")
    return {
        "count": results.get("message_count"),
        "duration": results.get("duration"),
        "rate": results.get("end_to_end_rate") if found is None else found["rate"],
        "found_rate": found,
        "latency_ms": _latency(document.get("receiver")),
        "cpu_us": _cpu(document, server_cpu_ms),
        **{key: delivery.get(key) for key in ("unreceived", "lost", "older", "duplicate")},
    }


def _broker(document: dict[str, Any], command: str | None) -> dict[str, str | None]:
    receiver = document.get("receiver") or {}
    peer = (receiver.get("arrow") or {}).get("peer") or {}
    named = {key: peer.get(key) for key in ("product", "version")}
    return {**named, "command": command}


def _latency(receiver: dict[str, Any] | None) -> dict[str, float | None] | None:
    latency = (receiver or {}).get("latency") or {}
    known = latency.get("count")
    return {rank: in_milliseconds(latency, rank) for rank in BENCH} if known else None


def _cpu(document: dict[str, Any], server_cpu_ms: int | None) -> dict[str, float | None]:
    """Return the CPU microseconds per message of each process."""
    used = {**document.get("cpu_ms", {}), "server": server_cpu_ms}
    counts = {
        role: ((document.get(role) or {}).get("results") or {}).get("message_count")
        for role in ("sender", "receiver")
    }
    counts["server"] = counts["receiver"]
    return {
        role: used[role] * 1000 / counts[role]
        if used.get(role) is not None and counts[role]
        else None
        for role in ("sender", "server", "receiver")
    }
