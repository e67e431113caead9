"""RecordWriter against golden bytes, a slow twin, and descriptors that resist."""

import contextlib
import errno
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quiver_fast.errors import OutputError
from quiver_fast.records import formats
from quiver_fast.records.parser import read_transfers
from quiver_fast.records.writer import RecordWriter, write_many

INT64_MAX = 2**63 - 1
SENT = 1472344673324
RECEIVED = 1472344673345

int64s = st.integers(-(2**63), INT64_MAX)
# Times as they come: near one another, at the borders of the digits that are rewritten.
near_times = st.builds(
    lambda base, offset: base + offset,
    st.sampled_from([SENT, SENT * 1000, SENT * 10**6, 10**8, 10**13, 15 * 10**8]),
    st.integers(-3, 3),
)
times = st.one_of(near_times, int64s)
sizes = st.integers(0, INT64_MAX)
ids = st.one_of(
    st.binary(max_size=40),
    st.text(alphabet=",\n\r%Ss0A", max_size=40).map(str.encode),
    st.integers(0, INT64_MAX).map(lambda number: b"%d" % number),
)
entries = st.one_of(
    st.tuples(st.just("sent"), st.none() | ids, times),
    st.tuples(st.just("received"), st.none() | ids, times, times),
    st.tuples(st.just("settled"), ids, times, st.booleans()),
    st.tuples(st.just("streamed"), st.none(), st.sampled_from("FB"), times, times, times, sizes),
)


def slow_id(message_id: bytes, first_in_line: bool) -> bytes:
    """Percent-encode what an id must not hold."""
    text = re.sub(rb"[,\n\r%]", lambda match: b"%%%02X" % match[0][0], message_id)
    if first_in_line and text[:1] in (b"S", b"s"):
        text = b"%%%02X" % text[0] + text[1:]
    return text


def slow_line(entry) -> bytes:
    """Format one record the obvious way."""
    kind, message_id, *rest = entry
    if kind == "streamed":
        return b"%c,%d,%d,%d,%d\n" % (ord(rest[0]), *rest[1:])
    if kind == "settled":
        settled, sampled = rest
        prefix = b"S" if sampled else b"s"
        return b"%s%s,%d\n" % (prefix, slow_id(message_id, first_in_line=False), settled)
    if message_id is None:
        return b"%d,0\n" % rest[0] if kind == "sent" else b"%d,%d\n" % tuple(rest)
    if kind == "sent":
        return b"%s,%d\n" % (slow_id(message_id, first_in_line=True), *rest)
    return b"%s,%d,%d\n" % (slow_id(message_id, first_in_line=False), *rest)


def write(writer, entry):
    kind, message_id, *rest = entry
    if kind == "sent":
        writer.write_sent(*rest, message_id)
    elif kind == "received":
        writer.write_received(*rest, message_id)
    elif kind == "streamed":
        writer.write_streamed(*rest)
    else:
        writer.write_settled(message_id, *rest)


@contextlib.contextmanager
def written():
    """Give a descriptor and a function that reads back what was written to it."""
    with tempfile.TemporaryFile() as file:
        yield file.fileno(), lambda: os.pread(file.fileno(), 2**30, 0)


@contextlib.contextmanager
def pipe():
    """Give both ends of a pipe and close what is left of them."""
    ends = os.pipe()
    try:
        yield ends
    finally:
        for end in ends:
            with contextlib.suppress(OSError):
                os.close(end)


# ---- lines ---------------------------------------------------------------------------


def test_golden_bytes_of_each_revision():
    with written() as (fd, content):
        writer = RecordWriter(fd)
        writer.write_sent(SENT)
        writer.write_received(SENT, RECEIVED)
        writer.write_sent(SENT, b"10")
        writer.write_received(SENT, RECEIVED, b"10")
        writer.write_settled(b"10", RECEIVED, True)
        writer.write_settled(b"11", RECEIVED, False)
        writer.flush_now()
        assert content() == (
            b"1472344673324,0\n"
            b"1472344673324,1472344673345\n"
            b"10,1472344673324\n"
            b"10,1472344673324,1472344673345\n"
            b"S10,1472344673345\n"
            b"s11,1472344673345\n"
        )


def test_ids_cannot_break_a_record():
    with written() as (fd, content):
        writer = RecordWriter(fd)
        writer.write_received(1, 2, b"a,b\r\nc%2C")
        writer.write_sent(1, b"Sender")
        writer.write_sent(1, b"sender")
        writer.write_received(1, 2, b"Sender")
        writer.write_settled(b"Sender", 2, True)
        writer.write_sent(1, b"")
        writer.flush_now()
        assert content().splitlines() == [
            b"a%2Cb%0D%0Ac%252C,1,2",
            b"%53ender,1",
            b"%73ender,1",
            b"Sender,1,2",
            b"SSender,2",
            b",1",
        ]


@given(st.lists(entries, max_size=60), st.integers(64, 300))
@settings(deadline=None)
def test_equals_its_slow_twin(batch, capacity):
    with written() as (fd, content):
        writer = RecordWriter(fd, capacity)
        for entry in batch:
            write(writer, entry)
        writer.flush_now()
        expected = b"".join(map(slow_line, batch))
        assert content() == expected
        assert writer.bytes_written == len(expected)
        assert writer.records == len(batch)


def test_an_end_is_told_where_it_changes_and_after_a_flush():
    with written() as (fd, content):
        writer = RecordWriter(fd)
        for end in (3, 3, 12, 0, 3):
            writer.write_end(end)
            if end != 12:
                writer.write_sent(SENT)
        writer.flush_now()
        writer.write_end(3)
        writer.write_sent(SENT)
        writer.flush_now()
        line = b"%d,0\n" % SENT
        assert content() == b"@3\n%b%b@0\n%b@3\n%b@3\n%b" % (line, line, line, line, line)
        assert writer.records == 5


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.booleans()), max_size=60))
@settings(deadline=None)
def test_each_record_is_of_its_end(turns):
    """Whatever is written in a turn, records or none, and wherever the buffer is flushed."""
    with tempfile.NamedTemporaryFile() as file:
        writer = RecordWriter(file.fileno(), 64)
        for end, count, flushed in turns:
            writer.write_end(end)
            for _ in range(count):
                writer.write_received(SENT, RECEIVED, b"7")
            if flushed:
                writer.flush_now()
        writer.flush_now()
        found = read_transfers(file.name, operation=formats.RECEIVE).ends
    expected = [end for end, count, _ in turns for _ in range(count)]
    assert ([] if found is None else found.tolist()) == expected


@given(st.lists(st.tuples(times, times), max_size=200))
@settings(deadline=None)
def test_write_many_equals_its_slow_twin(pairs):
    sent, received = np.array(pairs, dtype=np.int64).reshape(-1, 2).T.copy()
    with written() as (fd, content):
        writer = RecordWriter(fd, 128)
        write_many(writer, sent, received)
        write_many(writer, sent)
        writer.flush_now()
        expected = [b"%d,%d\n" % pair for pair in pairs] + [b"%d,0\n" % pair[0] for pair in pairs]
        assert content() == b"".join(expected)


def test_write_many_refuses_other_arrays():
    writer = RecordWriter(1)
    for wrong in (np.zeros(3), np.zeros(3, np.int32), np.zeros((3, 3), np.int64)):
        with pytest.raises(ValueError, match="one-dimensional buffer of int64"):
            write_many(writer, wrong)
    with pytest.raises(ValueError, match="differ in length"):
        write_many(writer, np.zeros(3, np.int64), np.zeros(2, np.int64))
    assert writer.records == 0


@pytest.mark.parametrize("size", [63, 64, 65, 300, 2**20])
@pytest.mark.parametrize("fill", [b"x", b","])
@pytest.mark.parametrize("capacity", [64, 4096])
def test_ids_longer_than_the_buffer(size, fill, capacity):
    message_id = fill * size
    batch = [
        ("sent", message_id, SENT),
        ("received", message_id, SENT, RECEIVED),
        ("settled", message_id, RECEIVED, True),
    ]
    with written() as (fd, content):
        writer = RecordWriter(fd, capacity)
        for entry in batch:
            write(writer, entry)
        writer.flush_now()
        assert content() == b"".join(map(slow_line, batch))


# ---- flushing ------------------------------------------------------------------------


def test_flushes_whole_records_when_full_and_the_rest_on_request():
    line = b"%d,0\n" % SENT
    with written() as (fd, content):
        writer = RecordWriter(fd, 256)
        writer.write_sent(SENT)
        assert content() == b""
        assert (writer.records, writer.bytes_written) == (1, 0)
        for _ in range(30):
            writer.write_sent(SENT)
        seen = content()
        assert 0 < len(seen) < 31 * len(line)
        assert seen == line * (len(seen) // len(line))
        writer.flush_now()
        assert content() == line * 31


def test_unflushed_records_die_with_the_writer():
    # The descriptor is the caller's and may be another file by then.
    with written() as (fd, content):
        writer = RecordWriter(fd)
        writer.write_sent(SENT)
        del writer
        assert content() == b""


def test_capacity_has_a_minimum():
    with pytest.raises(ValueError, match="at least 64"):
        RecordWriter(1, 63)


def test_times_beyond_int64_are_refused():
    writer = RecordWriter(1)
    with pytest.raises(OverflowError):
        writer.write_sent(2**63)
    assert writer.records == 0


# ---- descriptors that resist ---------------------------------------------------------


def test_a_closed_pipe_is_an_output_error_for_ever():
    with pipe() as (reader, writing):
        os.close(reader)
        writer = RecordWriter(writing, 64)
        writer.write_sent(SENT)
        for _ in range(2):
            with pytest.raises(OutputError, match=r"^cannot write records: Broken pipe$"):
                writer.flush_now()
        with pytest.raises(OutputError, match="Broken pipe"):
            writer.write_sent(SENT)
        assert writer.bytes_written == 0


def test_a_failed_writer_dies_in_silence():
    with pipe() as (reader, writing):
        os.close(reader)
        program = (
            "from quiver_fast.records.writer import RecordWriter\n"
            "from quiver_fast.errors import OutputError\n"
            f"writer = RecordWriter({writing})\n"
            "writer.write_sent(1)\n"
            "try:\n    writer.flush_now()\n"
            "except OutputError as error:\n    print(error)\n"
            "del writer\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            pass_fds=[writing],
            check=True,
        )
    assert (done.stdout, done.stderr) == ("cannot write records: Broken pipe\n", "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
def test_a_full_disk_is_an_output_error():
    fd = os.open("/dev/full", os.O_WRONLY)
    try:
        writer = RecordWriter(fd, 64)
        with pytest.raises(OutputError, match="cannot write records: No space left on device"):
            write_many(writer, np.full(10, SENT))
    finally:
        os.close(fd)


def test_a_closed_descriptor_is_an_output_error():
    with pipe() as (_, writing):
        os.close(writing)
        writer = RecordWriter(writing)
        writer.write_sent(SENT)
        with pytest.raises(OutputError, match=os.strerror(errno.EBADF)):
            writer.flush_now()


def test_a_partial_write_is_continued_until_the_limit_fails_it():
    # Under RLIMIT_FSIZE the kernel takes a part of the bytes, then says EFBIG.
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    old_handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        with written() as (fd, content):
            writer = RecordWriter(fd)
            for _ in range(100):
                writer.write_sent(SENT)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, old[1]))
            with pytest.raises(OutputError, match="File too large"):
                writer.flush_now()
            resource.setrlimit(resource.RLIMIT_FSIZE, old)
            assert content() == (b"%d,0\n" % SENT * 100)[:1000]
            assert writer.bytes_written == 1000
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
        signal.signal(signal.SIGXFSZ, old_handler)


@pytest.mark.parametrize("blocking", [True, False])
def test_a_slow_pipe_loses_nothing(blocking):
    count = 40_000
    with pipe() as (reader, writing):
        os.set_blocking(writing, blocking)
        received = bytearray()

        def read_slowly():
            while chunk := os.read(reader, 5000):
                received.extend(chunk)
                if len(received) < 100_000:
                    time.sleep(0.001)

        thread = threading.Thread(target=read_slowly)
        thread.start()
        writer = RecordWriter(writing)
        write_many(writer, np.arange(SENT, SENT + count))
        writer.flush_now()
        os.close(writing)
        thread.join()
        assert bytes(received) == b"".join(b"%d,0\n" % (SENT + n) for n in range(count))


@pytest.mark.parametrize("blocking", [True, False])
def test_signals_interrupt_a_stalled_pipe_and_lose_nothing(blocking):
    """EINTR: handlers run at once; when they raise, the rest is there for the next flush."""

    class StopError(Exception):
        pass

    calls, stopped = [], []

    def handler(*_):
        calls.append(1)
        # A busy machine may be late with the first write: stop what has begun, once.
        if len(calls) >= 3 and writer.bytes_written and not stopped:
            stopped.append(1)
            raise StopError

    old_handler = signal.signal(signal.SIGALRM, handler)
    try:
        with pipe() as (reader, writing):
            os.set_blocking(writing, blocking)
            writer = RecordWriter(writing, 2**20)
            write_many(writer, np.arange(SENT, SENT + 10_000))  # more than a pipe holds
            signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
            with pytest.raises(StopError):
                writer.flush_now()
            signal.setitimer(signal.ITIMER_REAL, 0)
            assert 0 < writer.bytes_written < 160_000
            received = bytearray()
            thread = threading.Thread(target=lambda: drain(reader, received))
            thread.start()
            writer.flush_now()
            os.close(writing)
            thread.join()
            assert bytes(received) == b"".join(b"%d,0\n" % (SENT + n) for n in range(10_000))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old_handler)


def drain(reader, received):
    while chunk := os.read(reader, 65536):
        received.extend(chunk)
