"""Documents beside each other: a row for each clause, a column for each peer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from quiver_fast.cli.conform.text import order, part_of
from quiver_fast.cli.shared.verdict_files import escaped, markdown_table
from quiver_fast.conform.case import BROKEN, DISPUTED_, UNOBSERVABLE

Document = Mapping[str, Any]
Clause = Mapping[str, Any]

HEADS = ("peer", "kept", "broken MUST", "broken SHOULD", "broken contract", "disputed",
         "not observable", "on")  # fmt: skip


@dataclass(frozen=True)
class Row:
    """A clause, and what each peer does about it; None if a document lacks it."""

    id: str
    level: str
    words: str
    cells: tuple[Clause | None, ...]


class Matrix:
    """The clauses of documents.

    Attributes:
        names: of the peers.
        parts: the rows by the parts of the standard, in its order.
    """

    def __init__(self, documents: Sequence[Document]) -> None:
        self.documents = documents
        self.names = _names(documents)
        self.parts: dict[str, list[Row]] = {}
        columns = [{one["id"]: one for one in each["clauses"]} for each in documents]
        for name in sorted({name for column in columns for name in column}, key=order):
            cells = tuple(column.get(name) for column in columns)
            known = next(cell for cell in cells if cell is not None)
            row = Row(name, known["level"], known["words"], cells)
            self.parts.setdefault(part_of(name), []).append(row)

    @property
    def counts(self) -> list[tuple[str, ...]]:
        """A row of counts for each peer, for `HEADS`."""
        return [
            (name, *(str(count) for count in one["counts"].values()), one["began"][:10])
            for name, one in zip(self.names, self.documents, strict=True)
        ]

    def breaks(self) -> list[tuple[int, Clause]]:
        """Return the broken and the disputed clauses, each with the number of its peer."""
        return [
            (number, cell)
            for rows in self.parts.values()
            for row in rows
            for number, cell in enumerate(row.cells)
            if cell is not None and cell["verdict"] in (BROKEN, DISPUTED_)
        ]

    def unobservable(self) -> list[tuple[str, str, str]]:
        """Return peer, reason and ids of the clauses that could not be judged."""
        found: dict[tuple[int, str], list[str]] = {}
        for rows in self.parts.values():
            for row in rows:
                for number, cell in enumerate(row.cells):
                    if cell is not None and cell["verdict"] == UNOBSERVABLE:
                        found.setdefault((number, cell["reason"] or ""), []).append(row.id)
        return [(self.names[key[0]], key[1], ", ".join(ids)) for key, ids in sorted(found.items())]


def _names(documents: Sequence[Document]) -> list[str]:
    """Return the names of peers; equal ones with their places, then with numbers."""
    names = [one["subject"]["name"] for one in documents]
    places = [f" at {place}" if (place := one["subject"]["place"]) else "" for one in documents]
    for ends in (places, [f" ({number})" for number in range(1, len(names) + 1)]):
        several = Counter(names)
        names = [
            name + end if several[name] > 1 else name for name, end in zip(names, ends, strict=True)
        ]
    return names


def matrix_markdown(matrix: Matrix) -> str:
    """Return the counts, then a table for each part, then the breaks and the reasons."""
    parts = [markdown_table(HEADS, matrix.counts)]
    for title, rows in matrix.parts.items():
        cells = [(row.id, row.level, row.words, *map(_verdict, row.cells)) for row in rows]
        table = markdown_table(("clause", "level", "requirement", *matrix.names), cells)
        parts += [f"## {title}", table.replace(f" {BROKEN} |", f" **{BROKEN}** |")]
    if breaks := matrix.breaks():
        parts += ["## Broken and disputed", "\n".join(
            f"- {escaped(one['id'])}, {escaped(matrix.names[number])}, {one['verdict']}: "
            f"{escaped('; '.join(lines_of(one)))}"
            for number, one in breaks
        )]  # fmt: skip
    if reasons := matrix.unobservable():
        parts += ["## Not observable", markdown_table(("peer", "reason", "clauses"), reasons)]
    return "\n\n".join(parts) + "\n"


def lines_of(clause: Clause) -> list[str]:
    """Return the reason of a clause, what was due, and what came."""
    names = ("reason", "expected", "found")
    return [f"{name} {clause[name]}" for name in names if clause[name]]


def _verdict(cell: Clause | None) -> str:
    return "" if cell is None else cell["verdict"]
