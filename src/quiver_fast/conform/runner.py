"""Judges cases, several at a time, within limits of time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from quiver_fast.conform.case import (
    BROKEN,
    DISPUTED,
    DISPUTED_,
    KEPT,
    UNOBSERVABLE,
    Case,
    Unobservable,
)
from quiver_fast.conform.wire.frames import Unexpected
from quiver_fast.conform.wire.trace import Trace
from quiver_fast.errors import PeerError

CASE_SECONDS = 20.0
# Connects in a row that end a run.
_FAILED_MAX = 3


@dataclass(frozen=True)
class Result:
    """A verdict.

    Attributes:
        expected: of a broken clause; so is `found`.
        reason: why the clause is disputed, or cannot be observed.
        answer: the last frame that the case accepted, as text.
        fault: whether the case itself failed.
    """

    case: Case
    verdict: str
    expected: str | None = None
    found: str | None = None
    reason: str | None = None
    answer: str = ""
    trace: Trace = field(default_factory=Trace)
    seconds: float = 0.0
    fault: bool = False


@dataclass
class Report:
    """All verdicts of a run.

    Attributes:
        reason: why the run is not complete; None if it is.
    """

    results: list[Result] = field(default_factory=list)
    reason: str | None = None
    seconds: float = 0.0

    def count(self, verdict: str, level: str | None = None) -> int:
        """Return how many clauses have a verdict."""
        return sum(
            one.verdict == verdict and level in (None, one.case.level) for one in self.results
        )


def judge(case: Case, subject: Any, seconds: float = CASE_SECONDS) -> Result:
    """Judge one case within so many seconds; a fault of the case itself is raised."""
    for need in case.needs:
        if need in subject.facts.absent:
            return Result(case, UNOBSERVABLE, reason=subject.facts.absent[need])
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
        except OSError as error:
            told = {"verdict": UNOBSERVABLE, "reason": f"the connection failed: {error}"}
        finally:
            limit.cancel()
    took = time.monotonic() - began
    if took >= seconds:
        told = {"verdict": UNOBSERVABLE, "reason": f"it took more than {seconds:.0f} s"}
    return Result(case, answer=view.trace.answer, trace=view.trace, seconds=took, **told)


def _broken(case: Case, product: str, error: Unexpected) -> dict[str, Any]:
    doubt = case.doubt or DISPUTED.get((product, case.id))
    verdict = DISPUTED_ if doubt else BROKEN
    return {"verdict": verdict, "expected": error.expected, "found": error.found, "reason": doubt}


def run(
    cases: Sequence[Case],
    subject: Any,
    *,
    jobs: int,
    seconds: float,
    tell: Callable[[Result], None] = lambda _result: None,
) -> Report:
    """Judge cases; ``tell`` gets each result, in their order.

    Args:
        cases: the cases.
        subject: the peer, such as a `ServerSubject`.
        jobs: how many are judged at the same time.
        seconds: the limit of all.
        tell: called with each result.

    Raises:
        PeerError: the peer cannot be reached any more.
    """
    began, report = time.monotonic(), Report()
    with ThreadPoolExecutor(jobs if subject.parallel else 1) as threads:
        try:
            for result in threads.map(lambda case: _judged(case, subject, began + seconds), cases):
                if subject.failed >= _FAILED_MAX:
                    raise PeerError(f"{result.reason}: {_FAILED_MAX} times in a row")
                report.results.append(result)
                tell(result)
        except BaseException:
            threads.shutdown(cancel_futures=True, wait=False)
            raise
    report.seconds = time.monotonic() - began
    faults = [one for one in report.results if one.fault]
    report.reason = faults[0].reason if faults else None
    return report


def _judged(case: Case, subject: Any, end: float) -> Result:
    left = end - time.monotonic()
    try:
        result = judge(case, subject, min(left, CASE_SECONDS)) if left > 0 else None
    except Exception as error:  # A fault of ours must not look like one of theirs.
        reason = f"quiver-conform failed: {type(error).__name__}: {error}"
        return Result(case, UNOBSERVABLE, reason=reason, fault=True)
    if result is None or time.monotonic() >= end:
        return Result(case, UNOBSERVABLE, reason="the time was over", fault=True)
    return result
