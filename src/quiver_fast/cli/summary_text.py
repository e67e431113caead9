"""The printed summary: pure functions from summary documents to text of upstream's layout."""

from __future__ import annotations

from typing import Any

__all__ = [
    "arrow_summary_text",
    "number_field",
    "pair_results",
    "pair_summary_text",
    "section",
    "text_field",
]

_PERCENTILE_PAIRS = (
    ("0%", "latency_quartiles", 0, "90.00%", "latency_nines", 0),
    ("25%", "latency_quartiles", 1, "99.00%", "latency_nines", 1),
    ("50%", "latency_quartiles", 2, "99.90%", "latency_nines", 2),
    ("100%", "latency_quartiles", 4, "99.99%", "latency_nines", 3),
)
_DELIVERY_LINES = {
    "Sent": "sent",
    "Received": "received",
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


def pair_results(sender: dict[str, Any], receiver: dict[str, Any]) -> dict[str, Any]:
    """Return what the two ends' ``results`` say together.

    Keys: ``message_count`` (received), ``duration`` (seconds from the first send to the
    last receive), ``sender_rate``, ``receiver_rate``, ``end_to_end_rate`` (received /
    duration), in messages/s. What cannot be known is None.
    """
    first, last = sender["first_send_time"], receiver["last_receive_time"]
    duration = None if first is None or last is None else (last - first) / 1000
    count = receiver["message_count"]
    return {
        "message_count": count,
        "duration": duration,
        "sender_rate": sender["message_rate"],
        "receiver_rate": receiver["message_rate"],
        "end_to_end_rate": count / duration if duration and duration > 0 else None,
    }


def pair_summary_text(
    sender: dict[str, Any], receiver: dict[str, Any], delivery: dict[str, Any] | None
) -> str:
    """Return the summary that `quiver` prints, from the summaries of its two arrows.

    Where the summaries have no configuration, neither has the text.
    """
    results = pair_results(sender["results"], receiver["results"])
    figures = [
        number_field("Count", results["message_count"], "messages"),
        number_field("Duration", results["duration"], "seconds", ",.1f"),
        number_field("Sender rate", results["sender_rate"], "messages/s"),
        number_field("Receiver rate", results["receiver_rate"], "messages/s"),
        number_field("End-to-end rate", results["end_to_end_rate"], "messages/s"),
    ]
    sections = [_configuration([sender, receiver]), _results(figures, receiver["results"])]
    sections += _additions(delivery, sender, receiver.get("streaming"))
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
        number_field(f"{role} rate", results["message_rate"], "messages/s"),
    ]
    sections = [_configuration([summary]), _results(figures, results)]
    additions = _additions(summary.get("delivery"), summary, summary.get("streaming"))
    return "".join(sections + additions)


def _sends(summary: dict[str, Any]) -> bool:
    if summary["config"] is not None:
        return bool(summary["config"]["operation"] == "send")
    return "delivery" not in summary


def _configuration(summaries: list[dict[str, Any]]) -> str:
    configs = [summary["config"] for summary in summaries if summary["config"] is not None]
    if not configs:
        return ""
    config = configs[0]
    roles = {"send": "Sender", "receive": "Receiver"}
    lines = [
        *(text_field(roles[one["operation"]], one["impl"]) for one in configs),
        text_field("URL", config["url"]),
        text_field("Output files", config["output_dir"]),
    ]
    if config["count"]:
        lines.append(number_field("Count", config["count"], "messages"))
    if config["duration"]:
        lines.append(number_field("Duration", config["duration"], "seconds"))
    lines.append(number_field("Body size", config["body_size"], "bytes"))
    lines.append(number_field("Credit window", config["credit_window"], "messages"))
    if config["transaction_size"]:
        lines.append(number_field("Transaction size", config["transaction_size"], "messages"))
    if config["durable"]:
        lines.append(text_field("Durable", "Yes"))
    if config["set_message_id"]:
        lines.append(text_field("Set message ID", "Yes"))
    return section("CONFIGURATION", lines)


def _results(figures: list[str], results: dict[str, Any]) -> str:
    text = section("RESULTS", figures)
    if results["latency_quartiles"] is None:
        return text
    lines = ["", "Latencies by percentile:", ""]
    for left, left_key, left_index, right, right_key, right_index in _PERCENTILE_PAIRS:
        low = f" {results[left_key][left_index]}"
        high = f" {results[right_key][right_index]}"
        lines.append(f"{left:>12} {low:.>10} ms {right:>12} {high:.>10} ms")
    return text + "\n".join(lines) + "\n"


def _additions(
    delivery: dict[str, Any] | None, sender: dict[str, Any], streaming: dict[str, Any] | None
) -> list[str]:
    """Return our own sections, after upstream's."""
    sections = []
    if delivery is not None:
        lines = [text_field("Method", delivery["method"])]
        lines += [
            number_field(name, delivery[key], "messages")
            for name, key in _DELIVERY_LINES.items()
            if delivery[key] is not None
        ]
        sections.append(section("DELIVERY", lines))
    if "schedule" in sender:
        sections.append(section("SCHEDULE", _schedule_lines(sender["schedule"])))
    if streaming is not None:
        sections.append(section("STREAMING", _streaming_lines(streaming)))
    return sections


def _streaming_lines(streaming: dict[str, Any]) -> list[str]:
    throughput, latency = streaming["throughput"], streaming["first_byte_latency"]
    megabytes = None if throughput is None else throughput / 1e6
    lines = [
        number_field("Bodies", streaming["body_bytes"], "bytes"),
        number_field("Throughput", megabytes, "MB/s", ",.1f"),
    ]
    for rank in ("50", "99", "100"):
        name = f"First byte {rank}%"
        lines.append(number_field(name, latency["percentiles"][rank], latency["unit"]))
    return lines


def _schedule_lines(schedule: dict[str, Any]) -> list[str]:
    lines = [
        number_field("Target rate", schedule["rate"], "messages/s"),
        number_field("Achieved rate", schedule["achieved"], "messages/s"),
    ]
    for rank, late in (schedule["late_us"] or {}).items():
        lines.append(number_field(f"Send delay {rank}", late, "us"))
    lines.append(text_field("Rate missed", "Yes" if schedule["missed"] else "No"))
    return lines


def section(heading: str, lines: list[str]) -> str:
    """Return a heading and its lines, with blank lines around the heading."""
    return "\n".join(["", heading, "", *lines]) + "\n"
