"""Conditions of --fail-if, and the choice of a backend."""

import argparse
import struct
import sys
from types import SimpleNamespace

import pytest

from quiver_fast.analysis.read.discovery import RunFiles
from quiver_fast.analysis.read.sources import Wanted
from quiver_fast.analysis.sections.verdicts import breach_text, checked_text, verdicts
from quiver_fast.cli.analyze.backends import LOCAL_LIMIT, choose_backend
from quiver_fast.cli.analyze.command import main as analyze
from quiver_fast.cli.shared.thresholds import (
    incomplete,
    judged,
    refuse_comparisons,
    threshold,
    told,
)
from quiver_fast.errors import QuiverError, UsageError
from quiver_fast.records.compression import MARKER

LATENCY = {"unit": "us", "mean": 1500.0, "stddev": 2.0,
           "percentiles": {"0": 3.0, "99": 5000.0, "99.9": 9000.0, "100": 12000.0}}  # fmt: skip
DOCUMENT = {
    "name": "run",
    "sender": {"results": {"message_rate": 70}, "schedule": {"never_sent": 12}},
    "receiver": {"results": {"message_rate": 50_000}, "latency": LATENCY},
    "delivery": {"received": 99, "unreceived": 3, "lost": 1, "older": 4, "duplicate": 0,
                 "reordered": 0, "foreign": 0, "negative_latency": 2,
                 "released": 8, "rejected": 5},
    "complete": True,
    "drain": {"seconds": 2.5, "messages": 7},
    "queue_growth": {"per_second": 787.5, "messages": 7_875},
}  # fmt: skip


def check(limit, document):
    [found] = judged([limit], [document], None)
    return found


def check_comparison(limit, comparison):
    [found] = judged([limit], [], comparison)
    return found


@pytest.mark.parametrize(
    ("text", "value", "breached"),
    [
        ("p99>5ms", 5.0, False), ("p99>=5ms", 5.0, True), ("p99 > 4999us", 5.0, True),
        ("p99.9<1s", 9.0, True), ("max>12", 12.0, False), ("min<=3us", 0.003, True),
        ("mean<1.5ms", 1.5, False), ("stddev>1us", 0.002, True), ("p100>11999000ns", 12.0, True),
        ("rate<50k/s", 50_000, False), ("rate<=0.05m", 50_000, True), ("sender-rate<100", 70, True),
        ("lost>0", 1, True), ("count<100", 99, True), ("negative>2", 2, False),
        ("unreceived>2", 3, True), ("older>4", 4, False), ("complete<1", 1, False),
        ("released>8", 8, False), ("rejected>=5", 5, True),
        ("never_sent>10", 12, True), ("never_sent>=0.013k", 12, False),
        ("queue-growth>0", 787.5, True), ("queue-growth>1k/s", 787.5, False),
        ("drain_seconds>2s", 2.5, True), ("drain_seconds<=2499ms", 2.5, False),
    ],
)  # fmt: skip
def test_check(text, value, breached):
    result = check(threshold(text), DOCUMENT)
    assert result["value"] == pytest.approx(value)
    assert (result["condition"], result["run"], result["breached"]) == (text, "run", breached)


def test_a_queue_that_did_not_grow_grew_by_nothing():
    limit = threshold("queue-growth>0")
    assert check(limit, DOCUMENT | {"queue_growth": None})["value"] == 0
    unknown = check(limit, DOCUMENT | {"queue_growth": None, "drain": None})
    assert (unknown["breached"], unknown["reason"]) == (True, "the run has no queue-growth")


def test_a_latency_counts_the_messages_that_were_never_sent():
    """Unreceived messages have no latency; a sender that stalls must not look fast."""
    all_due = LATENCY | {"never_sent": 7, "percentiles": {"99": 80_000.0}, "mean": 2e4}
    receiver = DOCUMENT["receiver"] | {"latency": LATENCY | {"with_never_sent": all_due}}
    document = DOCUMENT | {"receiver": receiver}
    found = check(threshold("p99>5ms"), document)
    assert (found["value"], found["breached"], found["never_sent"]) == (80.0, True, 7)
    assert checked_text(found) == "80 ms with 7 messages that were due and never sent"
    assert check(threshold("mean>21ms"), document)["breached"] is False
    other = check(threshold("lost>0"), document)
    assert (other["value"], other["never_sent"], checked_text(other)) == (1, None, "1 message")


@pytest.mark.parametrize(
    "text",
    ["p99", "p98>5ms", "p99>5m", "rate<5ms", "p99=5", "lost>-1", "", "complete<1ms", "worse>0",
     "better", "rate-change<-5", "rate-change<-5ms", "p50>-1%", "mean-change>1%"],
)  # fmt: skip
def test_no_condition(text):
    with pytest.raises(argparse.ArgumentTypeError, match="is no"):
        threshold(text)


@pytest.mark.parametrize(
    ("text", "gone"),
    [
        ("p99>1", {"receiver": None}), ("mean>1", {"receiver": None}),
        ("rate<1", {"receiver": None}), ("lost>0", {"delivery": None}),
        ("never_sent>0", {"sender": {}}), ("never_sent>0", {"sender": None}),
        ("older>0", {"delivery": {"older": None}}), ("complete<1", {"complete": None}),
        ("drain_seconds>1", {"drain": None}),
    ],
)  # fmt: skip
def test_a_figure_that_is_not_there_is_a_breach(text, gone):
    """A threshold that cannot be judged must not pass."""
    result = check(threshold(text), DOCUMENT | gone)
    figure = text[: text.index(text.strip("abcdefghijklmnopqrstuvwxyz0123456789_")[0])]
    assert (result["breached"], result["value"]) == (True, None)
    assert result["reason"] == f"the run has no {figure}"


def test_no_latency_is_no_figure():
    empty = {"unit": "ms", "mean": None, "stddev": None, "percentiles": {"99": None}}
    end = {"results": {"message_rate": None}, "latency": empty}
    assert check(threshold("p99>1"), DOCUMENT | {"receiver": end})["breached"]


@pytest.mark.parametrize(
    ("complete", "reason", "said"),
    [(False, "no transfers", "incomplete: no transfers"),
     (False, None, "incomplete: the run does not say why"), (True, None, None), (None, None, None)],
)  # fmt: skip
def test_only_a_run_known_to_be_incomplete_is(complete, reason, said):
    found = incomplete(DOCUMENT | {"complete": complete, "reason": reason})
    assert (found and found["reason"]) == said
    assert found is None or found["breached"]


def comparison(rate, p99="not shown", few=False):
    # The interval of a change reaches 10 % to both sides.
    few_runs = "too few runs: at least 5 of each"
    figures = {name: {"change": change, "base": 50.0, "verdict": few_runs if few else verdict,
                      "interval": change and [50 * change - 5, 50 * change + 5]}
               for name, change, verdict in (
        ("message_rate", rate, "worse" if rate and rate < 0 else "not shown"),
        ("latency_p50", 0.5, "better"), ("latency_p99", 0.125, p99),
        ("latency_max", None, "not shown"))}  # fmt: skip
    return {"figures": figures}


@pytest.mark.parametrize(
    ("text", "found", "value", "breached", "reason"),
    [
        ("rate-change<-5%", comparison(-0.42), -42, True, None),
        ("rate-change<-5%", comparison(-0.04), -4, False, None),
        ("p99-change>2%", comparison(0.1), 12.5, True, None),
        ("p99-change>10%", comparison(0.1), 12.5, False, None),
        ("observed-p99-change>10%", comparison(0.1), 12.5, True, None),
        ("observed-rate-change<-5%", comparison(-0.04), -4, False, None),
        ("p50-change>0.5%", comparison(0.1), 50, True, None),
        ("max-change>10%", comparison(0.1), None, True,
         "the baseline is 0: no change is a share of it"),
        ("worse", comparison(0.1), 0, False, None),
        (" Worse", comparison(-0.1), 1, True, "message rate (-10.0%)"),
        ("worse", comparison(-0.1, "worse"), 2, True,
         "message rate (-10.0%), latency p99 (+12.5%)"),
        ("worse", comparison(0.1, few=True), None, True, "too few runs: at least 5 of each"),
        ("max-change>1%", comparison(0, few=True), None, True, "too few runs: at least 5 of each"),
    ],
)  # fmt: skip
def test_a_comparison_is_judged(text, found, value, breached, reason):
    limits = [threshold(text), threshold("p99>5ms")]
    result, of_run = judged(limits, [DOCUMENT], found)
    assert (result["run"], of_run["run"]) == ("comparison", "run")
    assert result["value"] == (None if value is None else pytest.approx(value))
    assert (result["breached"], result["reason"]) == (breached, reason)
    if text == "rate-change<-5%" and breached:
        said = "threshold rate-change<-5% is breached: -42 % (comparison)"
        assert breach_text(result) == said
    elif value and text == "worse":
        assert breach_text(result) == f"--fail-if worse: {reason} (comparison)"


OPEN = "more runs are needed to tell of latency p99 (+12.5%), latency max"


def test_worse_is_inconclusive_where_runs_do_not_show_it(capsys):
    result = check_comparison(threshold("worse"), comparison(0.1))
    more = (
        "more runs are needed to tell of message rate (+10.0%), latency p99 (+12.5%), latency max"
    )
    assert (result["breached"], result["inconclusive"]) == (False, more)
    assert verdicts([result])[0].words.endswith(f", INCONCLUSIVE: {more}")
    assert told([result], "quiver") == 0
    assert capsys.readouterr().err == (
        f"quiver: warning: --fail-if worse is inconclusive: {more}\n"
    )


@pytest.mark.parametrize(
    ("text", "breached", "inconclusive"),
    [
        # The interval is 2.5 % to 22.5 %.
        ("p99-change>2%", True, None),
        ("p99-change>30%", False, None),
        ("p99-change>10%", False, "the interval of the change is +2.5 % to +22.5 %"),
        ("p99-change<5%", False, "the interval of the change is +2.5 % to +22.5 %"),
        ("observed-p99-change>10%", True, None),
    ],
)
def test_a_change_gates_when_its_whole_interval_is_beyond(text, breached, inconclusive):
    result = check_comparison(threshold(text), comparison(0.1))
    assert (result["breached"], result["inconclusive"]) == (breached, inconclusive)


def test_a_figure_that_is_worse_decides():
    result = check_comparison(threshold("worse"), comparison(-0.1))
    assert (result["breached"], result["inconclusive"]) == (True, None)


def test_an_inconclusive_comparison_can_fail_with_a_code_of_its_own(capsys):
    limit = threshold("inconclusive")
    result = check_comparison(limit, comparison(-0.1))
    assert (result["value"], result["breached"], result["reason"]) == (2, True, OPEN)
    assert told([result], "quiver") == 98
    assert (
        capsys.readouterr().err == f"quiver: error: --fail-if inconclusive: {OPEN} (comparison)\n"
    )
    worse = check_comparison(threshold("worse"), comparison(-0.1))
    assert told([result, worse], "quiver") == 99
    change = check_comparison(threshold("p99-change>10%"), comparison(-0.1))
    clear = check_comparison(limit, {"figures": {}})
    assert [told(each, "quiver") for each in ([change], [change, clear], [clear])] == [0, 98, 0]
    few = check_comparison(limit, comparison(0.1, few=True))
    assert (few["value"], few["breached"]) == (4, True)
    clear = {"figures": {"message_rate": {"change": 0.0, "verdict": "no difference above 1 %"}}}
    assert not check_comparison(limit, clear)["breached"]
    assert check_comparison(threshold("worse"), clear)["inconclusive"] is None


def test_where_nothing_is_compared_its_conditions_are_refused():
    refuse_comparisons([threshold("p99>5ms")], "--fail-if", "here")
    for text in ("worse", "max-change>1%"):
        with pytest.raises(UsageError, match=f"--fail-if {text}: nothing is compared here"):
            refuse_comparisons([threshold("p99>5ms"), threshold(text)], "--fail-if", "here")


@pytest.mark.parametrize(("text", "code"), [("p99>1us", 99), ("inconclusive", 98)])
def test_a_gate_that_judges_no_run_does_not_pass(text, code, capsys):
    """Churn and hold leave no records: there is no run."""
    assert told(judged([threshold(text)], [], None), "quiver") == code
    assert "no run has records that it could judge" in capsys.readouterr().err


@pytest.fixture(name="large")
def large_run(tmp_path):
    """Files that say they hold ``records`` records: a sparse one, or frames by their index."""

    def make(records, compressed):
        path = tmp_path / f"receiver-transfers.csv{'.zst' * compressed}"
        size = records * 28
        with path.open("wb") as file:
            if compressed:
                entries = [(len(MARKER), 0), (0, size % 2**31), *[(0, 2**31)] * (size // 2**31)]
                table = b"".join(struct.pack("<II", *entry) for entry in entries)
                table += struct.pack("<IBI", len(entries), 0, 0x8F92EAB1)
                file.write(MARKER + struct.pack("<II", 0x184D2A5E, len(table)) + table)
            else:
                file.truncate(size)
        return [RunFiles("run", receiver=path)]

    return make


@pytest.mark.parametrize("compressed", [False, True])
def test_auto_is_local_below_a_limit_of_records(large, monkeypatch, compressed):
    """The size of the text counts for compressed files too."""
    java = SimpleNamespace(why_java_is_missing=lambda: None)
    engine = SimpleNamespace(run_loader=lambda *_: None)
    monkeypatch.setitem(sys.modules, "spark_analysis.java", java)
    monkeypatch.setitem(sys.modules, "spark_analysis.backend", engine)
    for records, name in ((LOCAL_LIMIT - 1, "local"), (LOCAL_LIMIT, "spark")):
        chosen = choose_backend("auto", None, large(records, compressed), Wanted())
        assert (chosen.name, chosen.warning) == (name, None)


@pytest.mark.parametrize("missing", ["spark_analysis", "Java"])
def test_auto_without_spark_is_local_with_a_warning(large, monkeypatch, missing):
    runs = large(LOCAL_LIMIT, False)
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    engine = SimpleNamespace(run_loader=lambda *_: None) if missing == "Java" else None
    monkeypatch.setitem(sys.modules, "spark_analysis.backend", engine)
    chosen = choose_backend("auto", None, runs, Wanted())
    assert chosen.name == "local"
    assert "\n" not in chosen.warning
    assert f"needs {missing}" in chosen.warning
    if missing != "Java":
        with pytest.raises(QuiverError, match="not installed"):
            choose_backend("spark", None, runs, Wanted())


def test_auto_reads_small_files_of_file_urls_here(tmp_path, monkeypatch, capsys):
    """No Java starts for them."""
    monkeypatch.setitem(sys.modules, "spark_analysis.backend", None)
    lines = "".join(f"{time},{time + 1}\n" for time in range(1_700_000_000_000, 1_700_000_002_000))
    (tmp_path / "receiver-transfers.csv").write_text(lines)
    for start in ("file://", "file://localhost", "file:"):
        assert analyze([f"{start}{tmp_path}", "--json"]) == 0
        assert '"engine": "local"' in capsys.readouterr().out
        assert analyze([f"{start}/nowhere"]) == 2
        assert capsys.readouterr().err == (
            "quiver-analyze: error: '/nowhere': no such file, directory or match\n"
        )
    assert analyze(["s3a://bucket/run"]) == 1
    assert "--engine local does without) needs spark_analysis" in capsys.readouterr().err


def test_engines():
    for asked in ("numpy", "auto"):
        assert choose_backend(asked, None, [], Wanted()).name == "local"
    with pytest.raises(UsageError, match="--master"):
        choose_backend("local", "local[2]", [], Wanted())


@pytest.mark.parametrize(
    ("text", "breached", "is_open"),
    [("lost>0", False, True), ("lost>3", False, False), ("lost>=0", True, False)],
)
def test_losses_that_nobody_knows_are_inconclusive(text, breached, is_open, capsys):
    """Between none and all of the unreceived messages are lost."""
    unknown = DOCUMENT | {"delivery": DOCUMENT["delivery"] | {"lost": None}}
    limits = [threshold(text), threshold("inconclusive")]
    result, of_all = judged(limits, [unknown], None)
    assert (result["breached"], bool(result["inconclusive"])) == (breached, is_open)
    assert (of_all["breached"], of_all["value"]) == (is_open, int(is_open))
    assert told([result], "quiver") == (99 if breached else 0)
    assert told([result, of_all], "quiver") == (99 if breached else 98 if is_open else 0)
    assert ("3 unreceived messages may be lost" in capsys.readouterr().err) == (breached or is_open)
