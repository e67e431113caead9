"""Conditions of ``--fail-if``, such as ``p99>5ms``, ``rate<100k`` or ``rate-change<-5%``."""

from __future__ import annotations

import argparse
import difflib
import operator
import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from quiver_fast.analysis.compare.comparison import NOT_COMPARABLE, TOO_FEW, WORSE, named, undecided
from quiver_fast.analysis.model.figures import (
    CHANGE,
    CHANGES,
    COUNT,
    FIGURES,
    FLAG,
    INCONCLUSIVE,
    OBSERVED,
    VERDICT,
    Figure,
)
from quiver_fast.analysis.model.ranks import NAMES
from quiver_fast.analysis.sections.verdicts import breach_text
from quiver_fast.cli.shared.common import report_error, report_warning
from quiver_fast.errors import EXIT_INCONCLUSIVE, EXIT_OK, EXIT_THRESHOLD, UsageError

Result = dict[str, Any]


def _rows(names: Iterable[str], meaning: str) -> str:
    """Return the lines of help about figures of one meaning."""
    *before, last = textwrap.wrap(", ".join(names), 82)
    before, last = (before, last) if len(last) < 20 else ([*before, last], "")
    first, *more = textwrap.wrap(meaning, 69)
    return "\n  ".join([*before, f"{last:<20}{first}", *(" " * 20 + one for one in more)])


_OF_RUNS = [one for one in FIGURES.values() if one.place]
_COUNTS = [one.name for one in _OF_RUNS if one.quantity is COUNT and not one.about]
_OTHERS = "\n  ".join(
    [
        _rows(_COUNTS, "messages; k and m"),
        *(_rows([one.name], one.about) for one in _OF_RUNS if one.about),
    ]
)
THRESHOLD_HELP = f"""\
conditions of --fail-if:
  FIGURE OPERATOR NUMBER[UNIT], the operator one of >, >=, <, <=

  {" ".join(f"p{rank}" for rank in NAMES)}, min, mean, max, stddev
                      latency; unit ns, us, ms (the default) or s
  rate, sender-rate   messages per second; k and m
  {_OTHERS}

  Figures are of the whole run. Where more than 0.1 % of the messages due were never
  sent, a latency counts each of them at the least that it waited. A figure that a run does
  not have, and a run that is incomplete, are failures too (--allow-incomplete: not the
  latter). Where nobody knows whether unreceived messages are lost, 'lost>0' is
  inconclusive: a warning, or exit code 98 with --fail-if inconclusive.
"""
COMPARISON_HELP = f"""\
conditions of --fail-if where runs are compared with a baseline:
  worse               a figure of the comparison is worse
  inconclusive        there are too few runs to tell of a figure, or the sides were made
                      one after the other: exit code 98
  {", ".join(one.name for one in CHANGES)}
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


@dataclass(frozen=True)
class Finding:
    """What a condition comes to in a run or in a comparison.

    Attributes:
        value: of the figure; None where there is none.
        holds: whether the condition holds; None where there is no value, or nobody can say.
        reason: why there is no value, or words beside it; else None.
        unknown: why nobody can say whether it holds; else None.
        never_sent: the messages that count in a latency though they were never sent.
    """

    value: float | None
    holds: bool | None
    reason: str | None = None
    unknown: str | None = None
    never_sent: int | None = None


@dataclass(frozen=True)
class Threshold:
    """A condition on a figure. The caller knows whether it must hold or must not.

    Attributes:
        condition: as the user wrote it.
        figure: the figure.
        compares: the operator.
        limit: in the figure's unit.
    """

    condition: str
    figure: Figure
    compares: str
    limit: float

    @property
    def of_comparison(self) -> bool:
        """Whether it judges a comparison, and not each of its runs."""
        return not self.figure.place

    def holds(self, value: float) -> bool:
        """Say whether the condition holds for a value in its unit."""
        return _OPERATORS[self.compares](value, self.limit)

    def in_run(self, document: dict[str, Any]) -> Finding:
        """Judge a run by its document."""
        value = self.figure.of_run(document)
        if value is not None:
            unsent = self.figure.never_sent(document)
            return Finding(value, self.holds(value), never_sent=unsent)
        most = self.figure.most_of_run(document)
        if most is None:
            return Finding(None, None, self.figure.missing(document))
        reason = f"{most:,} unreceived messages may be lost or not"
        return self._between(None, (0, most), reason, reason)

    def in_comparison(self, comparison: dict[str, Any]) -> Finding:
        """Judge a comparison; the value of a verdict is the number of figures that have it."""
        figures = comparison["figures"]
        if self.figure.name == INCONCLUSIVE:
            reason = _open(comparison)
            value: float | None = len(undecided(comparison)) or int(reason is not None)
            return Finding(value, reason is not None, reason)
        if self.figure.name == WORSE:
            value, reason = _worse(figures)
            unknown = _open(comparison) if value == 0 else None
            return Finding(value, None if value is None or unknown else value > 0, reason, unknown)
        figure = figures[self.figure.key]
        value, reason = _change(figure)
        if value is None or self.figure.name.startswith(OBSERVED):
            return Finding(value, None if value is None else self.holds(value), reason)
        if figure["interval"] is None:
            return Finding(value, None, reason, figure["verdict"])
        low, high = sorted(100 * bound / figure["base"] for bound in figure["interval"])
        words = f"the interval of the change is {low:+.1f} % to {high:+.1f} %"
        return self._between(value, (low, high), reason, words)

    def _between(
        self, value: float | None, bounds: tuple[float, float], reason: str | None, unknown: str
    ) -> Finding:
        """Judge a value that is known to be between two others."""
        held = {self.holds(bound) for bound in bounds}
        return Finding(value, *((None, reason, unknown) if len(held) > 1 else (held.pop(), reason)))


# What a condition on runs comes to where there are none: a gate that judged nothing has not passed.
_NO_RUNS = "all runs", Finding(None, None, "no run has records that it could judge")


def _result(condition: str, run: str, found: Finding, unit: str) -> Result:
    """Return the result of a condition that must not hold.

    Keys: ``condition``, ``run``, ``value`` (None if the run does not have the figure,
    which is a breach), ``unit``, ``breached``, ``inconclusive`` (why runs of a comparison do
    not show whether it is, or None), ``reason`` (why there is no value, or None), and
    ``never_sent`` (messages that count in a latency though they were never sent, or None).
    """
    return {
        "condition": condition,
        "run": run,
        "value": found.value,
        "unit": unit,
        "breached": found.unknown is None if found.holds is None else found.holds,
        "inconclusive": found.unknown,
        "reason": found.reason,
        "never_sent": found.never_sent,
    }


def _worse(figures: dict[str, Any]) -> tuple[float | None, str | None]:
    """Return the number of figures that are worse, and their names or why there is no number."""
    if any(figure["verdict"] == TOO_FEW for figure in figures.values()):
        return None, TOO_FEW
    names = [named(name, each) for name, each in figures.items() if each["verdict"] == WORSE]
    return len(names), ", ".join(names) or None


def _open(comparison: dict[str, Any]) -> str | None:
    """Return why a comparison does not tell; None where it does."""
    figures = comparison["figures"]
    if any(figure["verdict"] == NOT_COMPARABLE for figure in figures.values()):
        return f"{NOT_COMPARABLE}; measure both in turns, or give --trust-order"
    names = [named(name, figures[name]) for name in undecided(comparison)]
    return f"more runs are needed to tell of {', '.join(names)}" if names else None


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
        either = one.of_comparison or one.figure.is_load
        trivial = one.limit == 0 and one.compares in ("<", ">=") and not one.of_comparison
        if trivial or one.figure.quantity is FLAG:
            raise argparse.ArgumentTypeError(
                f"'{one.condition}' is no limit: each rate has it, or none"
            )
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
    if text.strip().lower() in (WORSE, INCONCLUSIVE):
        return Threshold(text.strip(), FIGURES[text.strip().lower()], ">", 0)
    match = _CONDITION.fullmatch(text.lower())
    if match is None:
        raise argparse.ArgumentTypeError(
            f"'{text}' is not a condition such as p99{example}5ms{_advice(typed, example)}"
        )
    name, compares, number, unit = match.groups()
    figure = FIGURES.get(name)
    if figure is None or figure.quantity is VERDICT:
        known = f"{_alike(name)}: those are {', '.join(FIGURES)}"
        raise argparse.ArgumentTypeError(f"'{name}' in '{text}' is not a figure{known}")
    limits = figure.quantity.limits
    if unit not in limits:
        those = ", ".join(filter(None, limits)) or "it has none"
        raise argparse.ArgumentTypeError(f"'{unit}' in '{text}' is not a unit of {name}: {those}")
    if number.startswith("-") and figure.quantity is not CHANGE:
        raise argparse.ArgumentTypeError(f"'{number}' in '{text}' is not a limit of {name}")
    return Threshold(text.strip(), figure, compares, float(number) * limits[unit])


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
    close = difflib.get_close_matches(name.replace("_", "-"), FIGURES, 1, 0.8)
    return f", did you mean {close[0]}?" if close else ""


def _is_condition(text: str) -> bool:
    match = _CONDITION.fullmatch(text.lower())
    figure = None if match is None else FIGURES.get(match[1])
    return match is not None and figure is not None and match[4] in figure.quantity.limits


def judged(
    limits: Sequence[Threshold],
    documents: Sequence[dict[str, Any]],
    comparison: dict[str, Any] | None,
) -> list[Result]:
    """Judge each run and their comparison, each by its own thresholds."""
    found = []
    for limit in limits:
        if limit.of_comparison:
            of_each = [("comparison", limit.in_comparison(comparison))] if comparison else []
        else:
            of_each = [(document["name"], limit.in_run(document)) for document in documents]
            of_each = of_each or [_NO_RUNS]
        unit = limit.figure.unit
        found += [_result(limit.condition, run, finding, unit) for run, finding in of_each]
    if comparison is None and any(limit.figure.name == INCONCLUSIVE for limit in limits):
        # Nothing is compared: the conditions of the runs tell.
        names = [one["condition"] for one in found if one["inconclusive"]]
        of_all = "all conditions", Finding(len(names), bool(names), ", ".join(names) or None)
        found.append(_result(INCONCLUSIVE, *(of_all if documents else _NO_RUNS), "conditions"))
    return found


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
        alone = limit.figure.name == INCONCLUSIVE and flag == "--fail-if"
        if limit.of_comparison and not alone:
            raise UsageError(f"{flag} {limit.condition}: nothing is compared {missing}")


def incomplete(document: dict[str, Any]) -> Result | None:
    """Return the breach of a run that is known to be incomplete; None for another run."""
    if document["complete"] is not False:
        return None
    why = f"incomplete: {document['reason'] or 'the run does not say why'}"
    return _result("complete", document["name"], Finding(0, True, why), "")


def told(results: Sequence[dict[str, Any]], command: str, *, failed: bool = False) -> int:
    """Report the conditions that are breached or inconclusive; return the exit code.

    Args:
        results: what they came to.
        command: its name.
        failed: the measurement has an error of its own, which says why figures are missing.
    """
    breached = [one for one in results if one["breached"]]
    for one in breached:
        if one["value"] is not None or not failed:
            report_error(command, breach_text(one))
    for one in results:
        if one["inconclusive"]:
            report_warning(
                command, f"--fail-if {one['condition']} is inconclusive: {one['inconclusive']}"
            )
    if any(one["condition"].lower() != INCONCLUSIVE for one in breached):
        return EXIT_THRESHOLD
    asked = any(one["condition"].lower() == INCONCLUSIVE for one in results)
    undecided = breached or any(one["inconclusive"] for one in results)
    return EXIT_INCONCLUSIVE if asked and undecided else EXIT_OK


def add_fail_if(group: argparse._ActionsContainer, text: str) -> None:
    """Add ``--fail-if`` with its help."""
    group.add_argument(
        "--fail-if", metavar="CONDITION", type=threshold, action="append", default=[], help=text
    )
