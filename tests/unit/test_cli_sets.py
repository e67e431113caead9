"""Sets of runs: their order, their places, and `--baseline`."""

import shlex
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver_fast.analysis.read.set_layout import both_sides, run_name
from quiver_fast.analysis.sections.sets import comparison_section
from quiver_fast.analysis.show.text import section_text
from quiver_fast.cli.pair import command as pair
from quiver_fast.cli.pair.run_set import turns

RUNS = ("--runs", "2", "--init-only")


def test_turns_are_abba() -> None:
    assert "".join(side for side, _ in turns(4, "AB")) == "ABBAABBA"
    assert "".join(side for side, _ in turns(3, "AB")) == "ABBAAB"
    assert list(turns(3, "A")) == [("A", 1), ("A", 2), ("A", 3)]


@given(st.integers(1, 200))
def test_a_steady_drift_weighs_on_both_sides_alike(runs: int) -> None:
    order = list(turns(runs, "AB"))
    assert Counter(side for side, _ in order) == {"A": runs, "B": runs}
    assert [number for side, number in order if side == "A"] == list(range(1, runs + 1))
    places = {side: sum(n for n, (s, _) in enumerate(order) if s == side) for side in "AB"}
    # The last of an odd number of rounds has no counterpart.
    assert places["B"] - places["A"] == runs % 2


@given(st.integers(1, 2000))
def test_names_sort_as_they_were_measured(runs: int) -> None:
    names = [run_name(number, runs) for number in range(1, runs + 1)]
    assert names == sorted(set(names))


def test_a_set_with_a_baseline_is_known_by_its_records(tmp_path: Path) -> None:
    assert both_sides(str(tmp_path)) is None
    for side in ("candidate", "baseline"):
        assert both_sides(str(tmp_path)) is None
        (tmp_path / side / "run-01").mkdir(parents=True)
        (tmp_path / side / "run-01" / "sender-transfers.csv").write_text("1,0\n")
    assert both_sides(str(tmp_path)) == (str(tmp_path / "candidate"), str(tmp_path / "baseline"))


class Sides:
    """The measurement of a `quiver` command."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sides: dict = {}

        def run(unmeasured: pair.RunSet) -> int:
            self.sides = unmeasured._sides
            return 0

        monkeypatch.setattr(pair.RunSet, "run", run)

    def of(self, *words: str) -> dict:
        assert pair.main(["--runs", "2", *words]) == 0
        return self.sides

    def base(self, *words: str) -> dict:
        return vars(self.of(*words)["baseline"]._args)


@pytest.fixture(name="sides")
def sides_of_a_set(monkeypatch: pytest.MonkeyPatch) -> Sides:
    return Sides(monkeypatch)


def test_a_set_alone(sides: Sides) -> None:
    assert list(sides.of("//h/q")) == ["candidate"]
    assert sides.sides["candidate"].label == "pyfast, //h/q"
    assert sides.of()["candidate"].label == "pyfast, peer-to-peer"


def test_options_replace_and_add(sides: Sides) -> None:
    base = sides.base("//h/q", "-c", "5", "--credit", "7", "--baseline=--credit 10 --durable")
    assert (base["credit"], base["durable"], base["count"], base["url"]) == (10, True, 5, "//h/q")
    assert vars(sides.sides["candidate"]._args)["credit"] == 7
    assert sides.sides["baseline"].label == "--credit 10 --durable"


def test_an_option_in_words_of_its_own(sides: Sides) -> None:
    assert sides.base("--baseline", "--credit 10")["credit"] == 10
    assert sides.base("--baseline=-c 10")["count"] == 10


@pytest.mark.parametrize("url", ["//h/q1", "amqp://h/q1", "amqps://h:99/q1", "amqp:q1"])
def test_a_url(sides: Sides, url: str) -> None:
    base = sides.base("//h/q", "--credit", "7", "--baseline", url)
    assert (base["url"], base["credit"]) == (url, 7)


def test_a_url_with_options(sides: Sides) -> None:
    base = sides.base("//h/q", "--baseline", "//h/q1 --credit 7")
    assert (base["url"], base["credit"]) == ("//h/q1", 7)


def other_arrow(directory: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    file = directory / f"quiver-arrow-{name}"
    file.write_text("#!/bin/sh\n")
    file.chmod(0o755)
    monkeypatch.setenv("QUIVER_IMPL_PATH", str(directory))


def test_an_implementation_takes_the_place_of_both(
    sides: Sides, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other_arrow(tmp_path, "rhea", monkeypatch)
    base = sides.base("--receiver", "pyfast", "--baseline", "js")
    assert (base["impl"], base["sender"], base["receiver"]) == ("js", None, None)
    base = sides.base("--sender", "pyfast", "--baseline=--receiver js")
    assert (base["impl"], base["sender"], base["receiver"]) == ("pyfast", "pyfast", "js")


def test_a_coarse_clock_on_one_side_is_that_of_both(
    sides: Sides, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other_arrow(tmp_path, "rhea", monkeypatch)
    found = sides.of("--baseline", "rhea")
    units = [vars(found[side]._args)["time_unit"] for side in ("candidate", "baseline")]
    assert units == ["ms", None], "the other arrow knows no option for it"
    found = sides.of("--impl", "rhea", "--baseline", "pyfast")
    units = [vars(found[side]._args)["time_unit"] for side in ("candidate", "baseline")]
    assert units == [None, "ms"]
    assert vars(sides.of("--baseline", "pyfast")["candidate"]._args)["time_unit"] is None


def program(tmp_path: Path) -> str:
    file = tmp_path / "old quiver"
    file.write_text("#!/bin/sh\n")
    file.chmod(0o755)
    return str(file)


def command(sides: Sides, *words: str) -> list[str]:
    return list(sides.of(*words)["baseline"]._command)


def test_a_program_gets_the_options_that_it_lacks(sides: Sides, tmp_path: Path) -> None:
    old = program(tmp_path)
    text = f"{shlex.quote(old)} --credit=5"
    found = command(sides, "//h/q", "-c", "5", "--credit", "7", "--durable", "--baseline", text)
    assert found == [old, "--credit=5", "--count=5", "--durable", "//h/q"]
    assert command(sides, "--baseline", shlex.quote(old)) == [old]
    found = command(sides, "--receive-delay", "5ms", "--baseline", shlex.quote(old))
    assert found == [old, "--receive-delay=5ms"]


def test_a_program_keeps_its_url_and_its_implementations(sides: Sides, tmp_path: Path) -> None:
    old = program(tmp_path)
    text = f"{shlex.quote(old)} //h/old --sender pyfast"
    found = command(sides, "//h/q", "--impl", "pyfast", "--receiver", "pyfast", "--baseline", text)
    assert found == [old, "//h/old", "--sender", "pyfast"]


def test_a_program_may_follow_others(sides: Sides) -> None:
    text = f"env A=1 {shlex.quote(sys.executable)} -c 1"
    found = command(sides, "-c", "5", "--baseline", text)
    assert found[0].endswith("/env")
    assert found[1:] == ["A=1", sys.executable, "-c", "1", "--count=5"]


def test_passwords_are_in_no_label(sides: Sides, tmp_path: Path) -> None:
    sides.of("--baseline", "amqp://u:hunter2@h/q --credit 10")
    assert sides.sides["baseline"].label == "'amqp://u:***@h/q' --credit 10"
    sides.of("amqp://u:hunter2@h/q", "--baseline=--credit 10")
    assert sides.sides["candidate"].label == "pyfast, amqp://u:***@h/q"
    sides.of("--baseline", f"{shlex.quote(program(tmp_path))} //u:hunter2@h/q")
    assert "hunter2" not in sides.sides["baseline"].label


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--runs", "0"], "argument --runs: must be above 0"),
        (["--runs", "x"], "argument --runs: 'x' is not a whole number"),
        (["--baseline", "pyfast"], "--baseline needs --runs or --detect"),
        (["--detect", "5%"], "--detect needs --baseline"),
        ([*RUNS, "--baseline", "pyfast", "--detect", "5%"], "--runs does not go with --detect"),
        (["--baseline", "pyfast", "--detect", "0%"], "--detect: no runs show that there is no"),
        (["--baseline", "pyfast", "--detect", "5"], "'5' is not a share, such as 5% or 0.1%"),
        ([*RUNS, "--relevant", "2%"], "--relevant needs --baseline"),
        (["--allow-incomplete"], "--allow-incomplete needs --runs or --detect"),
        (
            ["--fail-if", "worse"],
            "worse: nothing is compared without --baseline, and --runs or --detect",
        ),
        (
            [*RUNS, "--fail-if", "rate-change<-5%"],
            "--fail-if rate-change<-5%: nothing is compared without --baseline, and",
        ),
        (["--find-rate", "worse", "-d", "1"], "--find-rate worse: nothing is compared in a search"),
        (["--fail-if", "nonsense"], "'nonsense' is not a condition such as p99>5ms"),
        ([*RUNS, "--baseline", ""], "--baseline: it is empty"),
        ([*RUNS, "--baseline", "'"], "--baseline: No closing quotation"),
        ([*RUNS, "--baseline", "pyfsat"], "did you mean 'pyfast'? (of a program give the path"),
        ([*RUNS, "--baseline", "rhae"], "did you mean 'rhea'?"),
        ([*RUNS, "--baseline", "/no/quiver"], "--baseline: no program '/no/quiver'"),
        ([*RUNS, "--baseline", "no-quiver -c 1"], "--baseline: no program 'no-quiver'"),
        (
            [*RUNS, "--baseline", "pyfast --credit 5"],
            "no program 'pyfast'; the implementation with options is '--impl pyfast --credit 5'",
        ),
        ([*RUNS, "--baseline=--output x"], "--baseline: unrecognized arguments: --output"),
        ([*RUNS, "--baseline=--runs 3"], "--baseline: unrecognized arguments: --runs"),
        ([*RUNS, "--baseline=--credit 0"], "--baseline: argument --credit: must be at least 1"),
        ([*RUNS, "--baseline=--transaction-size 5"], "--baseline: --transaction-size needs a URL"),
        (
            [*RUNS, "--baseline", "ftp://h/q"],
            "--baseline: scheme must be amqp or amqps or csp, not 'ftp'",
        ),
        (
            [*RUNS, "amqp://u:hunter2@h/q", "--baseline", "/bin/true"],
            "--baseline: a program would get the password of the URL as an argument",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_usage_errors_are_one_line(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert pair.main(words) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert len(said.err.splitlines()) == 1
    assert says in said.err
    assert "hunter2" not in said.err


def comparison(verdicts: dict[str, str], overall: str) -> dict:
    figures = {
        name: {
            "unit": "ms", "base": 1.0, "candidate": 2.0, "raw_base": 1.0, "raw_candidate": 2.0,
            "change": 1.0, "adjusted_p_value": 0.01, "effect": 1.0, "interval": None,
            "base_slow": 0, "candidate_slow": 0, "verdict": verdict, "no_difference_above": None,
            "shown_from": 1.5 if verdict == "not shown" else None,
            "runs_to_show": 12 if verdict == "not shown" else None,
        }
        for name, verdict in verdicts.items()
    }  # fmt: skip
    return {"figures": figures, "incomplete": [], "not_steady": [], "verdict": overall}


@pytest.mark.parametrize(
    ("verdicts", "overall", "words"),
    [
        (
            {"latency_p50": "worse", "latency_p99": "worse"},
            "worse",
            "The candidate is worse in latency p50 (+100.0%), latency p99 (+100.0%).",
        ),
        (
            {"latency_p50": "worse", "latency_p99": "better"},
            "mixed",
            "The candidate is better in latency p99 (+100.0%) and worse in latency p50 (+100.0%).",
        ),
        (
            {"latency_p50": "not shown"},
            "not shown",
            "No difference of the typical runs is shown. More runs show smaller ones.",
        ),
        (
            {"message_rate": "no difference above 0.7 %"},
            "no difference above 0.7 %",
            "The candidate's typical run differs by no more than that in any figure: the "
            "intervals prove it.",
        ),
        (
            {"latency_p50": "too few runs: at least 5 of each"},
            "too few runs: at least 5 of each",
            "With so few runs a difference of the sets is not told from one between runs.",
        ),
    ],
)
def test_the_verdict_in_words(verdicts: dict[str, str], overall: str, words: str) -> None:
    lines = section_text(comparison_section(comparison(verdicts, overall))).splitlines()
    assert lines[-2:] == [lines[-2], words]
    assert lines[-2].endswith(f" {overall}")
    told = "latency p50: so many runs show 150%, about 12 of each show +100.0%"
    assert (told in lines) == (verdicts == {"latency_p50": "not shown"})


def test_no_cell_of_the_table_touches_another() -> None:
    """Rates from a million on filled their columns."""
    document = comparison({"message_rate": "not shown"}, "not shown")
    rate = {"unit": "/s", "effect": -0.2}
    rates = {"base": 2_332_747.0, "candidate": 223_245_690.0, "raw_base": 2_332_747.0}
    document["figures"]["message_rate"] |= rate | rates | {"raw_candidate": 2_245_690.0}
    [line] = [
        one
        for one in section_text(comparison_section(document)).splitlines()
        if one.startswith("message rate ")
    ]
    cells = "2,332,747/s 223,245,690/s +100.0% - 0.01 -0.20 2,332,747/s 2,245,690/s"
    assert line.split() == f"message rate {cells} not shown".split()
