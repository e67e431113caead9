"""Verdicts for continuous integration: Markdown for people, JUnit's XML for machines.

Both have the words of the terminal. A case fails if it makes the command fail: a figure that is
worse than the baseline's fails only with ``--fail-if worse``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from operator import methodcaller
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from quiver_fast.analysis.compare.comparison import NOT_COMPARED, OPEN, TOO_FEW, WORSE, in_words
from quiver_fast.analysis.model.ranks import FEW, rank_title
from quiver_fast.analysis.model.units import average_text
from quiver_fast.analysis.read.answer_file import CHURN, HOLD, SEARCH, SWEEP
from quiver_fast.analysis.sections.campaigns import campaign_sections, checked
from quiver_fast.analysis.sections.headline import run_tiles
from quiver_fast.analysis.sections.rows import TEXT, Grid, Row, Section, told
from quiver_fast.analysis.sections.run import faults_of, ledger_rows
from quiver_fast.analysis.sections.verdicts import BREACHED, breach_text, verdicts
from quiver_fast.errors import visible
from quiver_fast.output_file import write_file

_COMMANDS = {
    "analysis": "quiver-analyze", "bench": "quiver-bench", "conformance": "quiver-conform",
}  # fmt: skip
_CAMPAIGNS = {"found-rate": SEARCH, "sweep": SWEEP, "churn": CHURN, "hold": HOLD}
# From worst to best: the worst state is the verdict on the whole.
_STATES = _FAILED, _INCONCLUSIVE, _OK, _SKIPPED = "failed", "inconclusive", "ok", "not judged"
# Characters that XML does not allow, and characters that mean something in Markdown.
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MARKS = re.compile(r"([\\`*_\[\]<|~$])")


@dataclass(frozen=True)
class _Case:
    """One verdict: its subject, the words of the terminal, and one of ``_STATES``."""

    name: str
    words: str
    state: str


def write_markdown(file: Path, document: Mapping[str, Any]) -> None:
    """Append the verdicts of a ``--json`` document to a file for people.

    Several steps of a job share its summary.

    Raises:
        OSError: it cannot be written.
    """
    write_file(
        file,
        methodcaller("write", markdown_text(document).encode(errors="backslashreplace")),
        append=True,
    )


def write_junit(file: Path, document: Mapping[str, Any]) -> None:
    """Write the verdicts of a ``--json`` document as test cases.

    Raises:
        OSError: it cannot be written.
    """
    write_file(file, methodcaller("write", junit_text(document).encode()))


def junit_text(document: Mapping[str, Any]) -> str:
    """Return one test suite with a case for each verdict."""
    cases = list(_cases(document))
    states = [case.state for case in cases]
    suite = ElementTree.Element("testsuite", {
        "name": _command(document), "tests": str(len(cases)),
        "failures": str(states.count(_FAILED)),
        "skipped": str(states.count(_SKIPPED) + states.count(_INCONCLUSIVE)),
        "errors": "0",
    })  # fmt: skip
    for case in cases:
        name = {"classname": _command(document), "name": _clean(case.name)}
        element = ElementTree.SubElement(suite, "testcase", name)
        if case.state == _OK:
            ElementTree.SubElement(element, "system-out").text = _clean(case.words)
        else:
            kind = "failure" if case.state == _FAILED else "skipped"
            ElementTree.SubElement(element, kind, {"message": _clean(case.words)})
    root = ElementTree.Element("testsuites")
    root.append(suite)
    ElementTree.indent(root)
    text = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def markdown_text(document: Mapping[str, Any]) -> str:
    """Return the main figures, then each verdict."""
    cases = list(_cases(document))
    states = [state for state in _STATES if any(case.state == state for case in cases)]
    title = ": ".join([_command(document), *states[:1]])
    parts = [f"## {title}", *_figures(document)]
    if document.get("comparison") is not None:
        parts.append(escaped(in_words(document["comparison"])))
    if cases:
        rows = [(case.state, case.name, case.words) for case in cases]
        parts.append(markdown_table(("verdict", "of", "in words"), rows))
    return "\n\n".join(part for part in parts if part) + "\n"


def _command(document: Mapping[str, Any]) -> str:
    return _COMMANDS.get(document["schema"]["name"], "quiver")


def _cases(document: Mapping[str, Any]) -> Iterator[_Case]:
    # Only a threshold makes an analysis fail for an incomplete run.
    if document["schema"]["name"] != "analysis":
        reason = document["reason"]
        words = reason or "incomplete runs are allowed"
        words = words if reason or not document.get("complete", True) else "complete"
        yield _Case("complete", words, _OK if reason is None else _FAILED)
    yield from _of_campaign(document)
    for clause in document.get("clauses", ()):
        yield _of_clause(clause, document["options"]["strict"])
    thresholds = document.get("thresholds", ())
    for one, verdict in zip(thresholds, verdicts(thresholds), strict=True):
        failed = verdict.state == BREACHED
        words = breach_text(one) if failed else verdict.why or verdict.words
        # A single run has a new folder each time, and the name of a case must stay.
        of = f" ({verdict.run})" if len(document.get("runs", ())) > 1 else ""
        yield _Case(verdict.condition + of, words, _FAILED if failed else verdict.state)
    asked = any(one["condition"].lower() == WORSE for one in thresholds)
    for name, figure in (document.get("comparison") or {"figures": {}})["figures"].items():
        yield _compared(name.replace("_", " "), figure, asked)


def _of_campaign(document: Mapping[str, Any]) -> Iterator[_Case]:
    """Yield the verdicts on combinations, points of a sweep, a found rate, and connections."""
    kind = document["schema"]["name"]
    for result in document["results"] if kind == "bench" else ():
        reason = result["reason"]
        yield _Case(result["name"], reason or result["status"], _FAILED if reason else _OK)
    for point in document["points"] if kind == "sweep" else ():
        state = _OK if point["complete"] else _FAILED
        yield _Case(_point_name(point), point["reason"] or "sustained", state)
    if kind == "found-rate":
        found = document["found_rate"]
        known = found["low"] is not None and found["high"] is not None
        words = f"{average_text(found['rate'], '/s')} is sustained; {found['reason']}"
        words = words if known else "no limit was found"
        yield _Case(" and ".join(document["conditions"]), words, _OK if known else _FAILED)
    for key in ("failures", "losses") if kind in ("churn", "hold") else ():
        texts = [f"{one['count']:,} {one['reason']}" for one in document.get(key, ())]
        yield _Case(key, "; ".join(texts) or "none", _FAILED if texts else _OK)


def _of_clause(clause: Mapping[str, Any], strict: bool) -> _Case:
    """Return the verdict on a clause; a broken SHOULD fails only if ``strict``."""
    verdict, level = clause["verdict"], clause["level"]
    parts = [f"{verdict} ({level})", clause["reason"]]
    if clause["expected"] is not None:
        parts += [f"expected {clause['expected']}", f"found {clause['found']}"]
    broken = verdict == "broken" and (strict or level != "SHOULD")
    state = _FAILED if broken else _OK if verdict == "kept" else _SKIPPED
    return _Case(f"{clause['id']} {clause['words']}", "; ".join(filter(None, parts)), state)


def _point_name(point: Mapping[str, Any]) -> str:
    return " ".join(f"{option}={value}" for option, value in point["values"].items())


def _compared(name: str, figure: Mapping[str, Any], asked: bool) -> _Case:
    """Return the verdict on one figure of a comparison; ``asked`` if --fail-if worse is given."""
    base, candidate = (average_text(figure[key], figure["unit"]) for key in ("base", "candidate"))
    change = "" if figure["change"] is None else f" ({figure['change']:+.1%})"
    words = f"{figure['verdict']}: base {base}, candidate {candidate}{change}"
    verdict = figure["verdict"]
    state = _OK
    if verdict in OPEN:
        state = _INCONCLUSIVE if asked else _SKIPPED
    elif verdict == TOO_FEW or verdict.startswith(NOT_COMPARED):
        state = _SKIPPED
    elif verdict == WORSE and asked:
        state = _FAILED
    return _Case(f"comparison: {name}", words, state)


def _figures(document: Mapping[str, Any]) -> list[str]:
    """Return the main figures: a row for each run or combination, or the sections of a campaign."""
    kind = document["schema"]["name"]
    if kind == "conformance":
        return [_of_subject(document)]
    if kind in _CAMPAIGNS:
        return _campaign(_CAMPAIGNS[kind], document)
    runs = document.get("runs", [] if kind == "bench" else [document])
    if kind == "bench":
        rows = [(one["name"], _bench_tiles(one)) for one in document["results"]]
    else:
        rows = [
            (run.get("name") or run["output_dir"], dict(run_tiles(run)))
            for run in (*runs, *(document.get("baseline_runs") or ()))
        ]
    heads = list(dict.fromkeys(name for _, tiles in rows for name in tiles))
    cells = [(name, *(tiles.get(head, "-") for head in heads)) for name, tiles in rows]
    answers = document.get("answers", ())
    parts = [checked(one, partial(_campaign, one.kind, one.document)) for one in answers]
    tables = [
        _parts(one)
        for run in runs
        for one in told({"FAULTS": faults_of(run), "LEDGER": ledger_rows(run)})
    ]
    figures = markdown_table(("run", *heads), cells)
    return [*chain.from_iterable(parts), figures, *chain(*tables)]


def _of_subject(document: Mapping[str, Any]) -> str:
    counts = {key.replace("_", " "): str(value) for key, value in document["counts"].items()}
    row = (document["subject"]["name"], *counts.values())
    return markdown_table((document["subject"]["kind"], *counts), [row])


def _campaign(kind: str, document: Mapping[str, Any]) -> list[str]:
    sections = campaign_sections(kind, document)
    return [text for section in sections for text in _parts(section)]


def _parts(section: Section) -> Iterator[str]:
    """Yield the figures of a section as a table, then its tables and its words."""
    parts = section.of(TEXT)
    rows = [part for part in parts if isinstance(part, Row)]
    figures = [(row.name, f"{row.value} {row.unit}".rstrip()) for row in rows if row.name]
    yield markdown_table((section.title.lower(), "value"), figures)
    yield from (markdown_table(part.heads, part.rows) for part in parts if isinstance(part, Grid))
    yield from (escaped(row.value) for row in rows if not row.name)


def _bench_tiles(result: Mapping[str, Any]) -> dict[str, str]:
    found, latency = result.get("found_rate"), result["latency_ms"] or {}
    rate = {"Throughput": average_text(result["rate"], "/s")}
    if found is not None:
        rate = {"Sustained": average_text(found["rate"], "/s")}
    return rate | {rank_title(rank): average_text(latency.get(rank), "ms") for rank in FEW}


def markdown_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table of GitHub's Markdown; empty without rows."""
    if not rows:
        return ""
    lines = [heads, ["---"] * len(heads)]
    lines += [[_failed(cell) for cell in map(escaped, row)] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _failed(cell: str) -> str:
    return f"**{cell}**" if cell == _FAILED else cell


def escaped(text: str) -> str:
    """Return text that Markdown shows as it is, on one line."""
    return _MARKS.sub(r"\\\1", " ".join(_clean(text).split()))


def _clean(text: str) -> str:
    """Return text without characters that XML does not allow, or that a terminal obeys."""
    return visible(_NO_XML.sub("\ufffd", text))
