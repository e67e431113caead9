"""pyfast with itself, python-qpid-proton and rhea, in every role and mode.

The other engines' receivers check each message against the arguments and fail
the run where body, SendTime, id, durability or settlement differ from them
(peers/proton_arrow.py, peers/rhea_arrow.js), so a successful pair is a proof.

Dimensions that do not touch each other are not multiplied: modes, sizes, and
message properties each go through all their values with every peer and role. The gate
has of each what differs most.
"""

from __future__ import annotations

from typing import Any

import pytest
from support.arrows import arguments_v2, run_pair
from support.cases import cases
from support.judgement import assert_clean

PROTON = pytest.param("proton", marks=pytest.mark.peer("proton"))
RHEA = pytest.param("rhea", marks=pytest.mark.peer("rhea"))
OTHERS = pytest.mark.parametrize("other", [PROTON, RHEA])
ROLES = pytest.mark.parametrize("role", ["send", "receive"])
# Each engine in one role in the gate.
EITHER = pytest.mark.parametrize(
    ("other", "role"),
    cases(
        [PROTON, RHEA], ["send", "receive"],
        gate=lambda other, role: (other == "proton") == (role == "send"),
    ),
)  # fmt: skip

BODY_SIZES = [0, 1, 100, 1000, 65536, 1_000_000]
# The gate's pairs with other engines, by our role.
LARGE_OR_NONE = {"send": (0, 65536), "receive": (0, 1_000_000)}


def ends(role: str, other: str) -> dict[str, Any]:
    """Name the sender and receiver where pyfast has `role`."""
    if role == "send":
        return {"sender": "pyfast", "receiver": other}
    return {"sender": other, "receiver": "pyfast"}


@pytest.mark.parametrize(
    ("role", "other", "server", "active"),
    cases(
        ["send", "receive"], ["pyfast", PROTON, RHEA], ["send", "receive"], ["client", "server"],
        gate=lambda role, other, server, active: (
            role == "send" if other == "pyfast" else (server == "send") == (active == "client")
        ),
    ),
)  # fmt: skip
def test_modes(role: str, other: str, server: str, active: str) -> None:
    pair = run_pair(**ends(role, other), server=server, active=active, count=300, credit_window=7)
    pair.check(300)


@pytest.mark.parametrize(
    ("other", "role", "size"),
    cases(
        ["pyfast", PROTON, RHEA], ["send", "receive"], BODY_SIZES,
        gate=lambda other, role, size: (
            role == "send" if other == "pyfast" else size in LARGE_OR_NONE[role]
        ),
    ),
)  # fmt: skip
def test_body_sizes(role: str, other: str, size: int) -> None:
    index = BODY_SIZES.index(size)
    pair = run_pair(
        **ends(role, other),
        server="receive" if index % 2 else "send",
        body_size=size,
        count=10 if size > 100_000 else 50,
        set_message_id=1,
    )
    pair.check(10 if size > 100_000 else 50)


@OTHERS
@ROLES
@pytest.mark.parametrize(
    ("durable", "set_id"), cases([0, 1], [0, 1], gate=lambda durable, set_id: durable == set_id)
)
def test_durable_and_message_id(role: str, other: str, durable: int, set_id: int) -> None:
    pair = run_pair(**ends(role, other), durable=durable, set_message_id=set_id, count=50)
    pair.check(50)


@OTHERS
@ROLES
def test_contract_v2_with_settlement(role: str, other: str) -> None:
    """Ids are the same at both ends, whoever made them."""
    pair = run_pair(**ends(role, other), contract=arguments_v2, settlement=1, count=300)
    pair.check(300)
    sent = [line.split(",")[0] for line in pair.sender.lines if line[0] not in "Ss"]
    received = [line.split(",")[0] for line in pair.receiver.lines]
    assert received == sent
    assert len(set(sent)) == 300
    settled = [line.split(",")[0] for line in pair.sender.lines if line[0] in "Ss"]
    assert sorted(line[1:] for line in settled) == sorted(sent)
    assert [line for line in settled if line[0] == "S"] == ["S" + sent[0], "S" + sent[256]]


@OTHERS
@ROLES
def test_small_frames_split_messages(role: str, other: str) -> None:
    """A body of 100 kB over frames of 512 bytes, the least that AMQP allows."""
    options: dict[str, Any] = {"max_frame_size": 512, "body_size": 100_000, "count": 20}
    server = "receive" if role == "receive" else "send"
    run_pair(**ends(role, other), server=server, **options).check(20)


@OTHERS
def test_presettled(other: str) -> None:
    pair = run_pair("pyfast", other, presettled=1, count=200)
    pair.check(200)


@EITHER
def test_credit_of_one(role: str, other: str) -> None:
    run_pair(**ends(role, other), credit_window=1, count=50).check(50)


@EITHER
def test_duration_ends_both(role: str, other: str) -> None:
    """Both are told the same duration; whichever ends first, both succeed."""
    # On a busy machine it may be over before the first message.
    for duration in (1, 5, 25):
        pair = run_pair(**ends(role, other), count=0, duration=duration, timeout=90.0)
        ours = pair.sender if role == "send" else pair.receiver
        assert_clean(ours)
        if ours.lines:
            break
    assert ours.lines


@pytest.mark.peer("rhea")
@pytest.mark.parametrize("body_type", ["string", "binary-value", "data"])
@pytest.mark.parametrize("size", [0, pytest.param(100, marks=pytest.mark.slow), 70_000])
def test_body_types_of_rhea(body_type: str, size: int) -> None:
    pair = run_pair(
        "rhea", "pyfast", sender_options={"body_type": body_type}, body_size=size, count=20
    )
    pair.check(20)
