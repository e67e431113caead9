"""Pairs of pyfast, python-qpid-proton and rhea through our server.

The other engines' receivers check each message against the arguments, so a pair that
succeeds is a proof that the server passed on the messages.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.arrows import COMMANDS, INTEROP, arguments, arguments_v2
from support.cases import cases
from support.certificates import Certificates
from support.judgement import assert_clean, assert_error
from support.processes import Finished, Running, run
from support.server import Server, running_server

END_SECONDS = 30.0

PEERS = {name: pytest.mark.peer(name) for name in ("proton", "rhea")}
ENGINES = [pytest.param(name, marks=[PEERS[name]] if name in PEERS else []) for name in COMMANDS]
SIZES = [0, 1, 100, 1000, 65536, 1_000_000]
# The gate has each engine with ours, and what differs most.
FEW = {("pyfast", each) for each in ("pyfast", *PEERS)} | {(each, "pyfast") for each in PEERS}
PAIRS = cases(ENGINES, ENGINES, gate=lambda *pair: pair in FEW)
MORE = FEW | {("proton", "rhea"), ("rhea", "proton"), ("impl", "impl")}
LARGE = {"proton": 1_000_000, "rhea": 65536}
EACH = cases(ENGINES, gate="impl".__ne__)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for all pairs; each uses a queue of its own."""
    with running_server(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture
def queue(request: pytest.FixtureRequest) -> str:
    """A queue that no other test uses."""
    return str(request.node.name)


def transfer(
    server: Server,
    sender: str,
    receiver: str,
    *,
    contract: Callable[..., list[str]] = arguments,
    **keys: Any,
) -> tuple[Finished, Finished]:
    """Run sender and receiver at the same time; both must succeed with all transfers."""
    receive = [*COMMANDS[receiver], *contract("receive", server.port, **keys)]
    send = [*COMMANDS[sender], *contract("send", server.port, **keys)]
    with Running(receive) as receiving:
        sent = run(send, END_SECONDS)
        received = receiving.wait(END_SECONDS)
    count = keys["count"]
    for end in (sent, received):
        assert_clean(end)
    assert len([line for line in sent.lines if line[0] not in "Ss"]) == count
    assert len(received.lines) == count
    return sent, received


def is_body_size_of_the_gate(sender: str, receiver: str, size: int) -> bool:
    """Say so of each size with our arrow alone, and of a large one with another engine."""
    others = {sender, receiver} - {"pyfast"}
    return (sender, receiver) in FEW and all(size == LARGE[each] for each in others)


@pytest.mark.parametrize(
    ("sender", "receiver", "size"), cases(ENGINES, ENGINES, SIZES, gate=is_body_size_of_the_gate)
)
def test_body_sizes(server: Server, queue: str, sender: str, receiver: str, size: int) -> None:
    count = 10 if size > 100_000 else 100
    transfer(server, sender, receiver, path=queue, body_size=size, count=count)


@pytest.mark.parametrize(("sender", "receiver"), PAIRS)
def test_durable_with_message_ids(server: Server, queue: str, sender: str, receiver: str) -> None:
    transfer(server, sender, receiver, path=queue, durable=1, set_message_id=1, count=100)


@pytest.mark.parametrize(
    ("sender", "receiver"), cases(ENGINES, ENGINES, gate=lambda *pair: pair in MORE)
)
def test_ids_are_the_same_at_both_ends(
    server: Server, queue: str, sender: str, receiver: str
) -> None:
    ends = transfer(
        server, sender, receiver, contract=arguments_v2, path=queue, settlement=1, count=300
    )
    sent, received = (
        [line.split(",")[0] for line in end.lines if line[0] not in "Ss"] for end in ends
    )
    assert received == sent


@pytest.mark.parametrize(("sender", "receiver"), PAIRS)
def test_small_credit(server: Server, queue: str, sender: str, receiver: str) -> None:
    transfer(server, sender, receiver, path=queue, credit_window=1, count=50)


@pytest.mark.parametrize("name", EACH)
def test_small_frames(server: Server, queue: str, name: str) -> None:
    """Bodies of 100 kB over frames of 512 bytes in both directions."""
    transfer(server, name, name, path=queue, max_frame_size=512, body_size=100_000, count=20)


@pytest.mark.parametrize("name", EACH)
def test_send_first_receive_later(server: Server, queue: str, name: str) -> None:
    keys = {"path": queue, "count": 200}
    assert_clean(run([*COMMANDS[name], *arguments("send", server.port, **keys)]))
    assert_clean(run([*COMMANDS[name], *arguments("receive", server.port, **keys)]))


@pytest.mark.parametrize("name", EACH)
def test_a_receiver_takes_its_count_and_leaves_the_rest(
    server: Server, queue: str, name: str
) -> None:
    send = arguments("send", server.port, path=queue, count=100)
    assert_clean(run([*COMMANDS[name], *send]))
    for _ in range(2):
        receive = arguments("receive", server.port, path=queue, count=50)
        assert_clean(run([*COMMANDS[name], *receive]))


@pytest.mark.parametrize("size", cases([1, 10, 33], gate=(33).__eq__))
def test_transactions_of_our_arrow(server: Server, queue: str, size: int) -> None:
    """Sends and acknowledgements in batches, the last of which is partial."""
    transfer(server, "pyfast", "pyfast", path=queue, transaction_size=size, count=100)
    transfer(server, "pyfast", "pyfast", path=queue, count=1)


@pytest.mark.parametrize(("sender", "receiver"), PAIRS)
def test_presettled(server: Server, queue: str, sender: str, receiver: str) -> None:
    """From the sender to the server, and from there to the receiver."""
    transfer(server, sender, receiver, path=queue, count=300, presettled=1)


@pytest.mark.peer("rhea")
@pytest.mark.parametrize("mode", ["drain", "browse", "dynamic"])
def test_modes_of_rhea(server: Server, queue: str, mode: str) -> None:
    script = str(INTEROP / "peers" / "rhea_modes.js")
    node = COMMANDS["rhea"][0]
    assert_clean(run([node, script, f"port={server.port}", f"path={queue}", f"mode={mode}"]))


# -- TLS and SASL


@pytest.fixture(scope="module")
def secure(
    tmp_path_factory: pytest.TempPathFactory, certificates: Certificates
) -> Iterator[dict[str, Server]]:
    """Servers with TLS: without and with client certificates."""
    directory = tmp_path_factory.mktemp("secure")
    tls = {"scheme": "amqps", **certificates.server.keys()}
    with (
        running_server(directory, **tls) as plain,
        running_server(directory, **tls, trust_store=certificates.authority) as mutual,
        running_server(directory, **tls, user="me", password="secret") as password,
        running_server(directory, user="me", password="secret") as loopback,
    ):
        yield {"tls": plain, "mutual": mutual, "password": password, "loopback": loopback}


@pytest.mark.parametrize(
    ("name", "kind"),
    cases(
        ENGINES, ["tls", "mutual", "password", "loopback"],
        gate=lambda name, kind: name == "pyfast"
        or (name in PEERS and kind in ("mutual", "password")),
    ),
)  # fmt: skip
def test_security(
    secure: dict[str, Server], certificates: Certificates, queue: str, name: str, kind: str
) -> None:
    keys: dict[str, Any] = {}
    if kind != "loopback":
        keys |= {"scheme": "amqps", "host": "localhost", "trust_store": certificates.authority}
    if kind == "mutual":
        keys |= certificates.client.keys()
    if kind in ("password", "loopback"):
        keys |= {"username": "me", "password": "secret"}
    transfer(secure[kind], name, name, path=queue, count=50, **keys)


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        ("mutual", {}),
        ("mutual", "foreign"),
        ("password", {}),
        ("password", {"username": "me", "password": "wrong"}),
        ("password", {"username": "you", "password": "secret"}),
        ("loopback", {}),
        ("loopback", {"username": "me", "password": "wrong"}),
    ],
)
def test_who_is_kept_out(
    secure: dict[str, Server], certificates: Certificates, kind: str, keys: Any
) -> None:
    if keys == "foreign":
        keys = certificates.foreign_client.keys()
    if kind != "loopback":
        keys = {**keys, "scheme": "amqps", "host": "localhost"}
        keys["trust_store"] = certificates.authority
    end = run([*COMMANDS["pyfast"], *arguments("send", secure[kind].port, count=1, **keys)])
    assert_error(end)


# -- under the wrappers


def test_quiver_through_the_server(server: Server, tmp_path: Path) -> None:
    """The whole: wrapper, two arrows, server, analysis."""
    url = f"amqp://127.0.0.1:{server.port}/whole"
    words = [url, "--count", "1000", "--output", str(tmp_path / "output")]
    end = run([sys.executable, "-m", "quiver_fast.cli.pair.command", *words], END_SECONDS)
    assert end.code == 0, end
    assert "1,000" in end.stdout
