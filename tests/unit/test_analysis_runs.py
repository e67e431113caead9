"""What is said of whole runs and of sets of them."""

import json

import numpy as np
import pytest

from quiver_fast.analysis.discovery import find_runs
from quiver_fast.analysis.sets import changes, compare_sets, overall_verdict
from quiver_fast.analysis.sources import load_run
from quiver_fast.analysis.statistics import expected_interval, run_statistics
from quiver_fast.errors import RecordError

EPOCH = 1_700_000_000_000


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
        (directory / f"{role}-summary.json").write_text(json.dumps({"config": config}))
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
    json.dumps(section)


def test_one_end_alone(tmp_path):
    write_run(tmp_path / "run")
    sender = load(tmp_path / "run" / "sender-transfers.csv")
    assert (sender.receiver, sender.delivery, sender.histogram) == (None, None, None)
    section = run_statistics(sender)
    assert section["steady_state"]["message_rate"] == 100
    assert section["steady_state"]["latency"] is section["clock"] is None


@pytest.mark.parametrize(
    ("config", "seconds"),
    [
        ({"rate": 1000, "credit_window": 10}, 0.001),
        ({"rate": 0, "credit_window": 10}, 0.1),
        (None, None),
    ],
)
def test_expected_interval(tmp_path, config, seconds):
    run = write_run(tmp_path / "run", config=config)
    assert expected_interval(run) == (None if seconds is None else pytest.approx(seconds))


def test_the_interval_that_is_asked_for_wins(tmp_path):
    run = write_run(tmp_path / "run", latency=50, config={"rate": 100})
    assert run_statistics(run)["coordinated_omission"]["expected_interval"] == 10
    section = run_statistics(run, 0.0205)["coordinated_omission"]
    assert section["expected_interval"] == 21
    assert section["corrected"]["count"] == pytest.approx(4000, rel=0.1)


def test_intended_times_need_no_correction(tmp_path):
    directory = tmp_path / "run"
    write_run(directory)
    document = {"config": {"rate": 100}, "arrow": {"schedule": {"late_us": {"p50": 3}}}}
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
        summary = {"config": {"connection_mode": mode}}
        (directory / "receiver-summary.json").write_text(json.dumps(summary))
        clock = run_statistics(load(directory))["clock"]
        assert (clock["offset_at_least"], clock["offset_at_most"]) == (bound, 10)


def test_comparison(tmp_path):
    base = [write_run(tmp_path / f"base{n}", seed=n) for n in range(2)]
    slower = [write_run(tmp_path / f"slower{n}", latency=9, seed=n + 9) for n in range(2)]
    ours = compare_sets(base, slower)
    assert ours["verdict"] == "worse"
    assert ours["figures"]["message_rate"]["verdict"] == "no difference"
    assert ours["figures"]["latency_p50"]["difference"] == pytest.approx(4, abs=0.2)
    assert compare_sets(slower, base)["verdict"] == "better"
    assert compare_sets(base, base)["verdict"] == "no difference"
    json.dumps(ours)


def test_comparison_across_units(tmp_path):
    base = write_run(tmp_path / "base")
    (tmp_path / "fine").mkdir()
    lines = (tmp_path / "base" / "receiver-transfers.csv").read_text().splitlines()
    fine = ["{}000,{}000\n".format(*line.split(",")) for line in lines]
    (tmp_path / "fine" / "receiver-transfers.csv").write_text("".join(fine))
    ours = compare_sets([base], [load(tmp_path / "fine")])
    assert all(figure["change"] == 0 for figure in ours["figures"].values())


def test_overall_verdict():
    assert overall_verdict(["better", "no difference"]) == "better"
    assert overall_verdict(["better", "worse"]) == "mixed"
    assert overall_verdict(["no difference", "too few windows"]) == "no difference"


def test_changes_over_runs(tmp_path):
    runs = [
        write_run(
            tmp_path / str(n),
            latency=5 if n < 6 else 20,
            seconds=3,
            seed=n,
            start=EPOCH + n * 10**5,
        )
        for n in range(12)
    ]
    ours = changes(runs[::-1])
    assert ours["runs"] == [run.name for run in runs]
    (change,) = ours["figures"]["latency_p50"]["change_points"]
    assert change == {"run": runs[6].name, "before": 5.0, "after": 20.0}
    assert ours["figures"]["message_rate"]["change_points"] == []
    assert changes(runs[:5]) is None


@pytest.mark.parametrize(
    ("name", "text", "error"),
    [
        ("x.csv", "", "is empty"),
        ("x.csv", "junk\n", "has no records; line 1 is: junk"),
        ("sender-transfers.csv", f"1,{EPOCH},{EPOCH}\n", "has no send records"),
    ],
)
def test_files_without_records(tmp_path, name, text, error):
    (tmp_path / name).write_text(text)
    with pytest.raises(RecordError, match=error):
        load(tmp_path / name)


def test_a_damaged_summary(tmp_path):
    write_run(tmp_path / "run")
    (tmp_path / "run" / "sender-summary.json").write_text("{")
    with pytest.raises(RecordError, match=r"sender-summary.json is damaged"):
        load(tmp_path / "run")
