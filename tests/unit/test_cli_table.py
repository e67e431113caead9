"""The layout of upstream's table and summary, column by column from the specification."""

from dataclasses import replace

import pytest

from quiver_fast.cli.snapshots import Snapshot
from quiver_fast.cli.summary_text import (
    arrow_summary_text,
    number_field,
    pair_results,
    pair_summary_text,
    text_field,
)
from quiver_fast.cli.table import HEADING, STREAMING_HEADING, table_row

SENDER = Snapshot(1_000_002_300, 2000, 1_202_970, 1_201_768, 0, 3760, 3760, 22_732_800)
RECEIVER = Snapshot(1_000_002_100, 2000, 1_210_056, 1_209_452, 1, 3760, 3770, 5_632_000)

# The sample in upstream's README, with the figures of the snapshots above.
TABLE = """\
---------------------- Sender -----------------------  --------------------- Receiver ----------------------  --------
Time [s]      Count [m]  Rate [m/s]  CPU [%]  RSS [M]  Time [s]      Count [m]  Rate [m/s]  CPU [%]  RSS [M]  Lat [ms]
-----------------------------------------------------  -----------------------------------------------------  --------
     2.3      1,202,970     600,884      188     22.2       2.1      1,210,056     604,726      188      5.5         1"""  # noqa: E501


def test_table_is_upstreams():
    assert HEADING + "\n" + table_row(1_000_000_000, SENDER, RECEIVER) == TABLE


def test_columns():
    widths = [8, 13, 10, 7, 7] * 2 + [8]
    names = ["Time [s]", "Count [m]", "Rate [m/s]", "CPU [%]", "RSS [M]"] * 2 + ["Lat [ms]"]
    cells = [name.rjust(width) for name, width in zip(names, widths, strict=True)]
    assert HEADING.splitlines()[1] == "  ".join(cells)
    assert HEADING.splitlines()[2] == "-" * 53 + "  " + "-" * 53 + "  " + "-" * 8


def test_a_missing_sender_shows_dashes():
    row = table_row(1_000_000_000, None, RECEIVER)
    assert row.split()[:5] == ["-"] * 5
    assert len(row) == len(HEADING.splitlines()[0])


def test_what_is_not_known_shows_a_dash():
    idle = Snapshot(1_000_004_100, 2000, 10, 0, 0, 0, 0, 0)
    assert table_row(1_000_000_000, None, idle).split()[-1] == "-"
    at_once = Snapshot(1_000_000_000, 0, 10, 10, -3, 5, 5, 1024)
    assert table_row(1_000_000_000, None, at_once).split()[5:] == [
        "0.0",
        "10",
        "-",
        "-",
        "0.0",
        "-3",
    ]


@pytest.mark.parametrize("value", ["pyfast", "/tmp/quiver-ljt_ztl1"])
def test_text_field(value):
    line = text_field("Sender", value)
    assert line == ("Sender " + "." * 12) + "." * (42 - 1 - len(value)) + " " + value
    assert len(line) == 19 + 42


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (number_field("Count", 8005111, "messages"),
         "Count ............................................. 8,005,111 messages"),
        (number_field("Duration", 9.84, "seconds", ",.1f"),
         "Duration ................................................ 9.8 seconds"),
        (number_field("Sender rate", None, "messages/s"),
         "Sender rate " + "." * 12 + "." * 35 + " - messages/s"),
    ],
)  # fmt: skip
def test_number_field(line, expected):
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
    assert pair_summary_text(SENT, RECEIVED, None) == SUMMARY


def test_optional_configuration_lines():
    changed = config("send", count=5000, duration=0, transaction_size=10, durable=True,
                     set_message_id=True)  # fmt: skip
    text = pair_summary_text({"config": changed, "results": SENT["results"]}, RECEIVED, None)
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
        "duplicate": 0, "reordered": 0, "foreign": None, "negative_latency": 0,
    }  # fmt: skip
    schedule = {"rate": 100, "achieved": 99.9, "late_us": {"p50": 12}, "missed": False}
    text = pair_summary_text(SENT | {"schedule": schedule}, RECEIVED, delivery)
    assert text.startswith(SUMMARY)
    assert text.removeprefix(SUMMARY).splitlines() == [
        "", "DELIVERY", "",
        text_field("Method", "per-millisecond lower bound"),
        number_field("Sent", 10, "messages"),
        number_field("Received", 9, "messages"),
        number_field("Lost", 1, "messages"),
        number_field("Duplicate", 0, "messages"),
        number_field("Reordered", 0, "messages"),
        number_field("Negative latency", 0, "messages"),
        "", "SCHEDULE", "",
        number_field("Target rate", 100, "messages/s"),
        number_field("Achieved rate", 99.9, "messages/s"),
        number_field("Send delay p50", 12, "us"),
        text_field("Rate missed", "No"),
    ]  # fmt: skip


def test_an_empty_run_has_a_summary_too():
    nothing = results(message_count=0, message_rate=None)
    text = pair_summary_text(
        {"config": config("send"), "results": nothing},
        {"config": config("receive"), "results": nothing},
        None,
    )
    assert number_field("End-to-end rate", None, "messages/s") in text
    assert "Latencies" not in text
    assert pair_results(nothing, nothing)["duration"] is None


def test_arrow_summary():
    lines = arrow_summary_text(RECEIVED).splitlines()
    assert lines[3] == text_field("Receiver", "pyfast")
    assert number_field("Receiver rate", 310_618, "messages/s") in lines
    assert number_field("Duration", 9.768, "seconds", ",.1f") in lines
    assert lines[-4:] == SUMMARY.splitlines()[-4:]


def test_streaming_adds_two_columns():
    sender = replace(SENDER, period_bytes=3_000_000_000)
    receiver = replace(RECEIVER, period_bytes=2_468_024_690)
    lines = (STREAMING_HEADING + "\n" + table_row(1_000_000_000, sender, receiver)).splitlines()
    plain = TABLE.splitlines()
    assert [line[: len(old)] for line, old in zip(lines, plain, strict=True)] == plain
    assert [line[len(old) :] for line, old in zip(lines, plain, strict=True)] == [
        "  --- Bodies [MB/s] ----",
        "      Sender    Receiver",
        "  ----------------------",
        "     1,500.0     1,234.0",
    ]
    assert table_row(1_000_000_000, None, receiver).endswith("           -     1,234.0")


def test_streaming_has_a_section_after_upstreams():
    latency = {"unit": "us", "percentiles": {"50": 280.0, "99": 281.0, "100": 290.0}}
    section = {"body_bytes": 10_000, "throughput": 2.5e9, "first_byte_latency": latency}
    plain = arrow_summary_text(RECEIVED)
    text = arrow_summary_text({**RECEIVED, "streaming": section})
    assert text.startswith(plain)
    assert text[len(plain) :].split("\n") == [
        "", "STREAMING", "",
        number_field("Bodies", 10_000, "bytes"),
        number_field("Throughput", 2500, "MB/s", ",.1f"),
        number_field("First byte 50%", 280, "us"),
        number_field("First byte 99%", 281, "us"),
        number_field("First byte 100%", 290, "us"),
        "",
    ]  # fmt: skip
