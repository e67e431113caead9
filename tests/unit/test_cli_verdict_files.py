"""The verdicts of `--markdown` and `--junit`, from documents."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from support.campaign_documents import (
    churn_document,
    hold_document,
    search_document,
    sweep_document,
)

from quiver_fast.cli.analyze.command import main as analyze
from quiver_fast.cli.analyze.command import make_parser
from quiver_fast.cli.shared.console import Console
from quiver_fast.cli.shared.thresholds import judged, threshold
from quiver_fast.cli.shared.verdict_files import junit_text, markdown_text
from quiver_fast.errors import UsageError

PERCENTILES = {"50": 1500, "99": 6_100, "99.9": 9000, "100": 12_000}


def run(name: str = "out") -> dict[str, Any]:
    end = {"message_rate": 50_000.0, "message_count": 99}
    latency = {"unit": "us", "count": 99_000, "percentiles": PERCENTILES}
    return {
        "schema": {"name": "run", "version": 1}, "name": name, "output_dir": name,
        "complete": True, "reason": None, "drain": None, "results": {"end_to_end_rate": 49_000.0},
        "sender": {"results": end}, "receiver": {"results": end, "latency": latency},
        "delivery": {"received": 99, "unreceived": 0, "lost": 0},
    }  # fmt: skip


def with_thresholds(document: dict[str, Any], *conditions: str) -> dict[str, Any]:
    limits = [threshold(one) for one in conditions]
    runs = document.get("runs", [document])
    return document | {"thresholds": judged(limits, runs, document.get("comparison"))}


def figure(verdict: str, change: float | None = 0.12) -> dict[str, Any]:
    return {
        "verdict": verdict, "change": change, "base": 1.0, "candidate": 1.12, "unit": "ms",
        "base_slow": 0, "candidate_slow": 0,
    }  # fmt: skip


def comparison(**figures: dict[str, Any]) -> dict[str, Any]:
    return {
        "schema": {"name": "run-set", "version": 1}, "complete": True, "reason": None,
        "runs": [run("candidate/run-1"), run("candidate/run-2")],
        "baseline_runs": [run("baseline/run-1")],
        "comparison": {"verdict": "worse", "figures": figures},
    }  # fmt: skip


def cases(document: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """Return kind and words of each case by name, after a look at the counts."""
    root = ElementTree.fromstring(junit_text(document))
    [suite] = root
    found = {}
    for case in suite:
        [said] = case
        found[case.get("name") or ""] = (said.tag, said.get("message") or said.text or "")
    kinds = [kind for kind, _ in found.values()]
    assert (root.tag, suite.tag) == ("testsuites", "testsuite")
    counts = [suite.get(name) for name in ("tests", "failures", "skipped", "errors")]
    wanted = [len(suite), kinds.count("failure"), kinds.count("skipped"), 0]
    assert counts == [str(count) for count in wanted]
    return found


def test_a_run_in_markdown() -> None:
    assert markdown_text(with_thresholds(run(), "p99>5ms", "lost>0")) == """\
## quiver: failed

| run | Throughput | Median latency | 99 % latency | 99.9 % latency | Maximum latency | Received |
| --- | --- | --- | --- | --- | --- | --- |
| out | 49,000/s | 1.50 ms | 6.10 ms | 9.00 ms | 12.0 ms | 99 |

| verdict | of | in words |
| --- | --- | --- |
| ok | complete | complete |
| **failed** | p99>5ms | threshold p99>5ms is breached: 6.1 ms (out) |
| ok | lost>0 | 0 messages, ok |
"""  # fmt: skip


def test_a_run_in_junit() -> None:
    assert cases(with_thresholds(run(), "p99>5ms", "lost>0", "drain_seconds>1")) == {
        "complete": ("system-out", "complete"),
        "p99>5ms": ("failure", "threshold p99>5ms is breached: 6.1 ms (out)"),
        "lost>0": ("system-out", "0 messages, ok"),
        "drain_seconds>1": (
            "failure", "--fail-if drain_seconds>1: the run has no drain_seconds (out)",
        ),
    }  # fmt: skip


def test_a_run_that_failed() -> None:
    failed = run() | {"complete": False, "reason": "receiver: \x1b[31mno | such <queue>\udcff"}
    failed |= {"sender": None, "receiver": None, "delivery": None, "results": None}
    found = cases(with_thresholds(failed))
    # XML holds no escape, and UTF-8 no lone surrogate.
    words = "receiver: \ufffd[31mno | such <queue>\ufffd"
    assert found == {"complete": ("failure", words)}
    assert "receiver: \ufffd\\[31mno \\| such \\<queue>\ufffd |\n" in markdown_text(failed)


def test_an_inconclusive_comparison_is_skipped_and_named() -> None:
    figures = {"latency_p99": figure("not shown", 3.356), "message_rate": figure("better")}
    document = with_thresholds(comparison(**figures), "worse")
    more = "more runs are needed to tell of latency p99 (+335.6%)"
    found = cases(document)
    assert found["worse (comparison)"] == ("skipped", more)
    assert found["comparison: latency p99"][0] == "skipped"
    assert found["comparison: message rate"][0] == "system-out"
    text = markdown_text(document)
    assert text.startswith("## quiver: inconclusive\n")
    assert f"\n| inconclusive | worse (comparison) | {more} |\n" in text
    asked = with_thresholds(comparison(**figures), "inconclusive")
    assert cases(asked)["inconclusive (comparison)"][0] == "failure"


@pytest.mark.parametrize(
    ("conditions", "kind"), [([], "system-out"), (["p50>1s"], "system-out"), (["worse"], "failure")]
)
def test_a_worse_figure_fails_as_the_exit_code_does(conditions: list[str], kind: str) -> None:
    document = with_thresholds(comparison(latency_p99=figure("worse")), *conditions)
    found = cases(document)
    assert found["comparison: latency p99"] == (
        kind, "worse: base 1.00 ms, candidate 1.12 ms (+12.0%)",
    )  # fmt: skip
    broken = any(one["breached"] for one in document["thresholds"])
    assert broken == ("failure" in {each for each, _ in found.values()})
    if conditions == ["p50>1s"]:
        assert "p50>1s (candidate/run-1)" in found
        assert "p50>1s (candidate/run-2)" in found


def test_a_comparison_in_markdown() -> None:
    few = "too few runs: at least 5 of each"
    figures = {"message_rate": figure("better"), "latency_p99": figure("worse", None)}
    document = comparison(**figures, latency_max=figure(few, None))
    words = markdown_text(document)
    assert "\nThe candidate is better in message rate (+12.0%) and worse in latency p99 (-).\n" in (
        words
    )
    assert "| candidate/run-1 | 49,000/s |" in words
    assert "| baseline/run-1 | 49,000/s |" in words
    last = f"| not judged | comparison: latency max | {few}: base 1.00 ms, candidate 1.12 ms |\n"
    assert words.endswith(last)
    assert cases(document)["comparison: latency max"][0] == "skipped"


def test_an_analysis_judges_the_given_conditions() -> None:
    analysis = with_thresholds(run() | {"schema": {"name": "analysis"}, "complete": False})
    assert cases(analysis) == {}
    assert markdown_text(analysis).startswith("## quiver-analyze\n\n| run | Throughput |")


def test_incomplete_runs_that_are_allowed_are_no_failure() -> None:
    document = comparison() | {"complete": False, "comparison": None}
    assert cases(document) == {"complete": ("system-out", "incomplete runs are allowed")}


def test_a_bench() -> None:
    passed = {"name": "a -> b", "status": "PASSED", "reason": None, "rate": 1234.0,
              "latency_ms": {"50": 1.0, "99": 2.0, "100": 3.0}}  # fmt: skip
    search = passed | {"name": "c", "found_rate": {"rate": 900, "reason": None}}
    failed = passed | {"name": "d", "status": "FAILED", "reason": "no queue", "rate": None,
                       "latency_ms": None}  # fmt: skip
    document = {"schema": {"name": "bench"}, "complete": True, "reason": None,
                "results": [passed, search, failed]}  # fmt: skip
    assert cases(document) == {
        "complete": ("system-out", "complete"), "a -> b": ("system-out", "PASSED"),
        "c": ("system-out", "PASSED"), "d": ("failure", "no queue"),
    }  # fmt: skip
    assert markdown_text(document).startswith("""\
## quiver-bench: failed

| run | Throughput | Median latency | 99 % latency | Maximum latency | Sustained |
| --- | --- | --- | --- | --- | --- |
| a -> b | 1,234/s | 1.00 ms | 2.00 ms | 3.00 ms | - |
| c | - | 1.00 ms | 2.00 ms | 3.00 ms | 900/s |
| d | - | - | - | - | - |
""")


def test_files_are_written_with_the_document(tmp_path: Path) -> None:
    files = {"markdown": tmp_path / "v.md", "junit": tmp_path / "v.xml"}
    words = {name: str(file) for name, file in files.items()}
    args = argparse.Namespace(quiet=True, verbose=False, json=False, **words)
    document = with_thresholds(run(), "lost>0")
    files["markdown"].write_text("# What stood there\n")
    Console(args).document(document)
    texts = ("# What stood there\n" + markdown_text(document), junit_text(document))
    assert tuple(file.read_text() for file in files.values()) == texts


def test_an_analysis_writes_its_verdicts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, latency in (("a", 5), ("b", 50)):
        (tmp_path / name).mkdir()
        lines = "".join(
            f"{time},{time + latency}\n" for time in range(1_700_000_000_000, 1_700_000_004_000, 10)
        )
        (tmp_path / name / "receiver-transfers.csv").write_text(lines)
    files = ("--junit", "v.xml", "--markdown", "v.md")
    assert analyze(["a", "b", "--quiet", "--fail-if", "p99>9ms", *files]) == 99
    [suite] = ElementTree.parse("v.xml").getroot()
    assert [case.get("name") for case in suite] == ["p99>9ms (a)", "p99>9ms (b)"]
    [failure] = suite.iter("failure")
    assert capsys.readouterr().err == f"quiver-analyze: error: {failure.get('message')}\n"
    assert Path("v.md").read_text().startswith("## quiver-analyze: failed\n")
    assert analyze(["a", "--junit", "v.xml"]) == 2
    assert "--junit needs --fail-if or --compare" in capsys.readouterr().err


@pytest.mark.parametrize("flag", ["--markdown", "--junit"])
def test_a_file_that_cannot_be_made_is_refused_at_once(flag: str, tmp_path: Path) -> None:
    for name, reason in ((tmp_path / "no" / "x", "there is no folder"), (tmp_path, "is a folder")):
        with pytest.raises(UsageError, match=reason):
            make_parser().parse_args(["records", flag, str(name)])


def test_campaigns_without_runs_of_their_own_have_verdicts() -> None:
    campaign = {"complete": False, "output_dir": "out"}
    sweep = sweep_document() | campaign | {"schema": {"name": "sweep"}}
    sweep["points"][2] |= {"complete": False, "figures": None, "reason": "gone"}
    words = markdown_text(sweep)
    assert "\n| Target | pyfast, //host/q0 |\n" in words
    assert "| run-01 | 1000 | 1,000/s | 200 us | 1.50 ms | 3.00 ms | sustained |  |" in words
    assert "| **failed** | rate=3000 | gone |" in words
    search = search_document() | campaign | {"schema": {"name": "found-rate"}}
    assert "\n| Interval, 95 % | 1,900/s to 2,300/s |\n" in markdown_text(search)
    assert 'failures="0"' in junit_text(search)
    search["found_rate"]["high"] = None
    assert '<failure message="no limit was found"' in junit_text(search)
    churn = churn_document() | campaign | {"schema": {"name": "churn"}}
    assert "| **failed** | failures | 3 refused |" in markdown_text(churn)
    hold = hold_document() | campaign | {"schema": {"name": "hold"}}
    assert "\n| Opened | 100 connections |\n" in markdown_text(hold)
