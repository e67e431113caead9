"""The text of `--fault`: when a fault begins, its kind, and the values of that kind."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from quiver_fast.cli.shared.quantities import percent, share
from quiver_fast.errors import UsageError
from quiver_fast.quantities import COUNTS, fixed_point, microseconds

OF_PROCESS = ("kill", "stop", "term")
"""The kinds that a process gets as signals."""
_FORMS = MappingProxyType({
    "kill": "[UNTIL]", "term": "[UNTIL]", "stop": "UNTIL", "cut": "[SHARE]",
    "refuse": "UNTIL [SHARE]", "freeze": "UNTIL [SHARE]", "half": "UNTIL [SHARE]",
    "delay": "DELAY UNTIL [SHARE]", "throttle": "RATE UNTIL [SHARE]", "run": "COMMAND",
})  # fmt: skip
OF_NETWORK = tuple(kind for kind, form in _FORMS.items() if "SHARE" in form)
"""The kinds that the relay does."""

# Timers of the system take no more than 24 days.
_LONGEST_HOURS = 480
# A fault that ends after the run is waited for, but not for long (seconds).
_WAITS = 60

HELP = """\
faults of --fault 'WHEN KIND ...':
  WHEN counts from the begin of the sending, UNTIL from the begin of the fault.

  10s kill 5s           SIGKILL for the server's process; 5 seconds later it is started again
  10s stop 5s           SIGSTOP, and SIGCONT 5 seconds later
  10s term 5s           SIGTERM, and a start
  10s cut               reset all connections; the last word may be a share of them: cut 50%
  10s refuse 5s         the same, and reset each new one for 5 seconds
  10s freeze 5s         pass on nothing
  10s half 5s           pass on nothing from the server
  10s delay 50ms 5s     pass on all bytes 50 ms later, in each direction
  10s throttle 1m 5s    pass on 1,000,000 bytes per second in each direction
  10s run 'COMMAND'     run a command of the shell
"""


@dataclass(frozen=True)
class Fault:
    """A fault that is asked for.

    Attributes:
        text: as it was written.
        planned: when it begins, in seconds after the begin of the sending.
        kind: one of the kinds.
        seconds: how long it lasts; None where it has no end.
        value: the seconds of a delay, or bytes per second.
        share: the part of the connections that has it, 0 to 1.
        command: what is run; empty for other kinds.
    """

    text: str
    planned: float
    kind: str
    seconds: float | None = None
    value: float | None = None
    share: float = 1.0
    command: str = ""


def fault_text(text: str) -> str:
    """Refuse a text that is no fault: an argparse type.

    Raises:
        ArgumentTypeError: it is none; the message has the form of its kind.
    """
    read_fault(text)
    return text


def read_fault(text: str) -> Fault:
    """Return the fault that a text describes.

    Raises:
        ArgumentTypeError: it describes none, or has a time that is too long.
    """
    when, kind, rest, *_ = [*text.split(None, 2), "", "", ""]
    planned = microseconds(when)
    if planned is None or kind not in _FORMS:
        kinds = ", ".join(_FORMS)
        raise argparse.ArgumentTypeError(
            f"'{text}' is not 'WHEN KIND ...', such as '10s kill 5s'; the kinds are {kinds}"
        )
    is_command = kind == "run" and rest
    values = {"command": _command(rest)} if is_command else _values(text, kind, rest.split())
    fault = Fault(text, planned / 10**6, kind, **values)
    delay = fault.value if kind == "delay" else None
    if max(fault.planned, fault.seconds or 0, delay or 0) > 3600 * _LONGEST_HOURS:
        raise argparse.ArgumentTypeError(f"'{text}': no time may be above {_LONGEST_HOURS}h")
    return fault


def _values(text: str, kind: str, words: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in _FORMS[kind].split():
        attribute, read = _READERS.get(name.strip("[]"), ("", _nothing))
        value = read(words[0]) if words else None
        if value:
            found[attribute] = value
            words.pop(0)
        elif name[0] != "[":
            break
    else:
        if not words:
            return found
    raise argparse.ArgumentTypeError(f"'{text}' is not 'WHEN {kind} {_FORMS[kind]}'")


def _command(text: str) -> str:
    """Return a command, without the quotes around all of it."""
    try:
        words = shlex.split(text)
    except ValueError:
        return text
    return words[0] if len(words) == 1 else text


def _seconds(text: str) -> float:
    return (microseconds(text) or 0) / 10**6


def _share(text: str) -> float | None:
    try:
        part = share(percent(text))
    except argparse.ArgumentTypeError:
        return None
    return part if part <= 1 else None


def _nothing(_text: str) -> None:
    return None


_READERS: dict[str, tuple[str, Callable[[str], float | None]]] = {
    "UNTIL": ("seconds", _seconds),
    "DELAY": ("value", _seconds),
    "RATE": ("value", lambda text: fixed_point(text, COUNTS)),
    "SHARE": ("share", _share),
}


def check_faults(args: argparse.Namespace) -> list[Fault]:
    """Return the faults that are asked for; those of other commands are none.

    Raises:
        UsageError: one is due, or ends, after the end of the run.
    """
    faults = [read_fault(text) for text in vars(args).get("fault") or ()]
    for fault in faults:
        if args.duration and fault.planned >= args.duration:
            raise UsageError(f"--fault '{fault.text}': the run ends after {args.duration} s")
        if args.duration and fault.planned + (fault.seconds or 0) > args.duration + _WAITS:
            raise UsageError(
                f"--fault '{fault.text}' ends more than {_WAITS} s after the run, which takes "
                f"{args.duration} s"
            )
    return faults
