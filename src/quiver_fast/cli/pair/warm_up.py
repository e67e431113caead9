"""The warm-up of a target before a search or a bench: `--warm-up`.

A broker that has just started is slow: a JVM compiles its code during the first 15 to 30 s. Pairs
without a rate load the target, for two seconds each, until it moves as many messages as before.
They are measured like any run, and nothing of them is kept. Two arrows without a server start
anew for each run: they have nothing to warm up.
"""

from __future__ import annotations

import argparse
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from quiver_fast.cli.analyze.document import run_document
from quiver_fast.cli.arrow.supervisor import SignalWatch
from quiver_fast.cli.pair.set_sides import OwnSide, Place, measured
from quiver_fast.cli.shared.progress import Progress

LONGEST = 60
"""Seconds after which a warm-up ends although its rate is not steady."""

_PERIOD = 2
# So many periods in a row have rates that differ by less than this share.
_STEADY, _SPREAD = 4, 0.1


def is_steady(rates: Sequence[float]) -> bool:
    """Say whether the last rates are alike."""
    last = rates[-_STEADY:]
    return len(last) == _STEADY and max(last) < (1 + _SPREAD) * min(last)


def warm_up(
    args: argparse.Namespace,
    target: str,
    directory: Path,
    signals: SignalWatch,
    progress: Progress,
    longest: float = LONGEST,
) -> dict[str, Any] | None:
    """Load a target until its rate is steady, or for the duration that was asked for.

    Args:
        args: the options of `quiver`, checked; ``warm_up`` is a duration, or None.
        target: a name of the target, for people.
        directory: where the files of each run are until it has ended.
        signals: the watch on signals, entered.
        progress: where each run is shown.
        longest: seconds after which it ends in any case.

    Returns:
        ``seconds`` that it took, the ``rates`` of its periods, whether it was ``steady`` (None
        where a duration was asked for), and the ``reason`` of a failure, or None; None where
        there was no warm-up.
    """
    if args.url is None or args.warm_up == 0:
        return None
    begin, rates, reason = time.monotonic(), list[float](), None
    while not signals.count and reason is None:
        rate, reason = _period(args, target, directory, signals, progress)
        rates += [] if rate is None else [rate]
        if args.warm_up or is_steady(rates) or time.monotonic() - begin > longest:
            break
    return {
        "seconds": round(time.monotonic() - begin, 1),
        "rates": rates,
        "steady": None if args.warm_up else is_steady(rates),
        "reason": reason,
    }


def _period(
    args: argparse.Namespace,
    target: str,
    directory: Path,
    signals: SignalWatch,
    progress: Progress,
) -> tuple[float | None, str | None]:
    """Run once; return the messages per second, and why it failed."""
    changed: dict[str, Any] = {
        "duration": args.warm_up or _PERIOD, "count": 0, "rate": 0, "rate_steps": None,
        "arrivals": None, "warmup": 0, "backlog": None, "exit_when": None, "abort_if": [],
    }  # fmt: skip
    usual = {name: value for name, value in changed.items() if name in vars(args)}
    place = Place("warm-up", directory / "warm-up")
    try:
        side = OwnSide(target, argparse.Namespace(**(vars(args) | usual)))
        taken = measured(side, place, signals, progress)
        if taken.data is None or taken.reason is not None:
            return None, taken.reason
        results = run_document(taken.data, None)["receiver"]["results"]
        return results["message_rate"], None
    finally:
        shutil.rmtree(place.directory, ignore_errors=True)
        place.log.unlink(missing_ok=True)


def warm_up_text(found: dict[str, Any]) -> str:
    """Return one line for people about a warm-up."""
    text = f"Warmed up for {found['seconds']:.0f} s"
    if found["rates"]:
        text += f", to {found['rates'][-1]:,.0f} messages/s"
    if found["reason"] is not None:
        return f"{text}: it failed: {found['reason']}"
    return f"{text}: its rate is not steady" if found["steady"] is False else text
