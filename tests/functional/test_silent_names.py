"""Hosts and name servers that do not answer: the next address is tried, and limits hold."""

from __future__ import annotations

import itertools
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme
from support.namespace import Namespace, namespace
from support.processes import Running, wait_until

pytestmark = pytest.mark.xdist_group("silent names")

# `silent.example` takes no connection; of `two.example` the preferred address takes none (RFC
# 6724, section 10.3: IPv6 first).
HOSTS = """127.0.0.1 localhost
::1 two.example
127.0.0.1 two.example
127.0.0.2 silent.example
127.0.0.1 xn--bcher-kva.test
"""
# The C library waits so long for each question, at most 30 s.
RESOLVER = "nameserver 127.0.0.1\noptions timeout:30 attempts:5\n"
# A listener whose queue is full drops each SYN, and a name server that only reads.
SILENCE = """
import socket
kept = []
for place, family in (("::1", socket.AF_INET6), ("127.0.0.2", socket.AF_INET)):
    kept.append(socket.create_server((place, 5672), family=family, backlog=0))
    for _ in range(4):
        kept.append(socket.socket(family))
        kept[-1].setblocking(False)
        kept[-1].connect_ex((place, 5672))
names = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
names.bind(("127.0.0.1", 53))
print("silent", flush=True)
while True:
    print(names.recv(512), flush=True)
"""


@dataclass(frozen=True)
class Net:
    """A network, and the process in it that does not answer."""

    space: Namespace
    silence: Running
    numbers: Iterator[int]

    def start(self, line: str) -> Running:
        """Start a command with an output folder of its own, if it takes one."""
        folder = f" --output run-{next(self.numbers)}"
        return self.space.start(line + folder * line.startswith(("quiver ", "quiver-arrow ")))

    def wait_for_question(self, name: str, running: Running) -> None:
        """Return once the name server was asked for a name, or the process has ended."""
        wait_until(
            lambda: name in self.silence.stdout_so_far() or running.process.poll() is not None,
            f"the name server is asked for {name}",
        )


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Net]:
    """Yield a network with the names above, and a server on 127.0.0.1."""
    folder = tmp_path_factory.mktemp("net")
    commands = str(Path(sys.executable).parent)
    environment = {"PATH": f"{commands}{os.pathsep}{os.environ['PATH']}"}
    (folder / "silence.py").write_text(SILENCE)
    with (
        namespace(folder, environment, HOSTS, RESOLVER) as space,
        space.start(f"{sys.executable} silence.py") as silence,
    ):
        net = Net(space, silence, itertools.count())
        wait_until(
            lambda: "silent" in silence.stdout_so_far() or silence.process.poll() is not None,
            "the silent ones listen",
        )
        if silence.process.poll() is not None:
            pytest.skip(f"no IPv6 here: {silence.wait().stderr}")
        with space.serving("quiver-server //127.0.0.1/q0", 5672) as server:
            # The silent ones listen on the same port.
            wait_until(lambda: "listening on" in server.stderr_so_far(), "the server listens")
            yield net


COMMANDS = {
    "sender": "quiver-arrow send //{host}/q1 -c 3",
    "pair": "quiver //{host}/q2 -c 3",
    "many-ends": "quiver //{host}/q3-%d -c 6 --senders 2 --receivers 2 --queues 2",
    "hold": "quiver //{host}/q4 --hold 2 -d 1",
    "churn": "quiver //{host}/q5 --churn 5 -d 1",
    "sessions": "quiver //{host}/q5 --churn 5 --churn-of session -d 1",
    "declare": "quiver-arrow send //{host}/q6 -c 3 --declare",
}


# They connect in the same two ways as others, which the long tests try.
SLOW = ("pair", "hold", "sessions", "declare")
EACH_COMMAND = [
    pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW), id=name) for name in COMMANDS
]


@pytest.mark.parametrize("name", EACH_COMMAND)
def test_the_next_address_is_tried(net: Net, name: str) -> None:
    with net.start(COMMANDS[name].format(host="two.example")) as running:
        end = running.wait()
    assert end.code == 0, end.stderr


@pytest.mark.parametrize("name", EACH_COMMAND)
def test_a_time_out_names_the_host_that_takes_no_connection(net: Net, name: str) -> None:
    with net.start(COMMANDS[name].format(host="silent.example") + " --timeout 1") as running:
        end = running.wait()
    error = end.stderr.splitlines()[-1]
    assert end.code == 1
    assert "connecting to silent.example:5672" in error or (
        "cannot connect to silent.example:5672: Connection timed out" in error
    )


@pytest.mark.parametrize("name", EACH_COMMAND)
def test_a_time_out_ends_the_wait_for_a_name_server(net: Net, name: str) -> None:
    with net.start(COMMANDS[name].format(host="nobody.example") + " --timeout 1") as running:
        end = running.wait()
    assert end.code == 1
    assert "'nobody.example'" in end.stderr.splitlines()[-1]


OTHERS = {
    "plain-arrow": "quiver-arrow-pyfast connection-mode=client channel-mode=active operation=send "
    "id=a host={host} port=5672 path=q0 duration=0 count=1 body-size=1 credit-window=1 "
    "transaction-size=0 durable=0 settlement=0",
    "csp": "quiver-arrow send csp://{host}/q0 -c 3",
    "queue": "quiver-queue dump csp://{host}/q0",
    "trunk": "quiver-server //127.0.0.1:5673/q0 --connect {host}:5672",
    "server": "quiver-server //{host}:5673/q0",
    "metrics": "quiver-server //127.0.0.1:5673/q0 --metrics-port 0 --metrics-host {host}",
}


@pytest.mark.parametrize(
    "number", [pytest.param(signal.SIGINT, marks=pytest.mark.slow), signal.SIGTERM]
)
@pytest.mark.parametrize("name", [*COMMANDS, *OTHERS])
def test_a_signal_ends_the_wait_for_a_name_server(
    net: Net, name: str, number: signal.Signals
) -> None:
    label = f"n{next(net.numbers)}"
    line = (COMMANDS | OTHERS)[name].format(host=f"{label}.example")
    with net.start(line) as running:
        net.wait_for_question(label, running)
        running.send_signal(number)
        end = running.wait()
    # A server that is told to end ends well.
    right = (0,) if line.startswith("quiver-server") else (128 + number, -number)
    assert end.code in right, end.stderr


def test_a_trunk_tries_the_next_address(net: Net) -> None:
    line = "quiver-server //127.0.0.1:5674/q0 --connect two.example:5672 --trunks hub"
    with net.space.serving(line, 5674) as server:
        wait_until(lambda: "trunk to" in server.stderr_so_far(), "the trunk reports")
        # The server on 127.0.0.1 was reached: it takes no trunks.
        assert "no answer" not in server.stderr_so_far()


@pytest.fixture(scope="module")
def international(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the files of a certificate for a name that is not of ASCII alone."""
    folder = tmp_path_factory.mktemp("international")
    authority = trustme.CA()
    leaf = authority.issue_cert("bücher.test")
    leaf.cert_chain_pems[0].write_to_path(folder / "cert.pem")
    leaf.private_key_pem.write_to_path(folder / "key.pem")
    authority.cert_pem.write_to_path(folder / "store.pem")
    return {name: str(folder / f"{name}.pem") for name in ("cert", "key", "store")}


def test_a_name_in_other_letters_is_verified_in_ascii(
    net: Net, international: dict[str, str]
) -> None:
    """RFC 6066, section 3: the server name is of A-labels, as are names in certificates."""
    cert, key, store = (international[name] for name in ("cert", "key", "store"))
    secure = f"quiver-server amqps://127.0.0.1:5675/q0 --cert {cert} --key {key}"
    url = "amqps://bücher.test:5675"
    with net.space.serving(secure, 5675):
        for line in (
            f"quiver {url}/q0 -c 3 --trust-store {store}",
            f"quiver {url}/q0 --hold 2 -d 1 --trust-store {store}",
            f"quiver-arrow send {url}/q0 -c 1 --declare --trust-store {store}",
        ):
            with net.start(line) as running:
                end = running.wait()
            assert end.code == 0, end.stderr
        trunk = f"quiver-server //127.0.0.1:5676/q0 --connect {url} --connect-trust-store {store}"
        with net.space.serving(trunk, 5676) as server:
            wait_until(lambda: "trunk to" in server.stderr_so_far(), "the trunk reports")
            assert "certificate" not in server.stderr_so_far()
