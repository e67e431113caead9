"""The bench's options, its interleaving fixture, and the table at the end."""

from __future__ import annotations

import platform
import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench import record
from bench.cases import IN_REACH, QUICK
from bench.comparison import METRICS, Comparison, Figures, Limit, Row, load_floors, rows_of, table
from bench.reference import build
from bench.runner import Case, product_command

QUICK_ROUNDS = 3
FULL_ROUNDS = 7

ROWS = pytest.StashKey[list[Row]]()
ROUNDS = pytest.StashKey[dict[str, int]]()


class RatioClock:
    """The timer given to pytest-benchmark: a round "lasts" its relative cost in seconds.

    So pytest-benchmark saves, and --benchmark-compare-fail compares, a ratio of
    neighbouring runs and not the speed of the machine at that hour.
    """

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def advance(self, metric: str, ours: Figures, reference: Figures) -> None:
        """Set the cost of the running round from ``metric``; a smaller cost is better."""
        ratio = ours[metric] / reference[metric]
        self.now += 1 / ratio if METRICS[metric].larger_is_better else ratio


RATIO_CLOCK = RatioClock()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("bench")
    group.addoption("--bench-full", action="store_true", help="all cases, longer, 7 rounds")
    group.addoption("--bench-rounds", type=int, help="rounds of each case")
    group.addoption(
        "--bench-record", action="store_true", help="write the figures that the documents quote"
    )
    group.addoption("--bench-arrow", help="command to measure instead of the product's arrow")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "full: only with --bench-full")
    config.addinivalue_line("markers", "reach: a row of the data plane's table, with -k reach")
    config.stash[ROWS] = []
    config.stash[ROUNDS] = {}
    # pytest-benchmark's own table would show ratios as seconds; ours is printed instead.
    config.option.benchmark_quiet = True


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--bench-full"):
        return
    # `-k reach` runs all of its rows.
    reach = "reach" in config.option.keyword
    full = [
        item
        for item in items
        if item.get_closest_marker("full") and not (reach and item.get_closest_marker("reach"))
    ]
    config.hook.pytest_deselected(items=full)
    items[:] = [item for item in items if item not in full]


class Bench:
    """Runs one case interleaved with its reference and holds it to its limits."""

    def __init__(self, benchmark: BenchmarkFixture, config: pytest.Config) -> None:
        self._benchmark = benchmark
        self._rows = config.stash[ROWS]
        self._rounds = config.stash[ROUNDS]
        self.full: bool = config.getoption("--bench-full")
        self.rounds: int = config.getoption("--bench-rounds") or (
            FULL_ROUNDS if self.full else QUICK_ROUNDS
        )

    def interleave(
        self,
        case: str,
        primary: str,
        ours: Callable[[], Figures],
        reference: Callable[[], Figures],
    ) -> Comparison:
        """Measure rounds of (reference, ours), add them to the table, check the limits.

        Args:
            case: name of the case in floors.toml.
            primary: the metric that pytest-benchmark saves and compares.
            ours: runs the product once.
            reference: runs the reference once.

        Returns:
            The rounds, for checks of absolute figures.
        """
        limits = load_floors()[case]
        comparison = Comparison()

        def measure(reference_figures: Figures) -> None:
            our_figures = ours()
            comparison.add(our_figures, reference_figures)
            RATIO_CLOCK.advance(primary, our_figures, reference_figures)

        self._benchmark.pedantic(  # type: ignore[no-untyped-call]
            measure, setup=lambda: ((reference(),), {}), rounds=self.rounds, iterations=1
        )
        self._conclude(case, comparison, limits)
        return comparison

    def _conclude(self, case: str, comparison: Comparison, limits: dict[str, Limit]) -> None:
        rows = rows_of(case, comparison, limits)
        self._rows.extend(rows)
        self._rounds[case] = self.rounds
        self._benchmark.extra_info |= {
            row.metric: {"ours": row.ours, "reference": row.reference, "gated": row.gated}
            for row in rows
        }
        failed = [row for row in rows if not row.passed]
        if failed:
            complaints = (f"{row.metric} is {row.gated:.3f}, must be {row.limit}" for row in failed)
            pytest.fail(f"{case}: {'; '.join(complaints)}", pytrace=False)


def case_parameters(cases: dict[str, Case]) -> list[object]:
    """Return cases for pytest; only --bench-full runs those that are not quick."""
    return [
        pytest.param(
            name,
            case,
            id=name,
            marks=[pytest.mark.full] * (name not in QUICK)
            + [pytest.mark.reach] * (name in IN_REACH),
        )
        for name, case in cases.items()
    ]


def sized(bench: Bench, case: Case) -> Case:
    """Return the case, longer with --bench-full."""
    return replace(case, count=case.count * 3) if bench.full else case


@pytest.fixture(scope="session")
def arrow(request: pytest.FixtureRequest) -> Sequence[str]:
    """The command that is measured."""
    given: str | None = request.config.getoption("--bench-arrow")
    return shlex.split(given) if given else product_command()


@pytest.fixture
def bench(benchmark: BenchmarkFixture, request: pytest.FixtureRequest) -> Bench:
    return Bench(benchmark, request.config)


@pytest.fixture(scope="session")
def references() -> build.References:
    return build.build()


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    rows = config.stash[ROWS]
    if not rows:
        return
    terminalreporter.section("ours against the reference of the same run (medians)")
    terminalreporter.line(
        f"{date.today()}, {platform.machine()}, Python {platform.python_version()}"
    )
    for line in table(rows):
        terminalreporter.line(line)
    if config.getoption("--bench-record"):
        words = [word for word in config.invocation_params.args if word != "--bench-record"]
        record.save(rows, config.stash[ROUNDS], shlex.join(["pytest", *words]))
