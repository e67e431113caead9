"""The environment of a run, for a later comparison of summaries, and the peers of its arrows."""

from __future__ import annotations

import os
import platform
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import quiver_fast
from quiver_fast.arguments import endpoint
from quiver_fast.proton import info

_CPU_INFO = Path("/proc/cpuinfo")
_CPU_NAME = r"(?m)^(?:model name|Hardware|Model)\s*:\s*(.+)$"
_HIDDEN = "***"
# Shares of the time from which on a control group, and other processes, make an end late. A pair
# at full speed with its server on two cores waits in a third of the time.
_THROTTLED, _STARVED = 0.02, 0.5
# Expressions are compiled when a summary is written, not when a command starts.
# An option is known by its beginning, and may have its value within the word.
_HIDING_OPTION = r"(?s)--pass[a-z]*(?:=.*)?"
_USER_INFO = r"(?<=//)([^/@:\s]*):[^/\s]*@"

OTHER_END = "the other end"


def environment() -> dict[str, Any]:
    """Return versions of the tool and of its libraries, facts of the host, and the command."""
    return {
        "quiver_fast": quiver_fast.__version__,
        "proton": info.engine_version(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "kernel": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "cpu_count": os.cpu_count(),
        "cpu": _cpu_name(),
        "host": platform.node() or None,
        "command": shown_command(sys.argv),
    }


def host_use_text(use: Mapping[str, Any], *, notable: bool = False) -> str | None:
    """Return the use of the host's CPU during a run in words.

    Args:
        use: the section ``host_use``.
        notable: only parts that make a process late; None without any.
    """
    words = [
        (use["busy"], 0.9, "CPU {:.0%} busy"),
        (use["stolen"], 0.01, "{:.1%} of it stolen by the hypervisor"),
        (use["waiting"], 0.1, "tasks waited for a core in {:.0%} of the time"),
        (use["throttled_seconds"], 0.01, "throttled for {:.2f} s by a control group"),
    ]
    parts = [
        text.format(value)
        for value, least, text in words
        if value is not None and (value >= least or (not notable and least == 0.9))
    ]
    return ", ".join(parts) or None


def peer_use_text(use: Mapping[str, Any] | None) -> str | None:
    """Return what the peer's process used during a run, in words; None where nothing tells.

    Args:
        use: the section ``host_use`` of an end, if it has one.
    """
    peer = (use or {}).get("peer")
    if peer is None:
        return None
    cores = "" if peer["cores"] is None else f"{peer['cores']:.2f} cores, "
    return f"{peer['name']}: {cores}{peer['memory_bytes'] / 1e6:,.0f} MB"


def starved_text(role: str, use: Mapping[str, Any] | None) -> str | None:
    """Say that an end did not get the CPU that it needed, in words; None where it did.

    Args:
        role: "sender" or "receiver".
        use: its section ``host_use``, if it has one.
    """
    if use is None or not use.get("seconds"):
        return None
    throttled = (use["throttled_seconds"] or 0) / use["seconds"] >= _THROTTLED
    starved = use.get("starved") or 0
    if starved < (_THROTTLED if throttled else _STARVED):
        return None
    cause = "a control group" if throttled else "other processes, or a limit,"
    return (
        f"the {role} waited for a core in {starved:.0%} of the time: {cause} held it back, "
        "and latencies and rates have that in them"
    )


def shown_command(words: Sequence[str]) -> str:
    """Return a command line as a shell takes it, with ``***`` for each password."""
    return shlex.join(_shown_words(words))


def _shown_words(words: Sequence[str]) -> Iterator[str]:
    secret_follows = False
    for number, word in enumerate(words):
        if secret_follows:
            yield _HIDDEN
            secret_follows = False
        elif re.fullmatch(_HIDING_OPTION, word):
            option, equals, _ = word.partition("=")
            secret_follows = not equals
            yield f"{option}={_HIDDEN}" if equals else option
        elif number == 0:
            yield Path(word).name
        else:
            yield re.sub(_USER_INFO, rf"\1:{_HIDDEN}@", word)


def _cpu_name() -> str | None:
    """Return the name of the processor; None where the system does not tell it."""
    try:
        text = _CPU_INFO.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.processor() or None
    found = re.search(_CPU_NAME, text)
    return found[1].strip() if found else platform.processor() or None


def peers_of(ends: Iterable[Mapping[str, Any] | None], *, peer_to_peer: bool) -> list[str]:
    """Return product, version and address of the peers, each once.

    Args:
        ends: summaries of arrows. A foreign arrow has no report: nothing is known of its peer.
        peer_to_peer: the arrows were connected to each other.
    """
    if peer_to_peer:
        return [OTHER_END]
    reports = [(end or {}).get("arrow") or {} for end in ends]
    found = [_peer_text(report.get("peer")) for report in reports]
    return list(dict.fromkeys(text for text in found if text))


def _peer_text(peer: Any) -> str | None:
    if not isinstance(peer, Mapping):
        return None
    address, port = _word(peer.get("address")), peer.get("port")
    place = endpoint(address, port) if address and isinstance(port, int) else None
    return " at ".join(word for word in (_name(peer), place) if word) or None


def _name(peer: Mapping[str, Any]) -> str | None:
    words = [_word(peer.get("product")), _word(peer.get("version"))]
    if any(words):
        return " ".join(word for word in words if word)
    container = _word(peer.get("container"))
    return f"{container} (its container id; it names no product)" if container else None


def _word(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
