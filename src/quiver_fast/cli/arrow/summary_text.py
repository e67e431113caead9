"""The printed summary: pure functions from summary documents to text of upstream's layout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

from quiver_fast.analysis.figures.delivery import matching_text
from quiver_fast.analysis.figures.each_end import shown_of_each, slowest
from quiver_fast.analysis.figures.environment import host_use_text, peer_use_text, starved_text
from quiver_fast.analysis.figures.peers import peers_of
from quiver_fast.analysis.figures.schedule import LATE_BY
from quiver_fast.analysis.model.ranks import SECTIONS, STREAMING, SUMMARY, known_ranks
from quiver_fast.analysis.model.units import (
    NO_RATE,
    body_rate_text,
    latency_text,
    per_millisecond,
    rate_digits,
)
from quiver_fast.cli.arrow.steps_text import step_lines
from quiver_fast.options.arrow import ARROW_OPTIONS
from quiver_fast.words import counted

# Rates below have decimals; in messages/s.
_LOW_RATE = 10
# The text tells a share of the send delay in a latency that is larger.
_RANKS = ("p99.9", "max")
# Why messages went late, and advice; None is not known.
_CAUSES = {
    "credit": (
        "is the time that messages waited for credit",
        "the target took none then: it, its receivers or the path were slow, or stood still",
    ),
    "socket": (
        "is the time that messages waited for room in the socket",
        "the target read too slowly, or stood still",
    ),
    "outcomes": (
        "is the time that messages waited for outcomes of others",
        "the target was slow to settle or to commit, or stood still",
    ),
    "itself": (
        "arose before sending, because the sender was late",
        "give it a CPU of its own, or ask for a lower rate",
    ),
    None: ("is the delay of messages that went late", "their sender does not say why"),
}
_OWN_SHARE = 0.1
# A sleeper of the kernel may wake so late: no CPU of its own would change that.
_NO_REASON_US = 100
_DELIVERY_LINES = {
    "Sent": "sent",
    "Received": "received",
    "Unreceived": "unreceived",
    "Lost": "lost",
    "Duplicate": "duplicate",
    "Reordered": "reordered",
    "Foreign": "foreign",
    "Negative latency": "negative_latency",
}


def text_field(name: str, value: str) -> str:
    """Return a line such as ``Sender ......... pyfast``, 61 columns wide."""
    return f"{name + ' ':.<19}{' ' + value:.>42}"


def number_field(name: str, value: float | None, unit: str, form: str = ",.0f") -> str:
    """Return a line such as ``Count ......... 1,000 messages``; ``-`` for None."""
    shown = "-" if value is None else format(value, form)
    return f"{name + ' ':.<24}{' ' + shown:.>37} {unit}"


def rate_field(name: str, value: float | None) -> str:
    """Return a line such as ``Target rate ...... 0.5 messages/s``: low rates have decimals.

    None is the rate of messages that span no time.
    """
    if value is None:
        return text_field(name, NO_RATE)
    is_low = value < _LOW_RATE
    return number_field(name, value, "messages/s", ".3g" if is_low else ",.0f")


def latency_field(name: str, ticks: float | None, unit: str) -> str:
    """Return a line such as ``First byte 50% ...... 10.2 us`` of a latency in ticks of ``unit``."""
    if ticks is None:
        return number_field(name, None, unit)
    shown, shown_unit = latency_text(ticks, unit).split(" ")
    return f"{name + ' ':.<24}{' ' + shown:.>37} {shown_unit}"


def latency_lines(latency: dict[str, Any], name: str = "Latency") -> list[str]:
    """Return lines of the percentiles of a section that ``exact_latency`` made."""
    return [
        latency_field(f"{name} {rank}%", latency["percentiles"][rank], latency["unit"])
        for rank in known_ranks(SECTIONS, latency["count"])
    ]


def pair_summary_text(document: dict[str, Any]) -> str:
    """Return the summary that `quiver` prints, from the document that ``--json`` prints.

    Both ends are there. Where their summaries have no configuration, neither has the text.
    """
    sender, receiver, results = (document[key] for key in ("sender", "receiver", "results"))
    figures = [
        number_field("Count", results["message_count"], "messages"),
        number_field("Duration", results["duration"], "seconds", ",.1f"),
        rate_field("Sender rate", results["sender_rate"]),
        rate_field("Receiver rate", results["receiver_rate"]),
        rate_field("End-to-end rate", results["end_to_end_rate"]),
    ]
    if "body_rate" in results:
        figures.append(text_field("Body rate", body_rate_text(results["body_rate"])))
    warmup = receiver.get("warmup")
    if warmup:
        figures.insert(
            1, number_field("Left out", warmup["message_count"], "messages of the warm-up")
        )
    sections = [_incomplete(document), _configuration([sender, receiver], document)]
    sections.append(_results(figures, receiver["latency"]))
    sections.append(_delivery(document["delivery"], document))
    if document.get("backlog") is not None:
        sections.append(section("BACKLOG", _backlog_lines(document["backlog"])))
    sections += _additions(sender, receiver.get("streaming"), receiver["latency"])
    sections.append(_starved(document))
    if document.get("steps"):
        sections.append(section("STEPS", step_lines(document["steps"])))
    if document.get("fairness") is not None:
        sections.append(section("FAIRNESS", _fairness_lines(document["fairness"])))
    if document.get("ends"):
        sections.append(section("ENDS", _end_lines(document["ends"])))
    if document.get("queues"):
        sections.append(section("QUEUES", _queue_lines(document["queues"])))
    return "".join(sections)


def arrow_summary_text(summary: dict[str, Any]) -> str:
    """Return the summary that `quiver-arrow --summary` prints, from the arrow's summary.

    Where the summary has no configuration, neither has the text.
    """
    results = summary["results"]
    role, event = ("Sender", "send") if _sends(summary) else ("Receiver", "receive")
    first, last = results[f"first_{event}_time"], results[f"last_{event}_time"]
    duration = None if first is None else (last - first) / 1000
    figures = [
        number_field("Count", results["message_count"], "messages"),
        number_field("Duration", duration, "seconds", ",.1f"),
        rate_field(f"{role} rate", results["message_rate"]),
    ]
    sections = [_incomplete(summary), _configuration([summary], {})]
    sections.append(_results(figures, summary.get("latency")))
    sections.append(_delivery(summary.get("delivery"), {}))
    sections += _additions(summary, summary.get("streaming"))
    role = "sender" if _sends(summary) else "receiver"
    return "".join([*sections, _starved({role: summary})])


def _incomplete(document: dict[str, Any]) -> str:
    """Warn that an incomplete run's figures are of a part of it."""
    if document.get("complete") is not False:
        return ""
    return section("INCOMPLETE", [document["reason"] or "the run does not say why"])


def _sends(summary: dict[str, Any]) -> bool:
    if summary["config"] is not None:
        return bool(summary["config"]["operation"] == "send")
    return "delivery" not in summary


def _configuration(summaries: list[dict[str, Any]], document: dict[str, Any]) -> str:
    """Return the options and the arrows; ``document`` has the ends of a whole run."""
    configs = [summary["config"] for summary in summaries if summary["config"] is not None]
    if not configs:
        return ""
    config = configs[0]
    roles = {"send": "Sender", "receive": "Receiver"}
    ends = config.get("ends") or {}
    names = {"send": ends.get("senders"), "receive": ends.get("receivers")}
    lines = [
        *(
            text_field(roles[one["operation"]], _implementation(one, names[one["operation"]]))
            for one in configs
        ),
        text_field("URL", config["url"]),
        *(text_field("Peer", peer) for peer in _peers(summaries, document)),
        *(text_field("Peer's process", used) for used in _peer_uses(summaries)),
        text_field("Output files", config["output_dir"]),
    ]
    if ends.get("queues") and config["connection_mode"] == "client":
        lines.append(text_field("Queues", f"{ends['queues']:,}"))
    if config["count"]:
        lines.append(number_field("Count", config["count"], "messages"))
    if config["duration"]:
        lines.append(number_field("Duration", config["duration"], "seconds"))
    if config.get("warmup"):
        lines.append(number_field("Warm-up", config["warmup"], "seconds", ",g"))
    lines.append(_body_size(config["body_size"]))
    lines.append(number_field("Credit window", config["credit_window"], "messages"))
    if config["transaction_size"]:
        lines.append(number_field("Transaction size", config["transaction_size"], "messages"))
    if config["durable"]:
        lines.append(text_field("Durable", "Yes"))
    if config["set_message_id"]:
        lines.append(text_field("Set message ID", "Yes"))
    lines += [
        text_field(option.title, str(config[option.name]))
        for option in ARROW_OPTIONS
        if option.title and config.get(option.name)
    ]
    properties = config.get("properties") or {}
    if properties:
        shown = ", ".join(f"{name}={value}" for name, value in properties.items())
        lines.append(text_field("Properties", shown))
    return section("CONFIGURATION", lines)


def _body_size(size: int | str) -> str:
    if isinstance(size, str):
        return text_field("Body sizes", f"{size} bytes")
    return number_field("Body size", size, "bytes")


def _peers(summaries: list[dict[str, Any]], document: dict[str, Any]) -> list[str]:
    # The summary of many ends has no report of an arrow; the summaries of the ends have.
    ends = [*summaries, *(document.get("ends") or ())]
    return peers_of(ends, peer_to_peer=bool(document.get("peer_to_peer")))


def _peer_uses(summaries: list[dict[str, Any]]) -> list[str]:
    found = (peer_use_text(summary.get("host_use")) for summary in summaries)
    return [used for used in found if used is not None][:1]


def _implementation(config: dict[str, Any], ends: int | None) -> str:
    """Return the implementation of an end, with the number of ends where there are many."""
    return f"{config['impl']}" if ends is None else f"{ends:,} x {config['impl']}"


def _results(figures: list[str], latency: dict[str, Any] | None) -> str:
    text = section("RESULTS", figures)
    if latency is None or latency["count"] == 0:
        return text
    lines = ["", "Latencies by percentile:", ""]
    for left, right in zip_longest(*SUMMARY):
        lines.append(f"{_cell(latency, left, 'g')} {_cell(latency, right, '.2f')}".rstrip())
    lines += _never_sent_lines(latency)
    return text + "\n".join(lines) + "\n"


def _cell(latency: dict[str, Any], rank: str | None, digits: str) -> str:
    """Return a percentile, or as much space where a column has no more of them."""
    if rank is None:
        return " " * 26
    value, unit = latency_text(latency["percentiles"][rank], latency["unit"]).split(" ")
    return f"{format(float(rank), digits) + '%':>12} {' ' + value:.>10} {unit:<2}"


def _never_sent_lines(latency: dict[str, Any]) -> list[str]:
    """Say that the percentiles are not of all messages that were due, where that is so."""
    if "with_never_sent" not in latency:
        return []
    missing = latency["with_never_sent"]["never_sent"]
    return ["", f"of the messages that were sent; {missing:,} were due and never sent"]


def _delivery(delivery: dict[str, Any] | None, document: dict[str, Any]) -> str:
    """Return the reckoning of the messages; ``document`` has the drain of a whole run."""
    if delivery is None:
        return ""
    lines = [text_field("Matching", matching_text(delivery["method"]))]
    lines += [
        number_field(name, delivery[key], "messages")
        for name, key in _DELIVERY_LINES.items()
        if delivery.get(key) is not None
    ]
    if delivery.get("unreceived") and delivery["lost"] is None:
        lines.append(text_field("Lost", "not known"))
    for name, key in (("Released", "released"), ("Rejected", "rejected")):
        if delivery.get(key):
            lines.append(number_field(name, delivery[key], "messages"))
    if delivery.get("older"):
        lines.append(number_field("Older messages", delivery["older"], "(left by an earlier run)"))
    if delivery.get("told_apart_by") and (delivery.get("older") or delivery["foreign"]):
        lines.append(text_field("Recognition", delivery["told_apart_by"]))
    drain, growth = document.get("drain"), document.get("queue_growth")
    if drain is not None and not document["peer_to_peer"]:
        took = f"messages in {drain['seconds']:,.1f} s"
        lines.append(number_field("Drained", drain["messages"], took))
    if growth is not None:
        lines.append(number_field("Queue growth", growth["per_second"], "messages/s"))
    return section("DELIVERY", lines)


def _additions(
    sender: dict[str, Any],
    streaming: dict[str, Any] | None,
    latency: dict[str, Any] | None = None,
) -> list[str]:
    """Return our own sections after the delivery."""
    sections = []
    if "settlement" in sender:
        sections.append(section("SETTLEMENT", _settlement_lines(sender["settlement"])))
    if "schedule" in sender:
        lines = _schedule_lines(sender["schedule"])
        if latency is not None:
            lines += lateness_lines(sender["schedule"], latency, sender.get("host_use"))
        sections.append(section("SCHEDULE", lines))
    if streaming is not None:
        sections.append(section("STREAMING", _streaming_lines(streaming)))
    return sections


def _backlog_lines(backlog: dict[str, Any]) -> list[str]:
    """Return how long the queue took to drain, and latencies to come back."""
    return [
        number_field("Backlog", backlog["messages"], "messages"),
        number_field("Drained in", backlog["seconds"], "seconds", ",.1f"),
        number_field("Drain rate", backlog["rate"], "messages/s"),
        latency_field("Steady latency 50%", backlog["steady_p50_us"], "us"),
        number_field("Latency back after", backlog["recovered_seconds"], "seconds", ",.1f"),
    ]


def _fairness_lines(fairness: dict[str, Any]) -> list[str]:
    """Return how evenly the messages are spread over the ends of each side."""
    lines = []
    for side, name in (("senders", "Senders"), ("receivers", "Receivers")):
        found = fairness[side]
        if found is not None:
            shares = f"{100 * found['least']:.1f} % to {100 * found['most']:.1f} %"
            lines += [
                text_field(f"{name}, shares", shares),
                text_field(f"{name}, smallest ÷ largest", f"{found['ratio']:.3f}"),
            ]
    return lines


def _end_lines(ends: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a line for each end; of many, for the slowest."""
    lines = []
    for role in ("sender", "receiver"):
        rows, which = shown_of_each(ends, role)
        for row in rows:
            rate = row["message_rate"]
            words = [counted(row["message_count"], "message")]
            words += [] if rate is None else [f"{rate_digits(rate)}/s"]
            lines.append(text_field(row["name"].capitalize(), ", ".join([*words, *_p99(row)])))
        lines += [] if which is None else [which]
    return lines


def _queue_lines(queues: Sequence[dict[str, Any]]) -> list[str]:
    """Return a line for each queue; of many, for the slowest."""
    lines = []
    for queue in slowest(queues):
        rate = queue["received_rate"]
        words = [
            f"{queue[key]:,} {key}"
            for key in ("sent", "received", "unreceived")
            if queue[key] is not None
        ]
        words += [] if rate is None else [f"{rate_digits(rate)} received/s"]
        lines.append(text_field(f"Queue {queue['queue']}", ", ".join([*words, *_p99(queue)])))
    if len(lines) < len(queues):
        lines.append(f"Shown are {len(lines)} of {len(queues):,} queues, the slowest.")
    return lines


def _p99(row: Mapping[str, Any]) -> list[str]:
    latency = row["latency"] or {}
    if not latency.get("count"):
        return []
    return [f"p99 {latency_text(latency['percentiles']['99'], latency['unit'])}"]


def _settlement_lines(settlement: dict[str, Any]) -> list[str]:
    """Return the latencies of all settlements, and those of the ``S`` lines beside them."""
    lines = latency_lines(settlement["all"])
    if settlement["sampled"]["count"]:
        lines += latency_lines(settlement["sampled"], "Sampled")
    return [
        *lines,
        number_field("Settled", settlement["all"]["count"], "messages"),
        number_field("Sampled", settlement["sampled"]["count"], "messages"),
        number_field("Unsettled", settlement["unsettled"], "messages"),
    ]


def _streaming_lines(streaming: dict[str, Any]) -> list[str]:
    throughput, latency = streaming["throughput"], streaming["first_byte_latency"]
    megabytes = None if throughput is None else throughput / 1e6
    lines = [
        number_field("Bodies", streaming["body_bytes"], "bytes"),
        number_field("Throughput", megabytes, "MB/s", ",.1f"),
    ]
    for rank in STREAMING:
        name = f"First byte {rank}%"
        lines.append(latency_field(name, latency["percentiles"][rank], latency["unit"]))
    return lines


def _schedule_lines(schedule: dict[str, Any]) -> list[str]:
    lines = [
        rate_field("Target rate", schedule["rate"]),
        rate_field("Achieved rate", schedule["achieved"]),
        number_field("Due", schedule["due"], "messages"),
        number_field("Never sent", schedule["never_sent"], "messages"),
    ]
    for rank, late in (schedule["late_us"] or {}).items():
        lines.append(latency_field(f"Send delay {rank}", late, "us"))
    for words, figures in late_by_rows(schedule):
        lines.append(f"{words.capitalize() + ' ':.<24}{' ' + figures:.>37}")
    if schedule["missed"] is not None:
        lines.append(text_field("Rate missed", "Yes" if schedule["missed"] else "No"))
    return lines


def lateness_lines(
    schedule: Mapping[str, Any],
    latency: Mapping[str, Any],
    host_use: Mapping[str, Any] | None = None,
) -> list[str]:
    """Say how much of the latency is the delay of sends, and why, where it is more than a tenth.

    A latency counts from the intended send time, so it has all of the send delay in it. The use of
    the sender's host may tell why: the target or the receivers may be on it, too.
    """
    shares = {}
    for name, late in (schedule["late_us"] or {}).items():
        rank = "100" if name == "max" else name.removeprefix("p")
        ticks = latency["percentiles"].get(rank)
        if ticks and late > _NO_REASON_US:
            shares[name] = late * per_millisecond(latency["unit"]) / (1000 * ticks)
    worst = max(shares, key=shares.__getitem__, default=None)
    if worst is None or shares[worst] <= _OWN_SHARE:
        return []
    share = min(100, round(100 * shares[worst]))
    parts = schedule.get("late_by_us") or {}
    cause = max(parts, key=lambda one: parts[one].get(worst, 0), default=None)
    why, advice = _CAUSES[cause]
    rank = "maximum" if worst == "max" else f"{worst.removeprefix('p')} %"
    lines = [f"{share} % of the {rank} latency {why}:", advice]
    busy = host_use and host_use_text(host_use, notable=True)
    whose = "its" if cause in ("itself", None) else "the sender's"
    return [*lines, f"({whose} host: {busy})"] if busy else lines


def starved_lines(run: Mapping[str, Any]) -> list[str]:
    """Name the ends that did not get the CPU that they needed; none where all did."""
    known = [(role, run.get(role) or {}) for role in ("sender", "receiver")]
    found = [starved_text(role, end.get("host_use")) for role, end in known]
    return [text for text in found if text is not None]


def _starved(run: Mapping[str, Any]) -> str:
    lines = starved_lines(run)
    return section("CPU", lines) if lines else ""


def late_by_rows(schedule: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the words and the figures of each cause of delays; none where all are its own."""
    parts = schedule.get("late_by_us") or {}
    found = {cause: parts[cause] for cause in LATE_BY if parts.get(cause, {}).get("max")}
    if found.keys() <= {"itself"}:
        return []
    return [
        (LATE_BY[cause], ", ".join(f"{rank} {latency_text(of[rank], 'us')}" for rank in _RANKS))
        for cause, of in found.items()
    ]


def section(heading: str, lines: list[str]) -> str:
    """Return a heading and its lines, with blank lines around the heading."""
    return "\n".join(["", heading, "", *lines]) + "\n"
