"""The points of `quiver --sweep`: the values of its options."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver_fast.cli.pair.command import main, make_parser
from quiver_fast.cli.pair.sweep import sweep_points
from quiver_fast.cli.pair.workload import read_arguments
from quiver_fast.errors import UsageError


def values(*sweeps: str) -> list[dict[str, str]]:
    return [point.values for point in sweep_points(sweeps)]


def test_a_list() -> None:
    points = sweep_points(["credit=10,1k"])
    assert [point.values for point in points] == [{"credit": "10"}, {"credit": "1k"}]
    assert [point.given for point in points] == [{"credit": 10}, {"credit": 1000}]


def test_a_range_has_equal_ratios() -> None:
    assert [each["rate"] for each in values("rate=1k..8k:4")] == ["1000", "2000", "4000", "8000"]
    assert [each["rate"] for each in values("rate=8..1:4")] == ["8", "4", "2", "1"]


def test_numbers_that_round_to_one_are_one_point() -> None:
    assert [each["credit"] for each in values("credit=1..3:9")] == ["1", "2", "3"]


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.integers(2, 50))
def test_ranges(first: int, last: int, steps: int) -> None:
    numbers = [int(each["rate"]) for each in values(f"rate={first}..{last}:{steps}")]
    assert numbers[0] == first
    assert numbers[-1] == last
    assert numbers == sorted({*numbers}, reverse=last < first)
    assert len(numbers) <= steps


def test_two_options_make_all_pairs() -> None:
    found = values("body-size=1,2", "credit=3,4")
    pairs = [(each["body-size"], each["credit"]) for each in found]
    assert pairs == [("1", "3"), ("1", "4"), ("2", "3"), ("2", "4")]


@pytest.mark.parametrize(
    ("sweeps", "message"),
    [
        (["rate"], "'rate' is not OPTION=A,B,C or OPTION=FROM..TO:STEPS"),
        (["rate="], "is not OPTION=A,B,C"),
        (["ratee=1,2"], "there is no option --ratee that takes a value"),
        (["durable=1,0"], "there is no option --durable that takes a value"),
        (["url=//a/q,//b/q"], "there is no option --url that takes a value"),
        (["output=a,b"], "there is no option --output that takes a value"),
        (["rate=1,1"], "rate=1 and rate=1 are one point"),
        (["credit=1k,5,1000", "rate=3"], "credit=1k rate=3 and credit=1000 rate=3 are one point"),
        (["rate=1,2", "rate=3"], "rate is given twice"),
        (["rate=1", "credit=1", "body-size=1"], "takes 2 options at most"),
        (["rate=a..b:3"], "'a' is not a whole number"),
        (["rate=0..5:3"], "must be above 0"),
        (["rate=1..5:1"], "2 to 999 steps, not 1"),
        (["rate=1..5k:999", "credit=1,2"], "are more than 999"),
        (["rate=fast"], "argument --rate: rate 'fast' is no number"),
        (["credit=0,1"], "must be at least 1"),
    ],
)
def test_malformed_sweeps_are_refused(sweeps: list[str], message: str) -> None:
    with pytest.raises(UsageError) as raised:
        sweep_points(sweeps)
    assert str(raised.value).startswith("--sweep")
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--runs", "3"], "--runs does not go with --sweep"),
        (["--fail-if", "lost>0"], "--fail-if does not go with --sweep"),
        (["--find-rate", "p99<1ms"], "--sweep does not go with --find-rate"),
        (["--rate", "5"], "--rate does not go with --sweep rate=1,2"),
    ],
)
def test_options_without_effect_are_refused(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--sweep", "rate=1,2", *words]) == 2
    assert capsys.readouterr().err == f"quiver: error: {message}\n"


SWEEP = ["//h/q", "--sweep=rate=1,2", "--credit=5"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "--resume needs --output"),
        (["--output=none"], "--resume: there is no set.json or rate.json or sweep.json in none"),
        (["--output={out}", "--credit=6"], "--resume: {out} was begun with another --credit"),
        (["--output={out}", "--durable"], "--resume: {out} was begun with another --durable"),
        (["--output={out}", "//h/q1"], "--resume: {out} was begun with another URL"),
        (["--output={out}", "--sweep=rate=1"], "--resume: {out} was begun with another --sweep"),
        (["--output={single}"], "--resume needs --runs or --detect or --sweep or --find-rate"),
        (
            ["--output={broken}"],
            "--resume: {broken}/sweep.json is damaged: Expecting value: line 1 column 6 (char 5)",
        ),
    ],
)
def test_sweeps_that_cannot_be_resumed(
    tmp_path: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    workload = read_arguments(make_parser(), SWEEP, {}).workload
    texts = {
        "out": json.dumps({"workload": workload}),
        "single": json.dumps({"workload": {"rate": 1}}),
        "broken": '{"a":',
    }
    places = {name: str(tmp_path / name) for name in texts}
    for name, text in texts.items():
        Path(places[name]).mkdir()
        Path(places[name], "sweep.json").write_text(text)
    assert main(["--resume", *(word.format(**places) for word in words)]) == 2
    assert capsys.readouterr().err == f"quiver: error: {message.format(**places)}\n"


def test_a_sweep_is_resumed_with_its_own_options(tmp_path: Path) -> None:
    args = read_arguments(make_parser(), SWEEP, {})
    (tmp_path / "sweep.json").write_text(json.dumps({"workload": args.workload}))
    words = ["--resume", "--output", str(tmp_path)]
    for begin in ([], SWEEP, ["--credit=5", "--json"]):
        again = read_arguments(make_parser(), [*begin, *words], {})
        assert (again.workload, again.resume) == (args.workload, True)
    environ = {
        "QUIVER_CREDIT": "3",
        "QUIVER_DURABLE": "1",
        "QUIVER_RATE": "no",
        "QUIVER_QUIET": "1",
    }
    again = read_arguments(make_parser(), words, environ)
    assert (again.workload, again.quiet) == (args.workload, True)


LINE = {"name": "run-01", "complete": True, "sustained": True, "reason": None, "figures": None}
BEGUN = {
    "set.json": (["--runs=2"], {"order": [], "runs": [], "baseline_runs": None}),
    "sweep.json": (["--sweep=rate=1,2"], {"points": [LINE | {"values": {"rate": "1"}}]}),
    "rate.json": (["--find-rate=p99<1s"], {"found_rate": {"steps": []}}),
}
STEP = LINE | {"rate": 1000, "void": False, "confirms": False, "returns": False}
SIDE = {"side": "candidate", "verdict": None, **LINE}


@pytest.mark.parametrize("name", BEGUN)
def test_a_damaged_campaign_is_not_resumed(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words, keys = BEGUN[name]
    whole = {"workload": read_arguments(make_parser(), words, {}).workload} | keys
    figures = {"figures": {"latency_p50": "fast"}}
    steps = ({}, STEP | {"rate": "fast"}, STEP | {"rate": None}, STEP | figures)
    damages = {
        "set.json": [
            {"order": None}, {"order": [5]}, {"order": [SIDE | {"name": []}]}, {"runs": None},
            {"runs": [{"name": "run-01"}]},
        ],
        "sweep.json": [
            {"points": [LINE]}, {"points": [LINE | figures | {"values": {"rate": "1"}}]},
        ],
        "rate.json": [{"found_rate": None}, *({"found_rate": {"steps": [one]}} for one in steps)],
    }[name]  # fmt: skip
    none = [[], None, {}, {"workload": None}, {"workload": []}, {"workload": whole["workload"]}]
    file = tmp_path / name
    for text in [
        "",
        "{",
        json.dumps(whole)[:-9],
        "\xff",
        *map(json.dumps, [*none, *(whole | one for one in damages)]),
    ]:
        file.write_bytes(text.encode("latin-1"))
        assert main(["--resume", f"--output={tmp_path}"]) == 2, text
        line = capsys.readouterr().err.splitlines()[-1]
        assert line.startswith(f"quiver: error: --resume: {file} is damaged: "), text
        assert file.read_bytes() == text.encode("latin-1")


def test_a_point_that_cannot_be_measured(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--sweep", "sender=pyfast,nobody"]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("quiver: error: --sweep: at sender=nobody: ")
