"""The findings of an analysis of a run: steady state, stalls, clock, coordinated omission."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timezone

from quiver_fast.analysis.figures.statistics import OF_STEADY
from quiver_fast.analysis.model.figures import Document
from quiver_fast.analysis.model.ranks import SECTIONS
from quiver_fast.analysis.model.units import fine_text, latency_text, percent_text
from quiver_fast.analysis.sections.rows import (
    PAGE,
    TEXT,
    Grid,
    Row,
    Section,
    cell_text,
    latency,
    number,
    percentile_rows,
    rank_words,
    rate,
    told,
)
from quiver_fast.words import counted


def findings(run: Document) -> list[Section]:
    """Return the sections of the ``analysis`` of a run, which ``docs/analysis.md`` describes."""
    analysis = run["analysis"]
    found = {
        "STEADY STATE": _steady(analysis["steady_state"], run["receiver"] or run["sender"]),
        "STALLS": _stalls(analysis["stalls"]),
        "CLOCK": _clock(analysis["clock"]),
        "COORDINATED OMISSION": _omission(analysis["coordinated_omission"]),
    }
    return told(found)


def _steady(found: Document, raw: Document) -> Iterator[Row]:
    """Yield the verdict and the figures, those of a steady state beside the whole run's."""
    verdict = f"{found['verdict']}: {found['reason']}"
    yield Row("Verdict", found["verdict"], "", None, PAGE)
    if found["figures_of"] != OF_STEADY:
        yield Row("Reason", found["reason"] or "-", "", None, PAGE)
        yield Row("", verdict, "", ("State", verdict), TEXT)
        yield Row("", "Figures of the whole run:", "", None, TEXT)
        whole = [rate("Rate", found["message_rate"])]
        if found["latency"] is not None:
            whole += percentile_rows(found["latency"], "Latency", None)
        yield from (row._replace(only=TEXT) for row in whole)
        return
    yield Row("First second", moment(found["first_second"]), "", None, PAGE)
    yield Row("Last second", moment(found["last_second"]), "", None, PAGE)
    yield Row("Rule", found["rule"], "", None, PAGE)
    seconds = found["seconds"]
    yield number("Duration", seconds, "seconds", ("State", f"steady for {seconds:,} s"))
    for key, part in (("warm_up_seconds", "warm-up"), ("ramp_down_seconds", "ramp-down")):
        words = ("State", f"{found[key]:,} s of {part} left out") if found[key] else None
        yield number(f"{part.capitalize()} left out", found[key], "seconds", words)
    if found["detectable_step"] is not None:
        yield Row("Detectable step", percent_text(found["detectable_step"]).removesuffix(" %"), "%")
    speed = found["message_rate"]
    words = None if speed is None else ("State", f"{speed:,.0f} messages/s")
    yield _beside(rate("Rate", speed, words), cell_text(raw["results"]["message_rate"], ",.0f"))
    if found["latency"] is not None:
        unit, whole = raw["latency"]["unit"], raw["latency"]["percentiles"]
        ranks = [rank for rank, _, _ in rank_words(found["latency"], SECTIONS)]
        rows = percentile_rows(found["latency"], "Latency", "State")
        for rank, row in zip(ranks, rows, strict=True):
            yield _beside(row, latency_text(whole[rank], unit))._replace(only=TEXT)


def _beside(row: Row, raw: str) -> Row:
    return row._replace(unit=f"{row.unit} (whole run {raw})".lstrip())


def moment(second: int) -> str:
    """Return epoch seconds as date and time."""
    return f"{datetime.fromtimestamp(second, tz=timezone.utc):%Y-%m-%d %H:%M:%S} UTC"


def _stalls(stalls: Sequence[Document]) -> Iterator[Row | Grid]:
    if not stalls:
        return
    seconds = [stall["seconds"] for stall in stalls]
    yield Row("Stalls", f"{len(stalls):,}", "", ("Stalls", counted(len(stalls), "stall")))
    yield number("Stalled", sum(seconds), "seconds", ("Stalls", f"{sum(seconds):,} s in all"))
    longest = max(seconds)
    yield number("Longest", longest, "seconds", ("Stalls", f"the longest {longest:,} s"))
    rows = [(moment(stall["first"]), f"{stall['seconds']:,} s") for stall in stalls]
    yield Grid("Each stall", ("First second", "Length"), rows, PAGE)


def _clock(clock: Document | None) -> Iterator[Row]:
    if clock is None:
        return
    for bound in ("at least", "at most"):
        value = clock[f"offset_{bound.replace(' ', '_')}"]
        if value is not None:
            brief = ("Clocks", f"offset {bound} {latency_text(value, clock['unit'])}")
            yield latency(f"Offset {bound}", value, clock["unit"], brief)
    if clock["drift_ppm"] is not None:
        brief = ("Clocks", f"drift {clock['drift_ppm']:,.2f} ppm")
        yield number("Drift", clock["drift_ppm"], "ppm", brief, ",.2f")
        yield number("Drift at least", clock["drift_low_ppm"], "ppm", None, ",.2f")
        yield number("Drift at most", clock["drift_high_ppm"], "ppm", None, ",.2f")


def _omission(omission: Document | None) -> Iterator[Row]:
    """Yield the corrected latencies, where the correction changes any."""
    if omission is None or omission["method"] is None:
        return
    unit, method = omission["unit"], omission["method"]
    raw, corrected = (omission[kind] | {"unit": unit} for kind in ("raw", "corrected"))
    words = ", ".join(words for _, _, words in rank_words(corrected, SECTIONS))
    changes = raw["percentiles"] != corrected["percentiles"]
    brief = ("Omission", f"corrected by {method}: {words}") if changes else None
    yield Row("Correction", method, "", brief)
    if omission.get("expected_interval") is not None:
        yield Row("Interval", fine_text(omission["expected_interval"], unit))
    for rank in SECTIONS:
        # The summary has the raw ones.
        value = corrected["percentiles"][rank]
        if latency_text(value, unit) != latency_text(raw["percentiles"][rank], unit):
            yield latency(f"Corrected {rank}%", value, unit)._replace(only=TEXT)
