"""`quiver-fleet` on a real cluster of this machine, and on Spark's own `local-cluster`."""

from __future__ import annotations

import dataclasses
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from support.documents import parsed
from support.ends_records import FIRST_IDS, Ends
from support.peers import why_missing
from support.processes import Finished, Running, run, wait_until
from support.server import Server, running_server
from support.spark_cluster import JAVA, SETTINGS, cluster
from support.spark_runs import as_json, ignore, the_run

from quiver_fast.analysis.read.end_records import end_records
from quiver_fast.analysis.read.sources import load_run as load_here
from spark_analysis.task_line import folder_name

if why_missing("spark") is None:
    from spark_analysis.fleet import analyse_hosts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A busy machine takes minutes for what an idle one does in twenty seconds.
LIMIT = 600
# On a cluster each takes a minute or two, and is slow. `tests/functional/test_fleet_hosts.py` has
# hosts without Spark.
pytestmark = pytest.mark.timeout(2 * LIMIT)

FLEET = (sys.executable, "-m", "quiver_fast.cli.fleet.command")
LOCAL_CLUSTER = "local-cluster[2,1,1024]"
FAULTS = ("unreceived", "lost", "duplicate", "foreign", "older", "reordered")


@pytest.fixture(name="server", scope="module")
def a_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a cluster with two workers of two cores, of which a host takes both."""
    with cluster(tmp_path_factory.mktemp("cluster"), 2) as url:
        yield url


def words(master: str, folder: Path, *own: str, run: tuple[str, ...]) -> list[str]:
    found = [*FLEET, "--master", master, "--output", str(folder / "out"), "--json"]
    for setting in SETTINGS:
        found += ["--conf", setting]
    return [*found, "--work-dir", str(folder / "work"), *own, "--", *run]


def ends(server: Server, queue: str, *more: str) -> tuple[str, ...]:
    url = f"//127.0.0.1:{server.port}/{queue}"
    return (url, "--senders", "2", "--receivers", "2", "--record-format", "v2", *more)


def arrows(folder: Path) -> list[psutil.Process]:
    """Return the processes of arrows whose records are below a folder."""
    found: list[psutil.Process] = []
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        ours = "quiver_fast.arrow.main" in words
        if ours and any(str(folder / "work") in word for word in words):
            found.append(process)
    return found


def document_of(end: Finished) -> dict[str, Any]:
    found: dict[str, Any] = parsed(end.stdout)
    return found


def check_whole(document: dict[str, Any], folder: Path) -> None:
    """Hold a run without a fault to what must be said of it; its records are gone."""
    assert document["complete"], document["reason"]
    delivery = document["delivery"]
    assert delivery["sent"] == delivery["received"] > 0
    assert {name: delivery[name] for name in FAULTS} == dict.fromkeys(FAULTS, 0)
    hosts = document["fleet"]["hosts"]
    assert [host["number"] for host in hosts] == [0, 1]
    counts = [count for host in hosts for end, count in host["ends"].items() if "sender" in end]
    assert sum(counts) == delivery["sent"]
    assert [end["name"] for end in document["ends"]] == [
        "sender 0", "sender 1", "receiver 0", "receiver 1",
    ]  # fmt: skip
    # Both clocks are that of this machine.
    clocks = document["fleet"]["clocks"]["hosts"][1]
    for when in ("before", "after"):
        assert abs(clocks[when]["offset_us"]) <= clocks[when]["bound_us"]
    start = document["fleet"]["start"]
    assert start["spread_us"] < 60_000_000
    assert list((folder / "work").iterdir()) == []
    kept = parsed((folder / "out" / "fleet.json").read_text())
    assert kept["delivery"] == delivery
    assert {"url", "senders", "receivers"} <= {*kept["workload"]}


@pytest.mark.slow
def test_every_message_is_accounted_for(master: str, server: Server, tmp_path: Path) -> None:
    """On a standalone cluster, of which each executor has one host."""
    command = words(master, tmp_path, run=ends(server, "whole", "--count", "3001"))
    finished = run(command, timeout=LIMIT, env=JAVA)
    assert finished.code == 0, finished.stderr
    document = document_of(finished)
    check_whole(document, tmp_path)
    assert document["delivery"]["sent"] == 3001


@pytest.mark.slow
def test_a_local_cluster(server: Server, tmp_path: Path) -> None:
    """By a rate, with the table of all hosts, and the figures of each end and each queue."""
    run_words = ends(server, "local-%d", "--queues", "2", "--duration", "5s", "--rate", "500")
    finished = run(words(LOCAL_CLUSTER, tmp_path, run=run_words), timeout=LIMIT, env=JAVA)
    assert finished.code == 0, finished.stderr
    document = document_of(finished)
    check_whole(document, tmp_path)
    assert document["sender"]["schedule"]["rate"] == 500
    for number, queue in enumerate(document["queues"]):
        sender, receiver = (document["ends"][place + number]["members"][0] for place in (0, 2))
        assert (queue["queue"], sender["queue"], receiver["queue"]) == (number,) * 3
        assert queue["latency"] == receiver["latency"]
        assert queue["sent"] == queue["received"] == sender["message_count"]
        assert receiver["delivery"]["duplicate"] == sender["delivery"]["unreceived"] == 0
    rows = [line for line in finished.stderr.splitlines() if line.strip()[:1].isdigit()]
    assert len(rows) >= 2


def started(master: str, server: Server, folder: Path) -> Running:
    run_words = ends(server, folder.name, "--duration", "100s", "--rate", "500")
    return Running(words(master, folder, run=run_words), env=JAVA)


def sends(folder: Path) -> bool:
    """Say whether both senders have recorded something."""
    files = list((folder / "work").glob("*/host.*/sender.*-transfers.csv"))
    return sum(file.stat().st_size > 1000 for file in files) == 2


@pytest.mark.slow
def test_ctrl_c_ends_all_hosts(master: str, server: Server, tmp_path: Path) -> None:
    with started(master, server, tmp_path) as fleet:
        wait_until(lambda: sends(tmp_path), "both senders send", LIMIT, 0.2)
        fleet.send_signal(signal.SIGINT)
        wait_until(lambda: arrows(tmp_path) == [], "all arrows have ended", 30, 0.2)
        finished = fleet.wait(LIMIT)
    assert finished.code == 130, finished.stderr
    document = document_of(finished)
    assert document["reason"] == "interrupted by SIGINT"
    assert document["delivery"]["received"] > 0
    assert document["delivery"]["foreign"] == 0
    assert "Traceback" not in finished.stderr


@pytest.mark.slow
def test_a_lost_executor_fails_the_run(master: str, server: Server, tmp_path: Path) -> None:
    """The others end in order, and what was measured until then is summed up."""
    with started(master, server, tmp_path) as fleet:
        wait_until(lambda: sends(tmp_path), "both senders send", LIMIT, 0.2)
        [host] = [arrow for arrow in arrows(tmp_path) if "sender.1-" in " ".join(arrow.cmdline())]
        executor(host).kill()
        finished = fleet.wait(LIMIT)
    assert finished.code == 1, finished.stderr
    document = document_of(finished)
    assert document["complete"] is False
    [lost] = [host for host in document["fleet"]["hosts"] if host["lost"]]
    assert lost["number"] == 1
    assert "executor" in lost["lost"]
    assert f"host 1 ({lost['name']}): executor" in finished.stderr
    assert document["delivery"]["received"] > 0
    assert arrows(tmp_path) == []
    assert "Traceback" not in finished.stderr


def executor(arrow: psutil.Process) -> psutil.Process:
    """Return the Java process of the executor whose task runs an arrow."""
    [found] = [
        parent
        for parent in arrow.parents()
        if any("CoarseGrainedExecutorBackend" in word for word in parent.cmdline())
    ]
    return found


@pytest.mark.slow
def test_a_cluster_that_is_too_small(server: Server, tmp_path: Path) -> None:
    own = ("--hosts", "3", "--host-time", "5s")
    run_words = (*ends(server, "small", "--count", "100"), "--senders", "3")
    finished = run(words(LOCAL_CLUSTER, tmp_path, *own, run=run_words), timeout=LIMIT, env=JAVA)
    assert finished.code == 1
    line = finished.stderr.splitlines()[-1]
    assert line == "quiver-fleet: error: the cluster has 2 of 3 executors after 5 seconds"


@pytest.mark.slow
def test_peer_to_peer_between_hosts(tmp_path: Path) -> None:
    """Each sender is connected to the other host's receiver; the records are kept elsewhere."""
    kept = tmp_path / "kept"
    own = ("--peer-to-peer", "--keep-records", f"file://{kept}", "--correct-clocks")
    run_words = ("--senders", "2", "--count", "4001", "--record-format", "v2")
    finished = run(words(LOCAL_CLUSTER, tmp_path, *own, run=run_words), timeout=LIMIT, env=JAVA)
    assert finished.code == 0, finished.stderr
    document = document_of(finished)
    check_whole(document, tmp_path)
    hosts = [set(host["ends"]) for host in document["fleet"]["hosts"]]
    assert hosts == [{"receiver 0", "sender 1"}, {"receiver 1", "sender 0"}]
    clocks = document["fleet"]["clocks"]
    bounds = [clocks["hosts"][1][when]["bound_us"] for when in ("before", "after")]
    assert max(bounds) <= clocks["corrected_within_us"] < 1e6
    assert len(document["fleet"]["kept"]) == 4
    here = load_here(the_run(kept), ignore)
    assert as_json(here.delivery) | {"negative_latency": None} == document["delivery"] | {
        "negative_latency": None
    }
    assert as_json(here.sender)["results"] == document["sender"]["results"]


@pytest.mark.parametrize("ahead", [5_000_000, pytest.param(-3_000_000, marks=pytest.mark.slow)])
def test_corrected_latencies(spark: SparkSession, tmp_path: Path, ahead: int) -> None:
    """The clock of host 1 is microseconds ahead: latencies are those of one clock, order stays."""
    true, told = tmp_path / "true", tmp_path / "told"
    records = Ends(9, 2, 2)
    expected = records.write(true)
    shift = [0, ahead]
    records.sent = [
        [(key, time + shift[number]) for key, time in sends]
        for number, sends in enumerate(records.sent)
    ]
    records.settled = [
        [(key, time + shift[number]) for key, time in sends]
        for number, sends in enumerate(records.settled)
    ]
    records.received = [
        [
            one._replace(
                sent=one.sent + shift[one.id // FIRST_IDS], received=one.received + shift[number]
            )
            for one in receipts
        ]
        for number, receipts in enumerate(records.received)
    ]
    wrong = records.write(told)
    token = "f" * 32
    found_ends = []
    for path in the_run(told).paths:
        one = end_records(path)
        place = told / folder_name(token) / f"host.{one.number}" / path.name
        place.parent.mkdir(parents=True, exist_ok=True)
        path.rename(place)
        found_ends.append(dataclasses.replace(one, path=place))
    clocks = {f"{role} {n}": shift[n] * 1000 for role in ("sender", "receiver") for n in (0, 1)}
    found, missing = analyse_hosts(spark, str(told), found_ends, token, str(told), clocks)
    assert missing == []
    assert found is not None
    assert expected.receiver is not None
    assert found.receiver is not None
    assert wrong.receiver is not None
    for part in ("all", "histogram"):
        assert found.receiver["latency"].get(part) == expected.receiver["latency"].get(part)
    assert found.receiver["latency"] == expected.receiver["latency"] != wrong.receiver["latency"]
    assert found.delivery == expected.delivery != wrong.delivery
    # By the clock of each end alone, corrected or not.
    assert found.sender is not None
    assert wrong.sender is not None
    assert found.sender | {"file": None} == wrong.sender | {"file": None}
    assert found.receiver["results"]["message_rate"] == wrong.receiver["results"]["message_rate"]
