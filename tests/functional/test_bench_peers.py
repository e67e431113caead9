"""The bench's C programs: they compile without a warning and move the bytes that they report."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench import reach  # noqa: E402
from bench.reference import build  # noqa: E402

# More bytes than a program takes with one read: a single read has no rate.
MESSAGES = 10_000
SIZE = 100
BYTES = MESSAGES * SIZE


def built(make: Callable[[], Path]) -> Path:
    try:
        return make()
    except build.BuildError as error:
        # A compiler error is a failure; a missing package is not.
        if "install" not in str(error):
            raise
        pytest.skip(str(error))


def test_libzmq_brings_every_message_in_its_order() -> None:
    found = reach.zmq(built(build.zmq_pair), MESSAGES, SIZE)
    assert all(figure > 0 for figure in found.values())


def test_nats_brings_every_message_in_its_order() -> None:
    found = reach.nats(built(build.nats_pair), MESSAGES, SIZE)
    # A server's CPU is counted by the system's tick, and may be less than one.
    assert found.pop("server_cpu") >= 0
    assert all(figure > 0 for figure in found.values())


def test_openssl_brings_every_byte_within_tls_1_3() -> None:
    rate, *ends = reach.run_program([str(built(build.tls_copy)), str(BYTES)])
    assert float(rate) > 0
    assert len(ends) == 2
    assert set(ends) <= {"kernel", "process"}


@pytest.mark.parametrize(
    ("make", "arguments"),
    [
        (build.zmq_pair, ["1", "100"]),
        (build.zmq_pair, ["1000", "7"]),
        (build.nats_pair, ["0", "10000", "100"]),
        (build.nats_pair, ["4222", "100", "100"]),
        (build.tls_copy, ["1000"]),
    ],
)
def test_arguments_that_mean_nothing_are_refused(
    make: Callable[[], Path], arguments: list[str]
) -> None:
    ended = subprocess.run(
        [str(built(make)), *arguments], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 2
    assert ended.stderr.startswith("usage: ")
    assert len(ended.stderr.splitlines()) == 1
