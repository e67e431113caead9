"""Documents of whole runs and of sets of runs."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
import zstandard
from support.summaries import config as configured

from quiver_fast.analysis.compare.comparison import overall_verdict
from quiver_fast.analysis.compare.sets import (
    changes_of,
    compare_figures,
    run_figures,
)
from quiver_fast.analysis.figures.statistics import ending, run_statistics
from quiver_fast.analysis.model.columns import listed
from quiver_fast.analysis.read.discovery import find_runs
from quiver_fast.analysis.read.sources import load_run
from quiver_fast.analysis.sections.sets import change_section
from quiver_fast.analysis.show.text import section_text
from quiver_fast.errors import RecordError
from quiver_fast.records.frames import open_records, write_frames

EPOCH = 1_700_000_000_000


def compared(base, candidate):
    return compare_figures([*map(run_figures, base)], [*map(run_figures, candidate)])


def ignore(_done, _total):
    pass


def write_run(directory, latency=5, seconds=20, gap=10, config=None, seed=0, start=EPOCH):
    """Write an even run: a message every ``gap`` ms, latencies around ``latency`` ms."""
    directory.mkdir(parents=True)
    random = np.random.default_rng(seed)
    sent = np.arange(start, start + seconds * 1000, gap)
    received = sent + random.integers(latency - 2, latency + 3, len(sent))
    lines = zip(sent.tolist(), received.tolist(), strict=True)
    (directory / "receiver-transfers.csv").write_text("".join(f"{s},{r}\n" for s, r in lines))
    (directory / "sender-transfers.csv").write_text("".join(f"{s},0\n" for s in sent.tolist()))
    for role in () if config is None else ("sender", "receiver"):
        (directory / f"{role}-summary.json").write_text(
            json.dumps({"config": configured(**config)})
        )
    return load(directory)


def load(path):
    (files,) = find_runs([str(path)])
    return load_run(files, ignore)


def test_a_run(tmp_path):
    run = write_run(tmp_path / "run")
    assert run.delivery["lost"] == run.delivery["foreign"] == 0
    assert run.sender["config"] is None
    assert run.histogram.total == run.sends.counts.sum() == 2000
    section = run_statistics(run)
    assert section["steady_state"]["message_rate"] == pytest.approx(100, abs=0.5)
    assert section["clock"]["offset_at_most"] == 3
    assert section["clock"]["offset_at_least"] is None
    assert section["coordinated_omission"]["method"] is None
    json.dumps(section, default=listed)


def test_one_end_alone(tmp_path):
    write_run(tmp_path / "run")
    sender = load(tmp_path / "run" / "sender-transfers.csv")
    assert (sender.receiver, sender.delivery, sender.histogram) == (None, None, None)
    section = run_statistics(sender)
    assert section["steady_state"]["message_rate"] == 100
    assert section["steady_state"]["latency"] is section["clock"] is None


def test_omission_is_corrected_only_when_that_is_asked_for(tmp_path):
    run = write_run(tmp_path / "run", latency=50, config={"rate": 100})
    assert run_statistics(run)["coordinated_omission"]["corrected"] is None
    section = run_statistics(run, 0.0205)["coordinated_omission"]
    assert section["expected_interval"] == 21
    assert section["corrected"]["count"] == pytest.approx(4000, rel=0.1)


def test_intended_times_need_no_correction(tmp_path):
    directory = tmp_path / "run"
    write_run(directory)
    document = {
        "config": configured("send", rate=100),
        "arrow": {"schedule": {"late_us": {"p50": 3}}},
    }
    (directory / "sender-summary.json").write_text(json.dumps(document))
    section = run_statistics(load(directory))["coordinated_omission"]
    assert section["method"] == "intended send times"
    assert section["corrected"] == section["raw"]


def test_settlement_bounds_the_offset_peer_to_peer(tmp_path):
    for mode, bound in (("server", -95), ("client", None)):
        directory = tmp_path / mode
        directory.mkdir()
        # One way 5 ms, back 100 ms, and a receiver's clock 5 ms ahead.
        sender = "".join(f"{n},{EPOCH + n}\nS{n},{EPOCH + n + 105}\n" for n in range(5))
        receiver = "".join(f"{n},{EPOCH + n},{EPOCH + n + 10}\n" for n in range(5))
        (directory / "sender-transfers.csv").write_text(sender)
        (directory / "receiver-transfers.csv").write_text(receiver)
        summary = {"config": configured(connection_mode=mode)}
        (directory / "receiver-summary.json").write_text(json.dumps(summary))
        clock = run_statistics(load(directory))["clock"]
        assert (clock["offset_at_least"], clock["offset_at_most"]) == (bound, 10)


def test_comparison(tmp_path):
    base = [write_run(tmp_path / f"base{n}", seed=n) for n in range(5)]
    slower = [write_run(tmp_path / f"slower{n}", latency=9, seed=n + 9) for n in range(5)]
    ours = compared(base, slower)
    assert ours["verdict"] == "worse"
    assert ours["figures"]["message_rate"]["verdict"] == "no difference above 0.1 %"
    assert ours["figures"]["latency_p50"]["difference"] == pytest.approx(4, abs=0.2)
    assert compared(slower, base)["verdict"] == "better"
    assert compared(base, base)["verdict"] == "not shown"
    few = compared(base[:4], slower)
    assert few["verdict"] == "too few runs: at least 5 of each"
    assert few["figures"]["latency_p50"]["interval"] is None
    json.dumps(ours)


def test_comparison_across_units(tmp_path):
    base = write_run(tmp_path / "base")
    (tmp_path / "fine").mkdir()
    lines = (tmp_path / "base" / "receiver-transfers.csv").read_text().splitlines()
    fine = ["{}000,{}000\n".format(*line.split(",")) for line in lines]
    (tmp_path / "fine" / "receiver-transfers.csv").write_text("".join(fine))
    ours = compared([base], [load(tmp_path / "fine")])
    assert all(figure["difference"] == 0 for figure in ours["figures"].values())


def test_a_rate_run_is_compared_whole_and_raw_beside_it(tmp_path):
    """A slow first second belongs to the figures where the rate was kept through it."""

    def rate_run(name, first):
        directory = tmp_path / name
        directory.mkdir()
        sent = np.arange(EPOCH, EPOCH + 20_000, 10)
        received = sent + np.where(sent < EPOCH + 3000, first, 5)
        lines = zip(sent.tolist(), received.tolist(), strict=True)
        (directory / "receiver-transfers.csv").write_text("".join(f"{s},{r}\n" for s, r in lines))
        config = {"config": configured(rate=100)}
        (directory / "receiver-summary.json").write_text(json.dumps(config))
        return load(directory)

    base, slow = rate_run("base", 5), rate_run("slow", 300)
    assert run_statistics(base)["steady_state"]["rule"] == "rate"
    steady = run_statistics(slow)["steady_state"]
    assert (steady["figures_of"], steady["warm_up_seconds"]) == ("whole run", 0)
    assert steady["reason"] == "p99 latency from 300 ms to 5 ms at 3.7 s"
    figure = compared([base], [slow])["figures"]["latency_p99"]
    assert (figure["raw_base"], figure["raw_candidate"]) == (5, 300)
    assert figure["candidate"] > figure["base"] == 5


def test_a_comparison_names_incomplete_runs(tmp_path):
    good = write_run(tmp_path / "good", config={})
    failed = replace(good, name="failed", sender={**good.sender, "complete": False})
    assert compared([good], [failed])["incomplete"] == ["failed"]
    assert compared([good], [good])["incomplete"] == []


def test_ending(tmp_path):
    run = write_run(tmp_path / "run", seconds=1)

    def ended(sender, receiver, count=100):
        ends = {
            "sender": {**run.sender, "complete": sender, "reason": None if sender else "A"},
            "receiver": {
                **run.receiver,
                "complete": receiver,
                "reason": None if receiver else "B",
                "results": {**run.receiver["results"], "message_count": count},
            },
        }
        return ending(replace(run, **ends))

    assert ending(run) == (None, None)
    assert ended(True, True) == (True, None)
    assert ended(True, False) == (False, "B")
    assert ended(False, False) == (False, "A; B")
    run = replace(run, receiver={**run.receiver, "complete": False, "reason": "A"})
    run = replace(run, sender={**run.sender, "complete": False, "reason": "A"})
    assert ending(run) == (False, "A")
    assert ended(True, True, count=0) == (False, "the receiver has no messages of this run")


def test_figures_are_of_the_steady_state_or_of_the_whole_run(tmp_path):
    """Where there is no steady state, no third definition takes its place."""
    steady = run_figures(write_run(tmp_path / "steady", gap=7))
    assert steady.verdict == "steady"
    assert steady.steady != steady.values
    short = run_figures(write_run(tmp_path / "short", seconds=4))
    assert short.verdict == "too short to tell"
    assert short.steady == short.values
    assert short.messages == 400


def test_overall_verdict():
    few = "too few runs: at least 5 of each"
    none = "no difference above 0.3 %"
    assert overall_verdict(["better", "not shown"], [None, None]) == "better"
    assert overall_verdict(["better", "worse"], [None, None]) == "mixed"
    assert overall_verdict([none, "worse"], [0.003, None]) == "worse"
    assert overall_verdict(["not shown", few], [None, None]) == "not shown"
    assert overall_verdict([few, few], [None, None]) == few
    assert overall_verdict([none, "not shown"], [0.003, None]) == "not shown"
    words = overall_verdict([none, "no difference above 1.2 %"], [0.003, 0.012])
    assert words == "no difference above 1.2 %"
    maybe = "difference, not shown to be relevant"
    assert overall_verdict([none, maybe], [0.003, None]) == maybe
    assert overall_verdict([none, maybe], [0.003, 0.017]) == "no difference above 1.7 %"


def test_changes_over_runs(tmp_path):
    runs = [
        write_run(
            tmp_path / str(n),
            latency=5 if n < 6 else 20,
            seconds=3,
            seed=n,
            start=EPOCH + n * 10**5,
        )
        for n in range(14)
    ]
    ours = changes_of([*map(run_figures, runs[::-1])])
    assert ours["runs"] == [run.name for run in runs]
    (change,) = ours["figures"]["latency_p50"]["change_points"]
    assert change == {"run": runs[6].name, "before": 5.0, "after": 20.0}
    rate = ours["figures"]["message_rate"]
    assert rate["change_points"] == []
    # All have the same rate, to the message.
    assert rate["detectable_step"] == 0
    assert ours["figures"]["latency_p50"]["detectable_step"] == 0
    said = section_text(change_section(ours))
    assert re.search(rf"latency p50 +{runs[6].name} +5.00 ms +20.0 ms$", said, re.MULTILINE)
    assert re.search(r"message rate +0 %$", said, re.MULTILINE)
    assert changes_of([*map(run_figures, runs[:11])]) is None


@pytest.mark.parametrize(
    ("name", "text", "error"),
    [
        ("x.csv", "", "is empty"),
        ("receiver-transfers.csv", "", "is empty"),
        ("x.csv", "junk\n", "has no records; line 1 is: junk"),
        ("x.csv", f"{EPOCH},{EPOCH}\r" * 9, "it has a CR, which ends no record"),
        ("x.csv", "1" * (9 << 20), "has no records"),
        ("x.csv", f"{EPOCH},{EPOCH}\r\n" * 9, "it ends in CR LF, and records end in LF"),
        ("sender-transfers.csv", f"1,{EPOCH},{EPOCH}\n", "has no send records"),
    ],
)
def test_files_without_records(tmp_path, name, text, error):
    for data in (text.encode(), zstandard.compress(text.encode())):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(RecordError, match=error) as raised:
            load(tmp_path / name)
        assert "\n" not in str(raised.value)


@pytest.mark.parametrize("ours", [True, False])
def test_a_compressed_file_cut_in_half_says_how_much_is_missing(tmp_path, ours):
    lines = tmp_path / "lines"
    lines.write_text("".join(f"{EPOCH + n % 977},{EPOCH + n * 7 % 1999}\n" for n in range(50_000)))
    whole = tmp_path / "receiver-transfers.csv.zst"
    with whole.open("wb") as out:
        if ours:
            write_frames(lines, out, frame_size=1 << 19)
        else:
            out.write(zstandard.compress(lines.read_bytes()))
    data = whole.read_bytes()
    assert load(whole).receiver["results"]["message_count"] == 50_000
    whole.write_bytes(data[: len(data) // 2])
    with pytest.raises(RecordError, match=r"records are left, [0-9,]+ bytes are missing"):
        load(whole)
    summary = {"results": {"message_count": 49_000}, "delivery": {"older": 900, "foreign": 100}}
    (tmp_path / "receiver-summary.json").write_text(json.dumps(summary))
    with pytest.raises(RecordError, match=r"of 50,000 records are left, [0-9,]+ are missing"):
        load(whole)


def test_a_cut_file_that_does_not_tell_its_size(tmp_path):
    path = tmp_path / "receiver-transfers.csv.zst"
    lines = "".join(f"{EPOCH + n % 977},{EPOCH + n * 7 % 1999}\n" for n in range(50_000))
    data = zstandard.ZstdCompressor(write_content_size=False).compress(lines.encode())
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(RecordError, match="records are left; no summary beside it"):
        load(path)


def test_a_file_of_ours_cut_between_frames_is_cut(tmp_path):
    """The rest looks whole, but our files end with an index."""
    lines, whole = tmp_path / "lines", tmp_path / "receiver-transfers.csv.zst"
    lines.write_text(f"{EPOCH},{EPOCH}\n" * 1000)
    with whole.open("wb") as out:
        write_frames(lines, out, frame_size=9_000)
    with open_records(whole) as records:
        frames = records.frames
    assert len(frames) > 2
    whole.write_bytes(whole.read_bytes()[: frames[1].start])
    with pytest.raises(RecordError, match="is cut short"):
        load(whole)


def test_a_line_that_was_not_finished_is_no_cut(tmp_path):
    """An arrow that is killed leaves half a line, and the wrapper compresses it."""
    lines, whole = tmp_path / "lines", tmp_path / "receiver-transfers.csv.zst"
    lines.write_text(f"{EPOCH},{EPOCH}\n{EPOCH},")
    for ours in (True, False):
        with whole.open("wb") as out:
            if ours:
                write_frames(lines, out)
            else:
                out.write(zstandard.compress(lines.read_bytes()))
        run = load(whole)
        assert run.receiver["results"]["message_count"] == 1
        assert run.receiver["records"]["truncated"]


def test_a_damaged_summary(tmp_path):
    write_run(tmp_path / "run")
    (tmp_path / "run" / "sender-summary.json").write_text("{")
    with pytest.raises(RecordError, match=r"sender-summary.json is damaged"):
        load(tmp_path / "run")
