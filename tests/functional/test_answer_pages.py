"""Pages of a search, a sweep, a set, a churn and a hold: the answer, then curve and trials."""

from __future__ import annotations

import html
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.campaign_documents import (
    DOCUMENTS,
    churn_document,
    hold_document,
    search_document,
    set_document,
    sweep_document,
)
from support.documents import parsed, with_odd_values
from support.page_labels import unknown_labels

from quiver_fast.cli.analyze.command import main

START = 1_700_000_000_000


def write_runs(folder: Path, count: int, messages: int = 400) -> None:
    for number in range(1, count + 1):
        run = folder / f"run-{number:02}"
        run.mkdir(parents=True)
        sent = [START + 10 * n for n in range(messages)]
        (run / "sender-transfers.csv").write_text("".join(f"{time},0\n" for time in sent))
        lines = "".join(f"{time},{time + 3}\n" for time in sent)
        (run / "receiver-transfers.csv").write_text(lines)


def page_of(folder: Path, name: str, document: dict[str, Any], runs: int) -> str:
    folder.mkdir(exist_ok=True)
    write_runs(folder, runs)
    (folder / name).write_text(json.dumps(document))
    page = folder.with_suffix(".html")
    assert main([str(folder), "--quiet", "--html", str(page)]) == 0
    return page.read_text()


def words_of(page: str) -> str:
    """Return the shown text of a page, without its charts."""
    text = re.sub(r"<(style|figure|svg).*?</\1>", " ", page, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", text)).split())


def header(page: str) -> str:
    return words_of(page.split("<header>")[1].split("</header>")[0])


def test_a_search_says_its_answer_first(tmp_path: Path) -> None:
    page = page_of(tmp_path / "out", "rate.json", search_document(), 3)
    lead = header(page)
    assert lead.startswith(
        "Quiver: search of pyfast, //host/q0 Unconfirmed: //host/q0 (with pyfast) sustains 2,100 "
        "messages/s with p99<10ms. Its limit is between 1,900 and 2,300 messages/s"
    )
    assert "Reason of the limit: at 4,000/s: the queue grew by 12 messages/s." in lead
    assert "No run is incomplete" not in lead
    assert 'id="sweep"' in page
    assert 'id="trials"' in page
    assert "Change points" not in page
    rows = re.findall(r'<tr><td><a href="#(run-\d)">(run-\d\d)</a></td>(.*?)</tr>', page)
    assert [(link, name) for link, name, _ in rows] == [
        ("run-1", "run-01"), ("run-2", "run-02"), ("run-3", "run-03"),
    ]  # fmt: skip
    assert words_of(rows[2][2]).endswith("not sustained the queue grew by 12 messages/s")
    assert all(f'<section class="run" id="{link}">' in page for link, _, _ in rows)


@pytest.mark.parametrize(
    ("found", "first"),
    [
        ({"confirmed": True}, "//host/q0 (with pyfast) sustains 2,100 messages/s with p99<10ms."),
        (
            {"rate": None, "low": None, "high": 1000},
            "No rate was found: //host/q0 (with pyfast) sustained none of the tried rates",
        ),
        (
            {"rate": 4000, "low": 4000, "high": None},
            "//host/q0 (with pyfast) sustained every tried rate, up to 4,000 messages/s",
        ),
    ],
)
def test_answers_of_a_search(tmp_path: Path, found: dict[str, Any], first: str) -> None:
    page = page_of(tmp_path / "out", "rate.json", search_document(**found), 3)
    assert header(page).removeprefix("Quiver: search of pyfast, //host/q0 ").startswith(first)


def test_trials_that_say_nothing_are_void(tmp_path: Path) -> None:
    document = search_document(stalled={"failed": 1, "runs": 9})
    document["found_rate"]["steps"][0] |= {"sustained": False, "void": True, "reason": "late"}
    page = page_of(tmp_path / "out", "rate.json", document, 3)
    assert "Below it, 1 of 9 trials failed: not by the rate." in header(page)
    assert "The search made 3 trials, 1 of them void." in header(page)
    assert "void late" in words_of(page)


def test_a_sweep_names_its_highest_sustained_load(tmp_path: Path) -> None:
    page = page_of(tmp_path / "out", "sweep.json", sweep_document(), 3)
    assert "was measured at 3 values of rate: 2 of 3 loads were sustained." in header(page)
    assert "The highest sustained rate is 2,000/s, at rate=2000" in header(page)
    assert "run-03 3000 3,000/s" in words_of(page)
    assert "not sustained the sender missed its schedule" in words_of(page)


def test_a_set_has_its_medians(tmp_path: Path) -> None:
    page = page_of(tmp_path / "out", "set.json", set_document(), 2)
    assert "Median of 2 runs of pyfast, //host/q0: 1,000/s, median latency 200 us" in header(page)
    assert "Rate 1,000/s 900/s to 1,100/s" in words_of(page)


def test_a_churn_is_shown_without_records(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = page_of(tmp_path / "out", "churn.json", churn_document(), 0)
    lead = header(page)
    assert "//host/q0 opened and closed 49 connections/s, of 50/s asked for 4 s." in lead
    assert "3 of 200 attempts failed, 3 of them so: refused." in lead
    assert "The server's memory went from 25.0 MB to 30.0 MB" in lead
    assert 'id="steps"' in page
    # 200 attempts have no 99.9th percentile.
    assert "all 120 us 300 us 900 us - 990 us" in words_of(page)
    capsys.readouterr()
    assert main([str(tmp_path / "out")]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("\nANSWER\n\n//host/q0 opened and closed 49 connections/s")


def test_a_hold_says_what_was_kept_and_its_cost(tmp_path: Path) -> None:
    page = page_of(tmp_path / "out", "hold.json", hold_document(), 0)
    assert "//host/q0 kept 98 of 100 idle connections for 3.0 s." in header(page)
    assert "2 lost, 2 of them so: the server closed it." in header(page)
    assert "server 25.0 MB 27.0 MB 20.0 kB 100 us 1.0 %" in words_of(page)


@pytest.mark.parametrize("name", DOCUMENTS)
@pytest.mark.parametrize("damage", ["[]", "{", "{}", '{"target": 1, "found_rate": []}'])
def test_a_damaged_answer_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, damage: str
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    write_runs(out, 1)
    (out / name).write_text(damage)
    assert main([str(out), "--html", str(tmp_path / "p.html")]) == 1
    [line] = capsys.readouterr().err.splitlines()[-1:]
    assert line.startswith(f"quiver-analyze: error: {out / name} is ")


@pytest.mark.parametrize("name", DOCUMENTS)
def test_no_value_of_an_answer_is_trusted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """Each value in turn is an odd one: a page, or one line, and no traceback."""
    document, runs = DOCUMENTS[name]
    (tmp_path / "out").mkdir()
    write_runs(tmp_path / "out", min(runs, 1), 4)
    text = json.dumps(document())
    words = [f"--{form}={tmp_path / form}" for form in ("html", "markdown")]
    for changed in with_odd_values(text, ("x", -1, {}, [], None, float("inf"), 10**400, ...)):
        (tmp_path / "out" / name).write_text(changed)
        if main([str(tmp_path / "out"), "--quiet", *words]) == 1:
            [line] = capsys.readouterr().err.splitlines()
            assert line.startswith(f"quiver-analyze: error: {tmp_path / 'out' / name} is ")


@pytest.mark.parametrize("form", ["markdown", "html"])
def test_a_damaged_answer_leaves_the_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    (tmp_path / "hold.json").write_text("{}")
    assert main([str(tmp_path), "--json", f"--{form}={tmp_path / form}"]) == 1
    out, err = capsys.readouterr()
    assert json.loads(out)["answers"][0]["document"] == {}
    assert err == f"quiver-analyze: error: {tmp_path / 'hold.json'} is no hold: it has no opening\n"


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_answer_is_in_the_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    document, runs = DOCUMENTS[name]
    write_runs(tmp_path, runs)
    saved = document()
    (tmp_path / name).write_text(json.dumps(saved))
    assert main([str(tmp_path), "--json", "--quiet"]) == 0
    [answer] = parsed(capsys.readouterr().out)["answers"]
    assert answer["file"] == str(tmp_path / name)
    assert answer["document"].keys() == saved.keys()


def test_a_number_that_no_measurement_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "churn.json").write_text('{"rate": 1e400}')
    assert main([str(tmp_path)]) == 1
    assert "churn.json is damaged: 1e400 is no number of a measurement" in capsys.readouterr().err


def test_the_figures_of_an_answer_in_markdown(tmp_path: Path) -> None:
    (tmp_path / "hold.json").write_text(json.dumps(hold_document()))
    assert main([str(tmp_path), "--quiet", f"--markdown={tmp_path / 'out.md'}"]) == 0
    text = (tmp_path / "out.md").read_text()
    assert text.startswith("## quiver-analyze\n\n| hold | value |\n| --- | --- |\n| Target | ")
    assert "| Lost | 2 connections |" in text


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_label_is_a_word_of_the_documents(tmp_path: Path, name: str) -> None:
    document, runs = DOCUMENTS[name]
    assert unknown_labels(page_of(tmp_path / "out", name, document(), runs)) == []


def run_quiver(tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = Path(sys.executable).with_name("quiver")
    return subprocess.run(
        [command, *words], cwd=tmp_path, capture_output=True, text=True, check=False
    )


def test_one_step_writes_the_page_of_a_run(tmp_path: Path) -> None:
    ended = run_quiver(tmp_path, "-c", "10", "--html", "page.html", "--output", "out",
                       "--fail-if", "lost>0")  # fmt: skip
    assert (ended.returncode, ended.stderr) == (0, "")
    page = (tmp_path / "page.html").read_text()
    assert unknown_labels(page) == []
    shown = words_of(page)
    assert "directly from a sender to a receiver" in shown
    assert "10 messages were sent and 10 received" in shown
    assert "These figures are of a short run: complete; every message was received;" in shown
    assert "Thresholds" in shown
    # Ten messages have no 99th percentile, and zero is no duration.
    for words in ("99.99 %", "lower bound", "Malformed", "told apart", "arrow", "0.0 s", "raw"):
        assert words not in shown, words


def test_one_step_writes_the_page_of_a_set_and_of_a_failed_run(tmp_path: Path) -> None:
    words = ("-c", "10", "--runs", "2", "--html", "page.html", "--quiet")
    ended = run_quiver(tmp_path, *words)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "Median of 2 runs of pyfast, peer-to-peer" in header(
        (tmp_path / "page.html").read_text()
    )
    ended = run_quiver(tmp_path, "//127.0.0.1:1/q", "--html", "failed.html", "--quiet")
    assert ended.returncode == 1
    assert "Incomplete: " in words_of((tmp_path / "failed.html").read_text())


def test_a_page_that_cannot_be_written_ends_the_command_first(tmp_path: Path) -> None:
    ended = run_quiver(tmp_path, "--html", "no/page.html", "--output", "out")
    assert ended.returncode == 2
    assert "there is no folder no" in ended.stderr
    assert not (tmp_path / "out").exists()
