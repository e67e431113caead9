"""The sections of a run: what its text, its rows on a terminal and its page have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any

from quiver_fast.analysis.figures.delivery import lost_text, matching_text
from quiver_fast.analysis.figures.environment import host_use_text, starved_text
from quiver_fast.analysis.figures.schedule import LATE_BY
from quiver_fast.analysis.figures.statistics import OF_STEADY
from quiver_fast.analysis.model.figures import Document
from quiver_fast.analysis.model.ranks import (
    BRIEF,
    NAMES,
    SECTIONS,
    STREAMING,
    SUMMARY,
    exists,
    rank_head,
)
from quiver_fast.analysis.model.units import (
    body_rate_text,
    latency_text,
    mean_text,
    per_millisecond,
    rate_digits,
    rate_text,
    seconds_text,
)
from quiver_fast.analysis.sections.ends import end_sections
from quiver_fast.analysis.sections.headline import incomplete_text, ledger_words
from quiver_fast.analysis.sections.requests import request_rows
from quiver_fast.analysis.sections.rows import (
    PAGE,
    TEXT,
    Grid,
    Row,
    Section,
    cell_text,
    latency,
    number,
    percentile_rows,
    rank_name,
    rank_words,
    rate,
    told,
)
from quiver_fast.rate_steps import rate_text as step_rate
from quiver_fast.words import counted

_COUNTS = ("sent", "received", "filtered", "unmatched", "unreceived", "lost", "duplicate",
           "reordered", "foreign", "negative_latency")  # fmt: skip

_FATES = ("due", "acknowledged_received", "acknowledged_unreceived", "lost", "in_doubt_received",
          "in_doubt_unreceived", "refused", "never_sent", "resent", "resent_received",
          "redelivered", "duplicate")  # fmt: skip
_OF_FAILURES = ("seconds", "connections", "attempts", "pause", "in_doubt", "receiver_gap",
                "sender_gap", "recovered_seconds", "highest_backlog")  # fmt: skip

# Why messages went late, and advice; None is not known.
_CAUSES = {
    "credit": (
        "is the time that messages waited for credit",
        "the target took none then: it, its receivers or the path were slow, or stood still",
    ),
    "socket": (
        "is the time that messages waited for room in the socket",
        "the target read too slowly, stood still, or was away",
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


def run_sections(run: Document) -> list[Section]:
    """Return the sections of a run, without those that have nothing to say.

    Args:
        run: its document; one end may be None.
    """
    sender, receiver = run["sender"] or {}, run["receiver"] or {}
    found = {
        "INCOMPLETE": _incomplete(run),
        "RESULTS": _results(run),
        "LATENCY": _latencies(run),
        "DELIVERY": _delivery(run),
        "LEDGER": ledger_rows(run),
        "BACKLOG": _backlog(run.get("backlog")),
        "REQUESTS": request_rows(sender, receiver.get("latency")),
        "SETTLEMENT": () if "request_reply" in sender else _settlement(sender.get("settlement")),
        "SCHEDULE": _schedule(sender, receiver.get("latency")),
        "STREAMING": _streaming((receiver or sender).get("streaming")),
        "CPU": [Row("", text, "", ("CPU", text), TEXT) for text in starved_lines(run)],
        "STEPS": steps_grid(run.get("steps") or ()),
        "FAULTS": faults_of(run),
    }
    return [*told(found), *end_sections(run)]


def run_of(summary: Document) -> dict[str, Any]:
    """Return the document of a run of one arrow, from its summary."""
    config = summary.get("config")
    received = bool({"delivery", "latency"} & summary.keys())
    sends = not received if config is None else config["operation"] == "send"
    ends = {"sender": None, "receiver": None} | {"sender" if sends else "receiver": summary}
    known = {key: summary.get(key) for key in ("complete", "reason", "delivery")}
    return ends | known | {"results": None, "peer_to_peer": False}


def _incomplete(run: Document) -> Iterator[Row]:
    """Warn that an incomplete run's figures are of a part of it."""
    if (reason := incomplete_text(run)) is not None:
        yield Row("", reason, "", None, TEXT)


def _results(run: Document) -> Iterator[Row]:
    sender, receiver = run["sender"], run["receiver"]
    if sender is not None and receiver is not None:
        yield from _results_of_both(run["results"], receiver.get("warmup"))
    else:
        yield from _results_of_one(sender or receiver, "send" if receiver is None else "receive")
    section = (receiver or {}).get("latency")
    if section is None or section["count"] == 0:
        return
    words = ", ".join(words for _, _, words in rank_words(section, BRIEF))
    yield Row("", "", "", ("Latency", words) if words else None, TEXT)
    yield from (Row("", line, "", None, TEXT) for line in _percentile_lines(section))
    if "with_never_sent" in section:
        unsent = f"{section['with_never_sent']['never_sent']:,} were due and never sent"
        yield Row("", "", "", None, TEXT)
        yield Row("", line := f"of the messages that were sent; {unsent}", "", ("", line))


def _results_of_both(results: Document, warmup: Document | None) -> Iterator[Row]:
    yield number("Count", results["message_count"], "messages")
    if warmup:
        left_out = counted(warmup["message_count"], "message")
        kept = f"{results['message_count']:,} received after it"
        words = f"{left_out} left out: figures are of {kept}"
        yield number("Left out", warmup["message_count"], "messages of the warm-up",
                     ("Warm-up", words))  # fmt: skip
    yield from _duration(results["duration"])
    yield rate("Sender rate", results["sender_rate"])
    yield rate("Receiver rate", results["receiver_rate"])
    words = ", ".join(_rate_words(results))
    yield rate("End-to-end rate", results["end_to_end_rate"], ("Rates", words) if words else None)
    if "body_rate" in results:
        yield Row("Body rate", body_rate_text(results["body_rate"]))


def _duration(seconds: float | None) -> Iterator[Row]:
    """Yield the seconds as upstream shows them, and for a page as finely as they need."""
    yield number("Duration", seconds, "seconds", None, ",.1f")._replace(only=TEXT)
    if seconds is not None:
        yield Row("Duration", seconds_text(seconds), "", None, PAGE)


def _rate_words(results: Document) -> list[str]:
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
    return [*rates, *(f"in {one:,.1f} s" for one in (results["duration"],) if one is not None)]


def _results_of_one(end: Document, event: str) -> Iterator[Row]:
    results = end["results"]
    first, last = results[f"first_{event}_time"], results[f"last_{event}_time"]
    yield number("Count", results["message_count"], "messages")
    duration = None if first is None else (last - first) / 1000
    yield from _duration(duration)
    role = "Sender" if event == "send" else "Receiver"
    yield rate(f"{role} rate", results["message_rate"])


def _percentile_lines(section: Document) -> Iterator[str]:
    """Yield upstream's two columns of percentiles."""
    yield from ("Latencies by percentile:", "")
    for left, right in zip_longest(*SUMMARY):
        yield f"{_cell(section, left, 'g')} {_cell(section, right, '.2f')}".rstrip()


def _cell(section: Document, rank: str | None, digits: str) -> str:
    """Return a percentile, or as much space where a column has no more of them."""
    if rank is None:
        return " " * 26
    value, unit = latency_text(section["percentiles"][rank], section["unit"]).split(" ")
    return f"{format(float(rank), digits) + '%':>12} {' ' + value:.>10} {unit:<2}"


def _latencies(run: Document) -> Iterator[Grid]:
    """Yield the percentiles of the whole run, of its steady state, and corrected ones.

    A column that shows the same as that of the whole run is left out.
    """
    section = (run["receiver"] or {}).get("latency") or {"count": 0}
    if not section["count"] or "analysis" not in run:
        return
    steady, omission = run["analysis"]["steady_state"], run["analysis"]["coordinated_omission"]
    whole = _column(section)
    columns = {"Whole run": whole}
    if steady["figures_of"] == OF_STEADY and steady["latency"] is not None:
        columns["Steady state"] = _column(steady["latency"])
    if omission is not None and omission["method"] is not None:
        corrected = {"unit": omission["unit"], "count": section["count"]}
        columns["Corrected"] = _column(omission["corrected"] | corrected)
    shown = {
        title: cells
        for title, cells in columns.items()
        if cells is whole or any(cells.get(name, whole[name]) != whole[name] for name in whole)
    }
    rows = [[name, *(cells.get(name, "-") for cells in shown.values())] for name in whole]
    yield Grid(f"Latency of {run['name']}", ("Figure", *shown), rows, PAGE)


def _column(section: Document) -> dict[str, str]:
    """Return the percentiles that so many messages have, by their names."""
    unit, percentiles = section["unit"], section["percentiles"]
    known = {rank_head(rank): latency_text(percentiles[rank], unit)
             for rank in NAMES if exists(rank, section["count"])}  # fmt: skip
    means = {"Mean": section.get("mean"), "Standard deviation": section.get("stddev")}
    return known | {k: mean_text(v, unit) for k, v in means.items() if v is not None}


def _delivery(run: Document) -> Iterator[Row]:
    """Yield the reckoning of the messages."""
    delivery = run.get("delivery") or {}
    if delivery:
        yield Row("Matching", matching_text(delivery["method"]))
    for key in _COUNTS:
        if delivery.get(key) is not None:
            lost = key == "lost" and delivery[key]
            unit = lost_text(run.get("peer_to_peer"), "messages") if lost else "messages"
            yield number(_words(key).capitalize(), delivery[key], unit)
        elif key == "lost" and delivery.get("unreceived"):
            yield Row("Lost", "not known")
        elif key == "filtered" and key in delivery:
            yield Row("Filtered", "not known")
    for key in ("released", "rejected", "modified", "dead_lettered"):
        if delivery.get(key):
            words = ("Outcomes", f"{delivery[key]:,} {_words(key)}")
            yield number(_words(key).capitalize(), delivery[key], "messages", words)
    if delivery.get("older"):
        yield number("Older messages", delivery["older"], "(left by an earlier run)")
    if delivery.get("told_apart_by") and (delivery.get("older") or delivery["foreign"]):
        yield Row("Recognition", delivery["told_apart_by"])
    for role in ("sender", "receiver"):
        malformed = ((run[role] or {}).get("records") or {}).get("malformed")
        if malformed:
            yield Row(f"Malformed lines of the {role}", f"{malformed:,}", "", None, PAGE)
    drain, growth = run.get("drain"), run.get("queue_growth")
    if drain is not None and not run["peer_to_peer"]:
        took = f"in {seconds_text(drain['seconds'])}"
        drained = ("Drained", f"{counted(drain['messages'], 'message')} {took}")
        brief = drained if drain["messages"] else None
        yield number("Drained", drain["messages"], f"messages {took}", brief)
    if growth is not None:
        grew = ("Queue", f"grew by {growth['per_second']:,.0f} messages/s")
        brief = grew if growth["per_second"] else None
        yield number("Queue growth", growth["per_second"], "messages/s", brief)


def ledger_rows(run: Document) -> Iterator[Row | Grid]:
    """Yield the fate of the messages of a run that goes on after lost connections."""
    ledger = run.get("ledger")
    if ledger is None:
        return
    words = ledger_words(ledger)
    yield Row("", words, "", ("Ledger", words), TEXT)
    for key in _FATES:
        if ledger[key] is not None:
            yield number(_words(key).capitalize(), ledger[key], "messages")
        elif key == "lost":
            yield Row("Lost", "not known")
    if ledger["failures"]:
        first = (run["sender"] or {"results": {}})["results"].get("first_send_time")
        rows = [_failure_cells(one, first, run) for one in ledger["failures"]]
        yield Grid("Failures", ("at", *map(_words, _OF_FAILURES), "reason", "fault"), rows)


def _words(key: str) -> str:
    return key.replace("_", " ")


def _failure_cells(failure: Document, first: int | None, run: Document) -> list[str]:
    values = [failure[key] for key in _OF_FAILURES]
    cells = [
        "-" if value is None else f"{value:,}" if isinstance(value, int) else seconds_text(value)
        for value in values
    ]
    at = "-" if first is None else f"{failure['at'] / 1e9 - first / 1000:,.3f} s"
    fault = "-" if failure["fault"] is None else run["faults"][failure["fault"]]["text"]
    return [at, *cells, failure["reason"], fault]


def _backlog(backlog: Document | None) -> Iterator[Row]:
    """Yield how long the queue took to drain, and latencies to come back."""
    if backlog is None:
        return

    def words(key: str, form: str) -> tuple[str, str] | None:
        return None if backlog[key] is None else ("Backlog", form.format(backlog[key]))

    messages = backlog["messages"]
    yield number("Backlog", messages, "messages", ("Backlog", counted(messages, "message")))
    yield number("Drained in", backlog["seconds"], "seconds",
                 words("seconds", "drained in {:,.1f} s"), ",.1f")  # fmt: skip
    yield number("Drain rate", backlog["rate"], "messages/s", words("rate", "{:,.0f}/s"))
    yield latency("Steady latency 50%", backlog["steady_p50_us"], "us")
    yield number("Latency back after", backlog["recovered_seconds"], "seconds",
                 words("recovered_seconds", "latency back after {:,.1f} s"), ",.1f")  # fmt: skip


def _settlement(settlement: Document | None) -> Iterator[Row]:
    """Yield the latencies of all settlements, and those of the ``S`` lines beside them."""
    if settlement is None:
        return
    yield from percentile_rows(settlement["all"], "Latency", "Settlement")
    if settlement["sampled"]["count"]:
        yield from percentile_rows(settlement["sampled"], "Sampled", None)
    yield number("Settled", settlement["all"]["count"], "messages")
    yield number("Sampled", settlement["sampled"]["count"], "messages")
    unsettled = settlement["unsettled"]
    words = ("Settlement", f"{unsettled:,} unsettled") if unsettled else None
    yield number("Unsettled", unsettled, "messages", words)


def _schedule(sender: Document, latencies: Document | None) -> Iterator[Row]:
    schedule = sender.get("schedule")
    if schedule is None:
        return
    never, missed = schedule["never_sent"], schedule["missed"]
    asked = f"{rate_text(schedule['rate'])} asked" if schedule["rate"] is not None else "-"
    yield rate("Target rate", schedule["rate"], ("Schedule", asked))
    yield rate("Achieved rate", schedule["achieved"], ("Schedule", f"{_kept(schedule)} kept"))
    yield number("Due", schedule["due"], "messages")
    words = ("Schedule", f"{never:,} of {schedule['due']:,} never sent") if never else None
    yield number("Never sent", never, "messages", words)
    for rank, late in (schedule["late_us"] or {}).items():
        words = ("Send delay", f"{rank} {latency_text(late, 'us')}")
        yield latency(f"Send delay {rank}", late, "us", words)
    for cause, figures in late_by_rows(schedule):
        yield Row(cause.capitalize(), figures, "", ("of it", f"{cause} {figures}"))
    if missed is not None:
        words = ("Schedule", "RATE MISSED") if missed else None
        yield Row("Rate missed", "Yes" if missed else "No", "", words)
    if latencies is not None:
        lines = lateness_lines(schedule, latencies, sender.get("host_use"))
        yield from (Row("", line, "", ("", line)) for line in lines)


def _kept(schedule: Document) -> str:
    """Return the achieved rate; one that misses the rate does not look like it."""
    if schedule["achieved"] is None:
        return "-"
    kept = rate_digits(schedule["achieved"])
    alike = schedule["missed"] and kept == rate_digits(schedule["rate"])
    return f"{schedule['achieved']:,.6g}" if alike else kept


def _streaming(streaming: Document | None) -> Iterator[Row]:
    if streaming is None:
        return
    throughput, first = streaming["throughput"], streaming["first_byte_latency"]
    megabytes = None if throughput is None else throughput / 1e6
    words = None if megabytes is None else ("Streaming", f"{megabytes:,.1f} MB/s")
    yield number("Bodies", streaming["body_bytes"], "bytes")
    yield number("Throughput", megabytes, "MB/s", words, ",.1f")
    known = ", ".join(text for _, _, text in rank_words(first, STREAMING))
    words = ("Streaming", f"first byte {known}") if known else None
    for rank in STREAMING:
        yield latency(f"First byte {rank}%", first["percentiles"][rank], first["unit"], words)
        words = None  # The first one names the others.


def steps_grid(steps: Sequence[Document]) -> Iterator[Grid]:
    """Yield a table with a line for each step, which ``docs/load.md`` describes."""
    heads = ("seconds", "asked", "sent", "received", "sent/s", *map(rank_name, SECTIONS))
    if steps:
        yield Grid("Steps of the rate", heads, [_step_cells(step) for step in steps])


def _step_cells(step: Document) -> tuple[str, ...]:
    first, last = step_rate(step["first_rate"]), step_rate(step["last_rate"])
    section, achieved = step["latency"], step["achieved"]
    ticks = [section["percentiles"][rank] for rank in SECTIONS]
    return (
        f"{step['begin']:.4g}-{step['end']:.4g}",
        first if first == last else f"{first}..{last}",
        f"{step['sent']:,}",
        f"{step['received']:,}",
        "-" if achieved is None else rate_digits(achieved),
        *("-" if value is None else latency_text(value, section["unit"]) for value in ticks),
    )


def faults_of(run: Document) -> Iterator[Row | Grid]:
    """Yield a table of the faults, and the cost of the relay."""
    rows = [
        (one["text"], cell_text(one["began"], ".3f"),
         "-" if one["until"] is None else f"{(one['until'] - one['at']) / 1e9:.3f}",
         one["problem"] or one["proof"] or "-")
        for one in run.get("faults") or ()
    ]  # fmt: skip
    if rows:
        yield Grid("Faults", ("fault", "at (s)", "for (s)", "proof"), rows)
    if relay := run.get("relay"):
        added = ", ".join(f"{name[:3]} {latency_text(relay[name], 'us')}" for name in relay)
        yield Row("", f"the relay adds {added} to a packet", "", ("Relay", f"adds {added}"))


def lateness_lines(
    schedule: Document, latencies: Document, host_use: Document | None = None
) -> list[str]:
    """Say how much of the latency is the delay of sends, and why, where it is more than a tenth.

    A latency counts from the intended send time, so it has all of the send delay in it. The use of
    the sender's host may tell why: the target or the receivers may be on it, too.
    """
    shares = {}
    for name, late in (schedule["late_us"] or {}).items():
        rank = "100" if name == "max" else name.removeprefix("p")
        ticks = latencies["percentiles"].get(rank)
        if ticks and late > _NO_REASON_US:
            shares[name] = late * per_millisecond(latencies["unit"]) / (1000 * ticks)
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


def late_by_rows(schedule: Document) -> list[tuple[str, str]]:
    """Return the words and the figures of each cause of delays; none where all are its own."""
    parts = schedule.get("late_by_us") or {}
    found = {cause: parts[cause] for cause in LATE_BY if parts.get(cause, {}).get("max")}
    if found.keys() <= {"itself"}:
        return []
    return [
        (LATE_BY[cause], ", ".join(f"{k} {latency_text(of[k], 'us')}" for k in ("p99.9", "max")))
        for cause, of in found.items()
    ]


def starved_lines(run: Document) -> list[str]:
    """Name the ends that did not get the CPU that they needed; none where all did."""
    known = [(role, run.get(role) or {}) for role in ("sender", "receiver")]
    found = [starved_text(role, end.get("host_use")) for role, end in known]
    return [text for text in found if text is not None]
