"""The summary that fits a terminal: a row for each option and each finding.

Pure functions from summary documents to rows. A figure of zero has no row; ``--verbose``
shows it, in the text that pipes get.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from quiver_fast.analysis.model.ranks import BRIEF, SECTIONS, STREAMING, known_ranks
from quiver_fast.analysis.model.units import (
    body_rate_text,
    checked_text,
    latency_text,
    rate_digits,
    rate_text,
)
from quiver_fast.analysis.show.headline import load_facts
from quiver_fast.cli.arrow.summary_text import late_by_rows, lateness_lines, starved_lines
from quiver_fast.cli.shared.thresholds import state_text
from quiver_fast.words import counted

Row = tuple[str, str]
"""A name, and figures."""

_EDGES = {"0": "min", "100": "max"}


def pair_rows(document: Mapping[str, Any]) -> list[Row]:
    """Return the rows of a whole run, from the document that ``--json`` prints."""
    sender, receiver, results = (document[key] for key in ("sender", "receiver", "results"))
    latency = receiver["latency"]
    known = {
        done: rate_digits(results[f"{side}_rate"])
        for side, done in (("sender", "sent"), ("receiver", "received"))
        if results[f"{side}_rate"] is not None
    }
    rates = [f"{rate} {done}/s" for done, rate in known.items()]
    if len(known) == 2 and len({*known.values()}) == 1:
        rates = [f"{known['sent']} sent and received/s"]
    if "body_rate" in results:
        rates.append(f"bodies {body_rate_text(results['body_rate'])}")
    return [
        *_facts(document),
        *_joined("Rates", [*rates, f"in {results['duration']:,.1f} s"] if rates else []),
        *_latency(latency),
        *_warmup(receiver),
        *_delivery(document),
        *_backlog(document.get("backlog")),
        *_sending(sender, latency),
        *_starved(document),
        *_streaming(receiver.get("streaming")),
        *_fairness(document.get("fairness")),
        *_joined("Files", [document["output_dir"]] if "output_dir" in document else []),
    ]


def arrow_rows(summary: Mapping[str, Any]) -> list[Row]:
    """Return the rows of one arrow, from its summary."""
    config, latency = summary["config"], summary.get("latency")
    sends = "delivery" not in summary if config is None else config["operation"] == "send"
    ends = {"sender": None, "receiver": None} | {"sender" if sends else "receiver": summary}
    return [
        *_facts({**ends, "peer_to_peer": False}),
        *_latency(latency),
        *_sending(summary, latency),
        *_starved(ends),
        *_streaming(summary.get("streaming")),
        *([] if config is None else [("Files", config["output_dir"])]),
    ]


def threshold_rows(thresholds: list[dict[str, Any]]) -> list[Row]:
    """Return each threshold with its figure, and whether it was breached."""
    return [
        ("Threshold", f"{one['condition']}: {one['reason'] or checked_text(one)}, "
         f"{state_text(one)}")
        for one in thresholds
    ]  # fmt: skip


def rank_name(rank: str) -> str:
    """Return the name of a rank on a terminal: ``p99.9``, ``max``."""
    return _EDGES.get(rank, f"p{rank}")


def _facts(run: Mapping[str, Any]) -> list[Row]:
    return [(name, text) for name, text in load_facts(run).items() if text]


def _joined(label: str, parts: list[str]) -> list[Row]:
    return [(label, ", ".join(parts))] if parts else []


def rank_texts(section: Mapping[str, Any], ranks: tuple[str, ...]) -> list[str]:
    """Return the percentiles of a section that ``exact_latency`` made: ``p50 10.2 us``, ..."""
    # Corrected latencies have no count.
    count = section.get("count")
    shown = ranks if count is None else known_ranks(ranks, count)
    known = [(rank, section["percentiles"].get(rank)) for rank in shown]
    return [
        f"{rank_name(rank)} {latency_text(value, section['unit'])}"
        for rank, value in known
        if value is not None
    ]


def _latency(latency: Mapping[str, Any] | None) -> Iterator[Row]:
    """Yield the percentiles that the headline has no room for."""
    if latency is None or not latency["count"]:
        return
    yield from _joined("Latency", rank_texts(latency, BRIEF))
    missing = latency.get("with_never_sent")
    if missing is not None:
        never = f"{missing['never_sent']:,} were due and never sent"
        yield "", f"of the messages that were sent; {never}"


def _warmup(receiver: Mapping[str, Any]) -> Iterator[Row]:
    """Say how many of the messages received the figures have."""
    warmup = receiver.get("warmup")
    if warmup:
        kept = f"{receiver['results']['message_count']:,} received after it"
        yield (
            "Warm-up",
            f"{counted(warmup['message_count'], 'message')} left out: figures are of {kept}",
        )


def _delivery(document: Mapping[str, Any]) -> Iterator[Row]:
    delivery, drain, growth = (
        document["delivery"] or {},
        document.get("drain"),
        document["queue_growth"],
    )
    outcomes = [
        f"{delivery[name]:,} {name}" for name in ("released", "rejected") if delivery.get(name)
    ]
    yield from _joined("Outcomes", outcomes)
    if drain is not None and drain["messages"] and not document["peer_to_peer"]:
        yield "Drained", f"{counted(drain['messages'], 'message')} in {drain['seconds']:,.1f} s"
    if growth is not None and growth["per_second"]:
        yield "Queue", f"grew by {growth['per_second']:,.0f} messages/s"


def _backlog(backlog: Mapping[str, Any] | None) -> Iterator[Row]:
    if backlog is None:
        return
    parts = [counted(backlog["messages"], "message")]
    if backlog["seconds"] is not None:
        parts.append(f"drained in {backlog['seconds']:,.1f} s")
    if backlog["rate"] is not None:
        parts.append(f"{backlog['rate']:,.0f}/s")
    if backlog["recovered_seconds"] is not None:
        parts.append(f"latency back after {backlog['recovered_seconds']:,.1f} s")
    yield from _joined("Backlog", parts)


def _sending(sender: Mapping[str, Any], latency: Mapping[str, Any] | None) -> Iterator[Row]:
    """Yield the settlement and the schedule of a sender."""
    if "settlement" in sender:
        settlement = sender["settlement"]
        parts = rank_texts(settlement["all"], SECTIONS)
        if settlement["unsettled"]:
            parts.append(f"{settlement['unsettled']:,} unsettled")
        yield from _joined("Settlement", parts)
    if "schedule" not in sender:
        return
    schedule = sender["schedule"]
    parts = [f"{rate_text(schedule['rate'])} asked, {_kept(schedule)} kept"]
    if schedule["never_sent"]:
        parts.append(f"{schedule['never_sent']:,} of {schedule['due']:,} never sent")
    if schedule["missed"]:
        parts.append("RATE MISSED")
    yield from _joined("Schedule", parts)
    delays = [f"{name} {latency_text(late, 'us')}" for name, late in _delays(schedule)]
    yield from _joined("Send delay", delays)
    parts = [f"{words} {figures}" for words, figures in late_by_rows(schedule)]
    yield from _joined("of it", parts)
    if latency is not None:
        lines = lateness_lines(schedule, latency, sender.get("host_use"))
        yield from (("", line) for line in lines)


def _kept(schedule: Mapping[str, Any]) -> str:
    """Return the achieved rate; one that misses the rate does not look like it."""
    if schedule["achieved"] is None:
        return "-"
    kept = rate_digits(schedule["achieved"])
    alike = schedule["missed"] and kept == rate_digits(schedule["rate"])
    return f"{schedule['achieved']:,.6g}" if alike else kept


def _delays(schedule: Mapping[str, Any]) -> list[tuple[str, float]]:
    return list((schedule["late_us"] or {}).items())


def _starved(run: Mapping[str, Any]) -> list[Row]:
    return [("CPU", text) for text in starved_lines(run)]


def _streaming(streaming: Mapping[str, Any] | None) -> Iterator[Row]:
    if streaming is None:
        return
    throughput = streaming["throughput"]
    parts = [] if throughput is None else [f"{throughput / 1e6:,.1f} MB/s"]
    first = ", ".join(rank_texts(streaming["first_byte_latency"], STREAMING))
    yield from _joined("Streaming", [*parts, *([f"first byte {first}"] if first else [])])


def _fairness(fairness: Mapping[str, Any] | None) -> Iterator[Row]:
    for side in ("senders", "receivers"):
        found = None if fairness is None else fairness[side]
        if found is not None:
            shares = f"{100 * found['least']:.1f} % to {100 * found['most']:.1f} %"
            yield "Shares", f"{side} {shares}, smallest to largest {found['ratio']:.3f}"
