"""The findings of a run as rows of a terminal: a row for each thing that has something to say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from quiver_fast.analysis.figures.statistics import OF_WHOLE
from quiver_fast.analysis.model.ranks import SECTIONS
from quiver_fast.analysis.model.units import latency_text
from quiver_fast.cli.arrow.brief import Row, rank_texts
from quiver_fast.words import counted


def findings_rows(analysis: Mapping[str, Any]) -> list[Row]:
    """Return the rows of the ``analysis`` of a run, which ``docs/analysis.md`` describes."""
    return [
        *_steady(analysis["steady_state"]),
        *_stalls(analysis["stalls"]),
        *_clock(analysis["clock"]),
        *_omission(analysis["coordinated_omission"]),
    ]


def _steady(found: Mapping[str, Any]) -> Iterator[Row]:
    if found["figures_of"] == OF_WHOLE:
        yield "State", f"{found['verdict']}: {found['reason']}"
        return
    parts = [f"steady for {found['seconds']:,} s"]
    left_out = (("warm_up_seconds", "warm-up"), ("ramp_down_seconds", "ramp-down"))
    parts += [f"{found[key]:,} s of {name} left out" for key, name in left_out if found[key]]
    if found["message_rate"] is not None:
        parts.append(f"{found['message_rate']:,.0f} messages/s")
    if found["latency"] is not None:
        parts += rank_texts(found["latency"], SECTIONS)
    yield "State", ", ".join(parts)


def _stalls(stalls: list[Mapping[str, Any]]) -> Iterator[Row]:
    if stalls:
        seconds = [stall["seconds"] for stall in stalls]
        yield (
            "Stalls",
            f"{counted(len(stalls), 'stall')}, {sum(seconds):,} s in all, the longest "
            f"{max(seconds):,} s",
        )


def _clock(clock: Mapping[str, Any] | None) -> Iterator[Row]:
    if clock is None:
        return
    parts = [
        f"{words} {latency_text(clock[key], clock['unit'])}"
        for key, words in (
            ("offset_at_least", "offset at least"),
            ("offset_at_most", "offset at most"),
        )
        if clock[key] is not None
    ]
    if clock["drift_ppm"] is not None:
        parts.append(f"drift {clock['drift_ppm']:,.2f} ppm")
    if parts:
        yield "Clocks", ", ".join(parts)


def _omission(omission: Mapping[str, Any] | None) -> Iterator[Row]:
    """Yield the corrected latencies, where the correction changes any."""
    if omission is None or omission["method"] is None:
        return
    if omission["corrected"]["percentiles"] != omission["raw"]["percentiles"]:
        corrected = rank_texts(omission["corrected"] | {"unit": omission["unit"]}, SECTIONS)
        yield "Omission", f"corrected by {omission['method']}: {', '.join(corrected)}"
