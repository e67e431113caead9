"""Text, JSON and page of forty generated sets of runs print the same figures."""

from __future__ import annotations

import random
import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from support.record_files import Traffic, write_pair

from quiver_fast.analysis.compare.sets import compare_figures, run_figures
from quiver_fast.analysis.figures.run_data import RunData
from quiver_fast.analysis.model.ranks import NAMES, exists, rank_head
from quiver_fast.analysis.model.units import average_text, latency_text
from quiver_fast.analysis.read.discovery import find_runs
from quiver_fast.analysis.read.sources import load_run
from quiver_fast.analysis.sections.sets import comparison_section
from quiver_fast.analysis.sections.verdicts import verdict_section
from quiver_fast.analysis.show.report import html_report
from quiver_fast.analysis.show.text import section_text
from quiver_fast.cli.analyze.document import run_document, whole_document
from quiver_fast.cli.analyze.text import findings_text
from quiver_fast.cli.arrow.summary_text import pair_summary_text
from quiver_fast.cli.shared.thresholds import judged, threshold

SETS = 40


def written(folder: Path, seed: int) -> tuple[list[RunData], list[RunData]]:
    """Return the runs of a base and of a candidate; some sets are steady, some too short."""
    chance = random.Random(seed)
    unit, form = chance.choice(["ms", "us", "ns"]), chance.choice(["v1", "v2", "v3"])
    rate = chance.choice([40, 60, 200])
    runs = chance.choice([2, 5])
    sides = []
    for side in ("base", "candidate"):
        count = rate * chance.choice([3, 8])
        for number in range(runs):
            place = folder / side / str(number)
            write_pair(place, Traffic(chance.randrange(10**6), count, rate, unit), form)
        found = find_runs([str(folder / side)])
        sides.append([load_run(files, lambda *_: None) for files in found])
    return sides[0], sides[1]


def cells(page: str, label: str) -> list[list[str]]:
    """Return the cells of a table by its label."""
    table = re.search(rf'aria-label="{label}">(.*?)</table>', page, re.DOTALL)
    assert table is not None, label
    rows = re.findall(r"<tr>(.*?)</tr>", table[1].split("<tbody>")[1], re.DOTALL)
    return [[plain(cell) for cell in re.findall(r"<td[^>]*>(.*?)</td>", row)] for row in rows]


def plain(html: str) -> str:
    return unescape(re.sub(r"<[^>]*>", "", html))


def facts(page: str, title: str) -> dict[str, str]:
    """Return the rows of a table of names and values below its title."""
    table = page.split(f"<h3>{title}</h3>")[1].split("</table>")[0]
    return {
        plain(name): plain(value)
        for name, value in re.findall(r"<th[^>]*>(.*?)</th><td[^>]*>(.*?)</td>", table)
    }


def fields(text: str) -> dict[str, str]:
    """Return the first line of each name in the summary's layout: number and unit."""
    found: dict[str, str] = {}
    for name, value in re.findall(r"^(\S[^.\n]*?) \.+ (.+)$", text, re.MULTILINE):
        found.setdefault(name, value)
    return found


def number(text: str) -> float:
    return float(text.split(" ")[0].replace(",", ""))


@pytest.mark.parametrize("seed", range(SETS))
def test_text_json_and_page_have_the_same_figures(tmp_path: Path, seed: int) -> None:
    base, candidate = written(tmp_path, seed)
    documents = [run_document(run, None) for run in candidate]
    comparison = compare_figures([*map(run_figures, base)], [*map(run_figures, candidate)])
    limits = [threshold(text) for text in ("p99>1ms", "rate<1", "worse", "p50-change>5%")]
    thresholds = judged(limits, documents, comparison)
    whole = whole_document(documents, "local", comparison, None, thresholds)
    page = html_report([(documents[0], candidate[0])], whole, base, [])
    check_run(documents[0], page)
    check_comparison(comparison, page)
    text = section_text(verdict_section(thresholds))
    for condition, run, figure, verdict in cells(page, "Thresholds"):
        states = {"ok": "ok", "breached": "BREACHED", "inconclusive": "INCONCLUSIVE: .*"}
        line = f"{condition}: {figure}, "
        assert re.search(rf"^{re.escape(line)}{states[verdict]} \({re.escape(run)}\)$", text, re.M)
    check_parts(documents[0], comparison, thresholds)


def check_run(document: dict[str, Any], page: str) -> None:
    """Hold what both texts and the page say of a run to its document."""
    text = pair_summary_text(document) + "".join(findings_text(document))
    said, rates = fields(text), facts(page, "Results")
    for line in ("Sender rate", "Receiver rate", "End-to-end rate"):
        key = line.replace(" ", "_").replace("-", "_").lower()
        value = document["results"][key]
        assert number(said[line]) == round(value), line
        assert rates[line] == said[line]
    for line in ("Unreceived", "Reordered"):
        assert number(said[line]) == document["delivery"][line.lower()]
        assert number(facts(page, "Delivery")[line]) == document["delivery"][line.lower()]
    latency = document["receiver"]["latency"]
    columns = {name: column for name, *column in cells(page, f"Latency of {document['name']}")}
    for rank in NAMES:
        if not exists(rank, latency["count"]):
            assert rank_head(rank) not in columns
            continue
        text_of = latency_text(latency["percentiles"][rank], latency["unit"])
        assert columns[rank_head(rank)][0] == text_of
    for rank, form in (("50", "50%"), ("99", "99.00%")):
        dotted = re.search(rf" {re.escape(form)} \.+ ([\d,.]+ \w+)", text)
        assert dotted is not None
        assert dotted[1] == columns[rank_head(rank)][0]
    steady = document["analysis"]["steady_state"]
    # Without a steady state, or where it looks the same, there is one column.
    whole, *others = columns["99 %"]
    section = text.split("\nSTEADY STATE\n")[1]
    part = section.split("Latency 99% ")[1].split("\n")[0].lstrip(". ")
    assert any(part.startswith(one) for one in [whole, *others[:1]])
    assert number(fields(section)["Rate"]) == round(steady["message_rate"])


def check_comparison(comparison: dict[str, Any], page: str) -> None:
    """Hold the rows of the text and of the page to the document."""
    rows = {row[0]: row[1:] for row in cells(page, "Comparison")}
    text = section_text(comparison_section(comparison))
    for name, figure in comparison["figures"].items():
        title, unit = name.replace("_", " "), figure["unit"]
        before, after, change, interval, p, effect, raw, raw_after, verdict = rows[title]
        assert (verdict, before, after) == (
            figure["verdict"],
            average_text(figure["base"], unit),
            average_text(figure["candidate"], unit),
        )
        [line] = re.findall(rf"^{title}(?!:) +(.*)$", text, re.MULTILINE)
        table = re.split(r"  +", line)
        assert table[:4] == [before, after, change, interval]
        assert table[6:] == [raw, raw_after, verdict]
        for shown, on_page, value in zip(
            table[4:6], (p, effect), (figure["adjusted_p_value"], figure["effect"]), strict=True
        ):
            if value is None:
                assert shown == on_page == "-"
            else:
                assert float(shown) == pytest.approx(value, rel=0.05, abs=0.005)
                assert float(on_page) == pytest.approx(value, rel=0.05, abs=0.005)


def check_parts(
    document: dict[str, Any], comparison: dict[str, Any], thresholds: list[dict[str, Any]]
) -> None:
    """Thresholds are of whole runs, and a comparison is of them too where none is steady."""
    latency = document["receiver"]["latency"]
    p99 = next(one for one in thresholds if one["condition"] == "p99>1ms")
    assert p99["value"] == pytest.approx(latency["p99_us"] / 1000)
    if document["analysis"]["steady_state"]["figures_of"] == "whole run":
        figure = comparison["figures"]["latency_p99"]
        assert figure["candidate_runs"][0] == pytest.approx(latency["p99_us"] / 1000)
