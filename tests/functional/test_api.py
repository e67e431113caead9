"""`quiver_fast.api`: measurements, servers and pytest's fixtures from Python."""

from __future__ import annotations

import asyncio
import contextlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import textwrap
from importlib import metadata
from pathlib import Path

import numpy as np
import psutil
import pytest
import yaml
from proton import Message, SSLDomain
from proton.utils import BlockingConnection
from support.certificates import Certificates
from support.processes import REPOSITORY, Running, free_port, wait_until

import quiver_fast
from quiver_fast.api import QuiverError, Result, Server, UsageError, measure, measure_async
from quiver_fast.extras import how_to_install

COUNT = 2000


EXAMPLES = REPOSITORY / "examples"


def process_of(server: Server) -> psutil.Process:
    (found,) = [
        each for each in psutil.Process().children() if f"port={server.port}" in each.cmdline()
    ]
    return found


def test_a_pair() -> None:
    result = measure(count=COUNT)
    assert (result.sent, result.received, result.unreceived) == (COUNT, COUNT, 0)
    assert result.rate > 0
    assert 0 < result.latency("50") <= result.latency(99) <= result.latency(99.9)
    assert result.latency(100) == pytest.approx(
        result.document["receiver"]["latency"]["max_us"] / 1000, abs=0.001
    )
    assert len(result.transfers("receiver")) == COUNT
    assert result.breaches == ()


def test_through_a_server(tmp_path: Path) -> None:
    with Server("orders", durability="none", store=tmp_path / "store") as server:
        assert server.url == f"amqp://127.0.0.1:{server.port}/orders"
        out = tmp_path / "out"
        result = measure(server.url, count=COUNT, durable=True, rate="10k", output=out)
        assert result.directory == out
        assert result.received == COUNT
        assert result.document["sender"]["config"]["durable"] is True
        other = measure(server.url_of("others"), count=10, properties="a=1")
        assert other.received == 10
        pid = process_of(server).pid
    assert not psutil.pid_exists(pid)


def test_thresholds() -> None:
    result = measure(count=COUNT, fail_if=["p99>0.001us", "p50>10s", "rate<1"])
    assert len(result.breaches) == 1
    assert result.breaches[0].startswith("threshold p99>0.001us is breached: ")


def test_a_condition_that_nobody_can_judge_is_a_warning(tmp_path: Path) -> None:
    """Messages that expire may be lost or not: no breach, but not nothing either."""
    with Server() as server:
        words = {"count": 200, "ttl": 1, "receive_delay": "20ms", "credit": 1}
        with pytest.warns(UserWarning, match="fail_if lost>0 is inconclusive: .* may be lost"):
            result = measure(server.url, drain_timeout="1s", fail_if="lost>0", **words)
    assert result.unreceived > 0
    assert result.document["delivery"]["lost"] is None
    assert result.breaches == ()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"credits": 1}, "unrecognized arguments: credits=1; did you mean credit"),
        ({"rate": "fast"}, "rate 'fast' is no number of messages"),
        ({"runs": 0}, "runs"),
        ({"allow_incomplete": True}, "allow_incomplete needs runs or detect"),
        ({"runs": 2, "baseline": "--durable"}, "baseline is not for measure"),
        ({"find_rate": "p99<1ms"}, "find_rate is not for measure"),
        ({"sweep": "rate=1,2"}, "sweep is not for measure"),
        ({"help": True}, "help is not for measure"),
        ({"url": 5}, "the URL is text such as '//localhost/q0', not 5"),
        ({"credit": [1, 2]}, r"credit takes text or a number, not \[1, 2\]"),
        ({"properties": {"a": 1}}, "properties takes text or a number, not {'a': 1}"),
        ({"body_size": True}, "body_size: expected a value, not True"),
    ],
)
def test_wrong_options(options: dict[str, object], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        measure(**options)


def test_several_runs() -> None:
    runs = measure(count=COUNT, runs=3, fail_if=["p99>0.001us", "rate<1"])
    assert [each.received for each in runs.results] == [COUNT] * 3
    assert [each.directory.parent for each in runs.results] == [runs.directory] * 3
    assert len(runs.results[2].transfers("receiver")) == COUNT
    assert runs.rate == np.median([each.rate for each in runs.results])
    for rank in (50, "99", 100):
        each = [one.latency(rank) for one in runs.results]
        assert runs.latency(rank) == pytest.approx(np.median(each), abs=0.001)
    with pytest.raises(KeyError):
        runs.latency(75)
    assert len(runs.breaches) == 3
    assert [each.breaches for each in runs.results] == [(line,) for line in runs.breaches]


def test_results_are_printed_in_a_few_lines(with_ids: Result) -> None:
    runs = measure(count=COUNT, runs=2, fail_if="count>1")
    figures, counts, files = str(with_ids).splitlines()
    assert re.match(r"[\d.]+( [kM])? messages/s   p50 ", figures)
    assert counts == f"{COUNT:,} sent, {COUNT:,} received"
    assert files == f"Files: {with_ids.directory}"
    assert repr(with_ids) == f"<Result: {figures}; {counts}>"
    first, second, *breaches, files = str(runs).splitlines()
    assert first.startswith("run-01: ")
    assert second.startswith("run-02: ")
    assert len(breaches) == 2
    assert repr(runs) == f"<Runs: 2 runs in {runs.directory}>"


def test_a_single_run_of_several_is_of_several() -> None:
    runs = measure(count=COUNT, runs=1)
    assert len(runs.results) == 1
    assert runs.breaches == runs.results[0].breaches == ()


@pytest.fixture(scope="module")
def with_ids() -> Result:
    return measure(count=COUNT, record_format="v2")


def test_records_as_a_table(with_ids: Result) -> None:
    records = with_ids.transfers("receiver")
    table = with_ids.to_arrow()
    assert table.column_names == ["sent", "received", "latency", "id"]
    assert str(table.schema.field("sent").type) == "timestamp[us, tz=UTC]"
    assert str(table.schema.field("latency").type) == "duration[us]"
    assert records.received is not None
    assert records.ids is not None
    for name, column in {
        "sent": records.sent,
        "received": records.received,
        "latency": records.received - records.sent,
        "id": records.ids,
    }.items():
        assert np.array_equal(table[name].to_numpy().astype(np.int64), column)
    assert with_ids.to_arrow("sender").column_names == ["sent", "id"]
    assert measure(count=COUNT).to_arrow().column_names == ["sent", "received", "latency"]


def test_a_table_copies_no_array(with_ids: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    records = with_ids.transfers("receiver")
    monkeypatch.setattr(Result, "transfers", lambda *_: records)
    table = with_ids.to_arrow()
    for name, column in {
        "sent": records.sent,
        "received": records.received,
        "id": records.ids,
    }.items():
        assert column is not None
        assert table[name].chunk(0).buffers()[1].address == column.ctypes.data


def test_records_as_a_data_frame(with_ids: Result) -> None:
    frame = with_ids.to_pandas()
    assert len(frame) == COUNT
    assert str(frame["received"].dtype) == "datetime64[us, UTC]"
    greatest = frame["latency"].max().total_seconds() * 1000
    assert greatest == pytest.approx(with_ids.latency(100), abs=0.001)


def test_records_of_many_ends() -> None:
    with Server() as server:
        result = measure(server.url, count=COUNT, senders=3, receivers=3, processes=4)
    assert result.received == COUNT
    parts = [len(result.transfers(role)) for role in ("sender.0", "sender.1")]
    assert all(parts)
    assert result.to_arrow("sender").num_rows == sum(parts) == COUNT
    assert result.to_arrow().num_rows == COUNT


def test_records_that_were_removed(tmp_path: Path) -> None:
    result = measure(count=1, output=tmp_path)
    (tmp_path / "receiver-transfers.csv.zst").unlink()
    with pytest.raises(QuiverError, match=f"there are no records of receiver in '{tmp_path}'"):
        result.to_arrow()


def test_ids_that_are_no_numbers_are_null(with_ids: Result, tmp_path: Path) -> None:
    file = tmp_path / "receiver-transfers.csv"
    file.write_text("7,1600000000000,1600000000001\nx,1600000000000,1600000000002\n")
    table = Result(with_ids.document | {"output_dir": str(tmp_path)}).to_arrow()
    assert table["id"].to_pylist() == [7, None]
    assert str(table.schema.field("latency").type) == "duration[ms]"


@pytest.mark.parametrize(("name", "extra"), [("pandas", "pandas"), ("pyarrow", "analysis")])
def test_a_missing_library_is_one_line(
    with_ids: Result, monkeypatch: pytest.MonkeyPatch, name: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    says = f"needs {name}, which is not installed: {how_to_install(extra)}"
    with pytest.raises(QuiverError, match=re.escape(says)):
        with_ids.to_pandas()


def test_in_an_event_loop() -> None:
    """A notebook has a loop that runs; other tasks go on beside measure_async."""

    async def both() -> list[Result]:
        blocking = measure(count=COUNT)
        return [blocking, *await asyncio.gather(*(measure_async(count=COUNT) for _ in range(2)))]

    assert [each.received for each in asyncio.run(both())] == [COUNT] * 3


def test_errors_and_runs_of_the_async_twin() -> None:
    with pytest.raises(UsageError, match="unrecognized"):
        asyncio.run(measure_async(credits=1))
    runs = asyncio.run(measure_async(count=COUNT, runs=2))
    assert len(runs.results) == 2


def test_a_cancelled_task_leaves_no_process() -> None:
    async def cancelled() -> list[psutil.Process]:
        task = asyncio.create_task(measure_async(duration=0, rate=1000))
        while len(processes := psutil.Process().children(recursive=True)) < 3:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return processes

    assert not [each for each in asyncio.run(cancelled()) if each.is_running()]


INTERRUPTED = """
import asyncio
from quiver_fast.api import measure, measure_async
try:
    {call}
except KeyboardInterrupt:
    print("interrupted")
"""
CALLS = {
    "measure": "measure(duration=0, rate=1000)",
    "measure_async": "asyncio.run(measure_async(duration=0, rate=1000))",
}


def run_of(python: Running) -> list[psutil.Process]:
    """Return `quiver` and its two arrows, once all are there."""
    parent = psutil.Process(python.process.pid)
    wait_until(lambda: len(parent.children(recursive=True)) == 3, "both arrows run")
    return parent.children(recursive=True)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_ctrl_c_ends_the_run(call: str) -> None:
    """A notebook's kernel gets the signal alone, without its children."""
    with Running([sys.executable, "-c", INTERRUPTED.format(call=call)]) as python:
        processes = run_of(python)
        python.process.send_signal(signal.SIGINT)
        end = python.wait()
        assert (end.code, end.stdout, end.stderr) == (0, "interrupted\n", "")
        assert not [each for each in processes if each.is_running()]


def test_a_second_ctrl_c_does_not_wait() -> None:
    with Running([sys.executable, "-c", INTERRUPTED.format(call=CALLS["measure"])]) as python:
        processes = run_of(python)
        quiver = next(each for each in processes if each.ppid() == python.process.pid)
        quiver.suspend()
        wait_until(lambda: quiver.status() == psutil.STATUS_STOPPED, "quiver stands still")
        python.process.send_signal(signal.SIGINT)
        status = Path(f"/proc/{quiver.pid}/status")
        wait_until(lambda: has_pending(status.read_text(), signal.SIGTERM), "quiver is told to end")
        python.process.send_signal(signal.SIGINT)
        assert python.wait().stdout == "interrupted\n"
        # The system tells the arrows that their parent is gone.
        wait_until(lambda: not [each for each in processes if each.is_running()], "all have ended")


def test_a_killed_python_leaves_no_process() -> None:
    with Running([sys.executable, "-c", INTERRUPTED.format(call=CALLS["measure"])]) as python:
        processes = run_of(python)
        python.process.kill()
        wait_until(lambda: not [each for each in processes if each.is_running()], "all have ended")


def has_pending(status: str, signum: int) -> bool:
    (mask,) = re.findall(r"^ShdPnd:\s*(\w+)", status, re.MULTILINE)
    return bool(int(mask, 16) >> (signum - 1) & 1)


def test_a_server_with_tls(certificates: Certificates) -> None:
    with Server("orders", host="localhost", scheme="amqps", **certificates.server.keys()) as server:
        assert server.url == f"amqps://localhost:{server.port}/orders"
        result = measure(server.url, count=COUNT, trust_store=certificates.authority)
        assert result.received == COUNT
        with pytest.raises(QuiverError, match="certificate"):
            measure(server.url, count=1)
        domain = SSLDomain(SSLDomain.MODE_CLIENT)
        domain.set_trusted_ca_db(certificates.authority)
        BlockingConnection(server.url, ssl_domain=domain).close()


def test_a_store_keeps_messages(tmp_path: Path) -> None:
    with Server("orders", store=tmp_path, durability="group") as server:
        connection = BlockingConnection(server.url)
        connection.create_sender("orders").send(Message(body="nails", durable=True))
        connection.close()
    with Server("orders", store=tmp_path, durability="group") as server:
        connection = BlockingConnection(server.url)
        assert connection.create_receiver("orders").receive(timeout=10).body == "nails"
        connection.close()


def test_a_failed_run_says_why() -> None:
    with pytest.raises(QuiverError, match="refused"):
        measure(f"//127.0.0.1:{free_port()}/q", count=1)


def test_a_server_that_cannot_start() -> None:
    with (
        Server() as one,
        pytest.raises(QuiverError, match=r"(?i)in use"),
        Server(port=one.port),
    ):
        pass


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"foo": 1}, "Server has no key foo"),
        ({"durability": "always"}, "durability must be none"),
        ({"durability": "group"}, "durability needs store"),
        ({"connect_password": "x"}, "connect_password needs connect"),
        ({"port": 70_000}, "port must be 1 to 65535"),
        (
            {"password_file": "x"},
            "password_file is an option of quiver-server; the key is password$",
        ),
        ({"connect_password_file": "x"}, "the key is connect_password$"),
    ],
)
def test_wrong_keys(keys: dict[str, object], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        Server(**keys)


def kill(process: psutil.Process) -> None:
    process.kill()
    # Nobody but the server's owner may reap it.
    wait_until(lambda: process.status() == psutil.STATUS_ZOMBIE, "it is killed")


def test_a_server_that_was_killed() -> None:
    with contextlib.ExitStack() as stack:
        stack.enter_context(pytest.raises(QuiverError, match="the server failed"))
        server = stack.enter_context(Server())
        kill(process_of(server))


def test_an_error_of_the_block_comes_first() -> None:
    with contextlib.ExitStack() as stack:
        stack.enter_context(pytest.raises(ValueError, match="of the block"))
        server = stack.enter_context(Server())
        kill(process_of(server))
        raise ValueError("of the block")


TESTS = """
import pytest

pytestmark = pytest.mark.quiver(count=100, fail_if="lost>0")

def test_good(amqp_server, measure):
    assert measure(amqp_server.url).received == 100
    assert measure(amqp_server.url, count=50).received == 50
    assert measure().directory.name == "quiver-03"

@pytest.mark.quiver(runs=2, fail_if=["p50>1ns", "rate<1"])
def test_too_slow(measure):
    measure()

@pytest.mark.quiver(runs=2)
class TestBoth:
    def test_nearest_marker(self, measure):
        assert [each.received for each in measure().results] == [100, 100]
        assert measure(runs=None).received == 100

    @pytest.mark.quiver(credits=1)
    def test_unknown_option(self, measure):
        measure()

    @pytest.mark.quiver("p99>5ms")
    def test_no_option(self, measure):
        measure()
"""


def test_the_fixtures(tmp_path: Path) -> None:
    (tmp_path / "test_them.py").write_text(TESTS)
    options = ["-q", "--strict-markers", "-p", "no:cacheprovider", "-n", "2"]
    words = [sys.executable, "-m", "pytest", *options, str(tmp_path)]
    end = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert "2 failed, 2 passed, 1 error" in end.stdout
    failures = end.stdout.split("= ERRORS =")[1].split("= short test summary")[0]
    lines = [line for line in failures.splitlines() if line and not re.match(r"[_=\[]", line)]
    assert sorted(re.sub(r": [\d.]+ .s ", " ", line) for line in lines) == [
        "quiver: the marker takes options by name, such as fail_if='p99>5ms'",
        "quiver: unrecognized arguments: credits=1; did you mean credit? (see quiver --help)",
        "threshold p50>1ns is breached (run-01)",
        "threshold p50>1ns is breached (run-02)",
    ]


def test_the_plugin_imports_nothing_that_takes_time() -> None:
    """Each start of pytest pays for it, in all projects of an installation."""
    source = """
        import sys
        import pytest
        before = set(sys.modules)
        import quiver_fast.api.pytest_plugin
        print(*sorted(set(sys.modules) - before))
    """
    words = [sys.executable, "-c", textwrap.dedent(source)]
    end = subprocess.run(words, capture_output=True, text=True, check=True)
    ours = ["quiver_fast", "quiver_fast.api", "quiver_fast.api.pytest_plugin", "quiver_fast.errors"]
    assert end.stdout.split() == ours


def test_the_example_of_the_document(capsys: pytest.CaptureFixture[str]) -> None:
    text = (REPOSITORY / "docs" / "api.md").read_text()
    source = text.split("```python\n")[1].split("```")[0]
    exec(compile(source, "docs/api.md", "exec"), {})
    printed = capsys.readouterr().out
    assert re.fullmatch(r"[\d,]+ messages/s, p99 [\d.]+ ms, 0 missing\n", printed)


def test_the_package_runs_as_a_program() -> None:
    words = [sys.executable, "-m", "quiver_fast", "--version"]
    end = subprocess.run(words, capture_output=True, text=True, check=True)
    assert end.stdout == f"quiver {quiver_fast.__version__}\n"


def test_the_tests_of_a_client_library(tmp_path: Path) -> None:
    """They use the fixtures as pytest's plugin gives them, without anything of this tree."""
    shutil.copytree(EXAMPLES / "client_tests", tmp_path / "client_tests")
    (command,) = [words for words in workflow_commands() if words[0] == "pytest"]
    words = [sys.executable, "-m", *command, "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert re.search(r"^3 passed", done.stdout, re.MULTILINE)


def workflow_commands() -> list[list[str]]:
    """Return the words of each command of the example's workflow."""
    workflow = yaml.safe_load((EXAMPLES / "client_tests" / "messaging.yml").read_text())
    (job,) = workflow["jobs"].values()
    for step in job["steps"]:
        assert re.fullmatch(r"[\w/-]+@v[\d.]+", step.get("uses", "a/b@v1"))
    return [shlex.split(step["run"]) for step in job["steps"] if "run" in step]


def test_the_workflow_of_a_client_library_installs_all_that_it_needs() -> None:
    (install,) = [words for words in workflow_commands() if words[:2] == ["pip", "install"]]
    needed = {"quiver-fast"}
    for file in (EXAMPLES / "client_tests").iterdir():
        imported = re.findall(r"^(?:from|import) (\w+)", file.read_text(), re.MULTILINE)
        packages = metadata.packages_distributions()
        needed |= {packages[name][0] for name in imported if name not in sys.stdlib_module_names}
    assert set(install[2:]) == needed


def test_a_noisy_neighbour() -> None:
    words = [sys.executable, EXAMPLES / "noisy_neighbour.py"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert re.fullmatch(
        r"alone: p99 [\d.]+ ms\nbeside [\d,]+ messages/s: p99 [\d.]+ ms\n", done.stdout
    )
