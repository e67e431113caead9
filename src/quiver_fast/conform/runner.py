"""Judges cases, several at a time, within limits of time."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
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
    """

    results: list[Result] = field(default_factory=list)
    reason: str | None = None
    seconds: float = 0.0

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


def run(
    cases: Sequence[Case],
    subject: Any,
    *,
    jobs: int,
    seconds: float,
    tell: Callable[[Result], None] = lambda _result: None,
) -> Report:
    """Judge cases; ``tell`` gets each result, in their order.

    The run ends early if the peer cannot be reached any more.

    Args:
        cases: the cases.
        subject: the peer, such as a `ServerSubject`.
        jobs: how many are judged at the same time.
        seconds: the limit of all.
        tell: called with each result.
    """
    began, report = time.monotonic(), Report()
    with ThreadPoolExecutor(jobs if subject.parallel else 1) as threads:
        try:
            for result in threads.map(lambda case: _judged(case, subject, began + seconds), cases):
                if subject.failed >= _FAILED_MAX:
                    report.reason = f"it cannot be reached any more: {_FAILED_MAX} connects failed"
                    threads.shutdown(cancel_futures=True, wait=False)
                    break
                report.results.append(result)
                tell(result)
        except BaseException:
            threads.shutdown(cancel_futures=True, wait=False)
            raise
    report.seconds = time.monotonic() - began
    faults = [one.reason for one in report.results if one.fault]
    report.reason = report.reason or next(iter(faults), None)
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
