"""`quiver --senders N --receivers M --queues Q`: real runs of many ends."""

from __future__ import annotations

import signal
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from support.documents import parsed
from support.processes import Finished, Running, run, wait_until
from support.server import Server, running_server
from wrapper_fake import Fake, fake_implementation  # noqa: F401 (a fixture)

from quiver_fast.records.parser import read_transfers

QUIVER = (sys.executable, "-m", "quiver_fast.cli.pair.command")
ANALYZE = (sys.executable, "-m", "quiver_fast.cli.analyze.command")
SECONDS = 120
FIRST_IDS = 10**13
FAULTS = ("unreceived", "lost", "duplicate", "foreign", "older", "negative_latency")


@pytest.fixture(name="server", scope="module")
def a_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("server")) as server:
        yield server


def quiver(*words: str) -> Finished:
    return run([*QUIVER, *words], SECONDS)


def document_of(end: Finished) -> dict[str, Any]:
    found: dict[str, Any] = parsed(end.stdout)
    return found


def ids_of(folder: Path, role: str) -> list[list[int]]:
    """Return the ids that each end of one side recorded."""
    files = sorted(folder.glob(f"{role}.*-transfers.csv*"))
    found = [read_transfers(file).ids for file in files]
    # A file of no records tells no ids.
    return [[] if ids is None else ids.tolist() for ids in found]


@pytest.mark.parametrize("ends", [[], ["--senders", "2", "--receivers", "3"]])
def test_a_condition_on_a_period_ends_the_run(
    server: Server, tmp_path: Path, ends: list[str]
) -> None:
    """In order: all that was sent by then is received, analysed and kept."""
    url, out = f"//127.0.0.1:{server.port}/abort{len(ends)}", tmp_path / "out"
    end = quiver(
        url, *ends, "--rate", "1k", "--duration", "10m", "--abort-if", "p99>600s",
        "--abort-if", "rate>0", "--output", str(out), "--json",
    )  # fmt: skip
    assert end.code == 1, end
    document = document_of(end)
    reason = document["reason"]
    assert reason.startswith("stopped by --abort-if rate>0: at ")
    assert end.stderr.splitlines()[-1] == f"quiver: error: {reason}"
    assert not document["complete"]
    assert document["results"]["message_count"] > 0
    summaries = [parsed(file.read_text()) for file in out.glob("*-summary.json")]
    assert {summary["reason"] for summary in summaries} == {reason}
    assert document_of(run([*ANALYZE, str(out), "--json"]))["results"] == document["results"]


def test_a_backlog_is_there_before_the_receiver(server: Server, tmp_path: Path) -> None:
    end = quiver(
        f"//127.0.0.1:{server.port}/backlog", "--backlog", "20k", "--rate", "1k", "--duration",
        "2s", "--output", str(tmp_path / "out"), "--json",
    )  # fmt: skip
    assert end.code == 0, end
    document = document_of(end)
    assert document["backlog"]["messages"] == 20_000
    assert document["backlog"]["rate"] > 0
    assert [document["delivery"][key] for key in FAULTS] == [0] * len(FAULTS)
    schedule = document["sender"]["schedule"]
    assert schedule["sent"] == document["delivery"]["sent"] - 20_000
    assert schedule["due"] <= 2000
    sent = read_transfers(tmp_path / "out" / "sender-transfers.csv.zst").sent
    received = read_transfers(tmp_path / "out" / "receiver-transfers.csv.zst").received
    assert received.min() > sent[20_000 - 1]
    # Messages after the backlog are due by the schedule, one after another.
    steps = sent[20_001:] - sent[20_000:-1]
    assert set(steps.tolist()) == {1000}
    analysed = run([*ANALYZE, str(tmp_path / "out"), "--json"], SECONDS)
    assert parsed(analysed.stdout)["backlog"] == document["backlog"]


@pytest.mark.parametrize("processes", ["2", "8"])
def test_released_and_rejected_messages_are_accounted_for(
    server: Server, tmp_path: Path, processes: str
) -> None:
    end = quiver(
        f"//127.0.0.1:{server.port}/refused-{processes}-%d", "--senders", "4", "--receivers", "4",
        "--queues", "2", "--processes", processes, "--count", "5001", "--record-format", "v2",
        "--release", "10%", "--reject", "5%", "--modify", "5%:failed", "--output",
        str(tmp_path / "out"), "--json", "--fail-if", "duplicate>0",
    )  # fmt: skip
    assert end.code == 0, end
    delivery = document_of(end)["delivery"]
    assert delivery["received"] + delivery["rejected"] == delivery["sent"] == 5001
    assert [delivery[key] for key in FAULTS] == [0] * len(FAULTS)
    deliveries = 5001 + delivery["released"] + delivery["modified"]
    # Each process that receives rounds down.
    for key, share in (("released", 0.1), ("rejected", 0.05), ("modified", 0.05)):
        assert deliveries * share - 4 < delivery[key] <= deliveries * share
    analysed = run([*ANALYZE, str(tmp_path / "out"), "--json"], SECONDS)
    assert parsed(analysed.stdout)["delivery"] == delivery


def test_four_by_four_over_two_queues(server: Server, tmp_path: Path) -> None:
    out = tmp_path / "out"
    end = quiver(
        f"//127.0.0.1:{server.port}/four-%d", "--senders", "4", "--receivers", "4",
        "--queues", "2", "--processes", "8", "--count", "20001", "--settlement",
        "--output", str(out), "--json",
    )  # fmt: skip
    assert end.code == 0, end
    document = document_of(end)
    assert document["complete"] is True
    delivery = document["delivery"]
    assert (delivery["method"], delivery["sent"], delivery["received"]) == ("ids", 20001, 20001)
    assert [delivery[key] for key in FAULTS] == [0] * len(FAULTS)
    assert delivery["reordered"] == 0
    # The files say the same, without our analysis.
    sent, received = ids_of(out, "sender"), ids_of(out, "receiver")
    assert sorted(map(len, sent)) == [5000, 5000, 5000, 5001]
    assert [{key // FIRST_IDS for key in ids} for ids in sent] == [{0}, {1}, {2}, {3}]
    assert sorted(chain(*sent)) == sorted(chain(*received))
    # Both queues have two senders and two receivers of their own.
    for number, ids in enumerate(received):
        assert {key // FIRST_IDS % 2 for key in ids} == {number % 2}
    ends = document["ends"]
    assert [one["name"] for one in ends] == [
        f"{role} {number}" for role in ("sender", "receiver") for number in range(4)
    ]
    assert all(Path(one["file"]).is_file() for one in ends), "they are compressed"
    assert [one["delivery"]["received"] for one in ends[:4]] == [*map(len, sent)]
    assert [one["results"]["message_count"] for one in ends[4:]] == [*map(len, received)]
    assert document["fairness"]["receivers"]["shares"] == pytest.approx(
        [len(ids) / 20001 for ids in received]
    )
    assert document["sender"]["settlement"]["all"]["count"] == 20001
    assert document["sender"]["settlement"]["unsettled"] == 0
    assert "4 x pyfast" in end.stderr
    assert "FAIRNESS" in end.stderr


def test_the_directory_is_analysed_again(server: Server, tmp_path: Path) -> None:
    out = tmp_path / "out"
    end = quiver(
        f"//127.0.0.1:{server.port}/again", "--senders", "3", "--receivers", "2",
        "--processes", "5", "--rate", "900", "--duration", "1s", "--record-format", "v2",
        "--output", str(out), "--json",
    )  # fmt: skip
    assert end.code == 0, end
    first = document_of(end)
    again = run([*ANALYZE, str(out), "--json"], SECONDS)
    assert again.code == 0, again
    second = document_of(again)
    for key in ("complete", "results", "delivery", "drain", "fairness", "run_id", "workload"):
        assert second[key] == first[key]
    for role in ("sender", "receiver"):
        mine, other = (one[role] | {"file": None} for one in (first, second))
        assert other == mine | {"environment": other["environment"]}
    assert first["sender"]["schedule"]["rate"] == 900
    assert first["sender"]["config"]["ends"] == {"senders": 3, "receivers": 2, "queues": 1}


@pytest.mark.parametrize("processes", ["2", "5"])
def test_ends_share_processes(server: Server, tmp_path: Path, processes: str) -> None:
    out = tmp_path / "out"
    end = quiver(
        f"//127.0.0.1:{server.port}/shared-{processes}-%d", "--senders", "30", "--receivers", "20",
        "--queues", "4", "--count", "20001", "--processes", processes, "--settlement",
        "--output", str(out), "--json",
    )  # fmt: skip
    assert end.code == 0, end
    document = document_of(end)
    assert document["complete"] is True
    delivery = document["delivery"]
    assert (delivery["method"], delivery["sent"], delivery["received"]) == ("ids", 20001, 20001)
    assert [delivery[key] for key in FAULTS] == [0] * len(FAULTS)
    # By the order of each sender at each receiver, though those of a queue share a process.
    assert delivery["reordered"] == 0
    sent, received = chain(*ids_of(out, "sender")), chain(*ids_of(out, "receiver"))
    counts = [0] * 30
    ids = sorted(sent)
    for key in ids:
        counts[key // FIRST_IDS] += 1
    assert counts == [667] * 21 + [666] * 9
    assert ids == sorted(received)
    senders, receivers = (
        [one for one in document["ends"] if one["role"] == role] for role in ("sender", "receiver")
    )
    assert senders[0]["name"].startswith("senders 0 to ")
    rows = [*chain(*(one["members"] for one in senders))]
    assert [row["message_count"] for row in rows] == counts
    assert [row["delivery"]["received"] for row in rows] == counts
    got = [row["message_count"] for one in receivers for row in one["members"]]
    assert (len(got), sum(got)) == (20, 20001)
    for role, of_ends in (("sender", counts), ("receiver", got)):
        files = out.glob(f"{role}.*-transfers.csv*")
        lines = Counter(chain(*(read_transfers(file).ends.tolist() for file in files)))
        assert lines == Counter(dict(enumerate(of_ends)))
    fairness = document["fairness"]
    assert fairness["senders"]["shares"] == pytest.approx([count / 20001 for count in counts])
    assert fairness["receivers"]["shares"] == pytest.approx([count / 20001 for count in got])
    assert "30 x pyfast" in end.stderr
    # The directory says the same again.
    again = run([*ANALYZE, str(out), "--json"], SECONDS)
    assert again.code == 0, again
    for key in ("complete", "results", "delivery", "fairness"):
        assert document_of(again)[key] == document[key]


@pytest.mark.parametrize("processes", ["2", "12"])
def test_each_end_and_each_queue_has_its_figures(
    server: Server, tmp_path: Path, processes: str
) -> None:
    """Alone in its process or among others: each has those that its records tell."""
    out, queue = tmp_path / "out", f"//127.0.0.1:{server.port}/figures-{processes}"
    arrow = [sys.executable, "-m", "quiver_fast.cli.arrow.command"]
    # The receivers of the first queue have messages of others to take before their own.
    older = run([*arrow, "send", f"{queue}-0", "--count", "500"], SECONDS)
    assert older.code == 0, older
    end = quiver(
        f"{queue}-%d", "--senders", "6", "--receivers", "6", "--queues", "3", "--count", "3000",
        "--receive-delay", "100us", "--processes", processes, "--settlement", "--output", str(out),
        "--json",
    )  # fmt: skip
    assert end.code == 0, end
    document = document_of(end)
    assert document["delivery"]["older"] == 500
    receivers = [
        row for one in document["ends"] if one["role"] == "receiver" for row in one["members"]
    ]
    latencies: dict[int, list[int]] = {number: [] for number in range(6)}
    start = document["sender"]["results"]["first_send_time"] * 1000
    for path in sorted(out.glob("receiver.*-transfers.csv*")):
        found = read_transfers(path)
        alone = int(path.name.split(".")[1].split("-")[0])
        ends = repeat(alone) if found.ends is None else found.ends.tolist()
        times = zip(found.sent.tolist(), (found.received - found.sent).tolist(), ends, strict=False)
        for sent, latency, number in times:
            if sent >= start:
                latencies[number].append(latency)
    for row in receivers:
        own = latencies[row["number"]]
        assert (row["queue"], row["message_count"]) == (row["number"] % 3, len(own))
        assert row["latency"]["count"] == len(own)
        assert row["latency"]["percentiles"]["50"] == np.percentile(own, 50)
    for one in document["queues"]:
        of_queue = latencies[one["queue"]] + latencies[one["queue"] + 3]
        assert (one["sent"], one["received"], one["duplicate"]) == (1000, len(of_queue), 0)
        assert one["latency"]["percentiles"]["99"] == pytest.approx(np.percentile(of_queue, 99))
    assert len({one["latency"]["mean"] for one in document["queues"]}) == 3
    again = run([*ANALYZE, str(out), "--json"], SECONDS)
    assert again.code == 0, again
    assert document_of(again)["queues"] == document["queues"]
    assert [one["members"] for one in document_of(again)["ends"]] == [
        one["members"] for one in document["ends"]
    ]


def test_pairs_share_processes_without_a_server(tmp_path: Path) -> None:
    end = quiver("--senders", "12", "--count", "3000", "--record-format", "v2", "--processes", "4",
                 "--json", "--output", str(tmp_path / "out"))  # fmt: skip
    assert end.code == 0, end
    document = document_of(end)
    delivery = document["delivery"]
    assert (document["peer_to_peer"], delivery["received"]) == (True, 3000)
    # Each receiver has a sender of its own, whose order its records show.
    assert [delivery[key] for key in (*FAULTS, "reordered")] == [0] * (len(FAULTS) + 1)
    assert document["queues"] == []
    assert {row["queue"] for one in document["ends"] for row in one["members"]} == {None}
    names = ["senders 0 to 5", "senders 6 to 11", "receivers 0 to 5", "receivers 6 to 11"]
    assert [one["name"] for one in document["ends"]] == names


def test_a_process_that_is_killed_is_named_with_its_ends(server: Server, tmp_path: Path) -> None:
    words = [f"//127.0.0.1:{server.port}/killed", "--senders", "4", "--receivers", "4",
             "--processes", "4", "--rate", "1000", "--duration", "60s", "--record-format", "v2",
             "--output", str(tmp_path / "out"), "--json"]  # fmt: skip
    with Running([*QUIVER, *words]) as running:
        wait_until(lambda: len(children(running, "receive")) == 2, "the receivers run")
        records = tmp_path / "out" / "receiver.1-transfers.csv"
        wait_until(lambda: records.exists() and records.stat().st_size > 0, "messages come")
        victim = next(one for one in children(running, "receive") if "first-end=2" in one.cmdline())
        victim.kill()
        end = running.wait(SECONDS)
    assert end.code == 1
    document = document_of(end)
    assert "receivers 2 to 3 (pyfast) failed: killed by SIGKILL" in document["reason"]
    # Nobody told how many messages each of the dead had, but its records do.
    assert len(document["fairness"]["receivers"]["shares"]) == 4
    assert len(document["fairness"]["senders"]["shares"]) == 4


def test_pairs_without_a_server(tmp_path: Path) -> None:
    out = tmp_path / "out"
    end = quiver("--senders", "3", "--processes", "6", "--count", "3000", "--record-format", "v2",
                 "--json", "--output", str(out))  # fmt: skip
    assert end.code == 0, end
    document = document_of(end)
    assert (document["peer_to_peer"], document["delivery"]["received"]) == (True, 3000)
    assert [document["delivery"][key] for key in FAULTS] == [0] * len(FAULTS)
    # Each receiver has the messages of its own sender.
    assert ids_of(out, "receiver") == ids_of(out, "sender")


def test_an_earlier_run_with_more_ends_is_replaced(tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ("--count", "30", "--processes", "6", "--output", str(out), "--quiet")
    assert quiver("--senders", "3", *words).code == 0
    assert quiver("--senders", "2", *words).code == 2
    assert quiver("--senders", "2", "--force", *words).code == 0
    assert len([*out.glob("*-transfers.csv.zst")]) == 4
    # A pair's run leaves none of them either, and many ends none of a pair's.
    words = ("--count", "30", "--output", str(out), "--quiet")
    assert quiver("--force", *words).code == 0
    assert sorted(path.name for path in out.glob("*-transfers.csv.zst")) == [
        "receiver-transfers.csv.zst", "sender-transfers.csv.zst",
    ]  # fmt: skip
    assert quiver("--senders", "1", "--force", *words).code == 0
    assert len([*out.iterdir()]) == 6
    assert not (out / "sender-summary.json").exists()


def receipts(out: Path) -> int:
    return sum(len(file.read_bytes()) for file in out.glob("receiver.*-transfers.csv"))


def children(running: Running, operation: str) -> list[psutil.Process]:
    """Return the arrows of one side in the order of their start."""
    found = psutil.Process(running.process.pid).children(recursive=True)
    arrows = [child for child in found if f"operation={operation}" in child.cmdline()]
    return sorted(arrows, key=lambda child: child.create_time())


def test_a_killed_receiver_fails_the_run_by_name_and_all_is_accounted(
    server: Server, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    url = f"//127.0.0.1:{server.port}/killed"
    words = [url, "--senders", "2", "--receivers", "3", "--processes", "5", "--rate", "2000",
             "--duration", "60s", "--record-format", "v2", "--timeout", "3s", "--release", "10%",
             "--reject", "5%"]  # fmt: skip
    with Running([*QUIVER, *words, "--output", str(out), "--json"]) as running:
        wait_until(lambda: receipts(out) > 1000, "messages are received", SECONDS)
        victim = children(running, "receive")[1]
        # It takes messages, and accepts none, until it dies.
        victim.suspend()
        mark = receipts(out)
        wait_until(lambda: receipts(out) > mark, "others go on", SECONDS)
        victim.kill()
        end = running.wait(SECONDS)
    assert end.code == 1
    assert end.stderr.splitlines()[-1] == (
        "quiver: error: receiver 1 (pyfast) failed: killed by SIGKILL"
    )
    document = document_of(end)
    assert (document["complete"], document["reason"]) == (
        False, "receiver 1 (pyfast) failed: killed by SIGKILL",
    )  # fmt: skip
    delivery = document["delivery"]
    sent, received = ids_of(out, "sender"), ids_of(out, "receiver")
    everything, taken = set(chain(*sent)), set(chain(*received))
    # What it held was redelivered. What it had accepted or rejected, and died before it told, is
    # all that is missing apart from rejected ones: no message is left in the queue.
    assert taken <= everything
    assert delivery["received"] - delivery["duplicate"] == len(taken)
    assert delivery["unreceived"] + delivery["rejected"] == len(everything - taken)
    assert min(delivery["released"], delivery["rejected"]) > 0
    # The killed one told of no drain.
    assert (delivery["lost"] or 0, delivery["foreign"]) == (0, 0)
    by_name = {one["name"]: one for one in document["ends"]}
    assert by_name["receiver 0"]["complete"]
    assert by_name["receiver 2"]["complete"]
    assert by_name["sender 0"]["reason"] == "stopped because receiver 1 failed"
    purged = quiver(url, "--purge", "--count", "1", "--json", "--quiet")
    assert (purged.code, document_of(purged)["purged"]) == (0, 0)


def test_eight_by_eight_with_all_that_may_befall(server: Server, tmp_path: Path) -> None:
    """Over four queues messages are released and rejected, and a receiver is killed."""
    out = tmp_path / "out"
    url = f"//127.0.0.1:{server.port}/befall-%d"
    words = [url, "--senders", "8", "--receivers", "8", "--queues", "4", "--processes", "16",
             "--rate", "2000", "--duration", "60s", "--record-format", "v2", "--timeout", "3s",
             "--release", "2%", "--reject", "1%"]  # fmt: skip
    with Running([*QUIVER, *words, "--output", str(out), "--json"]) as running:
        wait_until(lambda: receipts(out) > 100_000, "messages are received", SECONDS)
        children(running, "receive")[5].kill()
        end = running.wait(SECONDS)
    document = document_of(end)
    assert (end.code, document["reason"]) == (1, "receiver 5 (pyfast) failed: killed by SIGKILL")
    delivery = document["delivery"]
    sent, received = ids_of(out, "sender"), ids_of(out, "receiver")
    everything, taken = set(chain(*sent)), set(chain(*received))
    assert taken <= everything
    assert min(delivery["released"], delivery["rejected"]) > 0
    # Missing messages were rejected, or accepted by the killed one and not recorded.
    missing = len(everything - taken)
    assert delivery["rejected"] + delivery["unreceived"] == missing
    assert delivery["received"] - delivery["duplicate"] == len(taken)
    assert (delivery["lost"] or 0) == delivery["foreign"] == 0
    for queue in range(4):
        purged = quiver(url.replace("%d", str(queue)), "--purge", "--count", "1", "--json",
                        "--quiet")  # fmt: skip
        assert (purged.code, document_of(purged)["purged"]) == (0, 0)


def test_a_killed_sender_ends_the_others_in_order(server: Server, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = [f"//127.0.0.1:{server.port}/one-sender", "--senders", "2", "--receivers", "2",
             "--processes", "4", "--rate", "500", "--duration", "60s",
             "--record-format", "v2"]  # fmt: skip
    with Running([*QUIVER, *words, "--output", str(out), "--json"]) as running:
        wait_until(lambda: receipts(out) > 0, "messages are received", SECONDS)
        children(running, "send")[0].kill()
        end = running.wait(SECONDS)
    document = document_of(end)
    assert (end.code, document["reason"]) == (1, "sender 0 (pyfast) failed: killed by SIGKILL")
    # Messages that it had sent and not recorded belong to no sender.
    delivery = document["delivery"]
    assert (delivery["unreceived"], delivery["duplicate"]) == (0, 0)
    assert delivery["sent"] == sum(map(len, ids_of(out, "sender")))


def test_a_signal_ends_all_with_their_figures_so_far(server: Server, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = [f"//127.0.0.1:{server.port}/signal", "--senders", "2", "--receivers", "2",
             "--processes", "4", "--rate", "500", "--duration", "60s",
             "--record-format", "v2"]  # fmt: skip
    with Running([*QUIVER, *words, "--output", str(out), "--json"]) as running:
        wait_until(lambda: receipts(out) > 0, "messages are received", SECONDS)
        running.send_signal(signal.SIGINT)
        end = running.wait(SECONDS)
    assert end.code == 130
    document = document_of(end)
    assert document["reason"] == "interrupted by SIGINT"
    assert {one["reason"] for one in document["ends"]} == {"interrupted by SIGINT"}
    assert all((out / f"{role}.{n}-summary.json").exists()
               for role in ("sender", "receiver") for n in range(2))  # fmt: skip
    assert document["delivery"]["received"] > 0


def test_without_a_server_it_is_one_line() -> None:
    end = quiver("//127.0.0.1:1/q", "--senders", "2", "--receivers", "3", "--processes", "2",
                 "--json")  # fmt: skip
    assert end.code == 1
    assert document_of(end)["ends"] == []
    (line,) = end.stderr.splitlines()
    assert line.startswith("quiver: error: receivers 0 to ")
    assert "Connection refused" in line


def test_sets_of_runs(tmp_path: Path) -> None:
    out = tmp_path / "out"
    end = quiver("--senders", "2", "--runs", "2", "--count", "2000", "--json", "--output", str(out))
    assert end.code == 0, end
    document = document_of(end)
    assert document["complete_runs"] == 2
    assert [one["receiver"]["results"]["message_count"] for one in document["runs"]] == [2000] * 2


def test_foreign_implementations(fake: Fake) -> None:
    words = ("--senders", "2", "--receivers", "2", "--queues", "2", "--count", "301", "--json")
    done = fake.run("pair", "//h:1/q", *words)
    assert done.returncode == 0, done.stderr
    document = parsed(done.stdout)
    assert document["delivery"]["received"] == 301
    for role in ("sender", "receiver"):
        calls = [set(call) for call, _ in fake.calls(role)]
        # Both ends start together: either may be the first to write down its words.
        expected = {"path=q-0", "path=q-1", "count=150", "count=151"}
        shares = {frozenset(call & expected) for call in calls}
        assert shares == {
            frozenset({"path=q-0", "count=151"}),
            frozenset({"path=q-1", "count=150"}),
        }
        assert not any(word.startswith("first-id") for call in calls for word in call)


def test_foreign_receivers_cannot_share_a_count(fake: Fake) -> None:
    done = fake.run("pair", "//h:1/q", "--receivers", "2", "--count", "9")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (
        "quiver: error: implementation 'fake' cannot share a queue with --count: give --duration, "
        "or a queue for each receiver"
    )
