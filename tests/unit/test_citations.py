"""Citations in code and documents exist: clauses, links, paths and headings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
INTERNALS = ROOT / "docs" / "internals"
FOLDERS = ("src", "spark_analysis", "impls", "tests", "bench", "buildtools", "docs", ".ci")
SUFFIXES = {".py", ".pyx", ".pxi", ".pxd", ".pyi", ".c", ".h", ".sh", ".md", ".java", ".js"}
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])

CLAUSE = re.compile(r"(?<![\w.])([AB])\.(\d+)(?![\w.]*\d)")
# Clauses of other documents: RFC 6125 has an appendix B.2.
OF_OTHERS = re.compile(r"RFC \d+[^.]{0,10}$")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"`((?:src|spark_analysis|tests|bench|buildtools|docs|impls)/[\w./*-]+)`")
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def files() -> Iterator[Path]:
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in SUFFIXES and "node_modules" not in path.parts:
                yield path


def clauses() -> set[str]:
    text = "".join(page.read_text() for page in INTERNALS.glob("*.md"))
    return set(re.findall(r"^## ([AB]\.\d+) ", text, re.MULTILINE))


def anchor(heading: str) -> str:
    """Return the fragment by which a heading is linked to, as code hosts make it."""
    text = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def anchors(page: Path) -> set[str]:
    text = FENCE.sub("", page.read_text())
    return {anchor(line) for line in re.findall(r"^#+ (.+)$", text, re.MULTILINE)}


def cited(path: Path) -> Iterator[str]:
    text = path.read_text(errors="replace")
    for match in CLAUSE.finditer(text):
        if not OF_OTHERS.search(text[max(0, match.start() - 20) : match.start()]):
            yield f"{match[1]}.{match[2]}"


def test_every_clause_that_is_cited_is_there() -> None:
    known = clauses()
    assert {"A.1", "A.13", "B.1", "B.10"} <= known
    wrong = {
        (str(path.relative_to(ROOT)), clause)
        for path in files()
        for clause in cited(path)
        if clause not in known
    }
    assert wrong == set()


def test_the_citations_are_found() -> None:
    """A pattern that finds nothing would prove nothing."""
    found = {clause for path in files() for clause in cited(path)}
    assert found >= {f"A.{number}" for number in range(1, 14)}
    assert found >= {f"B.{number}" for number in range(1, 11)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in LINK.findall(FENCE.sub("", page.read_text())):
        if re.match(r"[a-z]+:", target):
            continue
        place, _, fragment = target.partition("#")
        there = (page.parent / place).resolve() if place else page
        assert there.exists(), f"{target} is not there"
        if fragment:
            assert fragment in anchors(there), f"{target}: no such heading"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_path_of_code_is_there(page: Path) -> None:
    """A document that names a file which has moved sends its reader into the dark."""
    for path in CODE.findall(FENCE.sub("", page.read_text())):
        # NAME stands for any.
        pattern = path.rstrip("/").replace("NAME", "*")
        assert list(ROOT.glob(pattern)), f"{page.name} names {path}"


def test_what_architecture_names_is_there() -> None:
    """Its paths are below the package."""
    text = (INTERNALS / "architecture.md").read_text()
    package = ROOT / "src" / "quiver_fast"
    paths = re.findall(r"`((?:[a-z_]+/)*[a-z_]+\.(?:pyx|pxi|py|pxd|c))`", text)
    names = [path for path in paths if not path.startswith(("tests/", "buildtools/"))]
    assert len(names) > 40
    known = {str(path.relative_to(package)) for path in package.rglob("*.*")}
    known |= {f"spark_analysis/{path.name}" for path in (ROOT / "spark_analysis").iterdir()}
    bases = {Path(name).name for name in known}
    for name in names:
        assert name in known or ("/" not in name and name in bases), name


def test_each_figure_is_defined_where_the_list_says() -> None:
    """A row names the file below the package, and the functions in it."""
    package = ROOT / "src" / "quiver_fast"
    rows = re.findall(r"\| `([a-z_/]+\.py)`: ([^|]*) \|", (INTERNALS / "figures.md").read_text())
    assert len(rows) > 30
    for path, names in rows:
        text = (package / path).read_text()
        for name in re.findall(r"`(\w+)`", names):
            defined = rf"^ *(?:def {name}\(|class {name}\b)"
            assert re.search(defined, text, re.MULTILINE), (path, name)
