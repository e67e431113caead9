"""The page of one run, or of several beside each other; each break leads to its frames."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from quiver_fast.analysis.sections.headline import environment_facts
from quiver_fast.analysis.show.html import (
    escape,
    html_facts,
    html_grid,
    html_page,
    html_state,
    html_tiles,
)
from quiver_fast.cli.conform.matrix import HEADS, Clause, Document, Matrix, Row
from quiver_fast.cli.conform.text import frame_line
from quiver_fast.conform.case import BROKEN, DISPUTED_, KEPT, UNOBSERVABLE

_TITLE = "Conformance to AMQP 1.0"
_COLOURS = {KEPT: "good", BROKEN: "bad", DISPUTED_: "mixed", UNOBSERVABLE: "note"}


def conformance_html(documents: Sequence[Document]) -> str:
    """Return documents as one HTML file that needs no other: breaks first if there is only one."""
    matrix = Matrix(documents)
    single = len(documents) == 1
    title = f"{_TITLE}: {matrix.names[0]}" if single else _TITLE
    head = _about(documents[0]) if single else _counts(matrix)
    breaks, tables = "\n".join(_breaks(matrix)), "\n".join(_tables(matrix))
    body = [breaks, tables] if single else [tables, breaks]
    header = f"<header><h1>{escape(title)}</h1>{head}</header>"
    return html_page(title, "\n".join([header, *body, _unobservable(matrix)]))


def _about(document: Document) -> str:
    subject, counts = document["subject"], document["counts"]
    broken = sum(value for key, value in counts.items() if key.startswith(BROKEN))
    words = f"{broken} of {len(document['clauses'])} clauses broken" if broken else (
        "No clause is broken"
    )  # fmt: skip
    if document["reason"]:
        words += f"; the run is not complete: {document['reason']}"
    facts = {
        "Peer": " at ".join(filter(None, [subject["name"], subject["place"]])),
        "SASL": ", ".join(subject["mechanisms"] or ()), "Queues": subject["queues"],
        "Began": document["began"],
    }  # fmt: skip
    tiles = list(zip(HEADS[1:], map(str, counts.values()), strict=False))
    return (
        html_state(words, bool(broken or document["reason"])) + html_tiles(tiles)
        + html_facts(facts | environment_facts(document["environment"]))
    )  # fmt: skip


def _counts(matrix: Matrix) -> str:
    heads = [head[:1].upper() + head[1:] for head in HEADS]
    return html_grid(heads, matrix.counts, "Counts")


def _tables(matrix: Matrix) -> Iterator[str]:
    """Yield a table for each part of the standard."""
    peers = matrix.names if len(matrix.names) > 1 else ["Verdict"]
    heads = "".join(
        f'<th scope="col">{escape(head)}</th>'
        for head in ("Clause", "Level", "Requirement", *peers)
    )
    for title, rows in matrix.parts.items():
        body = "".join(map(_row, rows))
        yield (
            f'<h2>{escape(title)}</h2><div class="scroll clauses" tabindex="0" role="region" '
            f'aria-label="{escape(title)}"><table><thead><tr>{heads}</tr></thead>'
            f"<tbody>{body}</tbody></table></div>"
        )


def _row(row: Row) -> str:
    cells = "".join(f"<td>{_cell(number, cell)}</td>" for number, cell in enumerate(row.cells))
    return (
        f'<tr><th scope="row">{escape(row.id)}</th><td>{escape(row.level)}</td>'
        f"<td>{escape(row.words)}</td>{cells}</tr>"
    )


def _cell(number: int, clause: Clause | None) -> str:
    """Return a verdict, which leads to the frames if it is a break."""
    if clause is None:
        return ""
    shown = f'<span class="{_COLOURS[clause["verdict"]]}">{clause["verdict"]}</span>'
    if clause["verdict"] in (BROKEN, DISPUTED_):
        return f'<a href="#{_place(number, clause)}">{shown}</a>'
    return shown


def _place(number: int, clause: Clause) -> str:
    return escape(f"{number}-{clause['id']}")


def _breaks(matrix: Matrix) -> Iterator[str]:
    """Yield the broken and the disputed clauses, each with its frames."""
    several = len(matrix.names) > 1
    breaks = matrix.breaks()
    if breaks:
        yield "<h2>Broken and disputed</h2>"
    for number, one in breaks:
        name = f", {matrix.names[number]}" if several else ""
        title = f"{one['id']}{name}: {one['verdict']} ({one['level']})"
        frames = one["frames"]
        more = len({frame["connection"] for frame in frames}) > 1
        lines = "\n".join(frame_line(frame, more) for frame in frames)
        facts = {"Expected": one["expected"], "Found": one["found"], "Reason": one["reason"]}
        yield (
            f'<section id="{_place(number, one)}"><h3>{escape(title)}</h3>'
            f"<p>{escape(one['words'])}</p>{html_facts(facts)}"
            f"{f'<pre>{escape(lines)}</pre>' if lines else ''}</section>"
        )


def _unobservable(matrix: Matrix) -> str:
    if not (reasons := matrix.unobservable()):
        return ""
    several = len(matrix.names) > 1
    heads = (("Peer",) if several else ()) + ("Reason", "Clauses")
    rows = reasons if several else [row[1:] for row in reasons]
    return f"<h2>Not observable</h2>{html_grid(heads, rows, 'Not observable')}"
