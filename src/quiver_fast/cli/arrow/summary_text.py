"""The printed summary: the configuration and the sections of a run in upstream's layout."""

from __future__ import annotations

from typing import Any

from quiver_fast.analysis.figures.environment import peer_use_text, peers_of
from quiver_fast.analysis.sections.rows import Row, Section, number
from quiver_fast.analysis.sections.run import run_of, run_sections
from quiver_fast.analysis.show.text import section_text
from quiver_fast.options.arrow import ARROW_OPTIONS


def pair_summary_text(run: dict[str, Any]) -> str:
    """Return the summary of a run, from the document that ``--json`` prints.

    Where the summaries of its ends have no configuration, neither has the text.
    """
    sections = run_sections(run)
    first = [one for one in sections if one.title == "INCOMPLETE"]
    shown = [*first, Section("CONFIGURATION", _configuration(run)), *sections[len(first) :]]
    return "".join(map(section_text, shown))


def arrow_summary_text(summary: dict[str, Any]) -> str:
    """Return the summary that `quiver-arrow --summary` prints, from the arrow's summary."""
    return pair_summary_text(run_of(summary))


def _configuration(run: dict[str, Any]) -> list[Row]:
    """Return the options and the arrows."""
    ends = [run[role] for role in ("sender", "receiver") if run[role] is not None]
    configs = [end["config"] for end in ends if end["config"] is not None]
    if not configs:
        return []
    config = configs[0]
    # The summary of many ends has no report of an arrow; the summaries of the ends have.
    peers = peers_of([*ends, *(run.get("ends") or ())], peer_to_peer=bool(run.get("peer_to_peer")))
    uses = [used for end in ends if (used := peer_use_text(end.get("host_use"))) is not None]
    counts = config.get("ends") or {}
    rows = [
        *(_implementation(one, counts) for one in configs),
        Row("URL", config["url"]),
        *(Row("Peer", peer) for peer in peers),
        *(Row("Peer's process", used) for used in uses[:1]),
        Row("Output files", config["output_dir"]),
    ]
    if counts.get("queues") and config["connection_mode"] == "client":
        rows.append(Row("Queues", f"{counts['queues']:,}"))
    if config["count"]:
        rows.append(number("Count", config["count"], "messages"))
    if config["duration"]:
        rows.append(number("Duration", config["duration"], "seconds"))
    if config.get("warmup"):
        rows.append(number("Warm-up", config["warmup"], "seconds", None, ",g"))
    rows.append(_body_size(config["body_size"]))
    rows.append(number("Credit window", config["credit_window"], "messages"))
    if config["transaction_size"]:
        rows.append(number("Transaction size", config["transaction_size"], "messages"))
    if config["durable"]:
        rows.append(Row("Durable", "Yes"))
    if config["set_message_id"]:
        rows.append(Row("Set message ID", "Yes"))
    rows += [
        Row(option.title, str(config[option.name]))
        for option in ARROW_OPTIONS
        if option.title and config.get(option.name)
    ]
    properties = config.get("properties") or {}
    if properties:
        shown = ", ".join(f"{name}={value}" for name, value in properties.items())
        rows.append(Row("Properties", shown))
    return rows


def _implementation(config: dict[str, Any], ends: dict[str, Any]) -> Row:
    """Return the implementation of an end, with the number of ends where there are many."""
    role = {"send": "Sender", "receive": "Receiver"}[config["operation"]]
    count = ends.get(f"{role.lower()}s")
    return Row(role, f"{config['impl']}" if count is None else f"{count:,} x {config['impl']}")


def _body_size(size: int | str) -> Row:
    if isinstance(size, str):
        return Row("Body sizes", f"{size} bytes")
    return number("Body size", size, "bytes")
