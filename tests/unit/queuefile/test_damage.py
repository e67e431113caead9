"""Random damage, anywhere: what the recovery leaves is what the twin says, byte for byte (A.10).

QUIVER_FAST_DAMAGES sets how many cases are tried.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.queue_damage import DAMAGES, INTACT_KINDS, ROLL, Damage, intact
from support.recovery_twin import Recovered, UnsupportedError, plain_text, recovered

from quiver_fast.errors import OutputError
from quiver_fast.queuefile.appender import Appender
from quiver_fast.queuefile.durability import boot_id
from quiver_fast.queuefile.table import FREE, Table
from quiver_fast.queuefile.tailer import Tailer
from quiver_fast.queuefile.verify import verify_queue
from quiver_fast.remote.wire.textwire import stored_form, text_check

pytestmark = pytest.mark.timeout(3600)

CASES = int(os.environ.get("QUIVER_FAST_DAMAGES", "50"))
CYCLE = 20_000
# Without a disk: every case syncs a few times.
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


@contextmanager
def folder() -> Iterator[Path]:
    """A directory in memory, gone afterwards."""
    path = Path(tempfile.mkdtemp(prefix="quiver-damage-", dir=MEMORY))
    try:
        yield path
    finally:
        shutil.rmtree(path)


FILES = st.tuples(*[st.tuples(st.integers(0, INTACT_KINDS - 1), DAMAGES | st.just([]))] * 3)


@dataclass(frozen=True)
class State:
    """The table's state, and the arguments of the start."""

    clean: bool
    same_boot: bool
    verify: bool
    # Share of each file's entries that was synced; None: it is not known.
    synced_cycle: int
    synced_sequence: int
    scanner: bool


STATES = st.builds(
    State, st.booleans(), st.booleans(), st.booleans(), st.integers(-1, 2), st.integers(0, 700),
    st.booleans(),
)  # fmt: skip


def place(directory: Path, contents: list[bytes], state: State) -> None:
    table = Table(directory, ROLL)
    table["quiver.clean"] = state.clean
    table["quiver.bootId"] = boot_id() if state.same_boot else 1
    synced = ((CYCLE + state.synced_cycle) << ROLL.shift) | state.synced_sequence
    table["chronicle.lastIndexMSynced"] = synced
    table.close()
    for number, content in enumerate(contents):
        (directory / ROLL.file_name(CYCLE + number)).write_bytes(content)


def is_value(content: bytes) -> bool:
    try:
        stored_form(content)
    except ValueError:
        return False
    return True


def expect(contents: list[bytes], state: State) -> list[Recovered | None]:
    """The files after the twin's repair."""
    usable = [
        n for n, data in enumerate(contents) if recovered(data, newest=True, whole=True, roll=ROLL)
    ]
    lost = not state.same_boot and not state.clean
    results: list[Recovered | None] = []
    for number, data in enumerate(contents):
        newest = number == max(usable, default=-1)
        trusted = None
        if lost and number >= state.synced_cycle:
            trusted = state.synced_sequence if number == state.synced_cycle else -1
        whole = (
            state.verify or trusted is not None
            or (newest and not (state.same_boot or state.clean))
        )  # fmt: skip
        results.append(
            recovered(
                data, newest=newest, whole=whole, trusted=trusted, roll=ROLL,
                text_check=is_value if state.scanner else plain_text,
            )
        )  # fmt: skip
    return results


def start(directory: Path, state: State) -> None:
    check = text_check() if state.scanner else None
    Appender(directory, verify=state.verify, text_check=check).close()


def snapshot(directory: Path) -> dict[str, bytes]:
    paths = sorted(path for path in directory.iterdir() if path.name != ".quiver.lock")
    return {path.name: path.read_bytes() for path in paths}


def check_file(directory: Path, number: int, damaged: bytes, expected: Recovered | None) -> None:
    path = directory / ROLL.file_name(CYCLE + number)
    if expected is None:
        assert not path.exists()
        assert path.with_name(path.name + ".damaged").read_bytes() == damaged
        return
    actual, kept = path.read_bytes(), expected.tail + 4 * expected.ended
    assert actual[:kept] == expected.content[:kept].ljust(len(actual[:kept]), b"\0")
    after = expected.content[kept:] if expected.ended else b""
    assert actual[kept:].rstrip(b"\0") == after.rstrip(b"\0")


# Damage of contents, which no recovery can know of.
OF_CONTENT = ("control character", "not UTF-8", "raw bytes of", "checkpoint", "indexCount",
              "indexSpacing")  # fmt: skip


@settings(
    max_examples=CASES, deadline=None, suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)  # fmt: skip
@given(files=FILES, state=STATES)
def test_recovery_is_the_twins(files: list[tuple[int, list[Damage]]], state: State) -> None:
    contents = []
    for number, (kind, damages) in enumerate(files):
        data = bytearray(intact(4 if number < 2 and kind != 2 else kind))
        for damage in damages:
            damage.do(data)
        contents.append(bytes(data))
    with folder() as directory:
        place(directory, contents, state)
        try:
            expected = expect(contents, state)
        except UnsupportedError:
            with pytest.raises(OutputError, match=r"before 5\.19\.11"):
                start(directory, state)
            return
        start(directory, state)
        for number, (damaged, result) in enumerate(zip(contents, expected, strict=True)):
            check_file(directory, number, damaged, result)
        check_readers(directory, expected)
        before = snapshot(directory)
        start(directory, state)
        assert snapshot(directory) == before
        # Only a whole walk finds damage before the last slot of a file.
        Appender(directory, verify=True).close()
        faults = [str(found) for found in verify_queue(directory).deviations]
        assert [fault for fault in faults if not any(word in fault for word in OF_CONTENT)] == []
        before = snapshot(directory)
        Appender(directory, verify=True).close()
        assert snapshot(directory) == before


def check_readers(directory: Path, expected: list[Recovered | None]) -> None:
    """A tailer reads as many entries as the twin kept, unless damage was not looked for."""
    count = sum(1 for _ in iter(Tailer(directory).read, None))
    kept = sum(result.entries for result in expected if result)
    assert count <= kept


@settings(max_examples=CASES, deadline=None)
@given(damages=DAMAGES)
def test_any_table(damages: list[Damage]) -> None:
    """The table is derived: whatever becomes of it, all entries stay (A.9)."""
    with folder() as directory:
        state = State(True, True, False, 2, 139, False)
        place(directory, [intact(4), intact(4), intact(2)], state)
        start(directory, state)
        table = directory / "metadata.cq4t"
        data = bytearray(table.read_bytes())
        for damage in damages:
            # Its first 400 bytes hold all keys.
            part = bytearray(data[:480])
            damage.do(part)
            data = part + data[480:] if len(part) == 480 else part
        table.write_bytes(data)
        try:
            start(directory, state)
        except OutputError as error:
            # A damaged lock word may name a living process.
            if "writes to this queue" not in str(error):
                raise
            return
        before = snapshot(directory)
        start(directory, state)
        assert snapshot(directory) == before
        report = verify_queue(directory)
        assert (report.entries, report.deviations) == (740, [])
        rebuilt = Table(directory, ROLL)
        assert rebuilt["chronicle.append.lock"] == FREE
        rebuilt.close()
