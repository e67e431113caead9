"""Judges cases, several at a time, within limits of time."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from quiver_fast.conform.case import (
    BROKEN,
    CONTRACT,
    DISPUTED,
    DISPUTED_,
    KEPT,
    MUST,
    SHOULD,
    UNOBSERVABLE,
    Case,
    Unobservable,
)
from quiver_fast.conform.wire.codec import CodecError
from quiver_fast.conform.wire.frames import Unexpected
from quiver_fast.conform.wire.trace import Trace
from quiver_fast.errors import QuiverError

CASE_SECONDS = 20.0
# A case waits for so many answers that do not come.
_ANSWERS = 4
# Connects in a row that end a run.
_FAILED_MAX = 3
_COUNTS = (
    KEPT, *(f"{BROKEN}_{level.lower()}" for level in (MUST, SHOULD, CONTRACT)), DISPUTED_,
    UNOBSERVABLE,
)  # fmt: skip


@dataclass(frozen=True)
class Result:
    """A verdict.

    Attributes:
        expected: of a broken clause; so is `found`.
        reason: why the clause is disputed, or cannot be observed.
        fault: whether the case itself failed.
    """

    case: Case
    verdict: str
    expected: str | None = None
    found: str | None = None
    reason: str | None = None
    trace: Trace = field(default_factory=Trace)
    seconds: float = 0.0
    fault: bool = False


@dataclass
class Report:
    """All verdicts of a run.

    Attributes:
        results: of the cases that were judged, in their order.
        reason: why the run is not complete; None if it is.
        interrupted: whether Ctrl-C ended it.
    """

    results: list[Result] = field(default_factory=list)
    reason: str | None = None
    seconds: float = 0.0
    interrupted: bool = False

    @property
    def counts(self) -> dict[str, int]:
        """How many clauses have each verdict; broken ones by their levels."""
        found = Counter(_count_of(one) for one in self.results)
        return {name: found[name] for name in _COUNTS}


def _count_of(result: Result) -> str:
    level = f"_{result.case.level.lower()}" if result.verdict == BROKEN else ""
    return result.verdict + level


def judge(case: Case, subject: Any, seconds: float = CASE_SECONDS) -> Result:
    """Judge one case within so many seconds; a fault of the case itself is raised."""
    for need in case.needs:
        if need in subject.facts.absent:
            return Result(case, UNOBSERVABLE, reason=subject.facts.absent[need])
    # A peer that may be slow has time for some answers.
    seconds = min(seconds, max(CASE_SECONDS, _ANSWERS * subject.patience))
    began = time.monotonic()
    with closing(subject.view()) as view:
        limit = threading.Timer(seconds, view.abort)
        limit.start()
        try:
            case.run(view)
            told: dict[str, Any] = {"verdict": KEPT}
        except Unexpected as error:
            told = _broken(case, subject.facts.product, error)
        except Unobservable as reason:
            told = {"verdict": UNOBSERVABLE, "reason": str(reason)}
        except CodecError as error:
            told = {"verdict": UNOBSERVABLE, "reason": f"a malformed frame came: {error}"}
        except (OSError, QuiverError) as error:
            told = {"verdict": UNOBSERVABLE, "reason": f"the connection failed: {error}"}
        finally:
            limit.cancel()
    took = time.monotonic() - began
    if took >= seconds:
        told = {"verdict": UNOBSERVABLE, "reason": f"it took more than {seconds:.0f} s"}
    return Result(case, trace=view.trace, seconds=took, **told)


def _broken(case: Case, product: str, error: Unexpected) -> dict[str, Any]:
    doubt = case.doubt or DISPUTED.get((product, case.id))
    verdict = DISPUTED_ if doubt else BROKEN
    return {"verdict": verdict, "expected": error.expected, "found": error.found, "reason": doubt}


class _Turns:
    """Lets cases run together, and most second judgements alone."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running, self._alone = 0, 0

    @contextmanager
    def together(self) -> Iterator[None]:
        """Run beside others, when nobody runs alone or waits for that."""
        with self._turn(lambda: not self._alone):
            yield

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Run when no other runs."""
        with self._changed:
            self._alone += 1
        try:
            with self._turn(lambda: not self._running):
                yield
        finally:
            with self._changed:
                self._alone -= 1
                self._changed.notify_all()

    @contextmanager
    def _turn(self, free: Callable[[], bool]) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(free)
            self._running += 1
        try:
            yield
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()


def run(
    cases: Sequence[Case],
    subject: Any,
    *,
    jobs: int,
    seconds: float,
    tell: Callable[[Result], None] = lambda _result: None,
) -> Report:
    """Judge cases; ``tell`` gets each result, in their order.

    The run ends early if the peer cannot be reached any more, or by Ctrl-C.

    Args:
        cases: the cases.
        subject: the peer, such as a `ServerSubject`.
        jobs: how many are judged at the same time.
        seconds: the limit of all.
        tell: called with each result.
    """
    began, report, turns = time.monotonic(), Report(), _Turns()
    with ThreadPoolExecutor(jobs if subject.parallel else 1) as threads:
        try:
            for result in threads.map(
                lambda case: _judged(case, subject, began + seconds, turns), cases
            ):
                if subject.failed >= _FAILED_MAX:
                    report.reason = f"it cannot be reached any more: {_FAILED_MAX} connects failed"
                    break
                report.results.append(result)
                tell(result)
        except KeyboardInterrupt:
            report.reason, report.interrupted = "it was interrupted", True
            subject.views.abort()
        finally:
            threads.shutdown(cancel_futures=True, wait=False)
    report.seconds = time.monotonic() - began
    faults = [one.reason for one in report.results if one.fault]
    report.reason = report.reason or next(iter(faults), None)
    return report


def _judged(case: Case, subject: Any, end: float, turns: _Turns) -> Result:
    try:
        with turns.together():
            result = _within(case, subject, end)
        if result.verdict in (BROKEN, DISPUTED_):
            # Alone, each that waits for an answer in vain would take all of the patience.
            waited = result.seconds >= subject.patience
            with turns.together() if waited else turns.alone():
                return _confirmed(result, _within(case, subject.anew(), end))
    except Exception as error:  # A fault of ours must not look like one of theirs.
        reason = f"quiver-conform failed: {type(error).__name__}: {error}"
        return Result(case, UNOBSERVABLE, reason=reason, fault=True)
    return result


def _within(case: Case, subject: Any, end: float) -> Result:
    left = end - time.monotonic()
    result = judge(case, subject, left) if left > 0 else None
    if result is None or time.monotonic() >= end:
        return Result(case, UNOBSERVABLE, reason="the time was over", fault=True)
    return result


def _confirmed(first: Result, second: Result) -> Result:
    """Return the second verdict; a break counts only if it comes twice.

    Other cases at the same time can break a clause, and so can a machine that is too busy: the
    server refuses one more connection, or is slow.
    """
    if second.verdict == first.verdict or second.fault:
        return second
    why = f": {second.reason}" if second.reason else ""
    told = f"expected {first.expected}, found {first.found}"
    reason = f"{first.verdict} at first ({told}), and {second.verdict} when it was alone{why}"
    return replace(second, verdict=UNOBSERVABLE, reason=reason)
