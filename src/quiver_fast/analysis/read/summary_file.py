"""The wrapper's summary beside records: found, read and checked in one place.

A damaged summary, or somebody else's file in its place, is one error that names it.
"""

from __future__ import annotations

import json
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from quiver_fast.analysis.read.record_names import beside
from quiver_fast.errors import RecordError, UsageError
from quiver_fast.rate_steps import parse_arrivals, parse_rate_steps

# A summary has a row per second: this is enough for years.
_LARGEST = 256 << 20
_MOST = 2**63
_HUGE = 10**30
_MOST_ENDS = 100_000
_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a directory",
}

Check = Callable[[Any], bool]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < _MOST


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and _is_number(value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _is_steps(value: Any) -> bool:
    try:
        return _is_text(value) and bool(parse_rate_steps(value) or not value)
    except UsageError:
        return False


def _is_arrivals(value: Any) -> bool:
    try:
        return _is_text(value) and (parse_arrivals(value) is not None or not value)
    except UsageError:
        return False


def _is_schedule(value: Any) -> bool:
    """Say whether it has how late messages left: null, or percentiles; and its times."""
    if not _is_object(value) or "late_us" not in value:
        return False
    if not (value.get("sending_ns") is None or _is_count(value["sending_ns"])):
        return False
    parts = value.get("late_by_us")
    if parts is not None and not (_is_object(parts) and all(map(_is_lateness, parts.values()))):
        return False
    over_time = value.get("over_time")
    if over_time is not None and not _is_over_time(over_time):
        return False
    return value["late_us"] is None or _is_lateness(value["late_us"])


def _is_ends(value: Any) -> bool:
    """Say whether it is a number of ends, or of queues, that a side can have."""
    return _is_count(value) and 1 <= value <= _MOST_ENDS


def _is_counts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_count, value))


def _is_failures(value: Any) -> bool:
    """Say whether it is a list of lost connections."""
    return isinstance(value, list) and all(map(_is_failure, value))


def _is_failure(value: Any) -> bool:
    ranges = (value.get(key, []) for key in ("in_doubt", "resent")) if _is_object(value) else [0]
    return (
        all(isinstance(one, list) and all(map(_is_range, one)) for one in ranges)
        and _is_range(value.get("ends"))
        and all(map(_is_count, (value.get("lost_at"), value.get("attempts"))))
        and ("back_at" in value and _or_null(_is_count)(value["back_at"]))
        and _is_text(value.get("reason"))
        and _is_number(value.get("pause"))
    )


def _is_range(value: Any) -> bool:
    return _is_counts(value) and len(value) == 2 and value[0] <= value[1]


def _is_lateness(value: Any) -> bool:
    return _is_object(value) and "p50" in value and all(map(_is_number, value.values()))


def _is_over_time(value: Any) -> bool:
    """Say whether it has a step in seconds, and lists of counts that are equally long."""
    if not _is_object(value) or not _is_count(value.get("seconds")) or not value["seconds"]:
        return False
    parts = value.get("late_by_us")
    if not _is_object(parts):
        return False
    lists = [value.get("sent"), value.get("late_us"), *parts.values()]
    if not all(isinstance(one, list) and len(one) == len(lists[0]) for one in lists):
        return False
    return all(_is_count(number) for one in lists for number in one)


def _is_clock_step(value: Any) -> bool:
    """Say whether it has by how much a clock was set, back or forward, when, and in whose times."""
    if not _is_object(value) or not _is_flag(value.get("in_times")):
        return False
    step = value.get("milliseconds")
    size = -step if isinstance(step, int | float) and step < 0 else step
    return _is_number(size) and _is_number(value.get("after_seconds"))


def _is_host_use(value: Any) -> bool:
    """Say whether it has the keys of :meth:`.host_use.HostUse.section`."""
    keys = ("busy", "stolen", "waiting", "throttled_seconds")
    return (
        _is_object(value)
        and all(key in value and _or_null(_is_number)(value[key]) for key in keys)
        and all(_or_null(_is_number)(value.get(key)) for key in ("seconds", "starved"))
        and _or_null(_is_peer_use)(value.get("peer"))
    )


def _is_peer_use(value: Any) -> bool:
    return (
        _is_object(value)
        and _is_text(value.get("name"))
        and "cores" in value
        and _or_null(_is_number)(value["cores"])
        and _is_number(value.get("memory_bytes"))
    )


def _is_moment(value: Any) -> bool:
    """Say whether it is a time of the monotonic clock of some boot."""
    return (
        _is_object(value)
        and _is_count(value.get("ns"))
        and "boot" in value
        and _or_null(_is_text)(value["boot"])
    )


def _is_relay(value: Any) -> bool:
    return _is_object(value) and all(_is_number(value.get(key)) for key in ("p50_us", "p99_us"))


def _is_faults(value: Any) -> bool:
    return isinstance(value, list) and all(
        _is_object(one)
        and all(_or_null(_is_number)(one.get(key)) for key in ("at", "until", "began"))
        and all(_or_null(_is_text)(one.get(key)) for key in ("text", "proof", "problem"))
        for one in value
    )


def _is_time(value: Any) -> bool:
    """Say whether it is a time, which may be negative, and its number."""
    return (
        isinstance(value, list)
        and len(value) == 2
        and isinstance(value[0], int)
        and _is_count(abs(value[0]))
        and _is_count(value[1])
    )


def _is_replies(value: Any) -> bool:
    """Say whether it has the counts of a requester, and its times, or those of a responder."""
    if not _is_object(value):
        return False
    if "replied" in value:
        return all(map(_is_count, value.values()))
    pairs = [value.get(key) for key in ("back", "work")]
    counts = ("in_time", "late", "duplicate", "foreign", "timed_out")
    return all(_is_count(value.get(key)) for key in counts) and all(
        isinstance(rows, list) and all(map(_is_time, rows)) for rows in pairs
    )


def _is_drain(value: Any) -> bool:
    return _is_moment(value) and _is_flag(value.get("senders_ended"))


def _or_null(check: Check) -> Check:
    return lambda value: value is None or check(value)


# A configuration of today has these keys.
_CONFIG: dict[str, Check] = {
    "operation": lambda value: value in ("send", "receive"),
    "impl": _or_null(_is_text),
    "url": _or_null(_is_text),
    "output_dir": _or_null(_is_text),
    "connection_mode": _or_null(_is_text),
    "count": _is_count,
    "duration": _is_number,
    "body_size": lambda value: _is_text(value) or _is_count(value),
    "credit_window": _is_count,
    "transaction_size": _is_count,
    "durable": _is_flag,
    "set_message_id": _is_flag,
}
# Two keys have other names in upstream 0.1. Other keys came later, `set_message_id` with us: a
# configuration without one has the value of an option that is not given.
_EARLIER_NAMES = {"address": "url", "messages": "count"}
_LATER_KEYS = {"duration": 0, "transaction_size": 0, "durable": False, "set_message_id": False}
# Other parts may have these keys; null is the same as no key.
_OPTIONAL: dict[tuple[str, ...], Check] = {
    ("config",): _is_object,
    ("config", "rate"): _is_number,
    ("config", "rate_steps"): _is_steps,
    ("config", "arrivals"): _is_arrivals,
    ("config", "run_start"): _is_count,
    ("config", "warmup"): _is_number,
    ("config", "run_id"): _is_text,
    ("config", "backlog"): _is_count,
    ("config", "properties"): _is_object,
    ("config", "ends"): _is_object,
    ("config", "ends", "url"): _is_text,
    ("config", "modify"): _is_text,
    ("config", "ends", "count"): _is_count,
    ("config", "ends", "rate"): _is_number,
    ("config", "ends", "rate_steps"): _is_steps,
    ("config", "ends", "senders"): _is_ends,
    ("config", "ends", "receivers"): _is_ends,
    ("config", "ends", "first"): _is_count,
    ("config", "ends", "members"): _is_ends,
    ("config", "ends", "queues"): _is_ends,
    ("complete",): _is_flag,
    ("reason",): _is_text,
    ("exit_code",): lambda value: isinstance(value, int),
    ("clock_step",): _is_clock_step,
    ("environment",): _is_object,
    ("host_use",): _is_host_use,
    ("arrow",): _is_object,
    ("arrow", "queue_empty"): _is_flag,
    ("arrow", "settled_at"): _is_moment,
    ("arrow", "drained_at"): _is_drain,
    ("arrow", "rejected"): _is_count,
    ("arrow", "released"): _is_count,
    ("arrow", "modified"): _is_count,
    ("arrow", "aborted"): _is_count,
    ("arrow", "schedule"): _is_schedule,
    ("arrow", "request_reply"): _is_replies,
    ("arrow", "ends"): _is_object,
    ("arrow", "ends", "counts"): _is_counts,
    ("dead_letters",): _is_object,
    ("dead_letters", "count"): _is_count,
    ("failures",): _is_failures,
    ("workload",): _is_object,
    ("faults",): _is_faults,
    ("relay",): _is_relay,
    ("results",): _is_object,
    ("results", "message_count"): _is_count,
    ("warmup",): _is_object,
    ("warmup", "message_count"): _is_count,
    ("delivery",): _is_object,
    ("delivery", "older"): _is_count,
    ("delivery", "foreign"): _is_count,
}


def check_regular(path: Path) -> None:
    """See to it that ``path`` is a file of bytes: to open a pipe waits for its writer.

    Raises:
        RecordError: it is something else.
        OSError: it cannot be looked at.
    """
    mode = path.stat().st_mode
    if not stat.S_ISREG(mode):
        raise RecordError(f"{path} is {_KINDS[stat.S_IFMT(mode)]}, not a file")


def summary_path(path: Path) -> Path | None:
    """Return the wrapper's summary file beside the records at ``path``, if there is one."""
    place = beside(path, "summary.json")
    return place if place is not None and place.exists() else None


def summary_document(place: Path) -> dict[str, Any]:
    """Return the summary in the file at ``place``.

    Its ``config`` has the keys of today, if an early version of upstream wrote it.

    Raises:
        RecordError: it is damaged, or no summary.
        OSError: it cannot be read.
    """
    document = read_document(place, "summary", _fault)
    if document.get("config") is not None:
        document["config"] = _of_today(document["config"])
    return document


def _of_today(config: Mapping[str, Any]) -> dict[str, Any]:
    return _LATER_KEYS | {_EARLIER_NAMES.get(key, key): value for key, value in config.items()}


def workload_beside(path: Path) -> dict[str, Any] | None:
    """Return the options that made the run whose records are at ``path``; None if no file tells.

    Raises:
        RecordError: the summary is damaged.
        OSError: it cannot be read.
    """
    place = summary_path(path)
    return None if place is None else summary_document(place).get("workload")


def read_document(place: Path, kind: str, fault_of: Callable[[Any], str | None]) -> dict[str, Any]:
    """Return the JSON document in the file at ``place``.

    Args:
        place: the file.
        kind: the kind of document, in a word.
        fault_of: returns the fault of a document, None for none.

    Raises:
        RecordError: it is damaged, or something else.
        OSError: it cannot be read.
    """
    check_regular(place)
    size = place.stat().st_size
    if size > _LARGEST:
        raise RecordError(f"{place} is no {kind}: it has {size:,} bytes")
    try:
        document = json.loads(
            place.read_bytes(),
            parse_float=lambda text: _finite(text, float(text)),
            parse_int=lambda text: _finite(text, int(text)),
            parse_constant=lambda text: _finite(text, float(text)),
        )
    except ValueError as error:
        raise RecordError(f"{place} is damaged: {error}") from None
    except RecursionError:
        raise RecordError(f"{place} is no {kind}: it is nested too deep") from None
    fault = fault_of(document)
    if fault is not None:
        raise RecordError(f"{place} is no {kind}: {fault}")
    found: dict[str, Any] = document
    return found


def _finite(text: str, number: float) -> float:
    """Return a number that figures can be computed and drawn with."""
    if not -_HUGE < number < _HUGE:
        raise ValueError(f"{text[:20]} is no number of a measurement")
    return number


def _fault(document: Any) -> str | None:
    """Return the first fault of a document that should be a summary, None for none."""
    if not _is_object(document):
        return "it is no object"
    if not any(names[0] in document for names in _OPTIONAL):
        return "it has no config, no results, nothing of one"
    for names, check in _OPTIONAL.items():
        value = _at(document, names)
        if value is not None and not check(value):
            return f"{'.'.join(names)} is {_shown(value)}"
    config = document.get("config")
    return None if config is None else _config_fault(_of_today(config))


def _config_fault(config: Mapping[str, Any]) -> str | None:
    for name, check in _CONFIG.items():
        if name not in config:
            return f"config.{name} is missing"
        if not check(config[name]):
            return f"config.{name} is {_shown(config[name])}"
    return None


def _at(document: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    """Return the value at a path of names; None if there is none, or its parent is no object."""
    value: Any = document
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _shown(value: Any) -> str:
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    return json.dumps(value)[:40]
