"""`quiver --abort-if`: conditions that end a run as soon as they hold of a period."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence

from quiver_fast.analysis.model.figures import FIGURES
from quiver_fast.analysis.model.units import figure_text
from quiver_fast.cli.arrow.snapshots import Snapshot
from quiver_fast.cli.shared.thresholds import Threshold, threshold

_FIGURES = [name for name, one in FIGURES.items() if one.period]


def period_condition(text: str) -> Threshold:
    """Parse a condition on a figure that each period has: an argparse type."""
    named = re.match(r"\s*([a-z][a-z0-9._-]*)", text.lower())
    if named is not None and named[1] not in _FIGURES:
        raise argparse.ArgumentTypeError(
            f"'{named[1]}' in '{text}' is no figure of a period: those are {', '.join(_FIGURES)}"
        )
    return threshold(text)


class Abort:
    """Tells that a run is to be stopped, when a condition holds of a period."""

    def __init__(self, conditions: Sequence[Threshold], warmup: float) -> None:
        """Prepare to judge periods; those of the first ``warmup`` seconds are passed over."""
        self._conditions, self._warmup = conditions, warmup
        self._start: float | None = None
        self.reason: str | None = None
        """Why the run is stopped; None while it is not."""

    def look(self, snapshots: dict[str, Snapshot], *, sending: bool) -> None:
        """Judge a period.

        Periods count from the first message received, and while all senders run: before and after,
        a run starts or ends, and is slow with any target.

        Args:
            snapshots: of the period, by role.
            sending: all senders run.
        """
        receiver, sender = snapshots.get("receiver"), snapshots.get("sender")
        if self.reason is not None or receiver is None or sender is None or not receiver.count:
            return
        began = receiver.timestamp - receiver.covered
        self._start = began if self._start is None else self._start
        if not sending or began < self._start + self._warmup * 1000:
            return
        for condition in self._conditions:
            value = condition.figure.of_period(snapshots)
            if value is not None and condition.holds(value):
                seconds = (receiver.timestamp - self._start) / 1000
                found = f"{condition.figure.name} was {figure_text(value, condition.figure.unit)}"
                why = f"at {seconds:.1f} s {found}"
                self.reason = f"stopped by --abort-if {condition.condition}: {why}"
                return
