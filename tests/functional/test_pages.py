"""Pages in a real browser: what it draws on a phone, a laptop and a wide screen, and on paper."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from support.conform_documents import conformance_document
from support.page_labels import unknown_labels

from quiver_fast.analysis.show.chart import Chart
from quiver_fast.analysis.show.html import html_page
from quiver_fast.analysis.show.scales import count_scale, time_scale
from quiver_fast.cli.analyze.command import main
from quiver_fast.cli.bench.page import bench_html
from quiver_fast.cli.conform.page import conformance_html

START = 1_700_000_000_123
WIDTHS = (420, 1000, 1600)
# Between the margins of A4: 210 mm less twice 10.
PAPER = 718
# Of other commands than quiver-analyze.
OTHERS = {"bench", "conform", "matrix"}
PAGES = ("run", "runs", "comparison", "series", "sweep", "ends", *sorted(OTHERS))

pytestmark = pytest.mark.peer("chromium")


@pytest.fixture(scope="module", name="shown")
def started_browser() -> Iterator[Any]:
    from support.browser import browser

    with browser() as found:
        yield found


def write_run(folder: Path, latency: int = 900, seconds: int = 12, begin: int = START) -> Path:
    """Write both ends of a run as `quiver --output` does: records, summaries and snapshots."""
    folder.mkdir(parents=True)
    sent = [begin * 1000 + n * 5000 for n in range(seconds * 200)]
    # A latency for most, a long one now and then, and a bad second.
    delays = [latency + n % 37 + 30_000 * (n % 97 == 0) + 200_000 * (n // 200 == 5)
              for n in range(len(sent))]  # fmt: skip
    pairs = list(zip(sent, delays, strict=True))
    (folder / "sender-transfers.csv").write_text("".join(f"{time},0\n" for time in sent))
    received = "".join(f"{time},{time + delay}\n" for time, delay in pairs)
    (folder / "receiver-transfers.csv").write_text(received)
    for role, operation in (("sender", "send"), ("receiver", "receive")):
        lines = [f"{begin + s * 1000},1000,{s * 200},200,1,{s * 310},{310 + s},{40_000_000 + s}\n"
                 for s in range(1, seconds)]  # fmt: skip
        (folder / f"{role}-snapshots.csv").write_text("".join(lines))
        document = json.dumps(summary(operation))
        (folder / f"{role}-summary.json").write_text(document)
    return folder


def summary(operation: str) -> dict[str, Any]:
    config = {
        "operation": operation, "impl": "pyfast", "url": "amqp://broker.example:5672/orders/q0",
        "output_dir": "out", "connection_mode": "client", "count": 0, "duration": 12,
        "body_size": 100, "credit_window": 1000, "transaction_size": 0, "durable": True,
        "set_message_id": False, "rate": 200,
    }  # fmt: skip
    late = {"p50": 8.0, "p99": 410.0, "p99.9": 2100.0, "max": 9800.0}
    peer = {"product": "RabbitMQ", "version": "4.1.0", "container": "rabbit@host"}
    environment = {
        "quiver_fast": "0.1.0", "python": "3.11", "kernel": "Linux 6.1", "cpu_count": 8,
        "cpu": "A Processor of Eight Cores", "host": "host.example",
        "command": "quiver amqp://broker.example/orders/q0 --rate 200",
    }  # fmt: skip
    arrow = {"peer": peer, "schedule": {"rate": 200, "late_us": late}}
    return {
        "config": config, "complete": True, "reason": None, "exit_code": 0, "arrow": arrow,
        "environment": environment,
    }  # fmt: skip


def bench_document() -> dict[str, Any]:
    results = [bench_result(f"{name} -> {server} -> {name}", server, scale)
               for scale, (name, server) in enumerate((("pyfast", "pyfast"), ("rhea", "rabbitmq"),
               ("qpid-proton-python", "activemq-artemis")), start=1)]  # fmt: skip
    failed = bench_result("rhea -> builtin -> rhea", "builtin", 1) | {
        "status": "FAILED", "reason": "receiver (rhea) failed: the server closed the connection",
        "rate": None, "latency_ms": None,
    }  # fmt: skip
    return {
        "complete": True, "reason": None, "results": [*results, failed],
        "options": {"rate": 0, "rate_steps": None, "body_size": 100},
        "environment": summary("send")["environment"],
    }  # fmt: skip


def bench_result(name: str, server: str, scale: int) -> dict[str, Any]:
    latency = {"50": 0.1, "90": 0.4, "99": 2.0, "99.9": 8.0, "100": 31.0}
    return {
        "name": name, "server": server, "status": "PASSED", "reason": None, "count": 1_000_000,
        "rate": 123_456.0 / scale, "unreceived": 0,
        "latency_ms": {rank: value * scale for rank, value in latency.items()},
        "cpu_us": {"sender": 0.5, "server": 2.5 * scale, "receiver": 1.0},
        "broker": {"product": "A Broker", "version": "4.1.0", "command": "/usr/sbin/broker -p 1"},
    }  # fmt: skip


def write_ends(folder: Path) -> Path:
    """Write a run of three senders and two receivers, whose shares differ much."""
    folder.mkdir()
    for role, operation, counts in (
        ("sender", "send", (900, 600, 100)),
        ("receiver", "receive", (900, 100)),
    ):
        for number, count in enumerate(counts):
            sent = [START * 1000 + n * 5000 for n in range(count)]
            lines = [f"{t},0\n" if role == "sender" else f"{t},{t + 900 + n % 37}\n"
                     for n, t in enumerate(sent)]  # fmt: skip
            (folder / f"{role}.{number}-transfers.csv").write_text("".join(lines))
            document = summary(operation)
            document["config"] |= {"ends": {"senders": 3, "receivers": 2, "queues": 1, "queue": 0}}
            (folder / f"{role}.{number}-summary.json").write_text(json.dumps(document))
    return folder


def write_sweep(folder: Path) -> Path:
    points = []
    for number, rate in enumerate((1000, 5000, 20_000), start=1):
        write_run(folder / f"run-{number:02}", latency=300 * number, seconds=3)
        figures = {"message_rate": rate, "latency_p50": number / 4, "latency_p99": number * 2.0}
        values = {"rate": str(rate)}
        points.append({"values": values, "sustained": number < 3, "figures": figures})
    document = {"target": "pyfast", "options": ["rate"], "points": points}
    (folder / "sweep.json").write_text(json.dumps(document))
    return folder


@pytest.fixture(scope="module", name="pages")
def all_pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One page of each kind."""
    top = tmp_path_factory.mktemp("pages")
    base = [write_run(top / "base" / f"run-{n:02}", 900 + 20 * n) for n in range(5)]
    new = [write_run(top / "new" / f"run-{n:02}", 1500 + 30 * n) for n in range(5)]
    for n in range(12):
        place = top / "series" / f"run-{n:02}"
        write_run(place, 900 if n < 7 else 9000, 2, START + 60_000 * n)
    words = {
        "run": [base[0]],
        "runs": [base[0], base[1]],
        "comparison": [top / "new", "--compare", top / "base", "--fail-if", "p99>1us"],
        "series": [top / "series"],
        "sweep": [write_sweep(top / "sweep")],
        "ends": [write_ends(top / "ends")],
    }
    assert len(new) == 5
    found = {}
    for name, arguments in words.items():
        found[name] = top / f"{name}.html"
        code = main([*map(str, arguments), "--quiet", "--html", str(found[name])])
        assert code == (99 if name == "comparison" else 0)
    found["bench"] = top / "bench.html"
    logs = {"rhea -> builtin -> rhea": "pair/output.txt:\nreceiver: error: no such queue"}
    found["bench"].write_text(bench_html(bench_document(), logs))
    servers = [conformance_document(f"Broker {n}", n) for n in range(6)]
    for name, documents in (("conform", servers[:1]), ("matrix", servers)):
        found[name] = top / f"{name}.html"
        found[name].write_text(conformance_html(documents))
    return found


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", PAGES)
def test_words_are_whole_and_apart(
    shown: Any, pages: dict[str, Path], name: str, width: int, scheme: str
) -> None:
    shown.show(pages[name], width, scheme)
    assert shown.faults() == []
    assert shown.problems() == []


@pytest.mark.parametrize(
    ("scheme", "width"), [("light", 420), ("dark", 1000), ("light", 1600), ("dark", 1600)]
)
@pytest.mark.parametrize("name", PAGES)
def test_everybody_can_read_it(
    shown: Any, pages: dict[str, Path], name: str, width: int, scheme: str
) -> None:
    shown.show(pages[name], width, scheme)
    assert shown.violations() == []


def test_the_page_of_many_ends_has_each_share(shown: Any, pages: dict[str, Path]) -> None:
    shown.show(pages["ends"], 1000, "light")
    words = shown.ask("return document.querySelector('section.run').innerText")
    assert "6.2 % to 56.2 % each, smallest by largest 0.111" in words
    assert "10.0 % to 90.0 % each, smallest by largest 0.111" in words
    bars = shown.ask("""return [...document.querySelectorAll('.bars .bar')].map(
        bar => Math.round(100 * bar.getBoundingClientRect().width
            / bar.parentElement.getBoundingClientRect().width))""")
    assert bars == [100, 67, 11, 100, 11]
    rows = shown.ask("return [...document.querySelectorAll('[aria-label=Ends] tbody tr')].map("
                     "row => row.innerText.split('\\t').slice(0, 4))")  # fmt: skip
    assert rows == [
        ["sender 0", "0", "900", "56.2 %"], ["sender 1", "0", "600", "37.5 %"],
        ["sender 2", "0", "100", "6.2 %"],
        ["receiver 0", "0", "900", "90.0 %"], ["receiver 1", "0", "100", "10.0 %"],
    ]  # fmt: skip


@pytest.mark.parametrize("name", sorted({*PAGES} - OTHERS))
def test_every_label_is_a_word_of_the_documents(pages: dict[str, Path], name: str) -> None:
    assert unknown_labels(pages[name].read_text()) == []


@pytest.mark.parametrize("name", PAGES)
def test_words_are_apart_on_paper(shown: Any, pages: dict[str, Path], name: str) -> None:
    shown.show(pages[name], PAPER, "light", media="print")
    assert shown.faults() == []


@pytest.mark.parametrize("name", PAGES)
def test_it_prints(shown: Any, pages: dict[str, Path], name: str) -> None:
    shown.show(pages[name], 1000, "dark")
    document = shown.printed()
    assert document.startswith(b"%PDF-")
    sheets = re.findall(rb"/MediaBox \[0 0 ([0-9.]+) ([0-9.]+)\]", document)
    # 210 mm by 297 mm in points.
    assert {tuple(round(float(side)) for side in sheet) for sheet in sheets} == {(595, 842)}


def test_each_break_leads_to_its_frames(shown: Any, pages: dict[str, Path]) -> None:
    shown.show(pages["matrix"], 1000, "light")
    places = shown.ask("""return [...document.querySelectorAll('td a')].map(
        link => document.getElementById(link.hash.slice(1)).querySelector('pre').innerText)""")
    # Two of four verdicts, of eight clauses and six servers.
    assert len(places) == 24
    assert all(place.startswith('1 -> open container-id="c0"') for place in places)


def test_the_colours_follow_the_scheme(shown: Any, pages: dict[str, Path]) -> None:
    papers = []
    for scheme in ("light", "dark"):
        shown.show(pages["run"], 1000, scheme)
        papers.append(shown.ask("return getComputedStyle(document.body).backgroundColor"))
    assert papers == ["rgb(255, 255, 255)", "rgb(18, 22, 27)"]


def test_the_browser_draws_every_line_and_the_map(shown: Any, pages: dict[str, Path]) -> None:
    shown.show(pages["run"], 1000, "light")
    drawn = shown.ask("""
        return Object.fromEntries([...document.querySelectorAll('figure')].map(figure =>
            [figure.id, [...figure.querySelectorAll('path.line, image')].filter(
                part => part.getBBox().width > 0).length]))""")
    assert drawn == {
        "run-1-throughput": 3, "run-1-latency": 4, "run-1-percentiles": 1, "run-1-heatmap": 1,
        "run-1-lateness": 1, "run-1-cpu": 2, "run-1-memory": 2,
    }  # fmt: skip


def test_a_line_at_the_top_is_whole(shown: Any, tmp_path: Path) -> None:
    """A rate that is the last mark of its axis: half of the stroke is above the axis."""
    for name, rates in (("line", [20_000.0] * 2), ("empty", [])):
        chart = Chart("n", "T", time_scale(4.0), count_scale("messages/s", 20_000.0))
        chart.line([0.0, 4.0][: len(rates)], rates, 0, "sent")
        (tmp_path / f"{name}.html").write_text(html_page("T", chart.html()))
        shown.show(tmp_path / f"{name}.html", 600, "light")
        shown.picture(tmp_path / f"{name}.png", 400)
    top, middle = shown.ask(
        "const box = document.querySelector('svg').getBoundingClientRect();"
        "return [Math.round(box.top), Math.round(box.left + box.width / 2)]"
    )
    images = [Image.open(tmp_path / f"{name}.png").convert("RGB") for name in ("line", "empty")]
    changed = [top + n for n in range(-3, 3)
               if len({image.getpixel((middle, top + n)) for image in images}) == 2]  # fmt: skip
    assert changed[0] < top <= changed[-1]


def test_a_comparison_says_first_what_it_compares(shown: Any, pages: dict[str, Path]) -> None:
    shown.show(pages["comparison"], 1000, "light")
    words = " ".join(shown.ask("return document.querySelector('header').innerText").split())
    assert "The candidate is worse in latency p50 (+64.6%)" in words
    assert re.search(r"A, the base Runs 5: \S+/base/run-00 to \S+/base/run-04 ", words)
    assert re.search(r"B, the candidate Runs 5: \S+/new/run-00 to \S+/new/run-04 ", words)
    # In common, and so said once.
    assert words.count("RabbitMQ 4.1.0") == 1
    assert words.count("p99>1us") == 1


def test_the_finders_of_faults_find_them(shown: Any, tmp_path: Path) -> None:
    """A page with each fault: the tests above can fail."""
    page = tmp_path / "bad.html"
    page.write_text(
        "<body style='margin:0'><p style='position:absolute;top:9px'>one</p>"
        "<p style='position:absolute;top:12px'>two</p><div style='width:3em;overflow:hidden;"
        "white-space:nowrap'>much too long for it</div>"
        "<p style='margin-top:200px;width:2000px;color:#eee'>wide</p>"
    )
    shown.show(page, 420, "light")
    found = " ".join(shown.faults())
    for words in ("'one' and 'two' overlap", "is cut", "the page is wider"):
        assert words in found
    assert any(one.startswith("color-contrast") for one in shown.violations())
