"""The combinations of `quiver-bench`, and the ranking and the output of results."""

import argparse
import json
import re

import pytest

from quiver_fast.analysis.model.ranks import BENCH as RANKS
from quiver_fast.cli.bench.cell import _cpu, _latency, kept_result, saved_result
from quiver_fast.cli.bench.command import main
from quiver_fast.cli.bench.matrix import Cell, bench_cells
from quiver_fast.cli.bench.page import bench_html, log_ends
from quiver_fast.cli.bench.table import bench_text, cell_line, failures_text, ranked
from quiver_fast.cli.pair.set_sides import Measured
from quiver_fast.cli.shared.implementations import BROKERS, Implementation, find_arrow

DEFAULTS = {
    "include_senders": "all", "include_receivers": "all", "include_servers": "all",
    "exclude_senders": "none", "exclude_receivers": "none", "exclude_servers": "none",
    "client_server": False, "peer_to_peer": False, "mixed_pairs": False,
}  # fmt: skip


@pytest.fixture(autouse=True)
def _implementations(tmp_path, monkeypatch):
    """Give the bench a world of its own: upstream's arrows and servers, and no brokers."""
    names = [
        "arrow-rhea", "arrow-qpid-jms", "arrow-activemq-artemis-jms", "server-builtin",
        "server-activemq-artemis",
    ]  # fmt: skip
    for name in names:
        file = tmp_path / f"quiver-{name}"
        file.touch(mode=0o755)
    monkeypatch.setenv("QUIVER_IMPL_PATH", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("RABBITMQ_HOME", str(tmp_path))


def names(**options):
    return [cell.name for cell in bench_cells(argparse.Namespace(**DEFAULTS | options))]


def test_matched_pairs_through_every_server_then_peer_to_peer():
    assert names() == [
        "activemq-artemis-jms -> activemq-artemis -> activemq-artemis-jms",
        "pyfast -> activemq-artemis -> pyfast",
        "pyfast -> builtin -> pyfast",
        "pyfast -> pyfast -> pyfast",
        "qpid-jms -> activemq-artemis -> qpid-jms",
        "qpid-jms -> builtin -> qpid-jms",
        "qpid-jms -> pyfast -> qpid-jms",
        "rhea -> activemq-artemis -> rhea",
        "rhea -> builtin -> rhea",
        "rhea -> pyfast -> rhea",
        "pyfast -> pyfast",
        "rhea -> rhea",
    ]


def test_mixed_pairs_are_those_that_understand_each_other():
    mixed = names(mixed_pairs=True, include_servers="artemis", exclude_receivers="js")
    assert mixed == [
        "activemq-artemis-jms -> activemq-artemis -> activemq-artemis-jms",
        "pyfast -> activemq-artemis -> pyfast",
        "pyfast -> activemq-artemis -> qpid-jms",
        "qpid-jms -> activemq-artemis -> pyfast",
        "qpid-jms -> activemq-artemis -> qpid-jms",
        "rhea -> activemq-artemis -> pyfast",
        "rhea -> activemq-artemis -> qpid-jms",
        # Arrows that only connect can send to one that listens.
        "pyfast -> pyfast",
        "qpid-jms -> pyfast",
        "rhea -> pyfast",
    ]


def test_one_mode_alone():
    assert names(peer_to_peer=True, include_senders="pyfast") == ["pyfast -> pyfast"]
    assert names(client_server=True, include_senders="pyfast", include_servers="builtin") == [
        "pyfast -> builtin -> pyfast"
    ]


def test_brokers_that_are_not_here_are_left_out():
    assert not any(broker in name for name in names() for broker in set(BROKERS) - {
        "activemq-artemis"})  # fmt: skip


def test_directories():
    pyfast = find_arrow("pyfast")
    server = Implementation("builtin", ("x",))
    assert str(Cell(pyfast, server, pyfast).path) == "pyfast/builtin/pyfast"
    assert str(Cell(pyfast, None, pyfast).path) == "pyfast/none/pyfast"


def result(name, rate, p99=5.0, status="PASSED"):
    latency = dict.fromkeys(RANKS, p99)
    cpu = {"sender": 0.5, "server": None, "receiver": 1.25}
    return {
        "name": name, "status": status, "reason": None if status == "PASSED" else "it <broke>",
        "count": 1000, "server": None,
        "rate": rate, "latency_ms": latency, "cpu_us": cpu, "unreceived": 7,
    }  # fmt: skip


def test_lines_are_upstreams():
    line = cell_line("a -> b -> c", "PASSED")
    assert re.fullmatch(r"a -> b -> c \.+ PASSED", line)
    assert line.index(" PASSED") == 111


def test_the_rate_ranks_and_at_one_rate_the_latency():
    fast, slow, failed = result("f", 9, 8.0), result("s", 3, 2.0), result("x", 99, 0, "FAILED")
    assert ranked([slow, failed, fast], at_a_rate=False) == [fast, slow]
    assert ranked([slow, failed, fast], at_a_rate=True) == [slow, fast]


def test_text():
    lines = bench_text([result("a -> b", 1234567.8)], at_a_rate=False).splitlines()
    assert lines[:3] == ["", "RESULTS", ""]
    assert lines[5].split() == [
        "1", "a", "->", "b", "1,234,568", *("5.00", "ms") * 3, "0.50", "-", "1.25", "7",
    ]  # fmt: skip
    assert bench_text([], at_a_rate=False) == ""


def test_text_of_searches():
    found = {"rate": 1911, "low": 1789, "high": 2010, "reason": "at 2,000/s: p99 is 12 ms"}
    slower = {"rate": 1200, "low": 1100, "high": 1300, "reason": None}
    named = {"c -> d": slower, "a -> b": found}
    results = [result(name, one["rate"]) | {"found_rate": one} for name, one in named.items()]
    lines = bench_text(results, at_a_rate=False).splitlines()
    assert re.fullmatch(r"Rank +Combination +Sustained \[m/s\] +From +To +Just above", lines[3])
    assert re.fullmatch(r" *1  a -> b +1,911 +1,789 +2,010  at 2,000/s: p99 is 12 ms", lines[5])
    assert re.fullmatch(r" *2  c -> d +1,200 +1,100 +1,300  -", lines[6])


def test_a_failed_combination_is_in_the_list_with_its_reason():
    results = [result("a -> b", 10), result("x", None, status="FAILED")]
    assert failures_text(results).splitlines() == ["", "FAILURES", "", "x: it <broke>"]
    assert failures_text(results[:1]) == ""


def test_html_is_one_document_and_escaped():
    document = {
        "results": [result("a -> b", 10), result("x", None, status="FAILED")],
        "options": {"rate": 0, "rate_steps": None, "body_size": 100},
        "environment": {"cpu": "<fast>"},
    }  # fmt: skip
    page = bench_html(document)
    assert page.startswith("<!DOCTYPE html>")
    for text in ("a -&gt; b", "it &lt;broke&gt;", "body size", "&lt;fast&gt;"):
        assert text in page
    assert "<script" not in page
    assert "src=" not in page


def test_the_page_has_failures_and_servers(tmp_path):
    (tmp_path / "pair").mkdir()
    (tmp_path / "pair" / "output.txt").write_text("".join(f"line {n} <b>\n" for n in range(40)))
    broker = {"product": "A Broker", "version": "4.1", "command": "/usr/sbin/broker --port 1"}
    failed = result("x", None, status="FAILED") | {"output_dir": str(tmp_path)}
    named = result("a -> b", 10) | {"server": "rabbitmq", "broker": broker}
    document = {
        "complete": True, "results": [named, failed], "environment": {},
        "options": {"rate": 0, "rate_steps": None},
    }  # fmt: skip
    log = log_ends(failed)
    assert log.splitlines() == ["pair/output.txt:", *(f"line {n} <b>" for n in range(28, 40))]
    page = bench_html(document, {"x": log})
    assert "1 of 2 combinations failed" in page
    assert "line 39 &lt;b&gt;" in page
    for text in ("A Broker 4.1", "/usr/sbin/broker --port 1"):
        assert text in page


def test_bars_are_as_long_as_the_figures():
    results = [result("f", 8.0, 4.0), result("s", 2.0, 1.0)]
    document = {
        "complete": True, "results": results, "environment": {},
        "options": {"rate": 0, "rate_steps": None},
    }  # fmt: skip
    widths = re.findall(r'class="bar" style="width:([0-9.]+)%"', bench_html(document))
    assert widths == ["100.0", "25.0", "25.0", "100.0", "100.0", "100.0"]


def test_figures_of_a_cell():
    end = {"results": {"message_count": 1000}}
    document = {
        "cpu_ms": {"sender": 10, "receiver": 20}, "sender": end,
        "receiver": {"results": {"message_count": 500}},
    }  # fmt: skip
    assert _cpu(document, 5) == {"sender": 10.0, "server": 10.0, "receiver": 40.0}
    assert _cpu({}, None) == {"sender": None, "server": None, "receiver": None}
    percentiles = dict.fromkeys(RANKS, 3000)
    latency = _latency({"latency": {"unit": "us", "count": 500, "percentiles": percentiles}})
    assert latency == dict.fromkeys(RANKS, 3.0)
    # A receiver that got nothing before it failed.
    nothing = {"unit": "us", "count": 0, "percentiles": dict.fromkeys(RANKS)}
    assert _latency({"latency": nothing}) is None
    assert _latency(None) is None


def test_kept_results(tmp_path):
    pyfast = find_arrow("pyfast")
    cell = Cell(pyfast, None, pyfast)
    assert kept_result(cell, tmp_path) is None
    directory = tmp_path / cell.path
    directory.mkdir(parents=True)
    result = saved_result(cell, directory, Measured(None, "it broke"))
    assert kept_result(cell, tmp_path) == result
    shorter = [
        {key: result[key] for key in result if key != one} for one in result.keys() - {"schema"}
    ]
    others = [result | {"name": "b -> b"}, result | {"status": "?"}, result | {"cpu_us": {}}]
    texts = ["", "{", json.dumps(result)[:-9], *map(json.dumps, [[], None, *shorter, *others])]
    for text in texts:
        (directory / "result.json").write_text(text)
        assert kept_result(cell, tmp_path) is None, text


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "{}", '{"options": []}', '{"options": null}', "\xff"]
)
def test_a_damaged_bench_is_not_resumed(tmp_path, text, capsys):
    file = tmp_path / "bench.json"
    file.write_bytes(text.encode("latin-1"))
    assert main(["--peer-to-peer", "--resume", "--output", str(tmp_path)]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"quiver-bench: error: --resume: {file} is damaged: ")
