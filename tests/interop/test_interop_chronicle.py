"""Our queue files and the real Chronicle Queue: each reads the other's files (A.13)."""

from __future__ import annotations

import contextlib
import random
import subprocess
import time
from pathlib import Path

import pytest
from support.cases import cases
from support.chronicle import READER, command, entries, read_queues, run_java
from support.queue_damage import KINDS, ROLL, Damage, intact
from support.queue_kills import killed_writer
from support.queue_twin import raw

from quiver_fast.errors import OutputError
from quiver_fast.queuefile.appender import Appender
from quiver_fast.queuefile.bulk import append_records
from quiver_fast.queuefile.dump import Form, read_entries
from quiver_fast.queuefile.layout import ROLL_CYCLES
from quiver_fast.queuefile.tailer import Tailer
from quiver_fast.queuefile.verify import Deviation, verify_queue

pytestmark = [pytest.mark.peer("chronicle"), pytest.mark.timeout(200)]


def ours(directory: Path) -> list[tuple[int, bytes]]:
    return list(iter(Tailer(directory).read, None))


# Each starts Java twice or more.
GATE = {("FAST_DAILY", "none"), ("TEST4_DAILY", "none"), ("MINUTELY", "group")}


@pytest.mark.parametrize(
    ("roll", "durability"),
    cases(ROLL_CYCLES, ["none", "group"], gate=lambda *each: each in GATE),
)
def test_java_reads_and_seeks_our_files(tmp_path: Path, roll: str, durability: str) -> None:
    with Appender(tmp_path, roll=roll, durability=durability) as appender:
        for number in range(2000):
            appender.append_text(f"{{ number: {number} }}")
            appender.append_raw(bytes([number % 256]) * (number % 70))
            if number % 700 == 0:
                appender.append_meta_data(b"note: { }")
                appender.flush()
    written = ours(tmp_path)
    assert read_queues(tmp_path) == [written]
    # Borders of slots (4, 16, 256) and pages (128) among them.
    places = [written[i] for i in (0, 3, 4, 5, 15, 16, 127, 128, 129, 255, 256, 257, 3999)]
    sought = run_java("seek", tmp_path, *(index for index, _ in places)).stdout
    assert entries(sought) == places


def test_java_reads_what_recovery_left(tmp_path: Path) -> None:
    with Appender(tmp_path) as appender:
        append_records(appender, b"0123456789" * 1000, 10)
    (path,) = tmp_path.glob("*.cq4")
    with path.open("r+b") as stream:
        stream.truncate(65808 + 16 * 700 + 5)
    with Appender(tmp_path) as appender:
        index = appender.append_text("after")
    assert index & 0xFFFFFFFF == 700
    assert read_queues(tmp_path) == [ours(tmp_path)]


def test_java_reads_what_recovery_left_of_damaged_queues(tmp_path: Path) -> None:
    """Any damage anywhere in the newest file and the one before it (A.10)."""
    generator = random.Random(1)
    cycle = 20_000
    for number in range(60):
        directory = tmp_path / str(number)
        Appender(directory, roll=ROLL.name).close()
        (first,) = directory.glob("*.cq4")
        first.unlink()
        for older in (1, 0):
            data = bytearray(intact(4 if older else generator.randrange(1, 4)))
            for _ in range(generator.randrange(3)):
                place, value = generator.random(), generator.randrange(1 << 40)
                Damage(generator.choice(KINDS), place, value).do(data)
            (directory / ROLL.file_name(cycle - older)).write_bytes(data)
        with contextlib.suppress(OutputError):
            # One of another version is refused, and left alone.
            Appender(directory, verify=True).close()
            assert not any(map(is_fault_of_form, verify_queue(directory).deviations))
    queues = [tmp_path / str(number) for number in range(60)]
    readable = [queue for queue in queues if any(queue.glob("*.cq4")) and is_ours(queue)]
    assert len(readable) > 50
    assert read_queues(*readable) == [ours(queue) for queue in readable]


def is_ours(directory: Path) -> bool:
    try:
        Tailer(directory)
    except OutputError:
        return False
    return True


def is_fault_of_form(deviation: Deviation) -> bool:
    """Say whether it is one that recovery mends: bytes inside of entries it cannot know."""
    words = ("control character", "not UTF-8", "raw bytes of", "checkpoint")
    return not any(word in deviation.text for word in words)


def test_java_reads_what_kills_left(tmp_path: Path) -> None:
    generator = random.Random(2)
    queues = [tmp_path / str(number) for number in range(4)]
    for number, directory in enumerate(queues):
        roll = ("FAST_DAILY", "TEST4_DAILY")[number % 2]
        count = 0
        for _ in range(3):
            killed_writer(directory, roll, "none", count, generator)
            Appender(directory, roll=roll).close()
            count = len(ours(directory))
    assert read_queues(*queues) == [ours(directory) for directory in queues]


def test_java_follows_live_across_rolls(tmp_path: Path) -> None:
    """TEST_SECONDLY: a new file every second, while Java tails."""
    count = 3000
    with Appender(tmp_path, roll="TEST_SECONDLY") as appender:
        written = [(appender.append_text("first"), b"first")]
        following = subprocess.Popen(
            command("tail", tmp_path, count), stdout=subprocess.PIPE, text=True
        )
        assert following.stdout is not None
        assert following.stdout.readline() == "ready\n"
        for number in range(1, count):
            written.append((appender.append_text(f"entry {number}"), b"entry %d" % number))
            time.sleep(0.001)
        # Not communicate(), which would miss output that came with the first line.
        output = following.stdout.read()
        assert following.wait(90) == 0
    assert len({index >> 32 for index, _ in written}) >= 3
    assert entries(output) == written


@pytest.mark.parametrize(
    "roll", cases(["FAST_DAILY", "TEST4_DAILY", "TEST_SECONDLY"], gate="TEST4_DAILY".__eq__)
)
def test_java_appends_when_we_are_stopped(tmp_path: Path, roll: str) -> None:
    with Appender(tmp_path, roll=roll) as appender:
        for number in range(500):
            appender.append_text(f"ours {number}")
    indexes = list(map(int, run_java("append", tmp_path, 600).stdout.split()))
    found = list(read_entries(tmp_path))
    assert [entry.index for entry in found[500:]] == indexes
    assert {entry.form for entry in found[:500]} == {Form.TEXT}
    assert {entry.form for entry in found[500:]} == {Form.BINARY}
    assert found[500].content == b"\xc6number\xa1\x00"
    assert verify_queue(tmp_path).deviations == []
    with Appender(tmp_path) as appender:
        appender.append_text("ours again")
    assert [content for _, content in ours(tmp_path)][-2:] == [
        b"\xc6number\xa5W\x02",
        b"ours again",
    ]
    assert read_queues(tmp_path) == [ours(tmp_path)]
    assert verify_queue(tmp_path).deviations == []


def test_we_read_a_queue_of_javas(tmp_path: Path) -> None:
    run_java("append", tmp_path, 3000)
    report = verify_queue(tmp_path)
    assert (report.entries, report.deviations) == (3000, [])
    assert read_queues(tmp_path) == [ours(tmp_path)]
    with Appender(tmp_path) as appender:
        appender.append_raw(b"\0\1\2")
    assert ours(tmp_path)[-1][1] == raw(b"\0\1\2")
    assert verify_queue(tmp_path).deviations == []


def test_one_writer_of_both(tmp_path: Path) -> None:
    """Java fails at once while we write; its reader does not mind (A.9)."""
    with Appender(tmp_path) as appender:
        appender.append_text("ours")
        refused = run_java("append", tmp_path, 1, check=False)
        assert refused.returncode != 0
        assert "lock is being held" in refused.stderr
        assert read_queues(tmp_path) == [ours(tmp_path)]
    assert len(run_java("append", tmp_path, 1).stdout.split()) == 1


def test_we_refuse_while_java_writes(tmp_path: Path) -> None:
    Appender(tmp_path).close()
    with subprocess.Popen(
        command("hold", tmp_path), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holding:
        assert holding.stdout is not None
        assert holding.stdout.readline() == "held\n"
        with pytest.raises(OutputError, match=f"process {holding.pid} writes"):
            Appender(tmp_path)
        holding.communicate("\n", timeout=60)
    Appender(tmp_path).close()


# Settings of a queue of Java's, and whether it takes us.
SETTINGS = {
    "rollTime=17:00": True,
    "epoch=now": True,
    "epoch=-5": True,
    "rollCycle=FAST_HOURLY epoch=now": True,
    "wireType=BINARY": True,
    "rollCycle=DAILY epoch=now": False,
    "wireType=FIELDLESS_BINARY": False,
}
IN_GATE = ("rollTime=17:00", "epoch=now", "wireType=FIELDLESS_BINARY")


def made_by_java(directory: Path, settings: str) -> list[int]:
    """Let Java make a queue of three files, and let a named tailer of it read the first entry."""
    epoch = int(time.time() * 1000) - 10 * 86_400_000
    words = settings.replace("=now", f"={epoch}").split()
    step = 3_600_000 if "HOURLY" in settings else 86_400_000
    return [int(word) for word in run_java("make", directory, 3, step, *words).stdout.split()]


@pytest.mark.parametrize("settings", cases(SETTINGS, gate=IN_GATE.__contains__))
def test_a_queue_of_javas_keeps_its_settings(tmp_path: Path, settings: str) -> None:
    indexes = made_by_java(tmp_path, settings)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    if not SETTINGS[settings]:
        for kind in (Appender, Tailer):
            with pytest.raises(OutputError, match="not supported"):
                kind(tmp_path)
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
        return
    assert [index for index, _ in ours(tmp_path)] == indexes
    with Appender(tmp_path) as appender:
        # At the same moment, and so in the same file, as Java's last entry.
        assert appender.append_text("ours") in (indexes[-1] + 1, ((indexes[-1] >> 32) + 1) << 32)
    assert read_queues(tmp_path) == [ours(tmp_path)]
    assert entries(run_java("named", tmp_path).stdout) == ours(tmp_path)[1:]
    assert verify_queue(tmp_path).deviations == []


@pytest.mark.parametrize("at", cases([0x3C, 0x88, 0x8C, 0x98], gate=(0x88).__eq__))
def test_a_named_tailer_goes_on_where_its_table_was_damaged(tmp_path: Path, at: int) -> None:
    """A letter of the head, the epoch's code and its value, and a key's header."""
    made_by_java(tmp_path, "")
    table = tmp_path / "metadata.cq4t"
    content = bytearray(table.read_bytes())
    content[at] ^= 4
    table.write_bytes(content)
    with Appender(tmp_path) as appender:
        appender.append_text("ours")
    assert entries(run_java("named", tmp_path).stdout) == ours(tmp_path)[1:]


def test_javas_own_reader(tmp_path: Path) -> None:
    """ChronicleReaderMain prints text as it is and raw entries as !!binary."""
    with Appender(tmp_path) as appender:
        appender.append_text("{ item: nails }")
        appender.append_raw(b"\x01\x02\x03\xff")
    output = run_java("-d", tmp_path, main=READER).stdout
    assert "{ item: nails }" in output
    assert "!!binary AQID/w==" in output
