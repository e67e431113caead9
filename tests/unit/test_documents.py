"""The documents say what the code does: generated blocks, defaults in prose, options."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from buildtools import conform_blocks
from buildtools.documents import BLOCKS, PAGES, blocks_in, rewritten
from buildtools.manual import PARSERS, files
from buildtools.not_kept import NotKept
from quiver_fast import __version__
from quiver_fast.conform.cases import CASES

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_generated_blocks_are_as_the_code_says(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert rewritten(text) == text, "run `make docs`"


def test_every_block_is_in_a_document() -> None:
    used = [name for page in PAGES for name in blocks_in(page.read_text(encoding="utf-8"))]
    assert sorted(used) == sorted({*used} & BLOCKS.keys())
    assert BLOCKS.keys() == {*used}


@pytest.mark.skipif(shutil.which("groff") is None, reason="there is no groff")
@pytest.mark.parametrize("command", PARSERS)
def test_manual_pages_are_roff_that_says_what_the_help_says(command: str) -> None:
    page = files()[Path("man/man1") / f"{command}.1"]
    words = ["groff", "-K", "utf8", "-man", "-Tutf8", "-ww", "-rLL=100n", "-P", "-cbou"]
    done = subprocess.run(words, input=page, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    parser = PARSERS[command]()
    for action in parser._actions:
        for flag in {*action.option_strings} - {"-h", "--help"}:
            assert re.search(rf"^ +.*{re.escape(flag)}\b", done.stdout, re.MULTILINE), flag
    assert "exit codes:" in done.stdout
    # No page has the facts of this machine that --help shows.
    assert "is installed here" not in done.stdout


def test_the_citation_names_the_version() -> None:
    text = (ROOT / "CITATION.cff").read_text()
    assert f"version: {__version__}\n" in text


def test_the_first_page_is_short_and_begins_with_what_the_tool_is() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 200
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == [
        "A run through a broker", "Install", "Four recipes", "What you can trust", "More",
        "Licence",
    ]  # fmt: skip
    assert text.startswith("# quiver-fast\n\nquiver-fast measures AMQP 1.0 messaging.")


def test_a_stale_block_is_noticed() -> None:
    """A pattern that finds nothing would prove nothing."""
    text = "a\n<!-- generated: keys of the server -->\n\nstale row\n<!-- end -->\nb\n"
    new = rewritten(text)
    assert "stale row" not in new
    assert "`queue-limit=BYTES`" in new
    assert rewritten(new) == new


# Numbers in prose, and the constants of the code: page, phrase, file, name.
FACTS = [
    ("server", "From {} on, a message for which", "structures.pxi", "STREAM_SIZE"),
    ("streaming", "or {} of it have come", "structures.pxi", "STREAM_SIZE"),
    ("server", "A selector has at most {} characters", "selector.py", "LENGTH_MAX"),
    ("server", "A producer with {} messages that wait for the disk", "credit.pxi", "UNSYNCED_MAX"),
    ("server", "fills its socket and {}", "outlet.pxi", "OUTGOING_MAX"),
    ("server", "has 1 to {} bytes of UTF-8", "folders.py", "ADDRESS_MAX"),
    ("server", "{} of each file are kept for removals", "store.pxi", "NOTES_ROOM"),
    ("server", "until {} of output waits", "peer.pxi", "WAITING_MAX"),
    ("server", "in parts of {} steps", "events.pxi", "EVENTS"),
    ("server", "A queue tells {} sets of links apart", "barring.pxi", "LANES_MAX"),
    ("server", "The server keeps {} (or a quarter", "main.py", "RESERVED"),
    ("streaming", "one such copy, or {} of them", "waiting.pxi", "COPIED_MAX"),
    ("queue-files", "An entry has at most {}", "appender.pyx", "MAX_ENTRY"),
    ("queue-files", "Files grow by {}, then more", "space.pyx", "STEP_MIN"),
    ("queue-files", "up to {} at a time", "space.pyx", "STEP_MAX"),
    ("queues", "Limits: {} cids", "store.pyx", "MAX_LINKS"),
    ("queues", "or {} a batch", "tailing.pyx", "MAX_BATCH_BYTES"),
    ("queues", "beyond {} of unsent replies", "outbox.pyx", "MAX_OUTPUT"),
    ("performance", "No more than {} and a frame wait", "sender.pyx", "WAITING_LIMIT"),
    ("arrows", "at least {} s", "arrow/main.py", "PEER_TIMEOUT"),
]
UNITS = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20}


def constant(file: str, name: str) -> int:
    found = [
        match[1]
        for path in (ROOT / "src").rglob(file)
        for match in re.finditer(rf"\b{name} = ([\d_. <]+)", path.read_text())
    ]
    assert len(found) == 1, f"{name} is in {len(found)} files {file}"
    shifted = [int(float(part)) for part in found[0].split("<<")]
    return shifted[0] << shifted[1] if shifted[1:] else shifted[0]


@pytest.mark.parametrize(("page", "phrase", "file", "name"), FACTS)
def test_numbers_in_prose_are_the_codes(page: str, phrase: str, file: str, name: str) -> None:
    text = " ".join((ROOT / "docs" / f"{page}.md").read_text().split())
    before, after = map(re.escape, phrase.split("{}"))
    found = re.search(rf"{before}([\d,]+)(?: (KiB|MiB))?{after}", text)
    assert found, f"{page}.md does not say it any more"
    said = int(found[1].replace(",", "")) * UNITS[found[2] or ""]
    assert said == constant(file, name)


def table_below(title: str) -> list[list[str]]:
    """Return the cells of the first table below a title of the server's page, without its head."""
    text = (ROOT / "docs" / "server.md").read_text().split(f"\n## {title}\n")[1]
    rows = text.split("\n\n|", 1)[1].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows]


def test_every_limit_of_the_server_is_in_its_table() -> None:
    """With the default that the generated table of all keys has from the code."""
    defaults = {
        cells[0].strip("`").partition("=")[0]: cells[1].strip() for cells in table_below("All keys")
    }
    limits = {cells[1].strip("`"): cells[2] for cells in table_below("Limits")}
    # The system has that one.
    assert limits.pop("ulimit -n") == "the system's"
    wanted = {
        name
        for name in defaults
        if name.startswith("max-") or name.endswith(("-limit", "-timeout")) or name == "credit"
    }
    assert len(wanted) >= 12
    assert limits == {name: defaults[name] for name in wanted}


CODE = re.compile(r"^```.*?^```$|^ {4}[^\n]*$|<!--.*?-->", re.DOTALL | re.MULTILINE)
CLAUSE = re.compile(
    r"(?:^[-*|\d. ]*|[.:;|?!]\*{0,2} )((?:what|of|so does|whoever|such)\b(?! as\b)[^.?|;]*[.?;]?)",
    re.IGNORECASE | re.MULTILINE,
)


def clauses_of(text: str) -> list[str]:
    """Return the sentences that begin with a clause where a noun would do; questions may."""
    paragraphs = re.sub(r"(?<=\S)\n +(?=[\w`*(])|(?<=[\w,`)])\n(?=[\w`(])", " ", CODE.sub("", text))
    return [found for found in CLAUSE.findall(paragraphs) if not found.endswith("?")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_sentence_begins_with_a_clause(page: Path) -> None:
    assert clauses_of(page.read_text(encoding="utf-8")) == []


def test_a_clause_is_noticed() -> None:
    text = "A run ends.\nWhat is left stays;\nof two the first. What is it?\n- Such a run | what is"
    wanted = ["What is left stays;", "of two the first.", "Such a run ", "what is"]
    assert clauses_of(text) == wanted


CONFORMANCE = ROOT / "docs" / "internals" / "conformance.md"
TEST = re.compile(r"`([\w/]+\.py)::((?:Test\w+::)?test_\w+)`")
ROW = re.compile(r"^\| [1-5]\.[\d., to]+ \| .+ \| (?:server|arrow|both) \| (.+) \|$")
OF_CASES = re.compile(r"<!-- generated: .*?<!-- end -->", re.DOTALL)


def clause_rows() -> list[str]:
    """Return the rows that people write; cases make the others."""
    lines = OF_CASES.sub("", CONFORMANCE.read_text()).splitlines()
    return [line for line in lines if re.match(r"\| \d", line)]


def test_each_case_has_a_row() -> None:
    rows = "".join(OF_CASES.findall(CONFORMANCE.read_text()))
    assert [case.id for case in CASES if f"\n| {case.id} | {case.words} |" not in rows] == []


def test_the_row_of_a_case_that_ours_does_not_keep(monkeypatch: pytest.MonkeyPatch) -> None:
    both = [replace(CASES[0], who=who, id=f"2.10/{number}")
            for number in (1, 2, 3) for who in ("server", "client")]  # fmt: skip
    one = replace(both[0], id="2.9.1/1")
    reasons = {
        "2.9.1/1": NotKept("arrow", "no row: only the server is judged"),
        "2.10/1": NotKept("both", "x"),
        "2.10/2": NotKept("arrow", "y"),
    }
    monkeypatch.setattr(conform_blocks, "NOT_KEPT", reasons)
    rows = conform_blocks.rows_of([*both, one, replace(one, id="20.1/1")], ["2"])
    assert [(row[0], *row[3:]) for row in rows] == [
        ("2.9.1/1", "server", "kept"),
        ("2.10/1", "both", "**not kept**: x"),
        ("2.10/2", "both", "**not kept** by the arrow: y"),
        ("2.10/3", "both", "kept"),
    ]


def test_each_clause_is_kept_by_a_test_or_not_for_a_reason() -> None:
    rows = clause_rows()
    assert len(rows) > 50
    for row in rows:
        found = ROW.match(row)
        assert found, row
        reason = re.match(r"(?:\*\*not kept\*\*|not applicable): \S", found[1])
        assert reason or not TEST.sub("", found[1]).strip(", "), row


def test_each_test_that_a_clause_names_is_there() -> None:
    named = {match.groups() for row in clause_rows() for match in TEST.finditer(row)}
    assert len(named) > 50
    wrong = [each for each in sorted(named) if not is_there(*each)]
    assert wrong == []


def is_there(file: str, name: str) -> bool:
    path = ROOT / "tests" / file
    *classes, function = name.split("::")
    text = path.read_text() if path.exists() else ""
    there = [f"class {each}:" in text for each in classes]
    return all(there) and re.search(rf"def {function}\(", text) is not None


def test_cells_of_the_map_can_be_read_at_a_glance() -> None:
    page = (ROOT / "docs/internals/architecture.md").read_text(encoding="utf-8")
    rows = [line.strip("|").split("|") for line in page.splitlines() if line.startswith("|")]
    assert [cell for row in rows for cell in row if len(cell.split()) > 30] == []
