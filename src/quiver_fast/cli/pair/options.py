"""The options of `quiver`: of one measurement, and of a set of measurements."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import cache

from quiver_fast.cli.arrow.options import asked_by, flag_name
from quiver_fast.cli.arrow.queue_setup import add_queue_options
from quiver_fast.cli.pair.abort import period_condition
from quiver_fast.cli.pair.ends_plan import add_ends_options
from quiver_fast.cli.pair.fault_text import fault_text
from quiver_fast.cli.shared.common import (
    ArgumentParser,
    add_arrow_keys,
    add_arrow_options,
    add_failure_options,
    add_impl_option,
    add_pair_options,
    add_tls_options,
)
from quiver_fast.cli.shared.quantities import (
    count,
    duration,
    named,
    percent,
    positive_count,
    share,
    within,
)
from quiver_fast.cli.shared.thresholds import add_fail_if, refuse_comparisons, required_conditions
from quiver_fast.errors import UsageError
from quiver_fast.options.arrow import ARROW_OPTIONS, MESSAGE
from quiver_fast.options.rules import EXCLUDES, SEARCH_RULES, SET_RULES, check

BASELINE_HELP = """\
baselines of --baseline:
  Blanks divide the value into words, as a shell does. The first word tells its kind:

  '--credit 10'              begins with '-': options that replace or add to the given ones
  //host/q0, amqp://h/q0     begins with '//' or 'SCHEME:': another URL; options may follow
  /opt/old/bin/quiver        has '/' elsewhere, or more words follow it: a program like
                             quiver. It gets the given options except those among its
                             words, the given URL unless it has one, and --output
  rhea                       anything else: an implementation, as of --impl

  Write --baseline='-c 10', with '=', if the value begins with '-'. A queue's name alone
  is a URL as '//localhost/q0'.
"""


_HOLD_OPTIONS = {
    "hold", "sessions", "links", "address", "declare", "delete", "unique-queue",
    "url", "duration", "timeout", "max-frame-size", "username", "key", "cert",
    "trust-store", "tls-insecure", "sasl-mechanisms", "password-file", "output", "force", "json",
    "format", "html", "quiet", "verbose", "init-only",
}  # fmt: skip
_CHURN_OPTIONS = _HOLD_OPTIONS - {"hold", "sessions", "links"} | {
    "churn", "churn-of", "body-size", "body-file", "durable", "set-message-id", "purge",
    *(option.key for option in ARROW_OPTIONS if option.group == MESSAGE),
}  # fmt: skip


def add_measuring_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of one measurement: URL, implementations, amount and kind of load."""
    add = parser.add_argument
    add(
        "url",
        metavar="URL",
        nargs="?",
        help="The location of a message queue (default: none, peer-to-peer)",
    )
    add_impl_option(parser, "send and receive")
    add("--sender", metavar="IMPL", help="Use IMPL to send")
    add("--receiver", metavar="IMPL", help="Use IMPL to receive")
    add_arrow_options(parser)
    add_pair_options(parser)
    add_arrow_keys(parser, "backlog", "exit-when")
    _add_fault_options(add_failure_options(parser).add_argument)
    ends = add_ends_options(parser)
    ends.add_argument(
        "--away",
        metavar="DURATION",
        type=within(duration, 1, 2**31),
        help="With --fan-out, the last receiver leaves a durable subscription before the first "
        "message, and comes back after DURATION, or when the sending ends",
    )
    ends.add_argument(
        "--fan-out",
        action="store_true",
        help="Each receiver is to get every message, as from a topic: account for each receiver "
        "alone, and print how far they are apart",
    )
    add = add_queue_options(parser).add_argument
    add(
        "--unique-queue",
        action="store_true",
        help="Use a new queue, named after the run, and delete it afterwards",
    )
    add(
        "--dead-letter-queue",
        metavar="NAME",
        type=named,
        help="Empty the queue NAME afterwards, count the messages of the run in it, and fail if it "
        "lacks messages that receivers rejected",
    )
    add_tls_options(parser)


def _add_fault_options(add: Callable[..., object]) -> None:
    add(
        "--fault",
        metavar="FAULT",
        type=fault_text,
        action="append",
        default=[],
        help="Cause FAULT, such as '10s kill 5s' (see below; may be repeated), and fail if it does "
        "not happen",
    )
    add(
        "--fault-pid",
        metavar="FILE|PID",
        type=named,
        help="The server's process, for faults of it; FILE is read again each time",
    )
    add(
        "--server",
        metavar="IMPL",
        help="Start the server IMPL at the URL, and end it after the run; options of quiver-server "
        "may follow, as in 'pyfast --durability group'",
    )


@cache
def measuring_parser() -> ArgumentParser:
    """Return a parser of these alone."""
    parser = ArgumentParser("quiver", "", "")
    add_measuring_options(parser)
    return parser


def add_set_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of sets of runs, and those that make figures a failure."""
    group = parser.add_argument_group("run options")
    add = group.add_argument
    add(
        "--runs",
        metavar="COUNT",
        type=positive_count,
        help="Measure COUNT times, each run in a directory of its own below DIR; report medians",
    )
    add(
        "--baseline",
        metavar="BASELINE",
        help="Also measure BASELINE COUNT times, in turns (ABBA), and compare: other options, "
        "a URL, a program or an implementation (see below)",
    )
    add(
        "--detect",
        metavar="PERCENT",
        type=percent,
        help="In place of --runs: measure both sides until the runs show a difference, or that "
        "none is above PERCENT, such as 5%%, or until --within (3m) is over",
    )
    add(
        "--relevant",
        metavar="PERCENT",
        type=percent,
        help="Call no smaller change better or worse (default 1%%)",
    )
    add_fail_if(
        group,
        "Exit with 99 if CONDITION holds for a run, except the baseline's, or for the "
        "comparison, or if a run does not have the figure (may be repeated)",
    )
    add(
        "--abort-if",
        metavar="CONDITION",
        type=period_condition,
        action="append",
        default=[],
        help="Stop the run as failed when CONDITION, such as 'p99>1s', holds for a period in "
        "which it sends, of 2 seconds or, from the first message on, less: p50, p99, mean, rate "
        "or sender-rate (may be repeated)",
    )
    add(
        "--allow-incomplete",
        action="store_true",
        help="Go on after an incomplete run of a set, and count its figures",
    )
    add_search_options(group)
    add(
        "--sweep",
        metavar="OPTION=VALUES",
        action="append",
        default=[],
        help="Measure once for each value of an option, such as rate=1k..200k:8 (8 whole numbers "
        "in equal ratios) or credit=10,100,1k; given twice, for each pair of values",
    )
    add(
        "--churn",
        metavar="RATE",
        type=within(count, 1, 10**9),
        help="Open RATE connections per second, send one message over each, and close it; print "
        "the latency of each step, and the failures",
    )
    add(
        "--churn-of",
        metavar="KIND",
        choices=("connection", "session", "link"),
        default="connection",
        help="With --churn, open each 'connection', 'session' or 'link'; the latter two over one "
        "connection (default connection)",
    )
    add(
        "--hold",
        metavar="COUNT",
        type=within(count, 1, 10**6),
        help="Open COUNT connections and keep them idle for --duration; print the cost of each, "
        "and the losses",
    )
    for flag, what in (
        ("--sessions", "sessions over each connection"),
        ("--links", "links in each of these sessions: receivers without credit"),
    ):
        add(
            flag,
            metavar="COUNT",
            type=within(count, 1, 10**4),
            help=f"With --hold, then open COUNT {what}; print the cost of each",
        )


def add_search_options(group: argparse._ArgumentGroup) -> None:
    """Add the options of a search for a rate."""
    add = group.add_argument
    add(
        "--find-rate",
        metavar="CONDITION",
        type=required_conditions,
        action="extend",
        default=[],
        help="Find the highest rate at which CONDITION, such as 'p99<10ms' or 'p99<10ms and "
        "max<1s', holds, the schedule is kept and nothing queues up. Begins at --rate, or at 1k; "
        "each trial takes --duration, or else a time that lets 30 trials fit",
    )
    add(
        "--within",
        metavar="DURATION",
        type=within(duration, 1, 2**31),
        default=180,
        help="End the search of --find-rate after DURATION (default 3m)",
    )
    add(
        "--warm-up",
        metavar="DURATION",
        type=duration,
        help="Load a server for DURATION before a search or a bench measures it, and keep nothing "
        "of that; 0 means not at all (default: until its rate is steady, for 1m at most). It is "
        "not --warmup, which leaves the beginning of each run out of its figures",
    )


def check_set_options(args: argparse.Namespace) -> None:
    """Refuse options that have no effect on this kind of measurement.

    Raises:
        UsageError: there is one.
    """
    asked = {*args.workload} - {"duration"}
    asked |= {name for name in ("duration", "resume") if vars(args)[name]}
    for campaign, allowed in (("churn", _CHURN_OPTIONS), ("hold", _HOLD_OPTIONS)):
        if campaign in asked:
            unfit = tuple(name for name in args.workload if name not in allowed)
            check([(unfit, EXCLUDES, (campaign,), "")], asked, flag_name)
            break
    check(SET_RULES, asked, flag_name)
    if args.find_rate:
        check_search(args)
    if args.detect and share(args.detect) == 0:
        raise UsageError("--detect: no runs show that there is no change at all")
    if args.baseline is None:
        refuse_comparisons(args.fail_if, "--fail-if", "without --baseline, and --runs or --detect")


def check_search(args: argparse.Namespace) -> None:
    """Refuse options that a search for a rate cannot follow.

    Raises:
        UsageError: there is one.
    """
    check(SEARCH_RULES, asked_by(args), flag_name)
    if isinstance(args.rate, float):
        raise UsageError("--find-rate tries whole rates: it begins at a whole --rate")
    refuse_comparisons(args.find_rate, "--find-rate", "in a search")
