"""A run in sentences: the load, and what came out of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quiver_fast.analysis.figures.peers import peers_of
from quiver_fast.analysis.model.ranks import exists
from quiver_fast.analysis.model.units import (
    average_text,
    body_rate_text,
    latency_text,
    seconds_text,
)
from quiver_fast.words import counted


def run_sentences(run: Mapping[str, Any]) -> list[str]:
    """Return the load of a run and its figures, in plain words.

    Args:
        run: the document of the run.
    """
    return [*filter(None, (_load(run), _messages(run), _latency(run)))]


def _load(run: Mapping[str, Any]) -> str | None:
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
