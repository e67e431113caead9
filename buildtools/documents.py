"""Write the generated blocks of the documents, from the code and from measured figures.

A block stands between `<!-- generated: NAME -->` and `<!-- end -->`. Run `make docs` after a
change; a test compares.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from bench import record
from bench.comparison import METRICS, Limit, load_floors
from bench.instructions import load_baselines
from buildtools import conform_blocks
from quiver_fast.analysis.model.figures import FIGURES, LATENCY
from quiver_fast.cli.bench import command as bench
from quiver_fast.cli.conform import command as conform
from quiver_fast.cli.pair import command as pair
from quiver_fast.options.arrow import ARROW_OPTIONS, SECURITY
from quiver_fast.options.option import Option, default_text, key_text
from quiver_fast.options.server import SERVER_OPTIONS

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])

_BLOCK = re.compile(r"(<!-- generated: ([^>]+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
# Options of every command, which nobody looks up in a document.
_EVERYWHERE = {"--help", "--version", "--completion", "--init-only"}


def main() -> int:
    """Rewrite the blocks of all pages."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        new = rewritten(text)
        if new != text:
            page.write_text(new, encoding="utf-8")
            print(f"written: {page.relative_to(ROOT)}")
    return 0


def rewritten(text: str) -> str:
    """Return a page with all its blocks written anew."""
    return _BLOCK.sub(lambda match: f"{match[1]}\n{BLOCKS[match[2]]()}\n{match[4]}", text)


def blocks_in(text: str) -> list[str]:
    """Return the names of the blocks of a page."""
    return [match[2] for match in _BLOCK.finditer(text)]


def options_table(parser: argparse.ArgumentParser, without: Iterable[str] = ()) -> str:
    """Return a table of the options of a command.

    Args:
        parser: the parser of the command.
        without: flags to leave out.
    """
    rows = []
    for action in parser._actions:
        flags = action.option_strings
        if flags and not {*_EVERYWHERE, *without} & set(flags):
            shown = str(action.help).replace(" (see below)", "").replace("%%", "%")
            rows.append((_option_text(action), shown))
    return table(("option", "meaning (default)"), rows)


def _option_text(action: argparse.Action) -> str:
    value = "" if action.nargs == 0 else f" {action.metavar or ','.join(action.choices or ())}"
    return ", ".join(f"`{flag}`" for flag in action.option_strings[:-1]) + (
        f"{', ' if action.option_strings[1:] else ''}`{action.option_strings[-1]}{value}`"
    )


def keys_table(options: Iterable[Option], command: str) -> str:
    """Return a table of the keys of a contract, and the flags of `command` that set them."""
    rows = []
    for option in options:
        if option.key:
            meaning = option.about + (f"; 0: {option.zero}" if option.zero else "")
            flag = f"`{option.flag}`" if option.flag else ""
            rows.append((f"`{key_text(option)}`", default_text(option), flag, meaning))
    return table(("key", "default", f"`{command}`", "meaning"), rows)


def table(heading: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Return a table in Markdown."""
    lines = [heading, ("---",) * len(heading), *rows]
    return "".join(f"| {' | '.join(_cell(cell) for cell in line)} |\n" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<queue>", "QUEUE")


def _figures_of_conditions() -> str:
    """Return the registry of figures; a comparison has a change of those with a key."""
    rows = []
    for one in FIGURES.values():
        units = ", ".join(filter(None, one.quantity.limits))
        place = f"{'receiver/latency/' * (one.quantity is LATENCY)}{one.place}" or "comparison"
        where = (f"`{words}`" if words else "" for words in (place, one.period, one.key or ""))
        rows.append((one.name, one.unit, units, *where))
    heads = ("figure", "unit", "units of limits", "place in the document",
             "snapshot of a period", "figure of sets")  # fmt: skip
    return table(heads, rows)


def _of_bench() -> str:
    shared = {flag for action in pair.make_parser()._actions for flag in action.option_strings}
    return options_table(bench.make_parser(), shared - {"--cert", "--key", "--resume"})


def _of_conform() -> str:
    security = (flag for option in ARROW_OPTIONS if option.group == SECURITY and option.flag
                for flag in (option.letter, option.alias, option.flag) if flag)  # fmt: skip
    others = ("--password-file", "--expose-password")
    return options_table(conform.make_parser(), {*security, *others})


def _server_figures() -> str:
    found = record.load()
    hundred, paced = found["server-100"], found["server-paced"]
    rows = [
        ("100-byte messages through the server", *_both(hundred["rate"], _rate)),
        ("server's CPU for each of them", *_both(hundred["server_cpu"], _micro)),
        ("server's memory at its peak", *_both(hundred["server_rss"], _megabytes)),
        ("memory at its peak, 50,000 messages a second", *_both(paced["server_rss"], _megabytes)),
    ]
    for name, size in (("server-1k", "1,000"), ("server-10k", "10,000")):
        rates, used = _both(found[name]["rate"], _rate), _both(found[name]["server_cpu"], _micro)
        rows.append((f"{size}-byte messages", *map(", ".join, zip(rates, used, strict=True))))
    return table(("", "ours", "example broker"), rows)


def _more_server_figures() -> str:
    found = record.load()
    idle, selector = found["old-idle"]["server_rss"].ours or 0, found["selector"]
    rates = " and ".join(_both(selector["rate"], _rate))
    shares = selector["rate"].ratio, selector["server_cpu"].ratio
    rows = [
        ("10,000 idle connections with a session and a link each", f"{idle:,.0f} MB", "idle"),
        (
            f"one consumer with a selector, beside one without: {rates}",
            "{:.2f} of the rate, {:.2f} of the server's CPU".format(*shares),
            "selective",
        ),
    ]
    command = "`make bench PYTEST_ARGS=\"-k 'reach and {}'\"`"
    return table(("", "ours", "command"), [(*row[:2], command.format(row[2])) for row in rows])


def _stream_figures() -> str:
    found = record.load()
    cases = found["old-stream-1m"], found["old-stream-100m"]
    whole, relay = (found[name]["throughput"].ratio for name in ("body-relay-1m", "stream-relay"))
    rows = [
        ("rate", *(f"{case['throughput'].ours:,.0f} MB/s" for case in cases)),
        ("CPU time of the server", *(f"{case['stream_cpu'].ours:.2f} ms/MB" for case in cases)),
        ("peak memory of the server", *(_megabytes(case["rss"].ours) for case in cases)),
        ("rate, ratio to a raw TCP relay", f"{whole:.2f} (no streams)", f"{relay:.2f}"),
    ]
    return table(("", "bodies of 1 MB", "bodies of 100 MB"), rows)


def _durable_figures() -> str:
    rows = []
    for policy in ("none", "group"):
        case = record.load()[f"durable-{policy}"]
        rates, used = _both(case["rate"], _rate), _both(case["server_cpu"], _micro)
        per_sync = case["per_sync"].ours if "per_sync" in case else 1
        batches = f", {per_sync:,.0f} messages per sync" if per_sync and per_sync > 1 else ""
        stored, other = map(", ".join, zip(rates, used, strict=True))
        rows.append((f"`{policy}`", stored + batches, other, f"{case['rate'].ratio:.2f}"))
    return table(("", "stored", "not stored", "share (median of rounds)"), rows)


def _how_fast() -> str:
    found = record.load()
    ours = found["body-100"]["rate"].ours or 0
    peers = {
        "an idiomatic C client on Qpid Proton (`-O2`)": found["body-100"],
        "ZeroMQ PUSH to PULL, which acknowledges nothing": found["zmq-body-100"],
    }
    rows = [
        (name, f"{case['rate'].ratio:.1f} times",
         " / ".join(f"{case[f'{end}_cpu'].ratio:.2f}" for end in ("sender", "receiver")))
        for name, case in peers.items()
    ]  # fmt: skip
    rate = f"our rate: {ours / 1000:.1f} M/s, compared with"
    return table((rate, "rate", "CPU per message, share of sender / receiver"), rows)


_ARROW_ROWS = {
    "100-byte bodies, credit 1000": ("body-100",),
    "with message ids": ("message-ids",),
    "with settlement records (v2)": ("settlement",),
    "body 0 / 1 B": ("body-0", "body-1"),
    "body 1 kB / 10 kB": ("body-1k", "body-10k"),
    "body 100 kB / 1 MB": ("body-100k", "body-1m"),
    "credit 1 / 10 / 100": ("credit-1", "credit-10", "credit-100"),
    "credit 10 k / 100 k": ("credit-10k", "credit-100k"),
}


def _arrow_figures() -> str:
    found = record.load()
    rows = []
    for label, cases in _ARROW_ROWS.items():
        cells = []
        for metric, shown in (("rate", _rate), ("sender_cpu", _nano), ("receiver_cpu", _nano)):
            figures = [found[case][metric] for case in cases]
            ours = figures[0].ours if len(figures) == 1 else None
            ratios = " / ".join(f"{figure.ratio:.2f}" for figure in figures)
            cells.append(ratios if ours is None else f"{ratios} ({shown(ours)})")
        rows.append((label, *cells))
    return table(("workload", "rate, ratio to the reference", "sender CPU", "receiver CPU"), rows)


def _latency_figures() -> str:
    rows = []
    for rate in ("10k", "50k", "100k"):
        case = record.load()[f"latency-{rate}"]
        cells = [f"{case[one].ours:.0f} ({case[one].ratio:.2f})" for one in ("p50", "p99", "p99.9")]
        rows.append((f"{rate[:-1]} k/s", *cells))
    return table(("rate", "p50", "p99", "p99.9"), rows)


_INSTRUCTION_ROWS = {
    "send a message": "send",
    "receive a message": "receive",
    "take and deliver a message, in the server": "server",
    "write a record": "write",
    "parse a record": "parse",
}


def _instruction_figures() -> str:
    counts, found = load_baselines()["x86_64-cpython-3.11"], record.load()
    rows = []
    for label, name in _INSTRUCTION_ROWS.items():
        case = found.get(f"instructions-{name}")
        before = f"{case['instructions'].reference:,.0f}" if case else ""
        rows.append((label, f"{counts[name]:,.0f}", before))
    return table(("work", "ours", "old"), rows)


_REACH_ROWS = {
    "100 B, credit 1000: rate, to old": ("old-body-100", "rate"),
    "… to libzmq": ("zmq-body-100", "rate"),
    "… to a raw TCP copy": ("tcp-body-100", "throughput"),
    "… sender's CPU, to old": ("old-body-100", "sender_cpu"),
    "… receiver's CPU, to old": ("old-body-100", "receiver_cpu"),
    "both ends on one CPU": ("old-one-cpu", "rate"),
    "five busy processes beside them": ("old-busy", "rate"),
    "with ids": ("old-message-ids", "rate"),
    "with settlement records": ("old-settlement", "rate"),
    "instructions, send": ("instructions-send", "instructions"),
    "instructions, receive": ("instructions-receive", "instructions"),
    "credit 1": ("old-credit-1", "rate"),
    "credit 10": ("old-credit-10", "rate"),
    "credit 100": ("old-credit-100", "rate"),
    "credit 10,000": ("old-credit-10k", "rate"),
    "bodies of 1 kB": ("old-body-1k", "rate"),
    "bodies of 10 kB": ("old-body-10k", "rate"),
    "bodies of 100 kB": ("old-body-100k", "rate"),
    "bodies of 1 MB": ("old-body-1m", "rate"),
    "a stream of 10 GB": ("old-stream-10g", "throughput"),
    "latency at 10 k/s, p50": ("old-latency-10k", "p50"),
    "latency at 10 k/s, p99": ("old-latency-10k", "p99"),
    "latency at 10 k/s, p99.9": ("old-latency-10k", "p99.9"),
    "latency at 50 k/s, p50": ("old-latency-50k", "p50"),
    "latency at 50 k/s, p99": ("old-latency-50k", "p99"),
    "latency at 50 k/s, p99.9": ("old-latency-50k", "p99.9"),
    "latency at 100 k/s, p50": ("old-latency-100k", "p50"),
    "latency at 100 k/s, p99": ("old-latency-100k", "p99"),
    "latency at 100 k/s, p99.9": ("old-latency-100k", "p99.9"),
    "TLS 1.3, 100 B, to no TLS": ("tls-body-100", "rate"),
    "TLS 1.3, 1 MB, to OpenSSL's copy": ("tls-body-1m", "throughput"),
    "through the server: rate, to old": ("old-server-100", "rate"),
    "… its CPU, to old": ("old-server-100", "server_cpu"),
    "… rate, to core NATS": ("nats-server-100", "rate"),
    "… its CPU, to core NATS": ("nats-server-100", "server_cpu"),
    "… TLS 1.3 on both sides, to no TLS": ("tls-server-100", "rate"),
    "… eight pairs, each with its queue, to one": ("queues-8", "rate"),
    "… latency at 50 k/s, p50, to old": ("old-server-latency-50k", "p50"),
    "… latency at 50 k/s, p99, to old": ("old-server-latency-50k", "p99"),
    "… latency at 50 k/s, p99.9, to old": ("old-server-latency-50k", "p99.9"),
    "streams of 1 MB through it, to old": ("old-stream-1m", "throughput"),
    "streams of 100 MB through it, to old": ("old-stream-100m", "throughput"),
    "sender's memory": ("old-body-100", "sender_rss"),
    "receiver's memory": ("old-body-100", "receiver_rss"),
    "one more stalled stream": ("old-stalled", "held"),
    "10,000 idle connections": ("old-idle", "server_rss"),
    "start-up of a sender": ("old-startup", "sender_start"),
    "… of a receiver, until it listens": ("old-startup", "receiver_start"),
}


def _reach_figures() -> str:
    found, floors = record.load(), load_floors()
    rows = []
    for label, (case, metric) in _REACH_ROWS.items():
        if case not in found:
            rows.append((label, "not measured", "", "", ""))
            continue
        figure, limit = found[case][metric], floors[case][metric]
        unit = METRICS[metric].unit
        shown = (f"{number or 0:,.4g} {unit}".strip() for number in (figure.ours, figure.reference))
        rows.append((label, *shown, f"{figure.ratio:.3g}", _goal(limit, figure.ratio)))
    return table(("work", "ours", "reference", "gated", "goal"), rows)


def _goal(limit: Limit, gated: float) -> str:
    if limit.aim is None:
        return str(limit)
    reached = gated >= limit.aim if limit.floor is not None else gated <= limit.aim
    return f"{limit.aim:g}" + ("" if reached else ", not reached")


def _both(figure: record.Figure, shown: Callable[[float | None], str]) -> tuple[str, str]:
    return shown(figure.ours), shown(figure.reference)


def _rate(thousands: float | None) -> str:
    return f"{thousands or 0:,.0f} k/s"


def _micro(nanoseconds: float | None) -> str:
    return f"{(nanoseconds or 0) / 1000:.2g} µs"


def _nano(nanoseconds: float | None) -> str:
    return f"{nanoseconds or 0:.0f} ns"


def _megabytes(megabytes: float | None) -> str:
    return f"{megabytes or 0:.0f} MB"


BLOCKS: dict[str, Callable[[], str]] = {
    "options of quiver": lambda: options_table(pair.make_parser()),
    "options of quiver-bench": _of_bench,
    "options of quiver-conform": _of_conform,
    "keys of the arrow": lambda: keys_table(ARROW_OPTIONS, "quiver-arrow"),
    "keys of the server": lambda: keys_table(SERVER_OPTIONS, "quiver-server"),
    "figures of conditions": _figures_of_conditions,
    "figures of the server": _server_figures,
    "more figures of the server": _more_server_figures,
    "figures of streams": _stream_figures,
    "figures of durable messages": _durable_figures,
    "how fast": _how_fast,
    "figures of the arrow": _arrow_figures,
    "figures of latency": _latency_figures,
    "figures of instructions": _instruction_figures,
    "figures of the reach": _reach_figures,
} | conform_blocks.blocks(table)


if __name__ == "__main__":
    sys.exit(main())
