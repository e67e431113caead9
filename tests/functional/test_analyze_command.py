"""`quiver-analyze` from the command line to exit code, text, JSON and files."""

import json
import re
import subprocess
import sys
from functools import partial
from xml.etree import ElementTree as ET

import pytest
import zstandard
from support.documents import parsed

from quiver_fast.cli.analyze.command import main
from quiver_fast.extras import how_to_install

EPOCH = 1_700_000_000_000
PLOTS = {"throughput", "latency", "percentiles", "heatmap"}


def write_run(directory, latency=5, seconds=15, unit="ms", compressed=False, start=EPOCH):
    """Write a pair: a message every 5 ms; latencies go round a small circle."""
    directory.mkdir(parents=True)
    factor = {"ms": 1, "us": 1000}[unit]
    sender, receiver = [], []
    for n in range(0, seconds * 1000, 5):
        sent = (start + n) * factor
        sender.append(f"{sent},0\n")
        receiver.append(f"{sent},{sent + (latency + n % 7) * factor}\n")
    for role, lines in (("sender", sender), ("receiver", receiver)):
        data = "".join(lines).encode()
        name = f"{role}-transfers.csv"
        if compressed:
            (directory / f"{name}.zst").write_bytes(zstandard.compress(data))
        else:
            (directory / name).write_bytes(data)
    return str(directory)


@pytest.fixture(name="run")
def one_run(tmp_path):
    return write_run(tmp_path / "run")


def analyze(capsys, *words):
    code = main([str(word) for word in words])
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    return code, captured.out, captured.err


def test_text_has_the_layout_of_the_summary(run, capsys):
    code, out, err = analyze(capsys, run)
    assert (code, err) == (0, "")
    headings = [line for line in out.splitlines() if line.isupper()]
    assert headings == ["RUN", "RESULTS", "DELIVERY", "STEADY STATE", "CLOCK"]
    assert "Count ................................................. 3,000 messages" in out
    assert "         50% ........ 8 ms       99.90% ....... 11 ms" in out
    assert "Rate .................................................... 200 messages/s" in out


def test_json_has_the_wrappers_shape(run, capsys):
    code, out, _ = analyze(capsys, run, "--json")
    document = parsed(out)
    assert code == 0
    wrappers = ["peer_to_peer", "run_id", "output_dir", "complete", "reason", "results",
                "delivery", "sender", "receiver", "workload"]  # fmt: skip
    assert [key for key in document if key in wrappers] == wrappers
    assert document["results"]["message_count"] == 3000
    assert document["receiver"]["results"]["latency_quartiles"] == [5, 6, 8, 10, 11]
    assert document["delivery"]["lost"] == 0
    assert document["analysis"]["steady_state"]["message_rate"] == 200
    assert document["engine"] == "local"


def test_windows_are_as_long_as_asked_for(run, capsys):
    code, out, _ = analyze(capsys, run, "--window", "10s", "--json")
    windows = parsed(out)["analysis"]["windows"]
    assert (code, windows["seconds"], windows["count"]) == (0, 10, [1999, 1001])
    assert windows["start"] == [EPOCH // 1000, EPOCH // 1000 + 10]
    assert windows["latency_max"] == [11, 11]
    code, out, _ = analyze(capsys, run, "--window", "5s")
    rows = out[out.index("WINDOWS OF 5 s") :].splitlines()[2:6]
    assert rows[0].split() == ["seconds", "messages/s", "p50", "p99"]
    assert rows[2].split() == ["5", "200", "8", "ms", "11", "ms"]


def write_step(directory):
    """Write a receiver of 200/s for ten seconds, and of 2,000/s for ten more."""
    directory.mkdir()
    first = [(EPOCH + n * 5) * 1000 for n in range(2000)]
    second = [(EPOCH + 10_000) * 1000 + n * 500 for n in range(20_000)]
    lines = "".join(f"{time},{time + 700}\n" for time in first + second)
    (directory / "receiver-transfers.csv").write_text(lines)
    return str(directory)


def test_a_run_with_a_step_is_not_steady_in_all_that_is_said(tmp_path, capsys):
    step, even = write_step(tmp_path / "step"), write_run(tmp_path / "even")
    report = tmp_path / "report.html"
    code, out, _ = analyze(capsys, step, "--html", report)
    said = out[out.index("STEADY STATE") :].splitlines()[2:5]
    assert (code, said) == (0, [
        "not steady: step at 10.0 s from 200 to 2,000 messages/s",
        "Figures of the whole run:",
        "Rate .................................................. 1,100 messages/s",
    ])  # fmt: skip
    page = report.read_text()
    assert "<td>not steady</td>" in page
    assert "<td>step at 10.0 s from 200 to 2,000 messages/s</td>" in page
    assert ">Whole run</th>" in page
    document = parsed(analyze(capsys, step, "--compare", even, "--json")[1])
    steady = document["analysis"]["steady_state"]
    assert (steady["verdict"], steady["figures_of"]) == ("not steady", "whole run")
    assert (steady["message_count"], steady["message_rate"]) == (22_000, 1100)
    assert steady["latency"] == document["receiver"]["latency"]
    assert steady["step"]["at"] == pytest.approx(10, abs=0.01)
    assert document["comparison"]["not_steady"] == [step]
    assert f"NOT STEADY: {step}, " in analyze(capsys, step, "--compare", even)[1]


def test_a_short_run_says_how_long_it_takes(tmp_path, capsys):
    run = write_run(tmp_path / "run", seconds=5)
    assert "too short to tell: 4 of at least 6 whole seconds" in analyze(capsys, run)[1]


def test_mixed_files_of_all_kinds(tmp_path, capsys):
    write_run(tmp_path / "all" / "plain")
    write_run(tmp_path / "all" / "zstd", unit="us", compressed=True)
    (tmp_path / "all" / "v1-transfers.csv").write_text(f"a,{EPOCH},{EPOCH + 3}\n")
    code, out, _ = analyze(capsys, tmp_path / "al[l]", tmp_path / "all" / "plain", "--json")
    runs = parsed(out)["runs"]
    assert code == 0
    found = [(end["records"]["format"], end["records"]["time_unit"])
             for end in (run["receiver"] for run in runs)]  # fmt: skip
    assert sorted(found) == [("v1", "ms"), ("v3", "ms"), ("v3", "us")]


def test_a_breached_threshold(run, capsys):
    code, out, err = analyze(capsys, run, "--fail-if", "p99>5ms", "--fail-if", "rate<100")
    assert code == 99
    assert f"p99>5ms: 11 ms, BREACHED ({run})" in out
    assert err == f"quiver-analyze: error: threshold p99>5ms is breached: 11 ms ({run})\n"
    assert analyze(capsys, run, "--fail-if", "p99>11ms")[0] == 0


@pytest.fixture(name="failed")
def failed_run(tmp_path):
    """The files of a run of `quiver` whose receiver was cut off."""
    directory = tmp_path / "failed"
    write_run(directory)
    for role, reason in (("sender", None), ("receiver", "the peer closed <b>")):
        summary = {"config": None, "complete": reason is None, "reason": reason}
        (directory / f"{role}-summary.json").write_text(json.dumps(summary))
    return str(directory)


REASON = "the peer closed <b>"


def test_an_incomplete_run_is_marked_everywhere(failed, run, tmp_path, capsys):
    report, images = tmp_path / "r.html", tmp_path / "svg"
    code, out, err = analyze(capsys, failed, "--html", report, "--svg", images)
    assert (code, err) == (0, f"quiver-analyze: warning: {failed} is incomplete: {REASON}\n")
    assert f"\nINCOMPLETE\n\n{REASON}\n" in out
    assert '<p class="verdict bad">Incomplete: the peer closed &lt;b&gt;</p>' in report.read_text()
    assert "Throughput (incomplete run)" in (images / "throughput.svg").read_text()
    document = parsed(analyze(capsys, failed, "--json")[1])
    assert (document["complete"], document["reason"]) == (False, REASON)
    for words in ((run, "--compare", failed), (failed, "--compare", run)):
        _, out, err = analyze(capsys, *words, "--html", report)
        assert f"\nINCOMPLETE: {failed}\n" in out
        assert f">Incomplete runs</th><td>{failed}</td>" in report.read_text()
        assert f"{failed} is incomplete" in err
    comparison = parsed(analyze(capsys, failed, "--compare", run, "--json")[1])["comparison"]
    assert comparison["incomplete"] == [failed]


def test_incomplete_is_not_green(failed, capsys):
    code, out, err = analyze(capsys, failed, "--fail-if", "lost>0")
    assert code == 99
    assert f"quiver-analyze: error: --fail-if complete: incomplete: {REASON} ({failed})\n" in err
    assert f"complete: incomplete: {REASON}, BREACHED ({failed})" in out
    words = (failed, "--fail-if", "lost>0", "--allow-incomplete")
    assert analyze(capsys, *words)[0] == 0
    assert analyze(capsys, failed, "--allow-incomplete")[0] == 2
    assert analyze(capsys, *words, "--fail-if", "complete<1")[0] == 99


def test_a_figure_that_is_not_there_fails_the_gate(run, capsys):
    code, out, err = analyze(capsys, run, "--fail-if", "drain_seconds>5", "--fail-if", "p99>1s")
    assert code == 99
    assert (
        err == f"quiver-analyze: error: --fail-if drain_seconds>5: "
        f"the run has no drain_seconds ({run})\n"
    )
    assert "p99>1s: 11 ms, ok" in out


@pytest.mark.parametrize("words", [[], ["--fail-if", "lost>0"], ["--fail-if", "lost>0",
                                   "--allow-incomplete"]])  # fmt: skip
def test_a_failed_run_without_records(tmp_path, capsys, words):
    """The case that passed: nothing was sent, "Rate missed" was No, the gate was green."""
    directory = tmp_path / "run"
    directory.mkdir()
    for role, operation in (("sender", "send"), ("receiver", "receive")):
        (directory / f"{role}-transfers.csv").write_bytes(b"")
        config = {"operation": operation, "impl": "pyfast", "url": "q0", "output_dir": "o",
                  "connection_mode": "client",
                  "duration": 5, "count": 0, "rate": 100, "body_size": 1, "credit_window": 1,
                  "transaction_size": 0, "durable": False, "set_message_id": False}  # fmt: skip
        summary = {"config": config, "complete": False, "reason": f"{role} failed"}
        (directory / f"{role}-summary.json").write_text(json.dumps(summary))
    code, out, err = analyze(capsys, directory, *words)
    assert code == (99 if words[-1:] == ["lost>0"] else 1)
    assert "\nINCOMPLETE\n\nsender failed; receiver failed\n" in out
    assert re.search(r"\nRate missed \.+ Yes\n", out)
    assert code == 99 or f"error: {directory} has no records" in err


def test_a_run_of_older_messages_alone_is_incomplete(tmp_path, capsys):
    directory = tmp_path / "run"
    directory.mkdir()
    (directory / "sender-transfers.csv").write_text(f"{EPOCH},0\n{EPOCH + 1},0\n")
    (directory / "receiver-transfers.csv").write_text(f"{EPOCH - 900},{EPOCH}\n" * 7)
    code, out, err = analyze(capsys, directory)
    assert "\nINCOMPLETE\n\nthe receiver has no messages of this run\n" in out
    assert re.search(r"\nOlder messages \.+ 7 \(left by an earlier run\)\n", out)
    assert (code, "incomplete" in err) == (0, True)
    assert analyze(capsys, directory, "--fail-if", "older>9")[0] == 99


@pytest.mark.parametrize(
    "words",
    [[], ["no-such-file"], ["{run}", "--fail-if", "p77>1"], ["{run}", "--engine", "fast"],
     ["{run}", "--fail-if", "worse"],
     ["{run}", "--engine", "local", "--master", "local"], ["{run}", "--compare", "nothing"],
     ["{run}", "--expected-interval", "5"], ["{run}", "--window", "1500ms"]],
)  # fmt: skip
def test_usage_errors(run, capsys, words):
    code, out, err = analyze(capsys, *[word.format(run=run) for word in words])
    assert (code, out, err.count("\n")) == (2, "", 1)


def test_numpy_is_local(run, capsys):
    assert parsed(analyze(capsys, run, "--engine", "numpy", "--json")[1])["engine"] == "local"


@pytest.mark.parametrize(
    ("module", "words", "extra"),
    [
        ("spark_analysis", ["--engine", "spark"], "spark"),
        ("resvg_py", ["--png", "x"], "analysis"),
        ("hdrh", ["--hlog", "x.hlog"], "analysis"),
        ("pyarrow", ["--parquet", "x"], "analysis"),
    ],
)
def test_what_is_missing_is_said_in_one_line(run, capsys, monkeypatch, module, words, extra):
    monkeypatch.setitem(sys.modules, module, None)
    for name in [name for name in sys.modules if name.startswith(f"{module}.")]:
        monkeypatch.delitem(sys.modules, name)
    code, out, err = analyze(capsys, run, *words)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert f"needs {module}, which is not installed" in err
    assert err.endswith(f": {how_to_install(extra)}\n")


def test_doubts_are_warnings(tmp_path, capsys):
    file = tmp_path / "r.csv"
    file.write_text(f"{EPOCH},{EPOCH - 1}\njunk\n{EPOCH},{EPOCH + 1}\n{EPOCH},{EPOCH}")
    code, _, err = analyze(capsys, file)
    assert code == 0
    assert re.findall(r"warning: (.*)", err) == [
        f"{file}: 1 line is not a record; the first is line 2: junk",
        f"{file} ends within a record, which is left out",
        f"{file}: 1 message was received before the send: the clocks of sender and receiver differ",
    ]


def test_damaged_and_empty_files(tmp_path, capsys):
    cut = zstandard.compress("".join(f"{EPOCH + n},0\n" for n in range(9999)).encode())
    for name, data in (
        ("empty.csv", b""), ("junk.csv", b"junk\n"), ("bad", b"\x28\xb5\x2f\xfd12"),
        ("sender-transfers.csv", b""), ("sender-transfers.csv.zst", zstandard.compress(b"")),
        ("cr.csv", b"%d,0\r" % EPOCH * 9), ("crlf.csv", b"%d,0\r\n" % EPOCH * 9),
        ("endless.csv", b"1" * (20 << 20)), ("cut.csv.zst", cut[: len(cut) // 2]),
    ):  # fmt: skip
        (tmp_path / name).write_bytes(data)
        code, out, err = analyze(capsys, tmp_path / name)
        assert (code, out, err.count("\n")) == (1, "", 1), name


def test_coordinated_omission_by_request(run, capsys):
    _, out, _ = analyze(capsys, run, "--expected-interval", "5ms")
    assert "Interval ............................................... 5 ms\n" in out
    # Latencies of 5 to 11 ms: the correction adds some that are as long.
    assert "Correction ................................ expected interval\n" in out


def test_no_interval_is_right_without_a_rate(run, tmp_path, capsys):
    config = {"operation": "send", "impl": "pyfast", "url": "q0", "output_dir": "o",
              "connection_mode": "client", "duration": 0, "count": 3000, "rate": 0, "body_size": 1,
              "credit_window": 1, "transaction_size": 0, "durable": False,
              "set_message_id": False}  # fmt: skip
    summary = tmp_path / "run" / "sender-summary.json"
    summary.write_text(json.dumps({"config": config, "complete": True, "reason": None}))
    _, out, _ = analyze(capsys, run, "--expected-interval", "5ms")
    assert "the sender had no rate, so no correction is right" in out


def test_hgrm_and_hlog(run, tmp_path, capsys):
    hdrh = pytest.importorskip("hdrh.histogram", reason="hdrhistogram is optional")
    log = pytest.importorskip("hdrh.log", reason="hdrhistogram is optional")
    assert (
        analyze(capsys, run, "--hgrm", tmp_path / "h.hgrm", "--hlog", tmp_path / "h.hlog")[0] == 0
    )
    text = (tmp_path / "h.hgrm").read_text()
    assert re.search(r"Total count\s*=\s*3000", text)
    footer = {name: float(value) for name, value in re.findall(r"(\w+)\s+=\s+([0-9.]+)", text)}
    # Latencies go round 5 to 11 ms: all figures are in the unit of the values.
    assert footer["Mean"] == pytest.approx(8, abs=0.02)
    assert footer["StdDeviation"] == pytest.approx(2, abs=0.02)
    assert footer["Max"] == pytest.approx(11, abs=0.02)
    reader = log.HistogramLogReader(str(tmp_path / "h.hlog"), hdrh.HdrHistogram(1, 10**14, 3))
    counts = []
    while (interval := reader.get_next_interval_histogram()) is not None:
        counts.append(interval.get_total_count())
    assert sum(counts) == 3000
    assert len(counts) == 16


def test_negative_latencies_are_left_out_of_hgrm_aloud(tmp_path, capsys):
    (tmp_path / "r.csv").write_text(f"{EPOCH},{EPOCH - 1}\n{EPOCH},{EPOCH + 1}\n")
    code, _, err = analyze(capsys, tmp_path / "r.csv", "--hgrm", tmp_path / "h")
    assert code == 0
    assert "1 negative latencies are not in it" in err


def test_parquet(tmp_path, capsys):
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is optional")
    (tmp_path / "r.csv").write_text(
        f"7,{EPOCH},{EPOCH + 1}\n8,{EPOCH},{EPOCH + 1}\n9,{EPOCH},{EPOCH}\n"
    )
    assert analyze(capsys, tmp_path / "r.csv", "--parquet", tmp_path / "out")[0] == 0
    rows = parquet.read_table(tmp_path / "out" / "rows.parquet").to_pylist()
    base = dict.fromkeys(("settled", "sampled", "id_text")) | {
        "run": str(tmp_path / "r.csv"), "role": "receiver", "unit": "ms", "kind": "transfer",
        "sent": EPOCH,
    }  # fmt: skip
    assert rows == [
        base | {"received": EPOCH + 1, "id": 7},
        base | {"received": EPOCH + 1, "id": 8},
        base | {"received": EPOCH, "id": 9},
    ]
    runs = parquet.read_table(tmp_path / "out" / "runs.parquet").to_pylist()
    assert runs == [rows[0] | {"messages": 2}, rows[2] | {"messages": 1}]
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == [
        "rows.parquet", "runs.parquet", "seconds.parquet"
    ]  # fmt: skip


def test_parquet_has_the_seconds_of_both_ends(tmp_path, capsys):
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is optional")
    (tmp_path / "sender-transfers.csv").write_text(f"{EPOCH},0\n{EPOCH + 2000},0\n")
    (tmp_path / "receiver-transfers.csv").write_text(
        f"{EPOCH},{EPOCH + 1}\n{EPOCH + 2000},{EPOCH + 2003}\n"
    )
    (tmp_path / "late").mkdir()
    (tmp_path / "late" / "receiver-transfers.csv").write_text(f"{EPOCH}000,{EPOCH}007\n")
    assert analyze(capsys, tmp_path, "--parquet", tmp_path / "out")[0] == 0
    rows = parquet.read_table(tmp_path / "out" / "seconds.parquet").to_pylist()
    second = EPOCH // 1000
    found = {
        role: [tuple(row.values())[2:] for row in rows if row["role"] == role]
        for role in ("sender", "receiver")
    }
    nothing = (None, None, None)
    assert found == {
        "sender": [("ms", second + n, count, *nothing) for n, count in enumerate((1, 0, 1))],
        "receiver": [
            ("us", second, 1, 7.0, 7.0, 7.0),
            ("ms", second, 1, 1.0, 1.0, 1.0),
            ("ms", second + 1, 0, *nothing),
            ("ms", second + 2, 1, 3.0, 3.0, 3.0),
        ],
    }
    assert len({row["run"] for row in rows}) == 2


def test_parquet_has_settlements_and_ids_as_they_are(tmp_path, capsys):
    """Rows made of the lines one by one are equal to the written ones."""
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is optional")
    ids = ["1", "2", "007", "é %2C", "9" * 30, "3", "4", "\\xff"]
    path = tmp_path / "sender-transfers.csv"
    lines = [f"{one},{EPOCH + n // 3}\n".encode() for n, one in enumerate(ids[:-1])]
    lines.append(b"\xff,%d\n" % EPOCH)
    lines += [f"S{ids[0]},{EPOCH + 7}\n".encode(), f"s{ids[2]},{EPOCH + 7}\n".encode()]
    path.write_bytes(b"".join(lines))
    assert analyze(capsys, path, "--parquet", tmp_path / "out")[0] == 0
    rows = parquet.read_table(tmp_path / "out" / "rows.parquet").to_pylist()
    found = [row["id_text"] if row["id"] is None else str(row["id"]) for row in rows]
    assert found == [one.replace("%2C", ",") for one in [*ids, ids[0], ids[2]]]
    assert [row["kind"] for row in rows] == ["transfer"] * 8 + ["settlement"] * 2
    assert [row["sent"] for row in rows[:-3]] == [EPOCH + n // 3 for n in range(7)]
    keys = ("settled", "sampled", "sent")
    assert [tuple(row[key] for key in keys) for row in rows[-2:]] == [
        (EPOCH + 7, True, None), (EPOCH + 7, False, None),
    ]  # fmt: skip
    runs = parquet.read_table(tmp_path / "out" / "runs.parquet").to_pylist()
    assert [row["messages"] for row in runs] == [2, 1, 1, 1, 1, 1, 1, 1, 1]


NO_FONT = "drawing PNG needs a font, such as DejaVu Sans; --svg needs none"


@pytest.mark.parametrize("form", ["png", "svg"])
def test_images(run, tmp_path, capsys, form):
    if form == "png":
        pytest.importorskip("resvg_py", reason="resvg is optional")
    code, _, err = analyze(capsys, run, f"--{form}", tmp_path / "plots")
    if NO_FONT in err:
        pytest.skip("this machine has no font")
    assert code == 0
    files = list((tmp_path / "plots").iterdir())
    assert {file.name for file in files} == {f"{name}.{form}" for name in PLOTS}
    for file in files:
        if form == "png":
            assert file.read_bytes().startswith(b"\x89PNG")
        else:
            assert ET.fromstring(file.read_text()).tag.endswith("svg")


def test_words_that_no_font_has_are_not_left_out(run, tmp_path, capsys, monkeypatch):
    renderer = pytest.importorskip("resvg_py", reason="resvg is optional")
    bare = partial(renderer.svg_to_bytes, skip_system_fonts=True)
    monkeypatch.setattr(renderer, "svg_to_bytes", bare)
    code, out, err = analyze(capsys, run, "--png", tmp_path / "plots")
    assert (code, out, NO_FONT in err, err.count("\n")) == (1, "", True, 1)
    assert not (tmp_path / "plots").exists()


# Each run has pictures of its own: 48 of them take ten seconds.
@pytest.mark.parametrize("form", [pytest.param("png", marks=pytest.mark.slow), "html"])
def test_a_series_is_drawn_with_its_change_points(tmp_path, capsys, form):
    """Twelve runs, of which the last five are slower."""
    if form == "png":
        pytest.importorskip("resvg_py", reason="resvg is optional")
    for number in range(12):
        latency = 5 if number < 7 else 50
        write_run(tmp_path / "runs" / str(number), latency, 1, start=EPOCH + 60_000 * number)
    target = tmp_path / "out"
    words = [tmp_path / "runs", "--json", f"--{form}", target]
    code, out, _ = analyze(capsys, *words)
    assert code == 0
    changes = parsed(out)["change_points"]["figures"]["latency_p50"]["change_points"]
    assert [change["run"] for change in changes] == [str(tmp_path / "runs" / "7")]
    names = {f"series-{name}" for name in
             ("message-rate", "latency-p50", "latency-p99", "latency-max")}  # fmt: skip
    if form == "png":
        images = {path.stem: path.read_bytes() for path in target.glob("series-*.png")}
        assert images.keys() == names
        assert all(image.startswith(b"\x89PNG") for image in images.values())
    else:
        text = target.read_text()
        assert names <= set(re.findall(r'<figure id="([^"]*)">', text))
        figure = text[text.index('<figure id="series-latency-p50">') :]
        assert ">change point<" in figure[: figure.index("</figure>")]


@pytest.fixture(name="report")
def html_report(tmp_path, run, capsys):
    """A report on two runs, one of them with a hostile name, compared with a third."""
    other = write_run(tmp_path / "<script>x", latency=9)
    file = tmp_path / "report.html"
    words = (run, other, "--compare", run, "--html", file, "--fail-if", "p99>10ms")
    assert analyze(capsys, *words)[0] == 99
    return file


EXPECTED_IDS = {f"run-{number}-{name}" for number in (1, 2) for name in PLOTS} | {
    "comparison-throughput",
    "comparison-percentiles",
    "comparison-runs-message-rate",
    "comparison-runs-latency-p50",
    "comparison-runs-latency-p99",
    "comparison-runs-latency-max",
}


def test_html_needs_no_network(report):
    text = report.read_text()
    assert set(re.findall(r'<figure id="([^"]*)">', text)) == EXPECTED_IDS
    assert "<script" not in text
    assert "&lt;script&gt;x" in text
    assert re.findall(r'(?:src|href)="(?!#|data:)[^"]*"', text) == []
    assert "Content-Security-Policy" in text
    for said in ("Comparison:", "Thresholds", "breached", "Steady state", "Analysed with"):
        assert said in text


@pytest.mark.peer("chromium")
def test_html_opens_in_a_browser(report):
    # Nothing of it may wait for a network, which a browser's own services would.
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
               "--disable-background-networking", "--disable-component-update", "--disable-sync",
               "--dump-dom", f"--user-data-dir={report.parent / 'profile'}",
               report.as_uri()]  # fmt: skip
    dom = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    drawn = re.findall(r'<figure id="([^"]*)">(?:(?!</figure>).)*<svg', dom, re.DOTALL)
    assert set(drawn) == EXPECTED_IDS


def test_a_name_that_is_not_utf_8(tmp_path, capsys):
    """Each was a traceback."""
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is optional")
    run = tmp_path / "run\udcff"
    write_run(run)
    page, folder = tmp_path / "report.html", tmp_path / "records"
    assert main([str(run), "--quiet", "--html", str(page), "--parquet", str(folder)]) == 0
    assert "run\\udcff</dd>" in page.read_text("utf-8")
    (name,) = set(parquet.read_table(folder / "runs.parquet")["run"].to_pylist())
    assert name.endswith("run\\udcff")
