"""The bench itself: its figures, its gates, and that it never waits for ever."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench import build_time, cases, comparison, instructions, record, runner  # noqa: E402
from bench.comparison import Comparison, FloorsError, Limit  # noqa: E402
from bench.reference import old  # noqa: E402
from bench.runner import Case, Certificate, RunError, Side  # noqa: E402
from buildtools import proton_engine  # noqa: E402


def rounds(*pairs: tuple[float, float]) -> Comparison:
    made = Comparison()
    for ours, reference in pairs:
        made.add({"rate": ours}, {"rate": reference})
    return made


def test_gated_value_is_the_median_of_pairwise_ratios() -> None:
    # The ratio of the medians would be 2.0: neighbours in time belong together.
    made = rounds((30.0, 10.0), (20.0, 10.0), (100.0, 10.0))
    assert made.gated("rate") == 3.0
    made = rounds((10.0, 5.0), (40.0, 10.0), (90.0, 18.0))
    assert made.gated("rate") == 4.0


@pytest.mark.parametrize(
    ("limit", "value", "holds"),
    [
        (Limit(floor=2.0), 2.0, True),
        (Limit(floor=2.0), 1.99, False),
        (Limit(ceiling=0.5), 0.5, True),
        (Limit(ceiling=0.5), 0.51, False),
        (Limit(), 0.0, True),
    ],
)
def test_limits_hold_up_to_the_value_they_name(limit: Limit, value: float, holds: bool) -> None:
    assert limit.holds(value) is holds


def test_a_broken_floor_shows_in_its_row_and_in_the_table() -> None:
    row, *others = comparison.rows_of("case", rounds((19.0, 10.0)), {"rate": Limit(floor=2.0)})
    assert not others
    assert not row.passed
    assert comparison.table([row])[-1].endswith("FAILED")


def test_a_limit_on_what_was_not_measured_is_an_error() -> None:
    with pytest.raises(FloorsError, match="not measured: p50"):
        comparison.rows_of("case", rounds((1.0, 1.0)), {"p50": Limit(ceiling=1.0)})


@pytest.mark.parametrize(
    "entry",
    [
        "rate = { ceiling = 1.0 }",
        "sender_cpu = { floor = 1.0 }",
        "rate = { aim = 1.0 }",
        "rate = { floor = 1.0, spare = 2 }",
        "speed = { floor = 1.0 }",
    ],
)
def test_floors_of_the_wrong_direction_or_name_are_errors(tmp_path: Path, entry: str) -> None:
    path = tmp_path / "floors.toml"
    path.write_text(f"[case.one]\n{entry}\n")
    with pytest.raises(FloorsError):
        comparison.load_floors(path)


def test_every_case_has_its_floors() -> None:
    named = {
        *cases.THROUGHPUT, *cases.LATENCY, *cases.TCP_SHARE, *cases.SCHEDULE,
        *cases.THROUGH_SERVER, *cases.REACH, *cases.REACH_LATENCY, *cases.REACH_SERVER,
        *cases.REACH_STREAMS,
    }  # fmt: skip
    assert named <= set(comparison.load_floors())
    assert named >= cases.QUICK | cases.IN_REACH


def test_percentiles_are_nearest_rank() -> None:
    ordered = range(1, 101)
    assert runner._percentile(ordered, 50) == 50
    assert runner._percentile(ordered, 99.9) == 100
    assert runner._percentile([7], 50) == 7


def test_transfer_is_timed_from_first_send_to_last_receive(tmp_path: Path) -> None:
    records = tmp_path / "received"
    records.write_text("1,1000,1003\n2,1500,1502\n3,2900,3000\n")
    assert runner.transferred(records, Case(3)) == (3, 2.0)
    assert runner.transferred(records, Case(0, duration=2)) == (3, 2.0)
    with pytest.raises(RunError, match="printed 3 records, not 4"):
        runner.transferred(records, Case(4))


def test_lines_that_name_an_end_are_no_records(tmp_path: Path) -> None:
    records = tmp_path / "received"
    records.write_text("@0\n1000,1003\n1500,1502\n@1\n2900,3000\n")
    assert runner.transferred(records, Case(3, connections=2)) == (3, 2.0)


def test_rate_together_is_of_the_time_in_which_all_receive(tmp_path: Path) -> None:
    first, second, late = (tmp_path / name for name in ("first", "second", "late"))
    first.write_text("0,1000\n0,2000\n0,3000\n")
    second.write_text("0,2000\n0,2500\n0,4000\n")
    late.write_text("0,5000\n0,6000\n")
    assert runner.rate_together([first], Case(3)) == 1.5
    assert runner.rate_together([first, second], Case(3)) == 4.0
    with pytest.raises(RunError, match="not receive at the same time"):
        runner.rate_together([first, late], Case(3))


def test_latencies_are_signed(tmp_path: Path) -> None:
    records = tmp_path / "received"
    records.write_text("1000,1003\n1500,1499\n")
    assert runner.latencies(records) == (-1, 3)


def test_cpu_is_per_message_and_per_side() -> None:
    run = runner.Run(
        Case(1_000_000), 1_000_000, Side(0.3, 1.0, 10**7, ()), Side(0.2, 1.0, 10**7, ()), 0.1, 0.5
    )
    found = runner.figures(run)
    assert found["sender_cpu"] == pytest.approx(300)
    assert found["receiver_cpu"] == pytest.approx(200)
    assert found["rate"] == pytest.approx(2000)


def test_an_arrow_that_fails_is_reported_with_its_words() -> None:
    failing = [sys.executable, "-c", "import sys; sys.exit('no such luck')"]
    with pytest.raises(RunError, match=r"(?s)exit code 1.*no such luck"):
        runner.run_pair(failing, failing, Case(10))


def test_counts_must_stay_within_the_tolerance_in_both_directions() -> None:
    assert instructions.Count("send", 101.9, 100.0).passed
    assert not instructions.Count("send", 102.1, 100.0).passed
    assert not instructions.Count("send", 97.9, 100.0).passed
    assert not instructions.Count("send", 100.0, None).passed


def test_instruction_baselines_survive_a_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "instructions.toml"
    baselines = {"x86_64-cpython-3.11": {"send": 3970.5, "parse": 44.0}}
    instructions.save_baselines(baselines, path)
    assert instructions.load_baselines(path) == baselines


def test_start_up_is_what_two_lengths_of_run_have_in_common() -> None:
    assert instructions.per_item(lambda items: 5_000 + 7 * items, 100, repeats=1) == 7


def test_a_run_replaces_the_figures_of_its_cases(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    path.write_text(record.RESULTS.read_text())
    before = record.load(path)
    rows = comparison.rows_of("server-100", rounds((30.0, 10.0), (40.0, 10.0), (61.0, 10.0)), {})
    record.save(rows, {"server-100": 3}, "pytest bench", path)
    after = record.load(path)
    assert after.pop("server-100") == {"rate": record.Figure(40.0, 10.0, 4.0)}
    before.pop("server-100")
    assert after == before


def test_every_recorded_figure_is_of_a_case_and_can_be_told() -> None:
    floors = comparison.load_floors()
    for case, figures in record.load().items():
        assert case in floors
        for metric, figure in figures.items():
            assert metric in comparison.METRICS
            assert figure.ratio > 0


def test_both_ends_of_a_case_within_tls_have_their_files() -> None:
    case = Case(1, tls=Certificate("c.pem", "c.key", "a.pem"))
    receiver = runner.arrow_line(["arrow"], case, "receive", 1)
    sender = runner.arrow_line(["arrow"], case, "send", 1)
    assert {"scheme=amqps", "cert=c.pem", "key=c.key"} <= set(receiver)
    assert {"scheme=amqps", "trust-store=a.pem"} <= set(sender)
    assert "scheme=amqp" in runner.arrow_line(["arrow"], Case(1), "send", 1)


def test_a_commit_that_history_lacks_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(old.BuildError, match=r"no tree of 0123456.*whole history") as raised:
        old.unpack(tmp_path, "0123456" + 33 * "0")
    assert len(str(raised.value).splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_a_tree_that_is_there_is_not_built_again(tmp_path: Path) -> None:
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / ".installed").touch()
    tree = old.tree(tmp_path, commit="no such commit")
    assert tree.arrow == [
        str(tmp_path / ".venv" / "bin" / "python"),
        str(tmp_path / "impls" / "quiver-arrow-pyfast"),
    ]
    assert "port=7" in tree.server(7)


def test_times_of_builds_are_told_with_their_ratio() -> None:
    lines = list(build_time.report([("today", 70.0), ("old", 100.0)]))
    assert lines == ["today      70.0 s", "old       100.0 s", "ratio      0.70"]


def test_the_reference_has_the_engine_as_its_makers_distribute_it(tmp_path: Path) -> None:
    core = tmp_path / "src" / "core"
    core.mkdir(parents=True)
    for name in ("transport.c", "engine.c", "codec.c"):
        (core / name).touch()
    distributed = proton_engine.sources(tmp_path)
    assert {core / name for name in ("transport.c", "engine.c", "codec.c")} <= set(distributed)
    changed = set(distributed) - set(proton_engine.small_sources(tmp_path))
    assert changed == {core / "transport.c", core / "engine.c"}
