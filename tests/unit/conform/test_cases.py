"""The cases of quiver-conform as data: ids, words, and their selection."""

from __future__ import annotations

import re

import pytest

from quiver_fast.conform.case import (
    CONTRACT,
    MUST,
    SHOULD,
    Case,
    check,
    rows,
    select,
    server,
)
from quiver_fast.conform.cases import CASES
from quiver_fast.conform.mutation import dropped, twice
from quiver_fast.conform.wire.frames import Unexpected
from quiver_fast.errors import UsageError

NEEDS = {
    "address", "queue", "coordinator", "anonymous", "dynamic", "copy", "users", "tls", "scram",
    "pinned", "idle",
}  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.who}-{case.id}")
def test_a_case_is_whole(case: Case) -> None:
    assert re.fullmatch(r"(?:\d+(?:\.\d+)+|anonterm|contract\.[a-z]+)/\d+", case.id)
    assert case.level in (MUST, SHOULD, CONTRACT)
    assert case.who in ("server", "client", "arrow")
    assert {*case.needs} <= NEEDS
    assert re.fullmatch(r"[A-Z][^\n]{10,98}\.", case.words), "one sentence, 100 characters"
    assert not re.match(r"(?:What|Of|Whoever|Such)\b", case.words)
    assert case.breaks.words


def test_one_id_has_the_same_words_for_all() -> None:
    words: dict[str, set[str]] = {}
    for case in CASES:
        words.setdefault(case.id, set()).add(case.words)
    assert [each for each in words.values() if len(each) > 1] == []


@rows(server, MUST, dropped("end"), "queue", table={
    "2.6.6/1": ("The first row has nothing of its own.", 1),
    "2.60/1": ("The second row has a level and a fault.", 2, SHOULD, twice("end")),
    "2.6.12/1": ("The third row has a fault.", 3, twice("end")),
})  # fmt: skip
def made(seen: list[int], number: int) -> None:
    seen.append(number)


def test_rows_are_cases() -> None:
    seen: list[int] = []
    for case in made:
        case.run(seen)
    assert seen == [1, 2, 3]
    assert [case.level for case in made] == [MUST, SHOULD, MUST]
    assert [case.breaks.kind for case in made] == ["dropped", "twice", "twice"]
    assert {case.needs for case in made} == {("queue",)}


@pytest.mark.parametrize(
    ("only", "ids"),
    [
        (["2.6"], ["2.6.6/1", "2.6.12/1"]),
        (["2.6.6", "2.60/1"], ["2.6.6/1", "2.60/1"]),
        (["2"], ["2.6.6/1", "2.60/1", "2.6.12/1"]),
        ([], ["2.6.6/1", "2.60/1", "2.6.12/1"]),
    ],
)
def test_cases_are_selected_by_whole_numbers(only: list[str], ids: list[str]) -> None:
    assert [case.id for case in select(made, only)] == ids


@pytest.mark.parametrize("unknown", ["2.7", "2.6.6/", "2.6.6/10", ""])
def test_an_unknown_id_is_a_usage_error(unknown: str) -> None:
    with pytest.raises(UsageError, match=r"there is no clause .*the nearest is 2"):
        select(made, [unknown])


def test_a_fact_that_does_not_hold_is_unexpected() -> None:
    check(True, "a", "b")
    with pytest.raises(Unexpected) as caught:
        check(False, "an empty queue", [b"x"])
    assert (caught.value.expected, caught.value.found) == ("an empty queue", "[b'x']")
