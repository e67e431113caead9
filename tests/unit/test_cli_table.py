"""The layout of upstream's table and summary, column by column from the specification."""

import re
from dataclasses import replace

import pytest
from support.summary_lines import number_field, text_field

from quiver_fast.analysis.figures.delivery import lost_text
from quiver_fast.analysis.figures.environment import peers_of
from quiver_fast.analysis.sections.run import run_of
from quiver_fast.analysis.sections.verdicts import verdict_section
from quiver_fast.analysis.show.text import brief_rows
from quiver_fast.cli.arrow.snapshots import Snapshot
from quiver_fast.cli.arrow.summary_text import (
    arrow_summary_text,
    pair_summary_text,
)
from quiver_fast.cli.arrow.terminal import run_rows
from quiver_fast.cli.arrow.verdict import pair_warnings
from quiver_fast.cli.pair import table
from quiver_fast.cli.pair.table import Period, upstream_columns

SENDER = Snapshot(1_000_002_300, 2000, 1_202_970, 1_201_768, 3760, 3760, 22_732_800)
RECEIVER = Snapshot(
    1_000_002_100, 2000, 1_210_056, 1_209_452, 3760, 3770, 5_632_000, latency_us=1000.0
)

# The sample in upstream's README, with the figures of the snapshots above.
TABLE = """\
---------------------- Sender -----------------------  --------------------- Receiver ----------------------  --------
Time [s]      Count [m]  Rate [m/s]  CPU [%]  RSS [M]  Time [s]      Count [m]  Rate [m/s]  CPU [%]  RSS [M]  Lat [ms]
-----------------------------------------------------  -----------------------------------------------------  --------
     2.3      1,202,970     600,884      188     22.2       2.1      1,210,056     604,726      188      5.5         1"""  # noqa: E501


def heading(unit, **kinds):
    return table.heading(upstream_columns(unit, **kinds))


def table_row(start, unit, sender, receiver, settlement=False):
    columns = upstream_columns(unit, receiver.period_bytes is not None, settlement)
    return table.table_row(columns, Period(0, unit, False, sender, receiver, start=start))


def test_table_is_upstreams():
    assert heading("ms") + "\n" + table_row(1_000_000_000, "ms", SENDER, RECEIVER) == TABLE


def test_a_rate_is_of_the_time_that_the_records_cover():
    half = replace(SENDER, covered_ms=1000.5, period_bytes=300_000_000)
    assert half.rate == SENDER.period_count * 1000 / 1000.5
    streaming = replace(RECEIVER, period_bytes=300_000_000)
    row = table_row(1_000_000_000, "ms", half, streaming).split()
    assert (row[2], row[3]) == ("1,201,167", "188"), "CPU time is of the whole period"
    assert row[-2:] == ["299.9", "150.0"]
    nothing = replace(SENDER, covered_ms=0.0, period_bytes=1)
    assert (nothing.rate, nothing.bytes_per_second) == (None, None)
    assert table_row(1_000_000_000, "ms", nothing, streaming).split()[2] == "-"


def test_a_missing_sender_shows_dashes():
    row = table_row(1_000_000_000, "ms", None, RECEIVER)
    assert row.split()[:5] == ["-"] * 5
    assert len(row) == len(heading("ms").splitlines()[0])


def test_an_unknown_figure_shows_a_dash():
    idle = Snapshot(1_000_004_100, 2000, 10)
    assert table_row(1_000_000_000, "ms", None, idle).split()[-1] == "-"
    at_once = Snapshot(1_000_000_000, 0, 10, 10, 5, 5, 1024, latency_us=-3000.0)
    row = table_row(1_000_000_000, "ms", None, at_once)
    assert row.split()[5:] == ["0.0", "10", "-", "-", "0.0", "-3"]


@pytest.mark.parametrize(
    ("mean_us", "shown"),
    [(0.0, "0"), (4.04, "4.04"), (10.24, "10.2"), (364.4, "364"), (3642.4, "3,642"),
     (1_204_000.0, "1204000"), (-57.31, "-57.3")],
)  # fmt: skip
def test_a_fine_clock_shows_microseconds_in_the_same_columns(mean_us, shown):
    """Every second message waits a few us: in milliseconds all of these rows were 0."""
    lines = heading("us").splitlines()
    assert lines[1] == heading("ms").splitlines()[1].replace("Lat [ms]", "Lat [us]")
    assert [lines[0], lines[2]] == [TABLE.splitlines()[0], TABLE.splitlines()[2]]
    row = table_row(1_000_000_000, "us", SENDER, replace(RECEIVER, latency_us=mean_us))
    assert row == TABLE.splitlines()[3][:-8] + shown.rjust(8)


def test_the_microseconds_are_not_in_the_file():
    assert replace(RECEIVER, latency_us=1999.9).line() == RECEIVER.line()
    assert RECEIVER.line() == "1000002100,2000,1210056,1209452,1,3760,3770,5632000\n"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (text_field("Sender", "pyfast"), "Sender " + "." * 47 + " pyfast"),
        (number_field("Count", 8005111, "messages"),
         "Count ............................................. 8,005,111 messages"),
        (number_field("Duration", 9.84, "seconds", ",.1f"),
         "Duration ................................................ 9.8 seconds"),
        (number_field("Sender rate", None, "messages/s"),
         "Sender rate " + "." * 12 + "." * 35 + " - messages/s"),
    ],
)  # fmt: skip
def test_fields(line, expected):
    assert line == expected


def config(operation, **changes):
    return {
        "operation": operation, "impl": "pyfast", "url": "q0", "output_dir": "/tmp/quiver-ljt_ztl1",
        "count": 0, "duration": 10, "body_size": 100, "credit_window": 1000,
        "transaction_size": 0, "durable": False, "set_message_id": False, **changes,
    }  # fmt: skip


def results(**changes):
    return {
        "first_send_time": None, "last_send_time": None, "first_receive_time": None,
        "last_receive_time": None, "message_count": 3_032_565, "message_rate": 310_586,
        "latency_average": None, "latency_quartiles": None, "latency_nines": None, **changes,
    }  # fmt: skip


def latencies(unit, *values):
    """The section ``latency`` with these values at the ranks that upstream prints."""
    ranks = ("0", "25", "50", "100", "90", "99", "99.9", "99.99")
    return {"unit": unit, "count": 50_000, "percentiles": dict(zip(ranks, values, strict=True))}


SENT = {
    "config": config("send"),
    "results": results(first_send_time=1000, last_send_time=10_700),
}
RECEIVED = {
    "config": config("receive"),
    "results": results(
        first_receive_time=1001, last_receive_time=10_769, message_rate=310_618,
        latency_average=1.5, latency_quartiles=[1, 2, 2, 3, 7], latency_nines=[2, 3, 6, 6, 7],
    ),
    "latency": latencies("ms", 1.0, 2.0, 2.0, 7.0, 2.0, 3.9, 6.0, 6.999),
}  # fmt: skip

SCHEDULE = {
    "rate": 100, "due": 100, "sent": 100, "never_sent": 0, "achieved": 99.9, "late_us": None,
    "missed": False,
}  # fmt: skip

RESULTS = {
    "message_count": 3_032_565, "duration": 9.769, "sender_rate": 310_586,
    "receiver_rate": 310_618, "end_to_end_rate": 310_427.3,
}  # fmt: skip


def pair(sender, receiver, delivery=None, **more):
    """The document of a run through a server."""
    return {
        "sender": sender, "receiver": receiver, "delivery": delivery, "peer_to_peer": False,
        "results": RESULTS, "complete": True, "reason": None, **more,
    }  # fmt: skip


SUMMARY = """
CONFIGURATION

Sender ............................................... pyfast
Receiver ............................................. pyfast
URL ...................................................... q0
Output files ........................... /tmp/quiver-ljt_ztl1
Duration ................................................. 10 seconds
Body size ............................................... 100 bytes
Credit window ......................................... 1,000 messages

RESULTS

Count ............................................. 3,032,565 messages
Duration ................................................ 9.8 seconds
Sender rate ......................................... 310,586 messages/s
Receiver rate ....................................... 310,618 messages/s
End-to-end rate ..................................... 310,427 messages/s

Latencies by percentile:

          0% ........ 1 ms       90.00% ........ 2 ms
         25% ........ 2 ms       99.00% ........ 3 ms
         50% ........ 2 ms       99.90% ........ 6 ms
        100% ........ 7 ms       99.99% ........ 6 ms
"""


def test_pair_summary_is_upstreams():
    assert pair_summary_text(pair(SENT, RECEIVED)) == SUMMARY


def test_a_percentile_alone_has_a_row(monkeypatch):
    longer = (("0", "25", "50"), ("90", "99", "99.9", "99.99"))
    monkeypatch.setattr("quiver_fast.analysis.sections.run.SUMMARY", longer)
    line = "                                 99.99% ........ 6 ms"
    assert line in pair_summary_text(pair(SENT, RECEIVED)).splitlines()


def test_peers_follow_the_url():
    """A foreign arrow has no report, and both arrows of a run may have found the same peer."""
    peer = {"product": "RabbitMQ", "version": "3.10", "container": "r@h", "address": "::1",
            "port": 5672}  # fmt: skip
    line = text_field("Peer", "RabbitMQ 3.10 at [::1]:5672")
    known = {"arrow": {"peer": peer}}
    for sides in ((known, known), ({"arrow": None}, known)):
        text = pair_summary_text(pair(SENT | sides[0], RECEIVED | sides[1]))
        assert text.splitlines()[5:7] == [text_field("URL", "q0"), line]
    other = {"arrow": {"peer": peer | {"address": "::2"}}}
    lines = pair_summary_text(pair(SENT | known, RECEIVED | other)).splitlines()
    assert lines[6:8] == [line, line.replace("::1", "::2")]
    ends = [known | {"role": role, "members": []} for role in ("sender", "receiver")]
    lines = pair_summary_text(pair(SENT, RECEIVED, ends=ends)).splitlines()
    assert lines[6:8] == [line, text_field("Output files", "/tmp/quiver-ljt_ztl1")]


@pytest.mark.parametrize(
    ("peer", "text"),
    [
        ({}, None),
        (None, None),
        ("a word", None),
        ({"product": "P", "version": None, "container": "c"}, "P"),
        ({"container": "c"}, "c (its container id; it names no product)"),
        ({"address": "127.0.0.1", "port": 9876, "product": None}, "127.0.0.1:9876"),
        ({"product": "P", "version": 7, "address": "h", "port": "x"}, "P"),
    ],
)
def test_the_text_of_a_peer(peer, text):
    found = peers_of([None, {"arrow": {"peer": peer}}], peer_to_peer=False)
    assert found == ([] if text is None else [text])


def test_two_arrows_are_each_others_peers():
    text = pair_summary_text(pair(SENT, RECEIVED) | {"peer_to_peer": True})
    assert text.splitlines()[6] == text_field("Peer", "the other end")


def test_optional_configuration_lines():
    changed = config("send", count=5000, duration=0, transaction_size=10, durable=True,
                     set_message_id=True)  # fmt: skip
    text = pair_summary_text(pair(SENT | {"config": changed}, RECEIVED))
    assert text.splitlines()[7:13] == [
        number_field("Count", 5000, "messages"),
        number_field("Body size", 100, "bytes"),
        number_field("Credit window", 1000, "messages"),
        number_field("Transaction size", 10, "messages"),
        text_field("Durable", "Yes"),
        text_field("Set message ID", "Yes"),
    ]


def test_our_sections_come_after_upstreams():
    delivery = {
        "method": "per-millisecond lower bound", "sent": 10, "received": 9, "lost": 1,
        "duplicate": 0, "reordered": 0, "foreign": None, "negative_latency": 0, "released": 3,
        "rejected": 0,
    }  # fmt: skip
    schedule = SCHEDULE | {"late_us": {"p50": 12}}
    text = pair_summary_text(pair(SENT | {"schedule": schedule}, RECEIVED, delivery))
    assert text.startswith(SUMMARY)
    assert text.removeprefix(SUMMARY).splitlines() == [
        "", "DELIVERY", "",
        text_field("Matching", "send times in ms: least possible counts"),
        number_field("Sent", 10, "messages"),
        number_field("Received", 9, "messages"),
        number_field("Lost", 1, lost_text(None, "messages")),
        number_field("Duplicate", 0, "messages"),
        number_field("Reordered", 0, "messages"),
        number_field("Negative latency", 0, "messages"),
        number_field("Released", 3, "messages"),
        "", "SCHEDULE", "",
        number_field("Target rate", 100, "messages/s"),
        number_field("Achieved rate", 99.9, "messages/s"),
        number_field("Due", 100, "messages"),
        number_field("Never sent", 0, "messages"),
        number_field("Send delay p50", 12, "us", ".1f"),
        text_field("Rate missed", "No"),
    ]  # fmt: skip


def test_percentiles_are_in_the_unit_that_shows_them():
    """Upstream's columns; a unit for each value, three significant digits."""
    section = latencies("us", 0.0, 9.96, 10.24, 1_204_000.0, 364.0, 3642.0, 99_950.0, 1_000_000.0)
    text = pair_summary_text(pair(SENT, RECEIVED | {"latency": section}))
    assert text.splitlines()[-4:] == [
        "          0% ........ 0 us       90.00% ...... 364 us",
        "         25% ..... 9.96 us       99.00% ..... 3.64 ms",
        "         50% ..... 10.2 us       99.90% ...... 100 ms",
        "        100% ..... 1.20 s        99.99% ..... 1.00 s",
    ]


def test_unreceived_messages_are_told_apart():
    delivery = {
        "method": "ids", "sent": 100, "received": 90, "older": 50_000, "foreign": 0,
        "unreceived": 10, "lost": 4, "duplicate": 0, "reordered": 0, "negative_latency": 0,
        "told_apart_by": "ids",
    }  # fmt: skip
    more = {"drain": {"seconds": 2.1, "messages": 63_120},
            "queue_growth": {"per_second": 31_103.2, "messages": 62_000}}  # fmt: skip
    document = pair(SENT, RECEIVED, delivery, **more)
    ends = {"sender": None, "receiver": None, "delivery": {"sent": 70_000}, "clock_step": None}
    # Both rates over the same time: they differ by the growth.
    [warning] = pair_warnings(ends | more)
    assert warning == ("within the 2.0 s of sending, 35,116 messages/s were sent and 4,013/s "
                       "received: the queue grew by 31,103 messages/s")  # fmt: skip
    lines = [
        "", "DELIVERY", "",
        text_field("Matching", "message ids: exact counts"),
        number_field("Sent", 100, "messages"),
        number_field("Received", 90, "messages"),
        number_field("Unreceived", 10, "messages"),
        number_field("Lost", 4, lost_text(None, "messages")),
        number_field("Duplicate", 0, "messages"),
        number_field("Reordered", 0, "messages"),
        number_field("Foreign", 0, "messages"),
        number_field("Negative latency", 0, "messages"),
        number_field("Older messages", 50_000, "(left by an earlier run)"),
        text_field("Recognition", "ids"),
    ]  # fmt: skip
    drained = [
        number_field("Drained", 63_120, "messages in 2.1 s"),
        number_field("Queue growth", 31_103, "messages/s"),
    ]
    text = pair_summary_text(document)
    assert text.removeprefix(SUMMARY).splitlines() == lines + drained
    direct = pair_summary_text(document | {"peer_to_peer": True, "queue_growth": None})
    whole = [line.removesuffix(lost_text(None, "")) for line in lines[2:]]
    assert direct.partition("\nDELIVERY\n")[2].splitlines() == whole


@pytest.mark.parametrize("reason", ["sender (pyfast) failed: no transfers", None])
def test_an_incomplete_run_says_so_before_its_figures(reason):
    mark = f"\nINCOMPLETE\n\n{reason or 'the run does not say why'}\n"
    document = pair(SENT, RECEIVED) | {"complete": False, "reason": reason}
    assert pair_summary_text(document) == mark + SUMMARY
    summary = RECEIVED | {"complete": False, "reason": reason}
    assert arrow_summary_text(summary) == mark + arrow_summary_text(RECEIVED)


def test_settlement_has_a_section():
    values = (0.0, 1.0, 50.0, 900.0, 99.0, 99.0, 300.0, 400.0)
    everything, sampled = latencies("us", *values), latencies("us", *(2 * v for v in values))
    settlement = {"all": everything, "sampled": sampled, "unsettled": 3}
    text = arrow_summary_text(SENT | {"settlement": settlement})
    shown = text.removeprefix(arrow_summary_text(SENT)).splitlines()
    assert shown == [
        "", "SETTLEMENT", "",
        number_field("Latency 50%", 50, "us", ".1f"),
        number_field("Latency 99%", 99, "us", ".1f"),
        number_field("Latency 99.9%", 300, "us"),
        number_field("Latency 100%", 900, "us"),
        number_field("Sampled 50%", 100, "us"),
        number_field("Sampled 99%", 198, "us"),
        number_field("Sampled 99.9%", 600, "us"),
        number_field("Sampled 100%", 1.8, "ms", ".2f"),
        number_field("Settled", 50_000, "messages"),
        number_field("Sampled", 50_000, "messages"),
        number_field("Unsettled", 3, "messages"),
    ]  # fmt: skip


def test_percentiles_are_marked_where_messages_were_never_sent():
    latency = RECEIVED["latency"] | {"with_never_sent": {"never_sent": 81_697}}
    text = pair_summary_text(pair(SENT, RECEIVED | {"latency": latency}))
    assert "\n\nof the messages that were sent; 81,697 were due and never sent\n" in text
    assert "never sent" not in pair_summary_text(pair(SENT, RECEIVED))


def test_a_rate_that_cannot_be_told_is_not_said():
    schedule = SCHEDULE | {"achieved": None, "late_us": None, "missed": None}
    assert "Rate missed" not in arrow_summary_text(SENT | {"schedule": schedule})


def test_an_empty_run_has_a_summary_too():
    nothing = results(message_count=0, message_rate=None)
    latency = {"unit": "ms", "count": 0, "percentiles": {}}
    received = {"config": config("receive"), "results": nothing, "latency": latency}
    sent = {"config": config("send"), "results": nothing}
    text = pair_summary_text(pair(sent, received, results=dict.fromkeys(RESULTS)))
    assert text_field("End-to-end rate", "too few messages for a rate") in text
    assert "Latencies" not in text


def test_arrow_summary():
    lines = arrow_summary_text(RECEIVED).splitlines()
    assert lines[3] == text_field("Receiver", "pyfast")
    assert number_field("Receiver rate", 310_618, "messages/s") in lines
    assert number_field("Duration", 9.768, "seconds", ",.1f") in lines
    assert lines[-4:] == SUMMARY.splitlines()[-4:]


def test_streaming_adds_two_columns():
    sender = replace(SENDER, period_bytes=3_000_000_000)
    receiver = replace(RECEIVER, period_bytes=2_468_024_690)
    row = table_row(1_000_000_000, "ms", sender, receiver)
    lines = f"{heading('ms', streaming=True)}\n{row}".splitlines()
    plain = TABLE.splitlines()
    assert [line[: len(old)] for line, old in zip(lines, plain, strict=True)] == plain
    assert [line[len(old) :] for line, old in zip(lines, plain, strict=True)] == [
        "  --- Bodies [MB/s] ----",
        "      Sender    Receiver",
        "  ----------------------",
        "     1,500.0     1,234.0",
    ]
    assert table_row(1_000_000_000, "ms", None, receiver).endswith("           -     1,234.0")


def test_streaming_has_a_section_after_upstreams():
    latency = {
        "unit": "us",
        "percentiles": {"50": 280.0, "99": 1281.0, "99.9": 2e3, "100": 12_901.0},
    }
    section = {"body_bytes": 10_000, "throughput": 2.5e9, "first_byte_latency": latency}
    plain = arrow_summary_text(RECEIVED)
    text = arrow_summary_text({**RECEIVED, "streaming": section})
    assert text.startswith(plain)
    assert text[len(plain) :].split("\n") == [
        "", "STREAMING", "",
        number_field("Bodies", 10_000, "bytes"),
        number_field("Throughput", 2500, "MB/s", ",.1f"),
        number_field("First byte 50%", 280, "us"),
        number_field("First byte 99%", 1.28, "ms", ".2f"),
        number_field("First byte 100%", 12.9, "ms", ".1f"),
        "",
    ]  # fmt: skip


@pytest.mark.parametrize(("unit", "shown"), [("us", "4,210"), ("ms", "4")])
def test_settlement_adds_a_column_of_the_sender(unit, shown):
    sender = replace(SENDER, settlement_us=4210.4)
    row = table_row(1_000_000_000, unit, sender, RECEIVER, settlement=True)
    lines = f"{heading(unit, settlement=True)}\n{row}".splitlines()
    plain_row = table_row(1_000_000_000, unit, sender, RECEIVER)
    plain = f"{heading(unit)}\n{plain_row}".splitlines()
    # 13 columns are put in after the sender's 53; the lines above only get longer.
    assert [line[:53] + line[66:] for line in lines[1:]] == plain[1:]
    assert {len(line) for line in lines} == {len(plain[0]) + 13}
    assert [line[53:66] for line in lines[1:]] == [
        f"  Settle [{unit}]", "-" * 13, f"{shown:>13}",
    ]  # fmt: skip
    quiet = replace(sender, settlement_us=None)
    assert table_row(1_000_000_000, unit, quiet, RECEIVER, settlement=True)[53:66] == f"{'-':>13}"
    assert table_row(1_000_000_000, unit, None, RECEIVER, settlement=True)[53:66] == f"{'-':>13}"


# ---- The summary on a terminal --------------------------------------------------------


def test_a_plain_run_has_a_row_for_options_and_figures():
    peer = {"arrow": {"peer": {"product": "RabbitMQ", "version": "4.1", "address": "h", "port": 5}}}
    delivery = {"method": "ids", "sent": 10, "received": 10, "released": 0, "rejected": 0}
    nothing = {"drain": {"messages": 0, "seconds": 0.0}, "queue_growth": {"per_second": 0}}
    run = pair(SENT | peer, RECEIVED, delivery, output_dir="/tmp/r", **nothing)
    assert run_rows(run) == [
        ("Target", "q0"),
        ("Peer", "RabbitMQ 4.1 at h:5"),
        ("Implementation", "sender pyfast, receiver pyfast"),
        ("Load", "as fast as possible, bodies of 100 B, credit 1,000"),
        ("Rates", "310,586 sent/s, 310,618 received/s, in 9.8 s"),
        ("Latency", "min 1 ms, p25 2 ms, p90 2 ms, p99.99 6 ms"),
        ("Files", "/tmp/r"),
    ]


def test_large_bodies_have_their_rate_in_bytes():
    run = pair(SENT, RECEIVED, queue_growth=None)
    run["results"] = RESULTS | {"body_rate": 12_345_678.9}
    words = "310,586 sent/s, 310,618 received/s, bodies 12.3 MB/s, in 9.8 s"
    assert ("Rates", words) in run_rows(run)
    assert re.search(r"End-to-end rate.*\nBody rate \.+ 12\.3 MB/s\n", pair_summary_text(run))


def test_other_sections_of_a_run_have_rows_too():
    late = {"p50": 9, "p99": 600, "max": 1000}
    by = {"credit": {"p99.9": 400, "max": 900}, "itself": {"p99": 600, "p99.9": 600, "max": 700},
          "socket": {"p99.9": 0, "max": 0}}  # fmt: skip
    schedule = SCHEDULE | {"never_sent": 1, "missed": True, "late_us": late, "late_by_us": by}
    first = latencies("us", 0.0, 1.0, 50.0, 900.0, 99.0, 99.0, 300.0, 400.0)
    settlement = {"all": first, "sampled": {"count": 0}, "unsettled": 3}
    ends = {"ends": {"senders": 50, "receivers": 1}}
    sender = SENT | {
        "schedule": schedule, "settlement": settlement, "config": SENT["config"] | ends,
    }  # fmt: skip
    throughput = {"body_bytes": 9, "throughput": 8.12e8, "first_byte_latency": first}
    found = {"least": 0.098, "most": 0.102, "ratio": 0.9608}
    run = pair(
        sender, RECEIVED | {"streaming": throughput},
        {"method": "ids", "sent": 10, "received": 9, "released": 3}, output_dir="/tmp/r",
        drain={"messages": 1, "seconds": 2.13}, queue_growth={"per_second": 31_103.2},
        fairness={"senders": found, "receivers": None},
        backlog={"messages": 5_000, "seconds": 1.5, "rate": 3_333.3, "steady_p50_us": 9.0,
                 "recovered_seconds": None},
    )  # fmt: skip
    rows = run_rows(run)
    assert rows[1] == ("Implementation", "50 senders pyfast, receiver pyfast")
    assert rows[5:-1] == [
        ("Outcomes", "3 released"),
        ("Drained", "1 message in 2.1 s"),
        ("Queue", "grew by 31,103 messages/s"),
        ("Backlog", "5,000 messages, drained in 1.5 s, 3,333/s"),
        ("Settlement", "p50 50.0 us, p99 99.0 us, p99.9 300 us, max 900 us, 3 unsettled"),
        ("Schedule", "100 messages/s asked, 99.9 kept, 1 of 100 never sent, RATE MISSED"),
        ("Send delay", "p50 9.00 us, p99 600 us, max 1.00 ms"),
        (
            "of it",
            "waited for credit p99.9 400 us, max 900 us, late itself p99.9 600 us, max 700 us",
        ),
        ("", "15 % of the 99 % latency arose before sending, because the sender was late:"),
        ("", "give it a CPU of its own, or ask for a lower rate"),
        ("Streaming", "812.0 MB/s, first byte p50 50.0 us, p99 99.0 us, max 900 us"),
        ("Shares", "senders 9.8 % to 10.2 % each, smallest by largest 0.961"),
    ]


def test_one_arrow_has_rows_of_its_own():
    assert run_rows(run_of(SENT)) == [
        ("Target", "q0"),
        ("Implementation", "sender pyfast"),
        ("Load", "as fast as possible, bodies of 100 B, credit 1,000"),
        ("Files", "/tmp/quiver-ljt_ztl1"),
    ]
    # It does not know the sender's options.
    assert run_rows(run_of(RECEIVED))[2] == ("Load", "credit 1,000")
    assert run_rows(run_of(RECEIVED | {"config": None})) == [
        ("Latency", "min 1 ms, p25 2 ms, p90 2 ms, p99.99 6 ms")
    ]


def test_verdicts_are_rows():
    one = {"condition": "p99>5ms", "reason": None, "value": 6.0, "unit": "ms", "never_sent": None,
           "breached": True, "inconclusive": None, "run": "r"}  # fmt: skip
    two = one | {"reason": "no latencies", "breached": False}
    three = two | {"condition": "worse", "reason": None, "value": 0, "unit": "figures",
                   "inconclusive": "more runs are needed"}  # fmt: skip
    assert brief_rows([verdict_section([one, two, three])]) == [
        ("Threshold", "p99>5ms: 6 ms, BREACHED"),
        ("Threshold", "p99>5ms: no latencies, ok"),
        ("Threshold", "worse: 0 figures, INCONCLUSIVE: more runs are needed"),
    ]
