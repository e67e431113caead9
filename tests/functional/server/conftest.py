"""A server and clients for each test."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.bystander import Bystander
from support.clients import Clients
from support.server import Server, connected, running_server

from quiver_fast.conform.wire.client import FrameClient


@pytest.fixture(scope="module")
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """One server for a module's tests; each uses addresses of its own.

    A module may have an ``ENVIRONMENT`` for it. The container of `EngineClient` may be a trunk.
    """
    environment = getattr(request.module, "ENVIRONMENT", None)
    with running_server(
        tmp_path_factory.mktemp("server"), environment=environment, trunks="engine-client"
    ) as server:
        yield server


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Server]]:
    """Two servers for a module's tests, the second connected to the first."""
    with connected(tmp_path_factory.mktemp("trunk")) as both:
        yield both


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Start servers of the test's own, with keys of the contract."""
    with contextlib.ExitStack() as stack:
        yield lambda **keys: stack.enter_context(running_server(tmp_path, **keys))


@pytest.fixture
def address(request: pytest.FixtureRequest) -> str:
    """A queue that no other test uses."""
    return str(request.node.name)


@pytest.fixture
def clients(server: Server) -> Iterator[Clients]:
    """Clients of the module's server."""
    with Clients(server.port) as clients:
        yield clients


@pytest.fixture(scope="module")
def bystander(server: Server) -> Iterator[Bystander]:
    """A client of the module's server that no other one may harm."""
    found = Bystander(server.port)
    with found.client:
        yield found


@pytest.fixture
def client(server: Server, bystander: Bystander) -> Iterator[FrameClient]:
    """A new connection; the server and the bystander go on after everything that it does."""
    with FrameClient(server.port) as connection:
        yield connection
    bystander.check()


@pytest.fixture
def connect(start: Callable[..., Server]) -> Iterator[Callable[..., tuple[Server, Clients]]]:
    """Start a server of the test's own, and give clients of it as well."""
    with contextlib.ExitStack() as stack:

        def begin(**keys: object) -> tuple[Server, Clients]:
            server = start(**keys)
            return server, stack.enter_context(Clients(server.port))

        yield begin
