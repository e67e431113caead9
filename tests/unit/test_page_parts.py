"""Parts of pages: axes, lines, the map, snapshots, and the command of a run."""

from __future__ import annotations

import base64
import json
import re
import struct
import zlib
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quiver_fast.analysis.figures.environment import shown_command
from quiver_fast.analysis.figures.run_data import RunData
from quiver_fast.analysis.figures.statistics import run_statistics
from quiver_fast.analysis.figures.steady import NOT_STEADY
from quiver_fast.analysis.model.distribution import Distribution
from quiver_fast.analysis.model.histogram import SecondHistogram
from quiver_fast.analysis.read.discovery import find_runs
from quiver_fast.analysis.read.snapshot_file import read_snapshots
from quiver_fast.analysis.read.sources import load_run
from quiver_fast.analysis.sections.headline import run_facts, run_sentences, run_verdict
from quiver_fast.analysis.show.chart import Chart, sparkline, thinned
from quiver_fast.analysis.show.heatmap import heat_image, png_url
from quiver_fast.analysis.show.report import ends_section, sides_section
from quiver_fast.analysis.show.run_charts import run_charts
from quiver_fast.analysis.show.scales import (
    count_scale,
    latency_scale,
    percentile_scale,
    time_scale,
)
from quiver_fast.analysis.show.set_charts import comparison_charts
from quiver_fast.errors import RecordError


def test_runs_of_a_moment_have_no_throughput_to_draw(tmp_path: Path) -> None:
    """Less than a tenth of each second that a run touches has no rate: none is above another."""
    runs = []
    for name in ("base", "candidate"):
        folder = tmp_path / name
        folder.mkdir()
        sent = range(1_700_000_000_970, 1_700_000_001_030, 3)
        lines = "".join(f"{time},{time + 1}\n" for time in sent)
        (folder / "receiver-transfers.csv").write_text(lines)
        (files,) = find_runs([str(folder)])
        runs.append(load_run(files, lambda *_: None))
    charts = comparison_charts(runs[:1], runs[1:])
    assert 'id="comparison-throughput"' in charts[0].html()


def end_of(role: str, *counts: int, first: int = 0, told: bool = True) -> dict[str, Any]:
    """Return a process of ends with these numbers of messages."""
    results = {"message_rate": 90.0, "message_count": sum(counts)}
    members = [
        {
            "number": first + place, "queue": 0, "message_count": count if told else None,
            "message_rate": 90.0 if told else None, "latency": None,
        }
        for place, count in enumerate(counts)
    ]  # fmt: skip
    name = f"{role} {first}" if len(counts) == 1 else f"{role}s of a process"
    return {"name": name, "role": role, "results": results, "complete": True, "members": members}


@pytest.mark.parametrize(
    ("told", "names", "cells"),
    [
        (True, ["sender 0", "sender 1", "sender 2"], ["50.0 %", "30.0 %", "20.0 %"]),
        # Where a process does not tell its ends apart.
        (False, ["senders of a process", "sender 2"], ["80.0 %", "20.0 %"]),
    ],
)
def test_ends_that_share_a_process(told: bool, names: list[str], cells: list[str]) -> None:
    """Each end has a bar and a row; ends that nothing tells apart have those of their process."""
    shared = end_of("sender", 50, 30, told=told)
    ends = [shared, end_of("sender", 20, first=2), end_of("receiver", 100)]
    page = ends_section({"ends": ends, "fairness": {}})
    bars, table = page.split("<tbody>")
    assert re.findall(r"<span>([^<]+)</span><span><i", bars) == [*names, "receiver 0"]
    assert re.findall(r">([0-9.]+ %)<", table) == [*cells, "100.0 %"]


def write_sender(folder: Path, seconds: int, **config: Any) -> RunData:
    """Write and load what a sender recorded: 100 messages/s."""
    folder.mkdir()
    sent = range(1_700_000_000_250, 1_700_000_000_250 + seconds * 1000, 10)
    (folder / "sender-transfers.csv").write_text("".join(f"{time},0\n" for time in sent))
    config = {
        "operation": "send", "impl": "pyfast", "url": "//h/q", "output_dir": None,
        "connection_mode": "client", "count": 0, "duration": seconds, "body_size": 100,
        "credit_window": 1000, "transaction_size": 0, "durable": False, "set_message_id": False,
    } | config  # fmt: skip
    document = {"config": config, "complete": True, "reason": None}
    (folder / "sender-summary.json").write_text(json.dumps(document))
    (files,) = find_runs([str(folder)])
    return load_run(files, lambda *_: None)


@pytest.mark.parametrize(
    ("config", "drawn"),
    [
        ({"rate": 400}, "M0 0L1000 0"),
        # A fall, and its last rate from there on; the axis has the highest rate at its top.
        ({"rate_steps": "400:1s,400..200:2s"}, "M0 0L250.6 0L250.6 0L751.9 500L751.9 500L1000 500"),
        ({"rate_steps": "200:1s,100:9s"}, "M0 0L250.6 0L250.6 500L1000 500"),
        ({}, None),
        ({"rate": 100, "backlog": 5}, None),
    ],
)
def test_a_schedule_is_a_line(tmp_path: Path, config: dict[str, Any], drawn: str | None) -> None:
    run = write_sender(tmp_path / "run", 4, **config)
    [chart] = run_charts(run, run_statistics(run, None), "")
    found = re.findall(r'<path class="line c7 dashed" d="([^"]+)"><title>schedule<', chart.html())
    assert found == ([] if drawn is None else [drawn])


@pytest.mark.parametrize(
    ("count", "ends", "waited"),
    [(10, {}, False), (100, {}, False), (101, {}, True), (101, {"ends": {"senders": 2}}, False)],
)
def test_so_few_messages_fill_no_credit_window(
    count: int, ends: dict[str, Any], waited: bool
) -> None:
    percentiles = dict.fromkeys(("50", "99", "100"), 7)
    end = {"config": {"credit_window": 100, **ends}, "results": {"message_count": count}}
    latency = {"count": count, "unit": "us", "percentiles": percentiles}
    run = {"sender": end, "receiver": end | {"latency": latency}, "peer_to_peer": True,
           "delivery": None, "results": None}  # fmt: skip
    assert ("The credit window was kept full" in " ".join(run_sentences(run))) == waited


def test_a_growing_queue_is_no_drift_of_clocks(tmp_path: Path) -> None:
    """It was said to be one of 518,256 ppm."""
    start = 1_700_000_000_000
    lines = [f"{start + sent},{start + sent + sent // 3}\n" for sent in range(0, 19_000, 100)]
    (tmp_path / "receiver-transfers.csv").write_text("".join(lines))
    (files,) = find_runs([str(tmp_path)])
    clock = run_statistics(load_run(files, lambda *_: None))["clock"]
    assert clock["drift_ppm"] is clock["drift_low_ppm"] is clock["drift_high_ppm"] is None


def test_what_both_sides_have_is_said_once(tmp_path: Path) -> None:
    sides = [write_sender(tmp_path / name, 2, url=f"//{name}/q") for name in ("a", "b")]
    for name, options in (("a", {"credit": 10, "durable": True, "url": "//a/q"}), ("b", {})):
        file = tmp_path / name / "sender-summary.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | {"workload": options}))
    page = re.sub(r"<[^>]+>", "|", sides_section(sides[:1], sides[1:]))
    first, second = page.split("B, the candidate")
    assert re.sub(r"\|+", "|", first) == (
        f"|A, the base|Runs|{tmp_path}/a|Target|//a/q|Options|--credit 10 --durable|"
    )
    assert re.sub(r"\|+", "|", second) == (
        f"|Runs|{tmp_path}/b|Target|//b/q|Implementation|sender pyfast|Load|"
        "as fast as possible, bodies of 100 B, credit 1,000|"
        "Date|2023-11-14 22:13:20 UTC|"
    )


@pytest.mark.parametrize(
    ("config", "is_bad", "lead"),
    [
        ({}, True, "Take care with these figures"),
        ({"rate_steps": "100:2s,200:2s"}, False, "These figures can be trusted"),
    ],
)
def test_a_rate_that_changes_as_asked_is_no_fault(
    config: dict[str, Any], is_bad: bool, lead: str
) -> None:
    end = {"config": config, "records": {"set_back_ms": None}}
    run = {"complete": True, "reason": None, "delivery": {}, "sender": end, "receiver": None,
           "analysis": {"steady_state": {"verdict": NOT_STEADY, "reason": "a step"}}}  # fmt: skip
    bad, words = run_verdict(run)
    assert bad == is_bad
    assert words.startswith(f"{lead}: complete; every message")


def test_messages_in_doubt_may_be_missing() -> None:
    end = {"config": {}, "records": {"set_back_ms": None}}
    run = {"complete": True, "reason": None, "delivery": {"unreceived": 7}, "sender": end,
           "receiver": None, "ledger": {"acknowledged_unreceived": 0},
           "analysis": {"steady_state": {"verdict": "steady", "reason": None}}}  # fmt: skip
    bad, words = run_verdict(run)
    assert not bad
    assert "every acknowledged message was received" in words


def test_marks_have_their_unit() -> None:
    assert [text for _, text in count_scale("resident", 20e6, "B").marks][:2] == ["0 B", "5 MB"]
    assert [text for _, text in count_scale("of one", 8.0, " %").marks][:2] == ["0 %", "2 %"]


def test_snapshots_have_tooltips(tmp_path: Path) -> None:
    run = write_sender(tmp_path / "run", 2)
    lines = [f"1700000000{n}50,0,0,0,0,0,{n * 100},{n}000000\n" for n in range(3, 6)]
    (tmp_path / "run" / "sender-snapshots.csv").write_text("".join(lines))
    *_, memory = run_charts(run, run_statistics(run, None), "")
    titles = re.findall(r'<rect class="tip".*?<title>([^<]+)<', memory.html())
    assert titles == ["0.1 s: sender 3.00 MB", "0.2 s: sender 4.00 MB", "0.3 s: sender 5.00 MB"]


@pytest.mark.parametrize(
    ("highest", "marks"),
    [
        (20_000.0, ["0", "5 k", "10 k", "15 k", "20 k"]),
        (634_256.0, ["0", "200 k", "400 k", "600 k", "800 k"]),
        (7.0, ["0", "2", "4", "6", "8"]),
        (0.0, ["0", "0.25"]),
    ],
)
def test_marks_of_numbers_are_round(highest: float, marks: list[str]) -> None:
    assert [text for _, text in count_scale("messages/s", highest).marks] == marks


@pytest.mark.parametrize(
    ("seconds", "marks"),
    [
        (12.0, ["0 s", "2 s", "4 s", "6 s", "8 s", "10 s", "12 s"]),
        (300.0, ["0 min", "1 min", "2 min", "3 min", "4 min", "5 min"]),
        (7200.0, ["0 min", "30 min", "60 min", "90 min", "120 min"]),
    ],
)
def test_marks_of_time_are_round(seconds: float, marks: list[str]) -> None:
    assert [text for _, text in time_scale(seconds).marks] == marks


@pytest.mark.parametrize(
    "ends",
    [(0.018, 13.0), (0.0, 5.0), (-4.0, 900.0), (3.0, 3.0), (-9.0, -1.0), (1e-6, 1e7), (5.0, 5.1)],
)
@pytest.mark.parametrize("tick", [1.0, 1e-3, 1e-6])
def test_a_scale_of_latencies_ascends_and_has_marks(ends: tuple[float, float], tick: float) -> None:
    scale = latency_scale(*ends, tick)
    places = scale.places([value for value, _ in scale.marks]).tolist()
    assert len(places) >= 2
    assert all(low < high for low, high in pairwise(places))
    assert all(-1e-6 <= place <= 1 + 1e-6 for place in places)
    assert 0 <= scale.place(ends[0]) <= scale.place(ends[1]) <= 1


def test_marks_of_a_narrow_range_are_round() -> None:
    marks = latency_scale(0.92, 1.64, 1e-3, margin=1.0).marks
    assert [text for _, text in marks] == ["1 ms", "1.2 ms", "1.4 ms", "1.6 ms"]


def test_every_nine_takes_the_same_space() -> None:
    scale = percentile_scale(100_000)
    places = {text: scale.place(value) for value, text in scale.marks}
    steps = [places["90"] - places["0"], places["99"] - places["90"], places["99.9"] - places["99"]]
    assert steps == pytest.approx([0.2] * 3)


def test_a_line_has_gaps_and_a_lone_point_is_a_dot() -> None:
    chart = Chart("n", "T", time_scale(4.0), count_scale("messages/s", 4.0))
    chart.line([0, 1, 2, 3, 4], [4, 0, np.nan, 2, np.nan], 0, "sent")
    assert 'd="M0 0L250 1000M750 500h0"' in chart.html()


def test_a_chart_escapes_what_it_is_given() -> None:
    chart = Chart("<n>", "<T>", time_scale(4.0), count_scale("<y>", 4.0), "<note>")
    chart.dots([1.0], [1.0], 0, "<label>", ["<title>"])
    page = chart.html()
    for text in ("n", "T", "y", "note", "label"):
        assert f"&lt;{text}&gt;" in page
        assert f"<{text}>" not in page
    assert "<title>&lt;title&gt;</title>" in page


def test_many_points_keep_their_extremes_and_gaps() -> None:
    ys = np.sin(np.arange(50_000) / 700)
    ys[20_000], ys[30_000:32_000] = 9.0, np.nan
    xs, found = thinned(np.arange(50_000.0), ys)
    assert len(xs) < 3000
    assert np.nanmax(found) == 9.0
    assert xs[np.nanargmax(found)] == 20_000
    assert np.isnan(found[(xs > 30_200) & (xs < 31_800)]).all()
    assert (np.diff(xs) > 0).all()


def test_a_small_line_of_nothing() -> None:
    assert 'd=""' in sparkline([], "none")
    assert 'd="M0 0H1000"' in sparkline([5.0], "one second")


def histogram() -> SecondHistogram:
    """Two seconds of a clock of milliseconds: 100 messages of 1 ms, one of 50 ms; 10 of 1 ms."""
    return SecondHistogram(np.array([7, 7, 8]), np.array([1, 50, 1]), np.array([100, 1, 10]), "ms")


def test_the_map_has_a_colour_where_messages_are() -> None:
    heat = heat_image(histogram())
    assert [tuple(map(int, column)) for column in heat.columns()] == [(7, 8, 101), (8, 9, 10)]
    scale = latency_scale(*heat.rows[[0, -1]], 1.0, margin=1.0)
    image = base64.b64decode(png_url(heat.pixels(scale)).partition(",")[2])
    width, height = struct.unpack(">II", image[16:24])
    start = image.index(b"IDAT") + 4
    (size,) = struct.unpack(">I", image[start - 8 : start - 4])
    raw = zlib.decompress(image[start : start + size])
    pixels = np.frombuffer(raw, np.uint8).reshape(height, 1 + 4 * width)[:, 1:]
    opacity = pixels.reshape(height, width, 4)[..., 3]
    assert width == 2
    # The second that had 1 ms only is empty above it; the other one reaches the top.
    assert opacity[-1].tolist() == [255, 255]
    assert opacity[0].tolist() == [255, 0]
    # The image is no more than what its cells say: between them there is nothing.
    assert opacity[height // 2].tolist() == [0, 0]


def test_the_map_is_of_all_messages() -> None:
    heat = heat_image(histogram())
    assert heat.cells.sum() == Distribution(np.array([1, 50]), np.array([110, 1])).total


def test_snapshots(tmp_path: Path) -> None:
    records, file = tmp_path / "a-transfers.csv.zst", tmp_path / "a-snapshots.csv"
    assert read_snapshots(str(records)) is None
    file.write_text("1000,0,0,0,0,0,0,5\n3000,2000,9,9,1,500,500,4096\n4000,1000,9")
    found = read_snapshots(str(records))
    assert found is not None
    assert found.seconds.tolist() == [1.0, 3.0]
    assert np.isnan(found.cpu[0])
    assert (found.cpu[1], found.rss.tolist()) == (0.25, [5.0, 4096.0])
    assert read_snapshots(str(tmp_path / "records.csv")) is None


@pytest.mark.parametrize(
    "line", ["1,2,3", "a,b,c,d,e,f,g,h", "1,1,1,1,1,1,-1,1", f"{2**63}" + ",1" * 7]
)
def test_a_damaged_file_of_snapshots_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "snapshots.csv").write_text(f"1000,0,0,0,0,0,0,5\n{line}\n")
    with pytest.raises(RecordError, match=r"snapshots\.csv: line 2 is no snapshot"):
        read_snapshots(str(tmp_path / "transfers.csv"))


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["/usr/bin/quiver", "//h/q 1"], "quiver '//h/q 1'"),
        (["q", "--password", "s3", "x"], "q --password '***' x"),
        (["q", "--password=s3"], "q '--password=***'"),
        (["q", "--passw", "s3"], "q --passw '***'"),
        (["q", "--password-file", "f"], "q --password-file f"),
        (["q", "amqp://u:s3@h/q"], "q 'amqp://u:***@h/q'"),
        (["q", "amqp://u@h:5672/q"], "q amqp://u@h:5672/q"),
    ],
)
def test_the_command_has_no_password(words: list[str], shown: str) -> None:
    assert shown_command(words) == shown


def test_a_page_says_where_the_run_connected() -> None:
    peer = {"product": "RabbitMQ", "version": "3.10", "address": "10.0.0.7", "port": 5672}
    end = {"config": {}, "environment": None, "results": {}, "arrow": {"peer": peer}}
    side = end | {"arrow": None}
    run = {"sender": side, "receiver": side, "peer_to_peer": False}
    assert run_facts(run)["Peer"] is None
    assert run_facts(run | {"receiver": end})["Peer"] == "RabbitMQ 3.10 at 10.0.0.7:5672"
    assert run_facts(run | {"ends": [end, end]})["Peer"] == "RabbitMQ 3.10 at 10.0.0.7:5672"
    assert run_facts(run | {"peer_to_peer": True})["Peer"] == "the other end"
