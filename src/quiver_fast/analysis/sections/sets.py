"""The sections of several runs: their table, a comparison, and change points."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from quiver_fast.analysis.compare.comparison import in_words
from quiver_fast.analysis.model.figures import Document
from quiver_fast.analysis.model.ranks import FEW, rank_head
from quiver_fast.analysis.model.units import average_text, percent_text
from quiver_fast.analysis.sections.headline import run_rate, run_state
from quiver_fast.analysis.sections.rows import TEXT, Grid, Row, Section, cell_text, few_latencies
from quiver_fast.words import counted

STEADY_OR_WHOLE = "of the steady states, or of the whole run where there is none"


def overview(documents: Sequence[Document]) -> Grid:
    """Return a table with a line for each run."""
    heads = ("Run", "Messages/s", *map(rank_head, FEW), "Unreceived", "State")
    rows = [
        (
            str(one["name"]),
            average_text(run_rate(one), "/s").removesuffix("/s"),
            *few_latencies((one["receiver"] or {}).get("latency")),
            cell_text((one["delivery"] or {}).get("unreceived")),
            run_state(one),
        )
        for one in documents
    ]
    return Grid("Runs", heads, rows)


def comparison_section(comparison: Document) -> Section:
    """Return the verdict on a candidate against its base, figure by figure."""
    heads = ("figure", "base", "candidate", "change", "95 % interval of the difference", "p",
             "effect", "raw base", "raw candidate", "verdict")  # fmt: skip
    figures = comparison["figures"]
    rows = [_compared(name, figure) for name, figure in figures.items()]
    return Section("COMPARISON", [
        Grid("Comparison", heads, rows),
        Row("", f"base, candidate: medians {STEADY_OR_WHOLE}; raw: of the whole runs"),
        Row("", "change: the median of the differences of all pairs of runs; intervals, p: for all "
                "figures at once"),
        *_reach(figures),
        *(Row("", f"INCOMPLETE: {name}", only=TEXT) for name in comparison["incomplete"]),
        *(Row("", f"NOT STEADY: {name}, by the whole run", only=TEXT)
          for name in comparison["not_steady"]),
        Row("", "", only=TEXT),
        Row("Verdict", comparison["verdict"], only=TEXT),
        Row("", in_words(comparison), only=TEXT),
    ])  # fmt: skip


def _compared(name: str, figure: Document) -> list[str]:
    unit = figure["unit"]
    return [
        _words(name),
        average_text(figure["base"], unit),
        average_text(figure["candidate"], unit),
        cell_text(figure["change"], "+.1%"),
        interval_text(figure["interval"], unit),
        cell_text(figure["adjusted_p_value"], ".2g"),
        cell_text(figure["effect"], "+.2f"),
        average_text(figure["raw_base"], unit),
        average_text(figure["raw_candidate"], unit),
        figure["verdict"],
    ]


def _words(name: str) -> str:
    return name.replace("_", " ")


def interval_text(bounds: Sequence[float] | None, unit: str) -> str:
    """Return an interval as ``1.00 ms to 2.00 ms``."""
    return " to ".join(average_text(bound, unit) for bound in bounds or ()) or "-"


def _reach(figures: Mapping[str, Document]) -> Iterator[Row]:
    """Yield from which change on so many runs show it, and how many would show this one."""
    lines = []
    for name, figure in figures.items():
        if figure["shown_from"] is None:
            continue
        line = f"{_words(name)}: so many runs show {figure['shown_from']:.0%}"
        if figure["runs_to_show"] is not None:
            line += f", about {figure['runs_to_show']:,} of each show {figure['change']:+.1%}"
        lines.append(line)
    heading = ["not shown (to show a change: in 90 of 100 sets):"] if lines else []
    yield from (Row("", line) for line in [*heading, *lines])


def change_section(changes: Document) -> Section:
    """Return where a series of runs changed its level."""
    figures, heads = changes["figures"], ("figure", "from run", "before", "after")
    steps = [
        [_words(name), one["run"], *(average_text(one[key], figure["unit"]) for key in heads[2:])]
        for name, figure in figures.items()
        for one in figure["change_points"]
    ]
    found = Grid("Change points", heads, steps) if steps else Row("", "none")
    dependent = [
        f"{_words(name)}: neighbouring runs depend on each other "
        f"(autocorrelation {figure['autocorrelation']:.2f}); a step is not told from a drift"
        for name, figure in figures.items()
        if figure["dependent"]
    ]
    seen = [
        (_words(name), percent_text(figure["detectable_step"]))
        for name, figure in figures.items()
        if figure["detectable_step"] is not None
    ]
    grid = Grid("Steps that so many runs show", ("figure", "step that so many runs show"), seen)
    return Section("CHANGE POINTS", [
        Row("", f"{counted(len(changes['runs']), 'run')} in order of time", only=TEXT),
        found,
        *(Row("", line) for line in dependent),
        *(Row("", f"INCOMPLETE: {name}") for name in changes["incomplete"]),
        *([grid] if seen else []),
    ])  # fmt: skip
