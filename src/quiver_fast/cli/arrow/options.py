"""The options that both arrows of a pair share, and how the commands name options."""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

from quiver_fast.arguments import check_texts
from quiver_fast.arrow.contract import DEFAULTS, TEXTS
from quiver_fast.body_sizes import largest_body, parse_body_size
from quiver_fast.cli.shared.credentials import only_one, read_password
from quiver_fast.cli.shared.url import AddressUrl
from quiver_fast.errors import UsageError
from quiver_fast.options.arrow import ARROW_OPTIONS, FAILURE, LOAD, MESSAGE, RECEIVER, SECURITY
from quiver_fast.options.option import SWITCH
from quiver_fast.options.rules import MEASURING_RULES, check, flags_of
from quiver_fast.rate_steps import parse_arrivals, parse_rate_steps, rate_text
from quiver_fast.receiving import asked_silence, parse_pauses
from quiver_fast.reconnecting import failover_text, parse_pause
from quiver_fast.words import counted

# Options that both arrows of a pair get; the others belong to one arrow's plan.
OF_BOTH = tuple(
    option
    for option in ARROW_OPTIONS
    if option.flag and option.group in (LOAD, MESSAGE, RECEIVER, SECURITY, FAILURE)
)
_BY_DEST = {option.dest: option for option in ARROW_OPTIONS if option.flag}
# Figures begin with a whole second after the warm-up, and take some time.
_LEAST_MEASURED = 2
# A random distance is so many times the mean once in 500 million messages.
_RARE = 20

flag_name = flags_of(ARROW_OPTIONS)
"""Returns the name that a command shows for a name of a rule."""


def asked_by(args: argparse.Namespace) -> set[str]:
    """Return the options that are not at their defaults, by the names that rules have.

    A ``duration`` is among them whenever there is one.
    """
    found = set()
    for dest, value in vars(args).items():
        option = _BY_DEST.get(dest)
        usual = option.initial if option is not None and dest != "duration" else None
        if value and value != usual:
            found.add(option.name.replace("_", "-") if option else dest.replace("_", "-"))
    return found


def check_option_texts(args: argparse.Namespace) -> None:
    """Refuse options that AMQP could not have as strings.

    Raises:
        UsageError: one is not UTF-8.
    """
    texts = {one.key: getattr(args, one.dest, None) or "" for one in OF_BOTH if one.key in TEXTS}
    flags = {one.key: str(one.flag) for one in OF_BOTH}
    check_texts(texts, texts, flags.__getitem__)


class ArrowOptions(SimpleNamespace):
    """The values of the options that both arrows of a pair share, by the options' names.

    Durations are seconds, sizes bytes. The class has the types of values that code computes with.
    ``pacing`` is the way in which a sender waits for its schedule, "exact" or "sleep"; None lets
    the unit of its times decide.
    """

    rate: float
    rate_steps: str | None
    arrivals: str | None
    body_size: int | str
    receive_delay: int | None
    pause: str | None
    reconnect: bool
    reconnect_for: float | None
    failover: str | None
    filter: str | None
    filter_properties: str | None
    stream_filter: str | None
    record_format: str | None
    timeout: float
    password: str | None

    @classmethod
    def from_arguments(
        cls, args: argparse.Namespace, url: AddressUrl, asked: Iterable[str] = ()
    ) -> ArrowOptions:
        """Check the parsed arguments against each other and against the URL.

        Args:
            args: the parsed arguments; those of `quiver` have None for a URL between peers.
            url: the URL of the arrows.
            asked: further names for the rules.

        Raises:
            UsageError: options that contradict each other or cannot have an effect.
        """
        # Not all who call this have parsed it.
        routing = vars(args).get("routing")
        asked = {*asked_by(args), *asked, f"scheme={url.scheme}", f"routing={routing}"}
        if vars(args).get("url", url) is not None:
            asked.add("url")
        check(MEASURING_RULES, asked, flag_name)
        if args.warmup and args.duration and args.duration < args.warmup + _LEAST_MEASURED:
            raise UsageError(
                f"--duration is {args.duration} s: with --warmup {args.warmup} it takes "
                f"{args.warmup + _LEAST_MEASURED} s at least"
            )
        check_option_texts(args)
        users = {"--username": args.username, "the URL": url.username}
        # `quiver-bench` has none of failures.
        absent = (one for one in OF_BOTH if one.group == FAILURE)
        none = {one.dest: False if one.kind == SWITCH else None for one in absent}
        given = none | vars(args)
        values: dict[str, Any] = {
            option.name: not given[option.dest] if option.inverted else given[option.dest]
            for option in OF_BOTH
        }
        values["username"] = only_one("both name a user", users)
        implied = bool(values["reconnect"] or values["request_reply"])
        values["settlement"] = values["settlement"] or implied
        values["failover"] = failover_text(
            values["failover"] or (), url.shown, url.scheme, flag_name("failover")
        )
        if args.body_file is not None:
            values["body_size"] = _size_of(args.body_file)
        # So the summary has the seed.
        seed = parse_arrivals(values["arrivals"] or "", flag_name("arrivals"))
        # Of a search, only the trials have a rate.
        has_rate = values["rate"] or values["rate_steps"] or not given.get("find_rate")
        values["arrivals"] = str(seed) if seed and has_rate else None
        # A receiver's patience follows from it, whatever the implementation.
        parse_pauses(args.pause_receivers or "", flag_name("pause"))
        parse_pause(values["reconnect_pause"] or "", flag_name("reconnect-pause"))
        return cls(
            **values,
            password=read_password(args.password_file, {"the URL": url.password}),
            expose_password=args.expose_password,
            pacing=None,
        )

    def changed(self, **values: Any) -> ArrowOptions:
        """Return the options with other values."""
        return ArrowOptions(**vars(self) | values)

    @property
    def largest_body(self) -> int:
        """The size of the largest body."""
        return largest_body(parse_body_size(str(self.body_size)))

    @property
    def patience(self) -> float:
        """For how many seconds a run may be silent; 0 for ever.

        A receiver that delays or pauses is silent for longer than ``timeout``, and so is an end
        that is without a connection.
        """
        asked = self.asked_silence
        if self.reconnect:
            asked += self.reconnect_seconds
        return self.timeout + asked if self.timeout else 0

    @property
    def is_filtered(self) -> bool:
        """Whether the receivers get a part of the messages only."""
        return bool(self.filter or self.filter_properties or self.stream_filter)

    @property
    def asked_silence(self) -> float:
        """For how many seconds the options keep a receiver from moving anything."""
        return asked_silence(self.receive_delay or 0, parse_pauses(self.pause or ""))

    @property
    def reconnect_seconds(self) -> float:
        """For how many seconds an end may be without a connection; infinity for ever."""
        given = DEFAULTS["reconnect-for"] if self.reconnect_for is None else self.reconnect_for
        return float(given or math.inf)

    @property
    def silence_text(self) -> str:
        """Why a run ends that was silent for longer."""
        return f"timed out: no transfers for {counted(self.timeout, 'second')}"

    @property
    def slowest(self) -> float:
        """The lowest rate, in messages/s; 0 for none."""
        steps = parse_rate_steps(self.rate_steps or "")
        return min((float(min(step.first, step.last)) for step in steps), default=self.rate)

    def check_patience(self, sender: str) -> None:
        """Refuse a rate whose gaps between messages exceed the time-out.

        Raises:
            UsageError: the one of ``sender`` has such gaps.
        """
        timeout, rate = self.timeout, self.slowest
        if self.arrivals and 0 < timeout * rate <= _RARE:
            raise UsageError(
                f"--timeout {timeout}: with --arrivals at {rate_text(rate)} messages/s some "
                f"distances are as long; give {math.ceil(_RARE / rate) + 1} or more"
            )
        if 0 < rate < 1 and 0 < timeout * rate <= 1:
            raise UsageError(
                f"--timeout {timeout}: at {rate_text(rate)} messages/s the {sender} sends one "
                f"each {1 / rate:,.0f} s; give a longer one"
            )

    def in_fine_units(self) -> ArrowOptions:
        """Return the options with times in microseconds, unless a unit was given.

        A sender keeps a core awake for fine times only if its user asked for them.
        """
        if self.time_unit is not None:
            return self
        return self.changed(time_unit="us", pacing="sleep")


def _size_of(file: str) -> int:
    """Return the size of a file for a message body.

    Raises:
        UsageError: the file is empty, or cannot be found.
    """
    try:
        size = os.stat(file).st_size
    except OSError as error:
        raise UsageError(f"--body-file: {file}: {error.strerror}") from None
    if size == 0:
        raise UsageError(f"--body-file: {file} is empty")
    return size
