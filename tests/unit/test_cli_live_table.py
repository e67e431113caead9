"""The terminal's table: its columns, its cells and its colours."""

import io
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from rich.text import Text
from support.summary_lines import number_field, text_field

from quiver_fast.analysis.model.units import short_text
from quiver_fast.analysis.sections.run import run_of
from quiver_fast.cli.arrow.progress import Limits
from quiver_fast.cli.arrow.snapshots import Snapshot
from quiver_fast.cli.arrow.terminal import fitted, headline
from quiver_fast.cli.pair import live_table
from quiver_fast.cli.pair.live_table import (
    LiveView,
    fitting,
    heading,
    line,
    table_columns,
)
from quiver_fast.cli.pair.table import Period

SENDER = Snapshot(2_000, 2_000, 24_000, 20_000, 900, 700, 14_200_000)
RECEIVER = Snapshot(
    2_000, 2_000, 23_900, 19_960, 800, 600, 15_000_000,
    latency_p50_us=412.3, latency_p99_us=1_204.0,
)  # fmt: skip
PERIOD = Period(2_000, "us", False, SENDER, RECEIVER, 100, 50)
COLUMNS = table_columns(peer_to_peer=False, settlement=False, streaming=False)


def names(columns):
    return [column.name for column in columns]


def cells(period, columns=COLUMNS):
    """Return text and style of each cell, by the column's name; of an arrow's with the group."""
    return {
        f"{column.group} {column.name}" if column.group in ("sender", "receiver", "latency")
        else column.name: column.cell(period)
        for column in columns
    }  # fmt: skip


def test_the_words_of_a_view_are_these():
    """A mass rename of code once changed "Filling the queue"."""
    pair = Path(live_table.__file__).parent
    words = {
        word
        for path in pair.glob("*.py")
        for word in re.findall(r'\.state\("(.*?)"', path.read_text())
    }
    assert words == {"Draining", "Filling the queue", "Running", "Stopping"}


def test_a_rate_is_of_the_time_that_the_records_cover():
    part = replace(SENDER, covered_ms=500.0, period_bytes=20_000_000)
    columns = table_columns(peer_to_peer=False, settlement=False, streaming=True)
    shown = cells(replace(PERIOD, sender=part), columns)
    assert shown["sender Sent/s"] == (short_text(40_000), "")
    assert shown["sender Bodies/s"] == (f"{short_text(40_000_000)}B", "")
    assert shown["sender CPU"] == cells(PERIOD)["sender CPU"]


@pytest.mark.parametrize("kinds", [(False, False, False), (True, True, False), (False, True, True)])
@pytest.mark.parametrize("width", [*range(10, 150, 7), 1_000])
def test_no_line_is_wider_than_the_terminal(kinds, width):
    columns = fitting(table_columns(*kinds), width)
    lines = [*heading(columns), line(columns, PERIOD)]
    assert all(len(text.plain) <= max(width, len(lines[1].plain.split()[0])) for text in lines)
    assert len(lines[1].plain) == len(lines[2].plain)


def test_narrow_terminals_keep_the_most_important_columns():
    assert names(fitting(COLUMNS, 1)) == ["Received/s"]
    assert names(fitting(COLUMNS, 32)) == ["Received/s", "p50", "p99"]
    assert names(fitting(COLUMNS, 70)) == [
        "Time", "Sent/s", "Received/s", "Queued", "p50", "p99",
    ]  # fmt: skip
    assert names(fitting(COLUMNS, 200)) == names(COLUMNS)


def test_groups_stand_above_their_columns():
    groups, titles = heading(fitting(COLUMNS, 200))
    for group, first, last in (("sender", "Sent/s", "RSS"), ("latency", "p50", "p99")):
        at = groups.plain.index(f" {group} ")
        start = titles.plain.index(first)
        assert start - 9 <= at <= titles.plain.index(last, start) + len(last)


def test_cells():
    shown = {name: text for name, (text, _style) in cells(PERIOD).items()}
    assert shown == {
        "Time": "2.0 s", "sender Sent/s": "10.0 k", "sender Sent": "24.0 k", "sender CPU": "35%",
        "sender RSS": "14.2 MB", "receiver Received/s": "9.98 k", "receiver Received": "23.9 k",
        "receiver CPU": "30%", "receiver RSS": "15.0 MB", "Queued": "100",
        "latency p50": "412 us", "latency p99": "1.20 ms",
    }  # fmt: skip


def test_nothing_is_coloured_without_a_reason():
    assert {style for _text, style in cells(PERIOD).values()} == {"", "bold"}


@pytest.mark.parametrize(
    ("name", "style", "change"),
    [
        ("sender Sent/s", "red", {"behind": True}),
        ("receiver Received/s", "red", {"receiver": replace(RECEIVER, period_count=0)}),
        ("Queued", "yellow", {"queued": 5_000}),
        ("sender CPU", "yellow", {"sender": replace(SENDER, period_cpu_time=1_900)}),
        ("receiver CPU", "yellow", {"receiver": replace(RECEIVER, period_cpu_time=2_000)}),
        ("latency p50", "red", {"receiver": replace(RECEIVER, latency_p50_us=-3.0)}),
    ],
)
def test_striking_figures_are_coloured(name, style, change):
    changed = cells(replace(PERIOD, **change))
    assert changed[name][1] == style
    assert sum(one in ("red", "yellow") for _text, one in changed.values()) == 1


def test_an_unknown_figure_is_a_dash():
    empty = Snapshot()
    shown = cells(replace(PERIOD, sender=None, receiver=empty, queued=None))
    unknown = {name for name, (text, _style) in shown.items() if text == "-"}
    assert unknown == set(shown) - {"Time", "receiver Received", "receiver RSS"}


def test_clocks_of_milliseconds_know_whole_ones():
    assert cells(replace(PERIOD, unit="ms"))["latency p99"][0] == "1 ms"


@pytest.mark.parametrize(
    ("elapsed", "shown"), [(99_940, "99.9 s"), (100_000, "1:40"), (3_600_000, "1:00:00")]
)
def test_long_runs_have_a_clock(elapsed, shown):
    assert cells(replace(PERIOD, elapsed=elapsed))["Time"][0] == shown


def test_streams_and_settlements_have_columns():
    columns = table_columns(peer_to_peer=True, settlement=True, streaming=True)
    sender = replace(SENDER, period_bytes=4_000_000, settlement_us=55.0)
    shown = cells(replace(PERIOD, sender=sender), columns)
    assert shown["sender Bodies/s"][0] == "2.00 MB"
    assert shown["receiver Bodies/s"][0] == "-"
    assert shown["sender Settled"][0] == "55.0 us"
    assert "In flight" in shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"), (7, "7"), (3.2, "3.20"), (999.6, "1.00 k"), (999_499, "999 k"),
        (999_500, "1.00 M"), (1_862_034, "1.86 M"), (2.5e9, "2.50 G"), (-5_000, "-5.00 k"),
    ],
)  # fmt: skip
def test_short_numbers_have_three_digits(value, shown):
    assert short_text(value) == shown


def test_progress_is_that_of_the_limit():
    assert Limits(2_000, 9).progress(500, 3.0) == (0.25, "500 of 2.00 k messages")
    assert Limits(0, 10).progress(500, 2.5) == (0.25, "2 s of 10 s")
    assert Limits(0, 10).progress(500, 11.0) == (1.0, "10 s of 10 s")
    assert Limits(0, 0).progress(500, 11.0) == (0, "11 s")


# ---- The first lines of the summary ------------------------------------------------

LATENCY = {
    "count": 5_000, "unit": "us",
    "percentiles": {"50": 412, "99": 1_200, "99.9": 3_640, "100": 12_100},
}  # fmt: skip
RESULTS = {"end_to_end_rate": 1_862_034, "message_rate": 1_862_034}


def document(**delivery):
    return {
        "complete": True,
        "reason": None,
        "results": RESULTS,
        "sender": {},
        "receiver": {"latency": LATENCY},
        "delivery": {"sent": 1_000, "received": 1_000} | delivery,
    }


def styles(text: Text):
    return {str(span.style) for span in text.spans} | {str(text.style)}


def test_headline_leads_with_rate_and_latencies():
    figures, verdict = headline(document())
    assert figures.plain == (
        "1.86 M messages/s   p50 412 us   p99 1.20 ms   p99.9 3.64 ms   max 12.1 ms"
    )
    assert verdict.plain == "1,000 sent, 1,000 received"
    assert styles(verdict) == {"green"}


@pytest.mark.parametrize(
    ("key", "words", "style"),
    [
        ("unreceived", "7 unreceived", "red"),
        ("lost", "7 lost, if neither the server nor another consumer has them", "red"),
        ("duplicate", "7 received twice or more", "red"),
        ("reordered", "7 out of order", "yellow"),
        ("older", "7 of an earlier run", "yellow"),
    ],
)
def test_headline_names_faults(key, words, style):
    verdict = headline(document(**{key: 7}))[-1]
    assert verdict.plain.endswith(f"; {words}")
    assert style in styles(verdict)
    assert "green" not in styles(verdict)


def test_headline_says_that_a_run_is_incomplete():
    lines = headline(document() | {"complete": False, "reason": "interrupted by SIGINT"})
    assert lines[1].plain == "Incomplete: interrupted by SIGINT"


def test_details_lose_dots_only():
    text = text_field("URL", "amqp://localhost/q0") + "\n\n" + number_field("Count", 5, "messages")
    shown = fitted(text, 50).split("\n")
    assert [len(one) for one in shown] == [50, 0, 50]
    assert [one.replace(".", "") for one in shown] == [
        one.replace(".", "") for one in text.split("\n")
    ]
    assert fitted(text, 100) == text


def headline_of(summary):
    return headline(run_of(summary))


def test_headline_of_one_arrow():
    sent = {"complete": True, "results": RESULTS | {"message_count": 1}}
    figures, verdict = headline_of(sent)
    assert (figures.plain, verdict.plain) == ("1.86 M messages/s", "1 message sent")
    receiver = {"results": RESULTS, "latency": LATENCY, "delivery": {"received": 5}}
    assert headline_of(receiver)[1].plain == "5 messages received"
    no_rate = {"results": {"message_rate": None, "message_count": 5}}
    assert headline_of(no_rate)[0].plain == "too few messages for a rate"


@pytest.mark.parametrize(("sent", "style"), [(3_970, ""), (2_900, "red")])
def test_a_sender_is_behind_when_it_has_sent_too_little_since_its_first_row(sent, style):
    terminal = Console(file=io.StringIO(), width=200, force_terminal=True)
    view = LiveView(terminal, "us", Limits(0, 9), rate=1_000)
    rows = []
    view._lines = lambda period, _streaming: rows.append(period) or []
    for timestamp, count in ((10_000, 500), (14_000, 500 + sent)):
        sender = replace(SENDER, timestamp=timestamp, count=count, period_count=count)
        view.add({"sender": sender, "receiver": RECEIVER})
    assert [cells(row)["sender Sent/s"][1] for row in rows] == ["", style]
