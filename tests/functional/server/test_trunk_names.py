"""The key `trunks` names the servers that may be trunks; any other connection is a client's."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.engine_client import EngineClient
from support.frame_peer import FramePeer, ended
from support.processes import wait_until
from support.server import running_server

from quiver_fast.conform.counterpart import Talk
from quiver_fast.conform.wire.client import FrameClient
from quiver_fast.conform.wire.frames import encode_frame


@pytest.mark.parametrize(
    ("keys", "name", "named"),
    [
        ({}, "other", False),
        ({"trunks": "second"}, "other", False),
        ({"trunks": "first;other"}, "other", True),
        ({"trunks": "*"}, "other", True),
    ],
)
def test_by_its_container_id(
    tmp_path: Path, address: str, keys: dict[str, str], name: str, named: bool
) -> None:
    """Without authentication that is the only name."""
    with (
        running_server(tmp_path, **keys) as server,
        EngineClient(server.port) as consumer,
        FrameClient(server.port) as peer,
    ):
        consumer.receiver(address)
        assert_is_trunk(peer, address, named, container_id=name)


@pytest.mark.parametrize("trunks", ["u", "other", "anonymous"])
def test_by_its_user(tmp_path: Path, address: str, trunks: str) -> None:
    """A container id is a claim: it does not count where users authenticate."""
    users = {"user": "u", "password": "p"}
    with (
        running_server(tmp_path, trunks=trunks, **users) as server,
        FrameClient(server.port) as consumer,
        FrameClient(server.port) as peer,
    ):
        for client in (consumer, peer):
            client.authenticate("PLAIN", b"\0u\0p")
        consumer.open()
        consumer.begin()
        consumer.attach_receiver(address)
        assert_is_trunk(peer, address, trunks == "u", container_id="other")


def test_a_server_that_is_not_named_says_so(tmp_path: Path) -> None:
    said = "does not name this server"
    with (
        running_server(tmp_path) as near,
        running_server(tmp_path, says=said, quiet=0, connect=f"127.0.0.1:{near.port}") as far,
    ):
        wait_until(lambda: said in far.running.stderr_so_far(), "the reason")


def assert_is_trunk(peer: FrameClient, address: str, named: bool, **fields: str) -> None:
    """See whether a peer that offers a trunk gets the address of a consumer of the server."""
    theirs = peer.open(offered_capabilities=["quiver.trunk", "qd.streaming-links"], **fields)
    assert ("quiver.trunk" in theirs.fields["offered_capabilities"]) == named
    if named:
        while (found := peer.read()).name != "attach":
            pass
        assert found.fields["source"].fields["address"] == address
        return
    # The server would have begun a session and attached before it answers.
    peer.begin()
    peer.attach_receiver(address, name="mine")


def test_the_other_servers_refusal_is_told(tmp_path: Path) -> None:
    """Broker-J refuses by an open with a max-frame-size of 0, and a close with the reason."""

    def script(talk: Talk) -> None:
        talk.answer_header()
        talk.expect("open")
        opening = encode_frame("open", container_id="", max_frame_size=0)
        talk.send_bytes(opening + ended("close"))
        talk.read_to_end()

    with FramePeer(script) as peer:
        other = f"amqp://127.0.0.1:{peer.port}"
        with running_server(tmp_path, says=None, quiet=0, connect=other) as server:
            wait_until(
                lambda: "trunk to" in server.running.stderr_so_far(), "the refusal is reported"
            )
            assert "test:close: by close" in server.running.stderr_so_far()
