"""The verdict on a finished run: success or failure, and warnings about its figures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from quiver_fast.analysis.figures.clock_step import set_back_text, step_text
from quiver_fast.analysis.figures.delivery import lost_text
from quiver_fast.arguments import DEFAULT_PORTS, endpoint
from quiver_fast.cli.arrow.run import ArrowRun
from quiver_fast.cli.arrow.supervisor import SignalWatch
from quiver_fast.cli.shared.common import report_error
from quiver_fast.errors import EXIT_FAILURE, EXIT_OK
from quiver_fast.records.layout import malformed_text
from quiver_fast.urls import split_url
from quiver_fast.words import counted


def exit_code(command: str, signals: SignalWatch, unfinished: str, problem: str | None) -> int:
    """Report that a signal left a measurement unfinished, or its problem; return the exit code."""
    if signals.exit_code is not None:
        report_error(command, f"{signals.reason}: {unfinished}")
        return signals.exit_code
    if problem is not None:
        report_error(command, problem)
        return EXIT_FAILURE
    return EXIT_OK


def judge(run: ArrowRun, summary: dict[str, Any]) -> str | None:
    """Return in one line which arrow failed and why, or None if it did all of its task.

    A summary without a message of the run is marked as incomplete, whatever the arrow reports.
    """
    ending = run.ending()
    arrow = f"{run.plan.title} ({run.plan.implementation.name})"
    if not ending.complete:
        return f"{arrow} failed: {ending.reason}{_advice(ending.reason)}"
    # A queue may be empty from the start.
    if summary["results"]["message_count"] or run.plan.exit_when:
        return None
    summary["complete"], summary["reason"] = False, _why_nothing(summary)
    if run.plan.operation == "receive" and run.plan.options.is_filtered:
        summary["reason"] += ": its filter let none through"
    return f"{arrow} failed: {summary['reason']}"


def _advice(reason: str | None) -> str:
    missing = "amqp:not-found" in (reason or "")
    return ": create the queue first, or give --declare" if missing else ""


def _why_nothing(summary: dict[str, Any]) -> str:
    delivery = summary.get("delivery") or {}
    early = (summary.get("warmup") or {}).get("message_count")
    if early:
        return f"no transfers after the warm-up, and {early:,} within it"
    others = (delivery.get("older") or 0) + (delivery.get("foreign") or 0)
    return f"no transfers of this run, but {others:,} others" if others else "no transfers"


def pair_warnings(document: dict[str, Any]) -> Iterator[str]:
    """Yield the warnings about the figures of a pair, from its document, a line each."""
    both = [*filter(None, (document["sender"], document["receiver"]))]
    for summary in both:
        yield from _end_warnings(summary)
    if (document["delivery"] or {}).get("unreceived"):
        yield from _place_warnings(document.get("ends") or both)
    yield from _step_warnings(document)
    growth = document["queue_growth"]
    if growth is not None:
        yield _growth_warning(growth, *_due(document["delivery"]))


def _due(delivery: dict[str, Any]) -> tuple[int, str]:
    """Return how many receipts there must be, and the noun for them."""
    copies = delivery.get("copies")
    return (delivery["sent"], "message") if copies is None else (copies, "copy")


def _growth_warning(growth: dict[str, Any], sent: int, noun: str) -> str:
    """Say how fast the queue grew, beside both rates over the same time: they add up."""
    seconds = growth["messages"] / growth["per_second"]
    grew, received = round(growth["per_second"]), round((sent - growth["messages"]) / seconds)
    return (
        f"within the {seconds:,.1f} s of sending, {counted(grew + received, noun)}/s were sent "
        f"and {received:,}/s received: the queue grew by {grew:,} messages/s"
    )


def summary_warnings(summary: dict[str, Any]) -> Iterator[str]:
    """Yield the warnings about the figures of one arrow, from its summary, a line each."""
    yield from _end_warnings(summary)
    yield from _step_warnings(summary)


def _step_warnings(document: dict[str, Any]) -> Iterator[str]:
    if document["clock_step"] is not None:
        yield step_text(document["clock_step"])


def _end_warnings(summary: dict[str, Any]) -> Iterator[str]:
    role = {"send": "sender", "receive": "receiver"}[summary["config"]["operation"]]
    yield from record_warnings(role, summary["records"])
    yield from _failure_warnings(role, summary)
    peer_to_peer = summary["config"]["connection_mode"] == "server"
    yield from _delivery_warnings(summary.get("delivery") or {}, peer_to_peer)
    schedule = summary.get("schedule")
    if schedule is not None and schedule["missed"]:
        yield _missed_text(schedule)
    asked = summary.get("request_reply") or {}
    if asked.get("timed_out"):
        yield f"{asked['timed_out']:,} of {asked['requests']:,} requests had no reply in time"
    some = summary["results"]["message_count"]
    if (
        role == "sender"
        and some
        and summary["config"]["settlement"]
        and not {"settlement", "request_reply"} & summary.keys()
    ):
        yield "the sender recorded no settlement: its implementation does not do --settlement"


def _failure_warnings(role: str, summary: dict[str, Any]) -> Iterator[str]:
    failures = summary.get("failures") or ()
    if not failures:
        return
    doubts = (summary["arrow"] or {}).get("unsettled") or 0
    doubtful = f"; {counted(doubts, 'message', ('is', 'are'))} in doubt" if doubts else ""
    yield f"{role}: connections were lost {counted(len(failures), 'time')}{doubtful}"
    away = sum(one["back_at"] is None for one in failures)
    if away:
        yield f"{role}: {counted(away, 'connection', ('was', 'were'))} not back at the end"


def _place_warnings(ends: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Say that senders and receivers ended at different places: queues there may be others."""
    of_side: dict[str, set[str]] = {"send": set(), "receive": set()}
    for end in ends:
        if end.get("failures") is not None:
            of_side[end["config"]["operation"]] |= _last_places(end)
    senders, receivers = (", ".join(sorted(places)) for places in of_side.values())
    if senders and receivers and senders != receivers:
        yield (
            f"senders ended at {senders}, and receivers at {receivers}: messages that were not "
            "received may be there, unless these servers have the same queue"
        )


def _last_places(end: dict[str, Any]) -> set[str]:
    """Return the host and port of the last connection of each member of an end."""
    config, failures = end["config"], end["failures"]
    last = {tuple(one["ends"]): one["place"] for one in failures if one["back_at"] is not None}
    if len(last) == (config.get("ends") or {}).get("members", 1):
        return {*last.values()}
    # Some were never lost.
    url = split_url(config["url"])
    return {*last.values(), endpoint(url.host, url.port or DEFAULT_PORTS[url.scheme or "amqp"])}


def record_warnings(name: str, records: dict[str, Any]) -> Iterator[str]:
    """Yield the warnings about the records of an end, from the section of its summary."""
    for text in (malformed_text(records), set_back_text(records)):
        if text is not None:
            yield f"{name}: {text}"


def _missed_text(schedule: dict[str, Any]) -> str:
    text = f"the sender missed the rate of {schedule['rate']} messages/s"
    if not schedule["never_sent"]:
        return text
    return f"{text}: {schedule['never_sent']:,} of {schedule['due']:,} due were never sent"


def _delivery_warnings(delivery: dict[str, Any], peer_to_peer: bool) -> Iterator[str]:
    unreceived, lost = delivery.get("unreceived"), delivery.get("lost")
    if unreceived:
        proven = f"; {lost:,} of them are {lost_text(peer_to_peer)}" if lost else ""
        if lost is None:
            proven = "; it is not known whether they are lost"
        if delivery.get("filtered", 0) is None:
            proven = "; it is not known which of them the filter leaves out"
        sent = counted(*_due(delivery), ("was", "were"))
        yield f"{unreceived:,} of {sent} not received{proven}"
    if delivery.get("unmatched"):
        unmatched = counted(delivery["unmatched"], "received message", ("does", "do"))
        yield f"{unmatched} not match the filter"
    if delivery.get("older"):
        older = counted(delivery["older"], "received message", ("was", "were"))
        yield f"{older} left by an earlier run and counted nowhere"
    if delivery.get("foreign"):
        yield f"{counted(delivery['foreign'], 'received message', ('is', 'are'))} not of this run"
    if delivery.get("negative_latency"):
        yield early_text(delivery["negative_latency"])


def early_text(count: int) -> str:
    """Say that messages came before they were sent."""
    early = counted(count, "message", ("was", "were"))
    return f"{early} received before the send: the clocks of sender and receiver differ"
