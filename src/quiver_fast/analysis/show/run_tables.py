"""The tables of a run on its page: its ends, and folded all figures, options and environment.

docs/analysis.md defines each label.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from quiver_fast.analysis.figures.each_end import shown_of_each
from quiver_fast.analysis.model.figures import Document
from quiver_fast.analysis.sections.ends import end_sections
from quiver_fast.analysis.sections.findings import findings
from quiver_fast.analysis.sections.headline import environment_facts
from quiver_fast.analysis.sections.rows import PAGE, Row, share_text
from quiver_fast.analysis.sections.run import run_sections
from quiver_fast.analysis.show.html import (
    Rows,
    html_bars,
    html_columns,
    html_details,
    html_facts,
    html_section,
)
from quiver_fast.options.arrow import ARROW_OPTIONS

# They stand before the folded ones.
_ABOVE = ("FAIRNESS", "ENDS", "QUEUES")
_OPTIONS = {one.name: one for one in ARROW_OPTIONS if one.flag and not one.inverted}
_UNITS = {"SECONDS": " s", "BYTES": " B", "MESSAGES": " messages", "PER-SECOND": " messages/s"}


def run_details(run: Document) -> str:
    """Return as HTML all figures of a run, its options and its environment.

    Args:
        run: the document of the run.
    """
    sections = [one for one in (*run_sections(run), *findings(run)) if one.title not in _ABOVE]
    tables: dict[str, Rows] = {
        one.title.capitalize(): {
            row.name: f"{row.value} {row.unit}".strip()
            for row in one.of(PAGE)
            if isinstance(row, Row) and row.name and row.value != "-"
        }
        for one in sections
    }
    others = "".join(html_section(one, titled=True) for one in sections)
    around = html_columns({"Options": _options(run)} | _environments(run))
    return html_details("All figures", html_columns(tables) + others) + html_details(
        "Options and environment", around
    )


def ends_section(run: Document) -> str:
    """Return as HTML each end's share, and how fair the shares are; empty for a run of one pair.

    Args:
        run: the document of the run.
    """
    ends = run.get("ends")
    if not ends:
        return ""
    sections = {one.title: one for one in end_sections(run)}
    fairness = sections["FAIRNESS"].of(PAGE) if "FAIRNESS" in sections else ()
    bars = []
    for role in ("sender", "receiver"):
        rows, _ = shown_of_each(ends, role)
        total = sum(end["results"]["message_count"] for end in ends if end["role"] == role)
        if total:
            counts = [(row["name"], row["message_count"]) for row in rows]
            shares = [(name, count, share_text(count / total)) for name, count in counts]
            bars.append(html_bars(f"{role.capitalize()}s: shares of the messages", shares))
    queues = html_section(sections["QUEUES"]) if "QUEUES" in sections else ""
    facts = html_facts({row.name: row.value for row in fairness if isinstance(row, Row)})
    return (
        f"<h2>Ends</h2>{facts}<div class='charts'>{''.join(bars)}</div>"
        f"{html_section(sections['ENDS'])}{queues}"
    )


def _options(run: Document) -> Rows:
    """Return the options of the ends: once where both have the same value."""
    rows: Rows = {}
    ends = {role: (run[role] or {}).get("config") or {} for role in ("sender", "receiver")}
    for name, option in _OPTIONS.items():
        values = {role: _shown(config.get(name), _UNITS.get(option.unit, ""))
                  for role, config in ends.items() if config}  # fmt: skip
        if len({*values.values()}) == 1:
            rows[option.flag] = next(iter(values.values()))
        else:
            rows |= {f"{option.flag} of the {role}": value for role, value in values.items()}
    return rows


def _shown(value: Any, unit: str) -> str | None:
    """Return the value of an option; None for one that is off or empty."""
    if value is True:
        return "on"
    if isinstance(value, int | float) and value:
        return f"{value:,}{unit}"
    return str(value) if value else None


def _environments(run: Document) -> dict[str, Rows]:
    """Return the environment of the ends: once where both have the same."""
    found = dict(_environment(run))
    if len(found) > 1 and len({str(rows) for rows in found.values()}) == 1:
        return {"Environment": next(iter(found.values()))}
    return {f"Environment of the {role}": rows for role, rows in found.items()}


def _environment(run: Document) -> Iterator[tuple[str, Rows]]:
    for role in ("sender", "receiver"):
        environment = (run[role] or {}).get("environment")
        if environment:
            yield role, environment_facts(environment)
