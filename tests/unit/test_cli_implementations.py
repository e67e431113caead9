import pytest

from quiver_fast.cli.shared.implementations import (
    all_arrows,
    all_servers,
    find_arrow,
    find_server,
)
from quiver_fast.errors import UsageError
from quiver_fast.options.server import SERVER_EXTENSIONS
from quiver_fast.own_process import own_command


def make(directory, *names):
    directory.mkdir(parents=True, exist_ok=True)
    for name in names:
        file = directory / name
        file.write_text("#!/bin/sh\n")
        file.chmod(0o755)
    return str(directory)


def test_pyfast_is_this_installation():
    found = find_arrow("pyfast", {})
    assert found.command == own_command("quiver_fast.arrow.main")
    assert found.extensions


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("artemis-jms", "activemq-artemis-jms"), ("jms", "qpid-jms"), ("c", "qpid-proton-c"),
        ("cpp", "qpid-proton-cpp"), ("python", "qpid-proton-python"), ("py", "qpid-proton-python"),
        ("protonj2", "qpid-protonj2"), ("proton-dotnet", "qpid-proton-dotnet"),
        ("dotnet", "qpid-proton-dotnet"), ("javascript", "rhea"), ("js", "rhea"),
        ("java", "vertx-proton"), ("rhea", "rhea"), ("mine", "mine"),
    ],
)  # fmt: skip
def test_aliases(alias, name, tmp_path):
    path = make(tmp_path, f"quiver-arrow-{name}")
    found = find_arrow(alias, {"QUIVER_IMPL_PATH": path})
    assert (found.name, found.command) == (name, (f"{tmp_path}/quiver-arrow-{name}",))
    assert not found.extensions


@pytest.mark.parametrize(
    ("alias", "name"),
    [("artemis", "activemq-artemis"), ("qdrouterd", "qpid-dispatch"),
     ("dispatch", "qpid-dispatch"), ("builtin", "builtin")],
)  # fmt: skip
def test_server_aliases(alias, name, tmp_path):
    make(tmp_path / "impls", f"quiver-server-{name}")
    assert find_server(alias, {"QUIVER_HOME": str(tmp_path)}).name == name


def test_peer_to_peer_knowledge(tmp_path):
    names = ["qpid-proton-c", "qpid-proton-cpp", "qpid-proton-python", "rhea", "qpid-jms"]
    environ = {"QUIVER_IMPL_PATH": make(tmp_path, *(f"quiver-arrow-{name}" for name in names))}
    assert [find_arrow(name, environ).client_only for name in names] == [False] * 4 + [True]


def test_the_path_comes_before_home_and_in_order(tmp_path):
    first, second = (make(tmp_path / d, "quiver-arrow-x") for d in ("a", "b"))
    make(tmp_path / "home/impls", "quiver-arrow-x")
    environ = {"QUIVER_IMPL_PATH": f"{first}::{second}", "QUIVER_HOME": str(tmp_path / "home")}
    assert find_arrow("x", environ).command == (f"{first}/quiver-arrow-x",)
    del environ["QUIVER_IMPL_PATH"]
    assert find_arrow("x", environ).command == (f"{tmp_path}/home/impls/quiver-arrow-x",)


def test_a_file_that_is_not_executable_is_no_implementation(tmp_path):
    path = make(tmp_path, "quiver-arrow-x")
    (tmp_path / "quiver-arrow-x").chmod(0o644)
    with pytest.raises(UsageError, match=f"no implementation 'quiver-arrow-x' found .{path}"):
        find_arrow("x", {"QUIVER_IMPL_PATH": path})


def test_no_search_path():
    with pytest.raises(UsageError, match="QUIVER_IMPL_PATH and QUIVER_HOME are not set"):
        find_arrow("c", {})


def test_our_server_is_this_installation():
    found = find_server("pyfast", {})
    assert found.command == own_command("quiver_fast.server.main")
    assert found.extensions
    assert found.keys == SERVER_EXTENSIONS
    assert found.unavailable is None


@pytest.mark.parametrize(
    "alias",
    ["rabbitmq", "rabbitmq4", "artemis", "activemq-classic", "broker-j", "skrouterd"],
)
def test_a_launcher_says_whether_its_broker_is_here(alias, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("RABBITMQ_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found = find_server(alias, {})
    assert found.command[:2] == own_command("any")[:2]
    assert found.extensions
    assert found.keys == frozenset()
    assert len(found.unavailable.splitlines()) == 1


def test_the_users_own_launcher_comes_first(tmp_path):
    path = make(tmp_path, "quiver-server-rabbitmq")
    found = find_server("rabbitmq", {"QUIVER_IMPL_PATH": path})
    assert found.command == (f"{tmp_path}/quiver-server-rabbitmq",)
    assert (found.extensions, found.unavailable) == (False, None)


def test_everything_that_is_found(tmp_path):
    names = ["quiver-arrow-mine", "quiver-arrow-rhea", "quiver-server-mine", "other"]
    environ = {"QUIVER_IMPL_PATH": make(tmp_path, *names)}
    assert [one.name for one in all_arrows(environ)] == ["mine", "pyfast", "rhea"]
    assert [one.name for one in all_servers(environ)] == [
        "activemq-artemis", "activemq-classic", "mine", "pyfast", "qpid-broker-j", "rabbitmq",
        "rabbitmq-4", "skrouterd",
    ]  # fmt: skip


def test_our_server_in_an_upstream_tree_is_ours(tmp_path):
    """`make install` gives it another name there: upstream's arrows and servers share a table."""
    home = tmp_path / "impls"
    make(home, "quiver-arrow-pyfast", "quiver-server-pyfast-server")
    environ = {"QUIVER_HOME": str(tmp_path)}
    assert "pyfast-server" not in [one.name for one in all_servers(environ)]
    assert find_server("pyfast-server", environ) == find_server("pyfast", environ)
