"""Whatever addresses have durable messages, and whatever failed then: the next start has them.

An address may be any that the server accepts; the server may have few descriptors, and a call
may fail in the midst of the making of a queue: no room, no descriptor, a sync that fails. It is
killed, starts again under the same limits, and every queue can be read.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from proton import Delivery
from support.addresses import ADDRESSES
from support.durable_client import DurableClient, LostError, encoded
from support.faults import Faults, Kind
from support.preload import compile_preload
from support.server import running_server

# Calls that fail on a full disk, with too few descriptors, on a broken disk.
KINDS = [Kind.WRITE, Kind.SYNC, Kind.SIZE, Kind.NAME, Kind.OPEN, Kind.MAPPING]


class Case(NamedTuple):
    """Addresses, and what goes wrong while they get their first messages.

    ``descriptors`` is 0 for as many as the test has; ``number`` is that of the call that fails,
    0 for none.
    """

    addresses: list[str]
    descriptors: int
    durability: str
    kind: Kind
    number: int
    lasting: bool


# Addresses of queues: others are topics, temporary, or other servers' own.
QUEUES = ADDRESSES.filter(lambda address: not address.startswith(("$", "topic", "dynamic-")))
CASES = st.builds(
    Case,
    addresses=st.lists(QUEUES, min_size=1, max_size=12, unique=True),
    descriptors=st.just(0) | st.integers(40, 60),
    durability=st.sampled_from(["none", "group"]),
    kind=st.sampled_from(KINDS),
    number=st.integers(0, 60),
    lasting=st.booleans(),
)


def is_accepted(port: int, address: str, number: int) -> bool:
    """Send a durable message; say whether the server has taken it over."""
    with DurableClient(port) as client:
        try:
            sent = client.send(client.sender(address), encoded(number))
            return client.outcome(sent) == Delivery.ACCEPTED
        except LostError:
            return False


def survives(library: Path, case: Case) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        faults = Faults(folder, library)
        keys = {
            "store": folder / "store", "durability": case.durability,
            "descriptors": case.descriptors,
        }  # fmt: skip
        with running_server(folder, environment=faults.environment, **keys) as server:
            faults.arm(case.kind, case.number, lasting=case.lasting)
            accepted = [is_accepted(server.port, *each) for each in named(case)]
            faults.disarm()
            server.kill()
        faults.close()
        with running_server(folder, **keys) as server:
            for there, (address, number) in zip(accepted, named(case), strict=True):
                with DurableClient(server.port) as client:
                    found = client.drain(address)
                # Messages without an outcome may be there too.
                assert found == [number] or (found == [] and not there), (case, address, found)


def named(case: Case) -> list[tuple[str, int]]:
    return [(address, number) for number, address in enumerate(case.addresses)]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = Path(__file__).with_name("nth_call.c")
    return compile_preload(source, tmp_path_factory.mktemp("faults"))


@settings(max_examples=3, deadline=None, derandomize=True)
@given(case=CASES)
def test_few_cases(library: Path, case: Case) -> None:
    survives(library, case)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@settings(max_examples=150, deadline=None)
@given(case=CASES)
def test_many_cases(library: Path, case: Case) -> None:
    survives(library, case)
