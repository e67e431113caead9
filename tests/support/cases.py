"""The cases of a test: those of the gate, and the others, which are slow."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from _pytest.mark import ParameterSet


def cases(*axes: Iterable[Any], gate: Callable[..., bool]) -> list[ParameterSet]:
    """Return all combinations of values, like several `parametrize`.

    Args:
        axes: values, which may be parameters with marks.
        gate: says whether a combination is part of the gate.
    """
    made = []
    for combination in itertools.product(*axes):
        parts = [
            value if isinstance(value, ParameterSet) else pytest.param(value)
            for value in combination
        ]
        values = [part.values[0] for part in parts]
        marks = [mark for part in parts for mark in part.marks]
        if not gate(*values):
            marks.append(pytest.mark.slow)
        made.append(pytest.param(*values, marks=marks))
    return made
