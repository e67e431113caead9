"""Conditions of ``--fail-if``, such as ``p99>5ms``, ``rate<100k`` or ``rate-change<-5%``."""

from __future__ import annotations

import argparse
import difflib
import operator
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from quiver_fast.analysis.compare.comparison import NOT_COMPARABLE, TOO_FEW, WORSE, undecided
from quiver_fast.analysis.model.ranks import NAMES
from quiver_fast.analysis.model.units import NO_RATE, checked_text, per_millisecond
from quiver_fast.cli.shared.common import report_error, report_warning
from quiver_fast.errors import EXIT_INCONCLUSIVE, EXIT_OK, EXIT_THRESHOLD, UsageError

THRESHOLD_HELP = f"""\
conditions of --fail-if:
  FIGURE OPERATOR NUMBER[UNIT], the operator one of >, >=, <, <=

  {" ".join(f"p{rank}" for rank in NAMES)}, min, mean, max, stddev
                      latency; unit ns, us, ms (the default) or s
  rate, sender-rate   messages per second; k and m
  count, unreceived, lost, older, duplicate, reordered, released, rejected, foreign,
  negative            messages; k and m
  never_sent          messages of a run with a rate that were due and never sent; k and m
  queue-growth        messages per second by which the queue grew while messages were
                      sent, of a run that its duration ended; k and m
  drain_seconds       how long the queue was drained after the sending; s (the default), ms
  complete            1 of a run that did all that was asked, else 0

  Figures are of the whole run. Where more than 0.1 % of the messages due were never
  sent, a latency counts each of them at the least that it waited. A figure that a run does
  not have, and a run that is incomplete, are failures too (--allow-incomplete: not the
  latter). Where nobody knows whether unreceived messages are lost, 'lost>0' is
  inconclusive: a warning, or exit code 98 with --fail-if inconclusive.
"""
COMPARISON_HELP = """\
conditions of --fail-if where runs are compared with a baseline:
  worse               a figure of the comparison is worse
  inconclusive        there are too few runs to tell of a figure, or the sides were made
                      one after the other: exit code 98
  rate-change, p50-change, p99-change, max-change
                      the whole interval of the change, in %: 'rate-change<-5%'
  observed-rate-change, observed-p50-change, ...
                      the change that the comparison prints, shown or not

  They are failures too where there are too few runs for a verdict.
"""

_CONDITION = re.compile(
    r"\s*([a-z][a-z0-9._-]*)\s*(>=|<=|>|<)\s*(-?[0-9]+(?:\.[0-9]+)?)\s*([a-z/%]*)\s*"
)
_AND = re.compile(r"\s+and\s+", re.IGNORECASE)
# Words and signs by which people join conditions, and commas within a number.
_JOINT = re.compile(r"\s*(?:[,;]|&&?|\|\|?|\b(?:and|or)\b)\s*", re.IGNORECASE)
_THOUSANDS = re.compile(r"(?<=\d)[,_](?=\d{3}(?!\d))")
_DECIMAL = re.compile(r"(?<=\d),(?=\d{1,2}(?!\d))")
_EQUALS = re.compile(r"\s*==?\s*")
_TURNED = re.compile(r"\s*(\d[\w.]*)\s*(>=|<=|>|<)\s*([a-z][\w.-]*)\s*", re.IGNORECASE)
_TURNS = {">": "<", "<": ">", ">=": "<=", "<=": ">="}
_LIMIT_ALONE = re.compile(r"[<>=]*\s*(\d+(?:\.\d+)?(?:ms|us|ns|s))", re.IGNORECASE)
_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
_LATENCY_UNITS = {"": 1.0, "ms": 1.0, "s": 1e3, "us": 1e-3, "ns": 1e-6}
_COUNT_UNITS = {"": 1.0, "k": 1e3, "m": 1e6}
_SECOND_UNITS = {"": 1.0, "s": 1.0, "ms": 1e-3}
_RATE_UNITS = {unit + per: factor for unit, factor in _COUNT_UNITS.items() for per in ("", "/s")}

_PERCENTILES = {f"p{rank}": rank for rank in NAMES} | {"min": "0", "max": "100"}
_MOMENTS = ("mean", "stddev")
_RATES = {"rate": "receiver", "sender-rate": "sender"}
_COUNTS = {
    "count": "received",
    "unreceived": "unreceived",
    "lost": "lost",
    "older": "older",
    "duplicate": "duplicate",
    "reordered": "reordered",
    "released": "released",
    "rejected": "rejected",
    "foreign": "foreign",
    "negative": "negative_latency",
}
_CHANGES = {
    "rate-change": "message_rate",
    "p50-change": "latency_p50",
    "p99-change": "latency_p99",
    "max-change": "latency_max",
}
_ANY_CHANGES = _CHANGES | {f"observed-{name}": figure for name, figure in _CHANGES.items()}
_COMPLETE, _DRAIN, _NEVER_SENT = "complete", "drain_seconds", "never_sent"
_GROWTH = "queue-growth"
_COMPARISON = "comparison"
_INCONCLUSIVE = "inconclusive"
_FIGURES = (
    *_PERCENTILES, *_MOMENTS, *_RATES, *_COUNTS, _NEVER_SENT, _GROWTH, _DRAIN, _COMPLETE,
    WORSE, _INCONCLUSIVE, *_ANY_CHANGES,
)  # fmt: skip


@dataclass(frozen=True)
class Threshold:
    """A condition on a figure. The caller knows whether it must hold or must not.

    Attributes:
        condition: as the user wrote it.
        figure: the name of the figure.
        compares: the operator.
        limit: milliseconds, messages/s, messages, seconds of a drain, percent, or 0 and 1.
        unit: the name of the limit's unit.
    """

    condition: str
    figure: str
    compares: str
    limit: float
    unit: str

    @property
    def of_comparison(self) -> bool:
        """Whether it judges a comparison, and not each of its runs."""
        return self.figure in (WORSE, _INCONCLUSIVE) or self.figure in _ANY_CHANGES

    @property
    def rank(self) -> float | None:
        """The percentage of the messages whose latency it limits; None of another figure."""
        rank = _PERCENTILES.get(self.figure)
        return None if rank is None else float(rank)

    def holds(self, value: float) -> bool:
        """Say whether the condition holds for a value in its unit."""
        return _OPERATORS[self.compares](value, self.limit)

    def check_comparison(self, comparison: dict[str, Any]) -> dict[str, Any]:
        """Judge a comparison: the keys are those of :meth:`check`.

        ``run`` is "comparison". The ``value`` of ``worse`` and ``inconclusive`` is the number of
        figures that are, and the ``reason`` names them.
        """
        figures = comparison["figures"]
        if self.figure == WORSE:
            value, reason = _worse(figures)
        elif self.figure == _INCONCLUSIVE:
            reason = _open(comparison)
            value = len(undecided(comparison)) or int(reason is not None)
        else:
            value, reason = _change(figures[_ANY_CHANGES[self.figure]])
        breached, open_because = value is None or self.holds(value), None
        if self.figure == WORSE and not breached:
            open_because = _open(comparison)
        if self.figure in _CHANGES and value is not None:
            breached, open_because = self._judge_change(figures[_CHANGES[self.figure]])
        return {
            "condition": self.condition,
            "run": _COMPARISON,
            "value": value,
            "unit": self.unit,
            "breached": breached,
            "inconclusive": open_because,
            "reason": reason,
            "never_sent": None,
        }

    def _judge_change(self, figure: dict[str, Any]) -> tuple[bool, str | None]:
        """Return whether the interval of a change is beyond the limit, or why that is open."""
        if figure["interval"] is None:
            return False, figure["verdict"]
        low, high = sorted(100 * bound / figure["base"] for bound in figure["interval"])
        held = [self.holds(bound) for bound in (low, high)]
        if held[0] == held[1]:
            return held[0], None
        return False, f"the interval of the change is {low:+.1f} % to {high:+.1f} %"

    def check(self, document: dict[str, Any]) -> dict[str, Any]:
        """Return the figure of a run's document and whether it breaches the threshold.

        Keys: ``condition``, ``run``, ``value`` (None if the run does not have the figure,
        which is a breach), ``unit``, ``breached``, ``inconclusive`` (why runs of a comparison do
        not show whether it is, or None), ``reason`` (why there is no value, or None), and
        ``never_sent`` (messages that count in a latency though they were never sent, or None).
        """
        value = self._value(document)
        unsent = self._latency(document).get("never_sent")
        missing = None if value is not None else self._missing(document)
        breached, open_because = value is None or self.holds(value), None
        most = (document["delivery"] or {}).get("unreceived") if self.figure == "lost" else None
        if most is not None and value is None:
            # Between none and all of the unreceived messages are lost.
            held = self.holds(0), self.holds(most)
            breached, missing = all(held), f"{most:,} unreceived messages may be lost or not"
            open_because = missing if any(held) and not breached else None
        return {
            "condition": self.condition,
            "run": document["name"],
            "value": value,
            "unit": self.unit,
            "breached": breached,
            "inconclusive": open_because,
            "reason": missing,
            "never_sent": unsent,
        }

    def _value(self, document: dict[str, Any]) -> float | None:
        if self.figure == _COMPLETE:
            return None if document["complete"] is None else int(document["complete"])
        if self.figure == _DRAIN:
            return None if document["drain"] is None else document["drain"]["seconds"]
        if self.figure == _GROWTH:
            growth = document["queue_growth"] or {"per_second": 0}
            return None if document["drain"] is None else growth["per_second"]
        if self.figure == _NEVER_SENT:
            schedule = (document["sender"] or {}).get("schedule")
            return None if schedule is None else schedule["never_sent"]
        if self.figure in _RATES:
            end = document[_RATES[self.figure]]
            return None if end is None else end["results"]["message_rate"]
        if self.figure in _COUNTS:
            delivery = document["delivery"]
            return None if delivery is None else delivery[_COUNTS[self.figure]]
        latency = self._latency(document)
        if self.figure in _MOMENTS:
            ticks = latency.get(self.figure)
        else:
            ticks = latency.get("percentiles", {}).get(_PERCENTILES[self.figure])
        return None if ticks is None else ticks / per_millisecond(latency["unit"])

    def _missing(self, document: dict[str, Any]) -> str:
        """Return why a run does not have the figure."""
        measured = self.figure in _RATES and document[_RATES[self.figure]] is not None
        return NO_RATE if measured else f"the run has no {self.figure}"

    def _latency(self, document: dict[str, Any]) -> dict[str, Any]:
        """Return the latencies of all messages that were due; empty if the figure is no latency."""
        if self.figure not in _PERCENTILES and self.figure not in _MOMENTS:
            return {}
        latency = {} if document["receiver"] is None else document["receiver"]["latency"]
        found: dict[str, Any] = latency.get("with_never_sent", latency)
        return found


def _worse(figures: dict[str, Any]) -> tuple[float | None, str | None]:
    """Return the number of figures that are worse, and their names or why there is no number."""
    if any(figure["verdict"] == TOO_FEW for figure in figures.values()):
        return None, TOO_FEW
    names = [_named(name, each) for name, each in figures.items() if each["verdict"] == WORSE]
    return len(names), ", ".join(names) or None


def _open(comparison: dict[str, Any]) -> str | None:
    """Return why a comparison does not tell; None where it does."""
    figures = comparison["figures"]
    if any(figure["verdict"] == NOT_COMPARABLE for figure in figures.values()):
        return f"{NOT_COMPARABLE}; measure both in turns, or give --trust-order"
    names = [_named(name, figures[name]) for name in undecided(comparison)]
    return f"more runs are needed to tell of {', '.join(names)}" if names else None


def _named(name: str, figure: dict[str, Any]) -> str:
    """Return the name of a figure, with its change."""
    change = "" if figure["change"] is None else f" ({figure['change']:+.1%})"
    return name.replace("_", " ") + change


def _change(figure: dict[str, Any]) -> tuple[float | None, str | None]:
    """Return the change of a figure in percent, or why there is none."""
    if figure["change"] is not None:
        return 100 * figure["change"], None
    few = figure["verdict"] == TOO_FEW
    return None, TOO_FEW if few else "the baseline is 0: no change is a share of it"


def required_conditions(text: str) -> list[Threshold]:
    """Parse one or more conditions that must hold, joined by ``and``: an argparse type."""
    conditions = [_parsed(part, "<", text) for part in _AND.split(text)]
    for one in conditions:
        # An upper limit of a rate bounds the search; a lower one of a latency is a slip.
        either = one.of_comparison or one.figure in (*_RATES, "count", _COMPLETE)
        if one.compares[0] == ">" and not either:
            right = one.condition.replace(">", "<")
            raise argparse.ArgumentTypeError(
                f"'{one.condition}' would have to hold at the rate that is found: write '{right}'"
            )
    return conditions


def threshold(text: str) -> Threshold:
    """Parse a condition: an argparse type."""
    return _parsed(text, ">", text)


def _parsed(text: str, example: str, typed: str) -> Threshold:
    """Parse a condition.

    Args:
        text: the condition.
        example: the operator of an example.
        typed: the value of the option, for an error.
    """
    if text.strip().lower() in (WORSE, _INCONCLUSIVE):
        return Threshold(text.strip(), text.strip().lower(), ">", 0, "figures")
    match = _CONDITION.fullmatch(text.lower())
    if match is None:
        raise argparse.ArgumentTypeError(
            f"'{text}' is not a condition such as p99{example}5ms{_advice(typed, example)}"
        )
    figure, compares, number, unit = match.groups()
    units, shown = _units(figure)
    if units is None:
        known = f"{_alike(figure)}: those are {', '.join(_FIGURES)}"
        raise argparse.ArgumentTypeError(f"'{figure}' in '{text}' is not a figure{known}")
    if unit not in units:
        those = ", ".join(filter(None, units)) or "it has none"
        raise argparse.ArgumentTypeError(f"'{unit}' in '{text}' is not a unit of {figure}: {those}")
    if number.startswith("-") and figure not in _ANY_CHANGES:
        raise argparse.ArgumentTypeError(f"'{number}' in '{text}' is not a limit of {figure}")
    return Threshold(text.strip(), figure, compares, float(number) * units[unit], shown)


def _advice(text: str, example: str) -> str:
    """Return the correction of a text that is no condition; empty if none is known."""
    plain = _THOUSANDS.sub("", text)
    for guess in (plain, _DECIMAL.sub(".", text), plain.replace("µ", "u").replace("μ", "u")):
        alone = _LIMIT_ALONE.fullmatch(guess.strip())
        turned = _TURNED.fullmatch(guess)
        one = f"p99{example}{alone[1]}" if alone else _EQUALS.sub(example, guess.strip())
        one = f"{turned[3]}{_TURNS[turned[2]]}{turned[1]}" if turned else one
        if one != text and _is_condition(one):
            return f": write '{one}'"
        parts = [part for part in _JOINT.split(guess.strip()) if part]
        if len(parts) > 1 and example == "<" and all(map(_is_condition, parts)):
            return f": write '{' and '.join(parts)}'"
    several = example == ">" and len(_JOINT.split(plain.strip())) > 1
    return ": give the option once for each condition" if several else ""


def _alike(name: str) -> str:
    close = difflib.get_close_matches(name.replace("_", "-"), _FIGURES, 1, 0.8)
    return f", did you mean {close[0]}?" if close else ""


def _is_condition(text: str) -> bool:
    match = _CONDITION.fullmatch(text.lower())
    return match is not None and match[4] in (_units(match[1])[0] or ())


def _units(figure: str) -> tuple[dict[str, float] | None, str]:
    """Return the units that a limit of a figure may have, and the unit of the figure's values."""
    if figure in _PERCENTILES or figure in _MOMENTS:
        return _LATENCY_UNITS, "ms"
    if figure in _RATES or figure == _GROWTH:
        return _RATE_UNITS, "messages/s"
    if figure in _COUNTS or figure == _NEVER_SENT:
        return _COUNT_UNITS, "messages"
    if figure in _ANY_CHANGES:
        return {"%": 1.0}, "%"
    if figure == _DRAIN:
        return _SECOND_UNITS, "s"
    return ({"": 1.0} if figure == _COMPLETE else None), ""


def judged(
    limits: Sequence[Threshold],
    documents: Sequence[dict[str, Any]],
    comparison: dict[str, Any] | None,
) -> list[dict[str, Any]]:
    """Judge each run and their comparison, each by its own thresholds."""
    found = []
    for limit in limits:
        if not limit.of_comparison:
            found += [limit.check(document) for document in documents]
        elif comparison is not None:
            found.append(limit.check_comparison(comparison))
    if comparison is None and any(limit.figure == _INCONCLUSIVE for limit in limits):
        found.append(_any_open(found))
    return found


def _any_open(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the result of ``inconclusive`` where nothing is compared, from the other results."""
    names = [one["condition"] for one in found if one["inconclusive"]]
    return {
        "condition": _INCONCLUSIVE,
        "run": "all conditions",
        "value": len(names),
        "unit": "conditions",
        "breached": bool(names),
        "inconclusive": None,
        "reason": ", ".join(names) or None,
        "never_sent": None,
    }


def refuse_comparisons(limits: Iterable[Threshold], flag: str, missing: str) -> None:
    """Refuse thresholds of a comparison when nothing is compared.

    Args:
        limits: the thresholds of ``flag``.
        flag: an option.
        missing: words for the message that say why there is no comparison.

    Raises:
        UsageError: there is such a threshold.
    """
    for limit in limits:
        # A run by itself can be inconclusive, too.
        alone = limit.figure == _INCONCLUSIVE and flag == "--fail-if"
        if limit.of_comparison and not alone:
            raise UsageError(f"{flag} {limit.condition}: nothing is compared {missing}")


def incomplete(document: dict[str, Any]) -> dict[str, Any] | None:
    """Return the breach of a run that is known to be incomplete; None for another run."""
    if document["complete"] is not False:
        return None
    return {
        "condition": _COMPLETE,
        "run": document["name"],
        "value": 0,
        "unit": "",
        "breached": True,
        "inconclusive": None,
        "reason": f"incomplete: {document['reason'] or 'the run does not say why'}",
        "never_sent": None,
    }


def told(results: Sequence[dict[str, Any]], command: str) -> int:
    """Report the conditions that are breached or inconclusive; return the exit code."""
    breached = [one for one in results if one["breached"]]
    for one in breached:
        report_error(command, breach_text(one))
    for one in results:
        if one["inconclusive"]:
            report_warning(
                command, f"--fail-if {one['condition']} is inconclusive: {one['inconclusive']}"
            )
    if any(one["condition"].lower() != _INCONCLUSIVE for one in breached):
        return EXIT_THRESHOLD
    asked = any(one["condition"].lower() == _INCONCLUSIVE for one in results)
    undecided = breached or any(one["inconclusive"] for one in results)
    return EXIT_INCONCLUSIVE if asked and undecided else EXIT_OK


def state_text(one: dict[str, Any]) -> str:
    """Return whether a condition is breached, as summaries have it."""
    if one["breached"]:
        return "BREACHED"
    return f"INCONCLUSIVE: {one['inconclusive']}" if one["inconclusive"] else "ok"


def breach_text(one: dict[str, Any]) -> str:
    """Return one line that tells the breach of a threshold, from the result of ``check``."""
    if one["reason"] is None:
        return f"threshold {one['condition']} is breached: {checked_text(one)} ({one['run']})"
    return f"--fail-if {one['condition']}: {one['reason']} ({one['run']})"
