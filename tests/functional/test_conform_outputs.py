"""`quiver-conform`: its document, the files and pages made of it, and the matrix."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from support.documents import parsed, with_odd_values
from support.mutant import MutatingRelay
from support.server import running_server

from quiver_fast.cli.conform.command import main
from quiver_fast.conform.cases import CASES
from quiver_fast.conform.mutation import changed
from quiver_fast.conform.runner import run
from quiver_fast.conform.server import ServerSubject, Target

ONLY = "2.3.1,2.6.6/1,2.6.4/1"


@pytest.fixture(scope="module", name="ports")
def ports_of_right_and_wrong(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, int]]:
    """A server that keeps all, and one whose detach never says closed."""
    with (
        running_server(tmp_path_factory.mktemp("server")) as server,
        MutatingRelay(server.port, changed("detach", closed=None)) as relay,
    ):
        yield server.port, relay.port


@pytest.fixture(scope="module", name="saved")
def results_in_directories(
    ports: tuple[int, int], tmp_path_factory: pytest.TempPathFactory
) -> list[Path]:
    places = [tmp_path_factory.mktemp("results") / name for name in ("right", "wrong")]
    for place, port in zip(places, ports, strict=True):
        words = [f"//127.0.0.1:{port}", "--only", ONLY, "--output", str(place)]
        assert main(words) == (place.name == "wrong")
    return places


def test_the_document(ports: tuple[int, int], capfd: pytest.CaptureFixture[str]) -> None:
    assert main([f"//127.0.0.1:{ports[1]}", "--only", ONLY, "--json", "--verbose"]) == 1
    output, errors = capfd.readouterr()
    document = parsed(output)
    assert "broken" in errors
    assert document["subject"] == {
        "kind": "server", "name": "quiver-fast 0.1.0", "product": "quiver-fast",
        "version": "0.1.0", "place": f"127.0.0.1:{ports[1]}", "queues": "dynamic nodes",
        "mechanisms": ["ANONYMOUS"],
    }  # fmt: skip
    assert document["options"] == {"only": ONLY.split(","), "strict": False, "address": None}
    assert (document["complete"], document["reason"]) == (True, None)
    clauses = {one["id"]: one for one in document["clauses"]}
    assert document["counts"] == {
        "kept": len(clauses) - 1, "broken_must": 1, "broken_should": 0, "broken_contract": 0,
        "disputed": 0, "unobservable": 0,
    }  # fmt: skip
    broken = clauses["2.6.6/1"]
    assert (broken["verdict"], broken["level"]) == ("broken", "MUST")
    assert (broken["expected"], broken["found"]) == (
        "detach closed=true error=null", "detach handle=0",
    )  # fmt: skip
    answer = next(one for one in broken["frames"] if one["text"] == "detach handle=0")
    assert (answer["sent"], answer["name"], answer["fields"]) == (False, "detach", {"handle": 0})
    assert clauses["2.3.1/1"]["frames"], "--verbose has the frames of kept clauses"


def test_the_saved_document(saved: list[Path], capfd: pytest.CaptureFixture[str]) -> None:
    document = parsed((saved[1] / "conformance.json").read_bytes())
    frames = {one["id"]: len(one["frames"]) > 0 for one in document["clauses"]}
    assert [name for name, has in frames.items() if has] == ["2.6.6/1"]
    assert main(["//127.0.0.1", "--output", str(saved[1])]) == 2
    assert "is not empty (--force replaces its files)" in capfd.readouterr()[1]


def test_the_files_of_ci(ports: tuple[int, int], tmp_path: Path) -> None:
    page, tables, junit = (tmp_path / name for name in ("page.html", "tables.md", "junit.xml"))
    words = ["--html", str(page), "--markdown", str(tables), "--junit", str(junit)]
    assert main([f"//127.0.0.1:{ports[1]}", "--only", ONLY, *words]) == 1
    sentence = "A detach that says closed is answered by one that says closed."
    told = "broken (MUST); expected detach closed=true error=null; found detach handle=0"
    [failure] = ElementTree.parse(junit).findall(".//failure/..")
    assert failure.get("name") == f"2.6.6/1 {sentence}"
    assert [each.get("message") for each in failure] == [told]
    text = tables.read_text()
    assert text.startswith("## quiver-conform: failed\n\n| server | kept | broken must |")
    assert f"\n| **failed** | 2.6.6/1 {sentence} | {told} |\n" in text
    html = page.read_text()
    assert "<title>Conformance to AMQP 1.0: quiver-fast 0.1.0</title>" in html
    assert f"1 of {html.count('<tr>') - html.count('<thead>')} clauses broken" in html
    [section] = re.findall(r'<section id="0-2\.6\.6/1">.*?</section>', html, re.DOTALL)
    assert "&lt;- detach handle=0\n" in section
    assert '<a href="#0-2.6.6/1"><span class="bad">broken</span></a>' in html


def test_a_broken_should_fails_only_with_strict(
    ports: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    from quiver_fast.cli.conform import command

    should = [replace(one, level="SHOULD") for one in CASES if one.id == "2.6.6/1"]
    monkeypatch.setattr(command, "CASES", should)
    for words, kind in ([], "skipped"), (["--strict"], "failure"):
        junit = tmp_path / "junit.xml"
        code = main([f"//127.0.0.1:{ports[1]}", "--junit", str(junit), *words])
        assert code == (kind == "failure")
        assert len(ElementTree.parse(junit).findall(f".//{kind}")) == 1


def test_the_matrix(saved: list[Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    page, tables = tmp_path / "page.html", tmp_path / "tables.md"
    # A file is as good as its directory.
    places = [str(saved[0]), str(saved[1] / "conformance.json")]
    assert main(["--matrix", *places, "--html", str(page), "--markdown", str(tables)]) == 0
    output, errors = capfd.readouterr()
    assert errors == ""
    assert re.search(r"^quiver-fast .*: \d+ clauses: \d+ kept, 1 broken \(1 MUST\)", output,
                     re.MULTILINE)  # fmt: skip
    html, text = page.read_text(), tables.read_text()
    assert '<a href="#1-2.6.6/1"><span class="bad">broken</span></a>' in html
    assert "&lt;- detach handle=0\n" in html
    assert re.search(r"^\| 2\.6\.6/1 \| MUST \| .* \| kept \| \*\*broken\*\* \|$", text,
                     re.MULTILINE)  # fmt: skip
    # The order of the standard, not of the files of cases.
    assert text.index("| 2.6.4/1 ") < text.index("| 2.6.6/1 ")
    assert re.search(r"^- 2\.6\.6/1, quiver-fast .*: expected detach closed=true ", text,
                     re.MULTILINE)  # fmt: skip


def test_clauses_that_one_document_lacks(saved: list[Path], tmp_path: Path) -> None:
    document = json.loads((saved[0] / "conformance.json").read_text())
    document["clauses"] = [
        document["clauses"][0] | {"verdict": "unobservable", "reason": "no <such> | thing"}
    ]
    other = tmp_path / "other.json"
    other.write_text(json.dumps(document))
    tables, page = tmp_path / "tables.md", tmp_path / "page.html"
    words = ["--matrix", str(saved[0]), str(other), "--markdown", str(tables)]
    assert main([*words, "--html", str(page)]) == 0
    text = tables.read_text()
    assert re.search(r"^\| 2\.6\.6/1 \| .* \| kept \|  \|$", text, re.MULTILINE)
    assert re.search(r"^\| quiver-fast .* \| no \\<such> \\\| thing \| 2\.3\.1/1 \|$", text,
                     re.MULTILINE)  # fmt: skip
    assert "no &lt;such&gt; | thing" in page.read_text()


@pytest.mark.parametrize("words", [["//host"], ["--only", "2"], ["--junit", "x"], ["--json"]])
def test_options_that_do_not_go_with_a_matrix(
    words: list[str], saved: list[Path], capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert main([*words, "--matrix", str(saved[0])]) == 2
    output, errors = capfd.readouterr()
    name = words[0] if words[0].startswith("--") else "URL"
    assert (output, errors) == ("", f"quiver-conform: error: {name} does not go with --matrix\n")


def test_a_damaged_document_is_one_line(
    saved: list[Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Any value in it may be another one, or not there: it is refused, or shown."""
    file = tmp_path / "odd.json"
    text = (saved[1] / "conformance.json").read_text()
    for odd in with_odd_values(text, (None, 5, "x", [], {}, ...)):
        file.write_text(odd)
        code = main(["--matrix", str(file), "--html", str(tmp_path / "x.html")])
        errors = capfd.readouterr()[1]
        assert (code, errors.count("\n")) in ((0, 0), (2, 1)), odd


def test_documents_of_others(
    saved: list[Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A page runs nothing that a document has, and equal names are told apart."""
    document = json.loads((saved[1] / "conformance.json").read_text())
    document["clauses"][0] |= {"level": "<b>level", "id": "<b>id", "words": "<b>words"}
    foreign, page = tmp_path / "foreign.json", tmp_path / "page.html"
    foreign.write_text(json.dumps(document))
    assert main(["--matrix", str(foreign), str(foreign), "--html", str(page)]) == 0
    assert re.findall(r" at \S+ \((\d)\): \d+ clauses", capfd.readouterr()[0]) == ["1", "2"]
    assert "<b>" not in page.read_text()
    foreign.write_text(json.dumps(document | {"schema": {"name": "conformance", "version": 99}}))
    assert main(["--matrix", str(foreign)]) == 2
    assert "is of another version of quiver-conform: 99\n" in capfd.readouterr()[1]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": {"name": "run", "version": 1}}'])
def test_another_file_is_refused(
    text: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "conformance.json"
    file.write_text(text)
    assert main(["--matrix", str(tmp_path)]) == 2
    line = f"quiver-conform: error: {file} is no document of quiver-conform\n"
    assert capfd.readouterr() == ("", line)


def test_a_server_that_goes_ends_the_run(tmp_path: Path) -> None:
    """What was judged until then is kept."""
    with running_server(tmp_path) as server:
        subject = ServerSubject(Target("127.0.0.1", server.port, patience=1.0))
    cases = [case for case in CASES if case.id.startswith("2.3.1/")]
    found: list[Any] = []
    report = run(cases * 4, subject, jobs=1, seconds=60, tell=found.append)
    assert report.reason == "it cannot be reached any more: 3 connects failed"
    assert report.results == found
    assert len(found) <= 2
