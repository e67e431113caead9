"""Watching many ends: one snapshot of each side, and the end of all when one fails."""

from __future__ import annotations

from collections.abc import Sequence

from quiver_fast.cli.arrow.run import ArrowRun
from quiver_fast.cli.arrow.snapshots import Snapshot, join
from quiver_fast.cli.arrow.supervisor import Supervisor


class EndsSupervisor(Supervisor):
    """Watches started arrows, many of each side.

    The end of one that fails ends the sending. Receivers that we can tell when to end go on: they
    take all messages in the queues, also those that a failed receiver had not accepted.
    """

    _all: Sequence[ArrowRun] = ()

    def watch(self, runs: Sequence[ArrowRun]) -> None:
        """See :meth:`Supervisor.watch`."""
        self._all = list(runs)
        super().watch(runs)

    def _sides(self, fresh: Sequence[ArrowRun]) -> dict[str, Snapshot]:
        return sides_of(fresh, [run for run in self._all if run not in fresh])

    def _stop_others(self, failed: ArrowRun) -> None:
        for run in self._runs:
            if run.plan.role == "sender" or run.control is None:
                run.stop(f"stopped because {failed.plan.title} failed")


def sides_of(recent: Sequence[ArrowRun], ended: Sequence[ArrowRun]) -> dict[str, Snapshot]:
    """Return one snapshot of each side, over all its arrows, by role.

    Args:
        recent: arrows with snapshots of the present period; a side without any has no snapshot.
        ended: those that have ended before it.
    """

    def of(runs: Sequence[ArrowRun], role: str) -> list[Snapshot]:
        return [run.last_snapshot for run in runs if run.plan.role == role]

    roles = dict.fromkeys(run.plan.role for run in recent)
    return {role: join(of(recent, role), of(ended, role)) for role in roles}
