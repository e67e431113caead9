"""`quiver-bench --suite`: short cases at servers of ours, alone, in turns, and later."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.documents import parsed
from support.server import Server, running_server

from quiver_fast.analysis.model.figures import FIGURES
from quiver_fast.cli.bench import suite
from quiver_fast.cli.bench.cases import SUITES, Case
from quiver_fast.cli.bench.command import main

_HOLD = next(one for one in SUITES["amqp-1"] if one.name == "hold")
_CHURN = next(one for one in SUITES["amqp-1"] if one.name == "churn")
CASES = (
    Case("hold", "--hold 5", _HOLD.figures, 1),
    Case("count", "--count 200", (FIGURES["rate"], FIGURES["p50"]), 1),
    Case("churn", "--churn 5", _CHURN.figures, 1),
    Case("copies", "--fan-out --receivers 2 --rate 50", (FIGURES["skew"],), 1, copies=True),
    Case("asks", "--request-reply --rate 50", (FIGURES["round_trip_p50"],), 1),
    Case("streams", "--declare --queue-type stream", product="RabbitMQ"),
)


@pytest.fixture(name="server")
def server_(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setitem(SUITES, "amqp-1", CASES)
    with running_server(tmp_path) as server:
        yield server


def words_for(server: Server, *words: str, seconds: int = 1) -> list[str]:
    url = f"//localhost:{server.port}/queue0"
    return [
        "--suite",
        "amqp-1",
        "--url",
        url,
        "--duration",
        f"{seconds}s",
        "--warm-up",
        "0",
        *words,
    ]


def figures_of(document: dict[str, Any], case: str) -> dict[str, Any]:
    found: dict[str, Any] = {one["name"]: one["figures"] for one in document["cases"]}[case]
    return found


def test_each_case_has_its_figures(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main(words_for(server, "--json", "--output", str(out))) == 0
    printed = capsys.readouterr()
    document = parsed(printed.out)
    assert document == parsed((out / "suite.json").read_text())
    names = [one["name"] for one in document["runs"]]
    assert names == [f"{one.name}/candidate-1" for one in CASES[:-1]]
    churn, copies, asks = (one["figures"] for one in document["runs"][2:])
    assert churn["churn"] == 5.0
    assert copies["skew"] > 0
    assert asks["round_trip_p50"] > 0
    assert document["left_out"] == {"streams": "only RabbitMQ has it"}
    assert (document["failed"], document["reason"]) == ({}, None)
    held = document["runs"][0]["figures"]
    of_hold = json.loads((out / "hold" / "candidate-1" / "hold.json").read_text())
    assert held["memory of each"] == of_hold["server"]["memory_each"]
    assert held["p99 of opening"] == of_hold["opening"]["latency"]["p99_us"]
    rate = figures_of(document, "count")["rate"]
    assert rate["candidate"] == rate["candidate_runs"][0] > 0
    assert rate["base"] is None
    assert "streams: only RabbitMQ has it" in printed.err
    assert (out / "count" / "candidate-1" / "sender-transfers.csv.zst").is_file()


def test_two_servers_take_turns(
    server: Server,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(SUITES, "amqp-1", (Case("count", "--count 50"),))
    other = f"//localhost:{server.port}/other"
    assert main(words_for(server, "--json", "--baseline", other)) == 0
    document = parsed(capsys.readouterr().out)
    sides = [one["side"][0] for one in document["runs"]]
    assert "".join(sides) == "bccbbccbbc"
    rate = figures_of(document, "count")["rate"]
    assert len(rate["base_runs"]) == len(rate["candidate_runs"]) == 5
    assert "too few" not in rate["verdict"]


@pytest.mark.parametrize(("trusts", "verdict"), [(False, "not comparable"), (True, "too few runs")])
def test_an_earlier_suite_is_a_baseline(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str], trusts: bool, verdict: str
) -> None:
    """Of two runs one after the other there is a verdict only if nothing else changed."""
    before = tmp_path / "before"
    assert main(words_for(server, "--quiet", "--output", str(before))) == 0
    words = ["--baseline", str(before), *(["--trust-order"] if trusts else [])]
    assert main(words_for(server, "--json", *words)) == 0
    document = parsed(capsys.readouterr().out)
    first = json.loads((before / "suite.json").read_text())
    rate = figures_of(document, "count")["rate"]
    assert rate["base_runs"] == figures_of(first, "count")["rate"]["candidate_runs"]
    # Too few runs are too few in any order.
    assert rate["verdict"].startswith("too few runs" if trusts else (verdict, "too few runs"))


def test_a_case_that_fails_is_not_tried_again(
    server: Server,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cases = (Case("bad", "--max-frame-size 512 --body-size 5m --count 1 --timeout 1s"), CASES[1])
    monkeypatch.setattr(suite.OwnSide, "measure", failing(suite.OwnSide.measure))
    monkeypatch.setitem(SUITES, "amqp-1", cases)
    assert main(words_for(server, "--json")) == 1
    printed = capsys.readouterr()
    document = parsed(printed.out)
    assert [one["name"] for one in document["runs"]] == ["bad/candidate-1", "count/candidate-1"]
    assert document["failed"] == {"bad": "bad/candidate-1: refused"}
    assert "quiver-bench: error: bad/candidate-1: refused" in printed.err


def failing(measure: Any) -> Any:
    def fail_first(side: Any, place: Any, *rest: Any) -> Any:
        if place.name.startswith("bad"):
            return suite.Measured(None, "refused")
        return measure(side, place, *rest)

    return fail_first


def test_a_suite_is_resumed(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main(words_for(server, "--quiet", "--output", str(out))) == 0
    first = json.loads((out / "suite.json").read_text())
    del first["runs"][1:]
    (out / "suite.json").write_text(json.dumps(first))
    assert main(words_for(server, "--json", "--resume", "--output", str(out))) == 0
    document = parsed(capsys.readouterr().out)
    assert document["runs"][0] == first["runs"][0]
    assert len(document["runs"]) == 5


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--suite", "amqp-1"], "--suite needs --url, or one server in --include-servers"),
        (["--suite", "amqp-1", "--url", "//h/q", "--rate", "5"], "--rate does not go with --suite"),
        (["--url", "//h/q"], "a URL needs --suite"),
        (
            ["--suite", "amqp-1", "--url", "//h/q", "--trust-order"],
            "--trust-order needs --baseline",
        ),
        (["--suite", "amqp-1", "--url", "//h/q", "--baseline", "gone"], "'gone' is no URL"),
        (["--suite", "amqp-1", "--include-servers", "none-such"], "none-such"),
        (["--suite", "amqp-1", "--url", "queue"], "'queue' does not begin with //"),
        (["--suite", "other"], "invalid choice"),
    ],
)
def test_options_that_do_not_go_together(
    words: list[str], error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert error in capsys.readouterr().err


def test_a_server_that_is_started(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SUITES, "amqp-1", CASES[1:2])
    words = [
        "--suite",
        "amqp-1",
        "--include-servers",
        "pyfast",
        "--duration",
        "1s",
        "--warm-up",
        "0",
    ]
    out = tmp_path / "out"
    assert main([*words, "--output", str(out)]) == 0
    shown = capsys.readouterr().out
    assert "SUITE amqp-1 of pyfast" in shown
    assert (out / "server" / "output.txt").is_file()
