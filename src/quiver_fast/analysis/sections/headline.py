"""A run in a few words: figures, verdict, the load, the environment, and sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from typing import Any

from quiver_fast.analysis.figures.clock_step import largest_step, set_back_text, step_text
from quiver_fast.analysis.figures.delivery import lost_text
from quiver_fast.analysis.figures.environment import (
    host_use_text,
    peer_use_text,
    peers_of,
    starved_text,
)
from quiver_fast.analysis.figures.steady import NOT_STEADY, TOO_SHORT
from quiver_fast.analysis.model.ranks import CHARTS, exists, known_ranks, rank_title
from quiver_fast.analysis.model.units import (
    average_text,
    body_rate_text,
    latency_text,
    seconds_text,
)
from quiver_fast.words import counted

# Faults of the messages of a run: key, words, and whether it is bad for any run.
_FAULTS = (
    ("unreceived", "unreceived", True),
    ("lost", "lost", True),
    ("unmatched", "received though the filter does not match them", True),
    ("duplicate", "received twice or more", True),
    ("reordered", "out of order", False),
    ("foreign", "not of this run", False),
    ("older", "of an earlier run", False),
    ("negative_latency", "received before they were sent: the clocks differ", False),
)
_NO_END = {"records": {"set_back_ms": None}}


def run_tiles(run: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the few figures of a run that matter."""
    tiles = [("Throughput", average_text(run_rate(run), "/s"))]
    latency = (run["receiver"] or {}).get("latency") or {}
    if latency.get("count"):
        tiles += [
            (rank_title(rank), latency_text(latency["percentiles"][rank], latency["unit"]))
            for rank in known_ranks(CHARTS, latency["count"])
        ]
    delivery = run["delivery"] or {}
    if delivery.get("received") is not None:
        warmup = (run["receiver"] or {}).get("warmup")
        tiles.append(
            ("Received with warm-up" if warmup else "Received", f"{delivery['received']:,}")
        )
    if delivery.get("unreceived"):
        tiles.append(("Unreceived", f"{delivery['unreceived']:,}"))
    if "ledger" in run:
        lost, gap = run["ledger"]["lost"], run["ledger"]["gap"]
        tiles.append(("Lost", "not known" if lost is None else f"{lost:,}"))
        tiles.append(("In doubt", f"{run['ledger']['in_doubt']:,}"))
        tiles.append(("Gap", "-" if gap is None else seconds_text(gap)))
    if not delivery and run["sender"] is not None:
        tiles.append(("Sent", f"{run['sender']['results']['message_count']:,}"))
    return tiles


def run_rate(run: Mapping[str, Any]) -> float | None:
    """Return the messages/s of a run: end to end where both ends are there."""
    both = (run["results"] or {}).get("end_to_end_rate")
    end = run["receiver"] or run["sender"] or {"results": {"message_rate": None}}
    rate: float | None = end["results"]["message_rate"] if both is None else both
    return rate


def run_brief(run: Mapping[str, Any]) -> str:
    """Return the rate, a latency and the state of a run: its line while it is folded."""
    latency = (run["receiver"] or {}).get("latency") or {"count": 0}
    words = [average_text(run_rate(run), "/s")]
    if latency["count"]:
        median = latency_text(latency["percentiles"]["50"], latency["unit"])
        words.append(f"median latency {median}")
    state = run_state(run)
    return ", ".join([*words, *([] if state == TOO_SHORT else [state])])


def run_state(run: Mapping[str, Any]) -> str:
    """Return whether an analysed run was steady, or that it is incomplete."""
    verdict: str = run["analysis"]["steady_state"]["verdict"]
    return "incomplete" if run["complete"] is False else verdict


def run_verdict(run: Mapping[str, Any]) -> tuple[bool, str]:
    """Return whether a run is bad, and its verdict: is it complete, which faults has it?"""
    reason = incomplete_text(run)
    if reason is not None:
        return True, f"Incomplete: {reason}"
    faults = list(_faults(run))
    steady = run["analysis"]["steady_state"]
    words = ["complete"] if run["complete"] else ["no summary tells whether it is complete"]
    words += faults or [_all_received(run["delivery"])] * (run["delivery"] is not None)
    short = " whether it is steady" * (steady["verdict"] == TOO_SHORT)
    because = f": {steady['reason']}" if steady["reason"] else ""
    words.append(f"{steady['verdict']}{short}{because}")
    # A rate that changes as it was asked to is no fault.
    asked = ((run["sender"] or {}).get("config") or {}).get("rate_steps")
    bad = bool(faults or run.get("queue_growth")) or (steady["verdict"] == NOT_STEADY and not asked)
    lead = "Take care with these figures" if bad else "These figures can be trusted"
    if steady["verdict"] == TOO_SHORT and not bad:
        lead = "These figures are of a short run"
    return bad, f"{lead}: {'; '.join(words)}"


def _all_received(delivery: Mapping[str, Any]) -> str:
    # Those of a run without faults are in doubt.
    missing = delivery.get("unreceived")
    return f"every {'acknowledged ' if missing else ''}message was received"


def incomplete_text(run: Mapping[str, Any]) -> str | None:
    """Return why a run is incomplete; None of another one."""
    if run.get("complete") is not False:
        return None
    return str(run["reason"] or "the run does not say why")


def faults(delivery: Mapping[str, Any], peer_to_peer: bool | None) -> Iterator[tuple[str, bool]]:
    """Yield each fault of the messages in words, and whether it is bad for any run."""
    for key, words, is_bad in _FAULTS:
        if delivery.get(key):
            words = lost_text(peer_to_peer) if key == "lost" else words
            yield f"{delivery[key]:,} {words}", is_bad


def _faults(run: Mapping[str, Any]) -> Iterator[str]:
    delivery = run["delivery"] or {}
    schedule = (run["sender"] or {}).get("schedule") or {}
    if schedule.get("missed"):
        yield f"the rate was missed: {schedule['never_sent'] or 0:,} due were never sent"
    asked = (run["receiver"] or {}).get("config") or {}
    if asked.get("stream_filter") and not (asked.get("filter") or asked.get("filter_properties")):
        # The filter of a stream lets whole chunks pass.
        delivery = delivery | {"unmatched": 0}
    if "ledger" in run:
        # Messages in doubt may be missing.
        delivery = delivery | {"unreceived": run["ledger"]["acknowledged_unreceived"]}
    yield from (words for words, _ in faults(delivery, run.get("peer_to_peer")))
    for role in ("sender", "receiver"):
        back = set_back_text((run[role] or _NO_END)["records"])
        if back is not None:
            yield f"{role}: {back}"
        starved = starved_text(role, (run[role] or {}).get("host_use"))
        if starved is not None:
            yield starved
    step = largest_step((run["sender"], run["receiver"]))
    if step is not None:
        yield step_text(step)


def run_facts(run: Mapping[str, Any]) -> dict[str, str | None]:
    """Return the load of a run, its date and environment; None for unknown ones."""
    ends = _ends(run)
    environments = [end["environment"] for end in ends if end["environment"]]
    return {
        **load_facts(run),
        "Date": _date(ends),
        **environment_facts(environments[0] if environments else {}),
        "Host during the run": next(
            (host_use_text(end["host_use"]) for end in ends if end.get("host_use")), None
        ),
        "Peer's process": next(
            filter(None, (peer_use_text(end.get("host_use")) for end in ends)), None
        ),
    }


def load_facts(run: Mapping[str, Any]) -> dict[str, str | None]:
    """Return target, peer, implementations and load of a run; None for unknown ones."""
    config: Mapping[str, Any] = next((end["config"] for end in _ends(run) if end["config"]), {})
    return {
        "Target": "peer to peer" if run["peer_to_peer"] else _word(config.get("url")),
        "Peer": _peer(run),
        "Implementation": _implementations(run),
        "Load": _load(config),
    }


def _ends(run: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [end for end in (run["sender"], run["receiver"]) if end is not None]


def environment_facts(environment: Mapping[str, Any]) -> dict[str, str | None]:
    """Return host, processor, versions and command out of the section ``environment``."""
    known = {key: str(value) for key, value in environment.items() if value is not None}
    cpu = known.get("cpu") or known.get("machine")
    count = known.get("cpu_count")
    versions = [
        f"{name} {known[key]}"
        for key, name in (
            ("quiver_fast", "quiver-fast"), ("proton", "Proton"), ("python", "Python"),
            ("numpy", "NumPy"),
        )
        if key in known
    ]  # fmt: skip
    return {
        "Host": known.get("host"),
        "CPU": f"{count} x {cpu}" if cpu and count else cpu,
        "Kernel": known.get("kernel"),
        "Versions": ", ".join(versions) or None,
        "Command": known.get("command"),
    }


def _word(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _peer(run: Mapping[str, Any]) -> str | None:
    ends = [run["sender"], run["receiver"], *(run.get("ends") or ())]
    return ", ".join(peers_of(ends, peer_to_peer=run["peer_to_peer"])) or None


def _implementations(run: Mapping[str, Any]) -> str | None:
    names = []
    for role in ("sender", "receiver"):
        config = (run[role] or {}).get("config") or {}
        if config.get("impl"):
            ends = (config.get("ends") or {}).get(f"{role}s")
            names.append(
                f"{role} {config['impl']}" if ends is None else f"{ends:,} {role}s {config['impl']}"
            )
    return ", ".join(names) or None


def _load(config: Mapping[str, Any]) -> str | None:
    if not config:
        return None
    words, told = [], [("credit_window", "credit {}")]
    if config.get("operation") != "receive":  # a receiver alone does not know the load
        words.append(_rate(config))
        told.insert(0, ("body_size", "bodies of {} B"))
    for key, text in told:
        if value := config.get(key):
            words.append(text.format(value if isinstance(value, str) else f"{value:,}"))
    if config.get("durable"):
        words.append("durable")
    return ", ".join(words)


def _rate(config: Mapping[str, Any]) -> str:
    if config.get("rate_steps"):
        return f"rate steps {config['rate_steps']}"
    rate = config.get("rate")
    return f"{rate:,} messages/s" if rate else "as fast as possible"


def _date(ends: list[Mapping[str, Any]]) -> str | None:
    keys = ("first_send_time", "first_receive_time")
    times = [end["results"].get(key) for end in ends for key in keys]
    known = [time for time in times if time]
    if not known:
        return None
    try:
        moment = datetime.fromtimestamp(min(known) / 1000, tz=timezone.utc)
    except (OverflowError, ValueError, OSError):
        return None  # a clock beyond the range of years
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def run_sentences(run: Mapping[str, Any]) -> list[str]:
    """Return the load of a run and its figures, in plain words.

    Args:
        run: the document of the run.
    """
    ledger = f"{ledger_words(run['ledger'])}." if "ledger" in run else None
    return [*filter(None, (_load_sentence(run), _messages(run), ledger, _latency(run)))]


def ledger_words(ledger: Mapping[str, Any]) -> str:
    """Return the fate of the messages of a run that goes on after lost connections."""
    missing, lost = ledger["acknowledged_unreceived"], ledger["lost"]
    of = counted(ledger["acknowledged_received"] + missing, "acknowledged message", ("was", "were"))
    words = [f"{lost or 0:,} of {of} lost"]
    if lost is None:
        words = [f"{missing:,} of {of} not received, and may be lost or not"]
    words.append(f"{ledger['in_doubt']:,} in doubt")
    failures, gap = len(ledger["failures"]), ledger["gap"]
    if failures:
        of_all = "the gap" if failures == 1 else f"the longest gap of {failures:,} failures"
        words.append(f"{of_all} {'is not known' if gap is None else f'was {seconds_text(gap)}'}")
    else:
        words.append("no connection was lost")
    return "; ".join(words)


def _load_sentence(run: Mapping[str, Any]) -> str | None:
    ends = [end for end in (run["sender"], run["receiver"]) if end is not None]
    config: Mapping[str, Any] = next((end["config"] for end in ends if end["config"]), {})
    if not config:
        return None
    size = config.get("body_size")
    bodies = (
        f" with bodies of {size if isinstance(size, str) else f'{size:,}'} bytes" if size else ""
    )
    if run["sender"] is None:
        return f"Messages{bodies} were received{_where(run, config)}."
    return f"Messages{bodies} were sent {_pace(config)}{_duration(run)}{_where(run, config)}."


def _pace(config: Mapping[str, Any]) -> str:
    if config.get("rate_steps"):
        return f"at rates that change ({config['rate_steps']})"
    if config.get("rate"):
        return f"at a fixed rate of {average_text(config['rate'], '/s')}"
    return "as fast as the receiver gave credit"


def _duration(run: Mapping[str, Any]) -> str:
    seconds = (run["results"] or {}).get("duration")
    return f" for {seconds_text(seconds)}" if seconds else ""


def _where(run: Mapping[str, Any], config: Mapping[str, Any]) -> str:
    if run["peer_to_peer"]:
        return ", directly from a sender to a receiver"
    ends = [run["sender"], run["receiver"], *(run.get("ends") or ())]
    peers = ", ".join(peers_of(ends, peer_to_peer=run["peer_to_peer"]))
    url = config.get("url")
    return "" if not url else f" through {url}" + (f" ({peers})" if peers else "")


def _messages(run: Mapping[str, Any]) -> str | None:
    delivery, results = run["delivery"] or {}, run["results"] or {}
    alone = None if run["sender"] is None else run["sender"]["results"]["message_count"]
    known = {"sent": delivery.get("sent", alone), "received": delivery.get("received")}
    counts = [(done, count) for done, count in known.items() if count is not None]
    if not counts:
        return None
    (done, count), *others = counts
    words = [f"{counted(count, 'message', ('was', 'were'))} {done}"]
    words += [f"{count:,} {done}" for done, count in others]
    rate = results.get("end_to_end_rate")
    told = "" if rate is None else f": {average_text(rate, '/s')} from end to end"
    told += f", {body_rate_text(results['body_rate'])}" if "body_rate" in results else ""
    return f"{' and '.join(words)}{told}."


def _latency(run: Mapping[str, Any]) -> str | None:
    latency = (run["receiver"] or {}).get("latency") or {"count": 0}
    if not latency["count"]:
        return None
    config = (run["sender"] or {}).get("config") or {}
    values, unit = latency["percentiles"], latency["unit"]
    after = f"the {latency['count']:,} after the warm-up" if config.get("warmup") else "them"
    parts = [f"Half of {after} took at most {latency_text(values['50'], unit)}"]
    if exists("99", latency["count"]):
        parts.append(f"99 % took at most {latency_text(values['99'], unit)}")
    parts.append(f"the slowest took {latency_text(values['100'], unit)}")
    window = (config.get("credit_window") or 0) * (config.get("ends") or {"senders": 1})["senders"]
    paced = config.get("rate") or config.get("rate_steps")
    waited = config and not paced and latency["count"] > window
    why = " The credit window was kept full, and each message waited for those before it."
    return f"{', '.join(parts)}.{why if waited else ''}"
