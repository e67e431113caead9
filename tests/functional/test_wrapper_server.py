"""`quiver-server` with a foreign implementation, and with our own."""

import contextlib
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest
from support.processes import free_port, wait_until
from support.server import running_server
from wrapper_fake import fake_implementation  # noqa: F401 (a fixture)

from quiver_fast.cli.server import command as server_command


def test_info(fake):
    assert fake.run("server", "--info").stdout == "fake server 1.0\n"


def test_contract(fake, tmp_path):
    done = fake.run("server", "amqps://h:1/q", "--user", "u", "--password", "p",
                    "--expose-password", "--cert", "c", "--key", "k", "--trust-store", "t",
                    "--ready-file", "r", "--quiet", "--verbose")  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert fake.calls("server") == [[
        ["host=h", "port=1", "path=q", "ready-file=r", "user=u", "password=p", "cert=c", "key=k",
         "trust-store=t", "quiet=1", "verbose=1"], "1",
    ]]  # fmt: skip


def test_defaults(fake):
    assert fake.run("server", "q").returncode == 0
    assert fake.calls("server")[0][0] == ["host=localhost", "port=5672", "path=q", "ready-file=-"]


def test_init_only(fake):
    assert fake.run("server", "q", "--init-only").returncode == 0
    assert not (fake.directory / "server.json").exists()


def test_passwords_need_consent(fake):
    done = fake.run("server", "q", "--user", "u", "--password", "hunter2")
    assert done.returncode == 2
    assert "hunter2" not in done.stderr


def test_failure(fake):
    done = fake.run("server", "q", FAKE_SERVER="fail")
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "fake: no", "quiver-server: error: the server ended: exit code 1",
    ]  # fmt: skip


OURS = {
    "--store": "d", "--durability": "group", "--csp-port": "7", "--queue-limit": "1m",
    "--max-message-size": "0", "--max-connections": "5", "--idle-timeout": "1m",
    "--addresses": "a,b", "--allow-insecure-plain": None, "--no-create": None,
    "--connect": "amqp://h/q", "--roll": "FAST_HOURLY", "--roll-size": "1m", "--retain": "2",
    "--verify": None, "--max-sessions": "5", "--max-links": "5", "--max-frame-size": "4k",
    "--handshake-timeout": "5", "--credit": "5", "--sasl-mechanisms": "ANONYMOUS",
    "--connect-count": "2", "--connect-user": "u", "--connect-trust-store": "t",
    "--connect-password-file": __file__, "--stream-sessions": "shared",
    "--connect-tls-insecure": None, "--max-transactions": "5", "--max-queues": "5",
    "--memory-limit": "1m", "--priorities": "a",
}  # fmt: skip


@pytest.mark.parametrize("flag", OURS)
def test_what_only_our_server_does_is_refused_by_name(fake, flag):
    words = [flag] if OURS[flag] is None else [flag, OURS[flag]]
    done = fake.run("server", "q", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (f"quiver-server: error: implementation 'fake' does not support {flag}\n")
    assert not (fake.directory / "server.json").exists()


def test_a_broker_that_is_not_here(monkeypatch, tmp_path):
    monkeypatch.setenv("RABBITMQ_HOME", str(tmp_path))
    command = [sys.executable, "-m", "quiver_fast.cli.server.command", "--impl", "rabbitmq"]
    told = subprocess.run([*command, "--info"], capture_output=True, text=True, check=True)
    assert told.stdout.splitlines()[-1].startswith("Unavailable: RabbitMQ is not installed")
    done = subprocess.run([*command, "q"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert line.startswith("quiver-server: error: RabbitMQ is not installed")


def test_our_server_takes_all_of_its_options(tmp_path):
    options = OURS | {"--store": str(tmp_path / "store"), "--csp-port": str(free_port())}
    # These go with another server, with queues alone, or with a user: they have tests of their own.
    others = [each for each in options if each.startswith("--connect")]
    for flag in [*others, "--retain", "--allow-insecure-plain"]:
        del options[flag]
    words = [word for option in options.items() for word in option if word is not None]
    with serving(f"//127.0.0.1:{free_port()}/q", tmp_path, "--quiet", *words) as server:
        [child] = psutil.Process(server.pid).children()
        assert {word for word in child.cmdline() if word.startswith("max-")} == {
            "max-message-size=0", "max-connections=5", "max-sessions=5", "max-links=5",
            "max-frame-size=4000", "max-transactions=5", "max-queues=5",
        }  # fmt: skip
        assert ended(server) == (0, "")


@pytest.mark.parametrize("source", ["file", "url", "flag"])
def test_our_server_gets_its_password_unseen(tmp_path, source):
    """It asks for the password that was given, and no command line of a child shows it."""
    port, secret = free_port(), tmp_path / "secret"
    secret.write_text("hunter2\n")
    user = "u:hunter2@" if source == "url" else ""
    words = {
        "file": ["--user", "u", "--password-file", str(secret)],
        "flag": ["--user", "u", "--password", "hunter2"],
        "url": [],
    }[source]
    url = f"amqp://{user}127.0.0.1:{port}/q"
    with serving(url, tmp_path, "--quiet", *words) as server:
        children = psutil.Process(server.pid).children(recursive=True)
        assert children != []
        assert not any("hunter2" in word for child in children for word in child.cmdline())
        assert send(port, "hunter2").returncode == 0
        assert "SASL" in send(port, "wrong").stderr
        assert ended(server) == (0, "")
    assert not any(child.is_running() for child in children)


def test_our_server_connects_to_others_as_it_is_told(tmp_path):
    """With a user whose password no command line shows."""
    secret = tmp_path / "secret"
    secret.write_text("hunter2\n")
    with running_server(tmp_path, user="u", password="hunter2", trunks="u") as other:
        port = free_port()
        words = ["--connect", f"127.0.0.1:{other.port}", "--connect-count", "2",
                 "--connect-user", "u", "--connect-password-file", str(secret)]  # fmt: skip
        with serving(f"//127.0.0.1:{port}/q", tmp_path, "--quiet", *words) as server:
            wait_until(lambda: connections(other.process, other.port) == 2, "both connections")
            [child] = psutil.Process(server.pid).children()
            assert not any("hunter2" in word for word in child.cmdline())
            assert send(port, "any", user="").returncode == 0
            assert ended(server) == (0, "")


def test_the_other_servers_certificate_is_verified(tmp_path, certificates):
    with running_server(tmp_path, scheme="amqps", **certificates.server.keys()) as other:
        url = f"amqps://127.0.0.1:{other.port}"
        with serving(f"//127.0.0.1:{free_port()}/q", tmp_path, "--connect", url) as server:
            said = next(line for line in server.stderr if line.startswith(f"trunk to {url}: "))
    assert "certificate verify failed" in said


def test_the_other_servers_certificate_need_not_be_verified(tmp_path, certificates):
    here = f"//127.0.0.1:{free_port()}/q"
    with running_server(
        tmp_path, scheme="amqps", trunks="*", **certificates.server.keys()
    ) as other:
        url = f"amqps://127.0.0.1:{other.port}"
        sent = transfer("send", f"{url}/q", "--tls-insecure")
        with serving(here, tmp_path, "--connect", url, "--connect-tls-insecure"):
            received = transfer("receive", here)
    assert (sent.returncode, received.returncode) == (0, 0), received.stderr


@contextlib.contextmanager
def serving(url, directory, *words):
    """Run our server; it is told to end at the latest when the block does."""
    ready = directory / "ready"
    command = [
        sys.executable,
        "-m",
        "quiver_fast.cli.server.command",
        url,
        "--ready-file",
        str(ready),
    ]
    with subprocess.Popen([*command, *words], stderr=subprocess.PIPE, text=True) as server:
        try:
            wait_until(lambda: ready.exists() or server.poll() is not None, "the server is ready")
            yield server
        finally:
            server.terminate()


def ended(server):
    """End a server; return its exit code and its output."""
    server.terminate()
    _, errors = server.communicate(timeout=20)
    return server.returncode, errors


def connections(process, port):
    found = process.net_connections("tcp")
    return sum(each.status == "ESTABLISHED" and each.laddr.port == port for each in found)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--connect-password-file", "missing"], "--connect-password-file: "),
        (["--retain", "0"], "--retain: must be at least 1"),
    ],
)
def test_what_our_server_cannot_do_is_said_at_once(capsys, words, reason):
    assert server_command.main(["q", *words]) == 2
    assert reason in capsys.readouterr().err


def send(port, password, user="u"):
    login = f"{user}:{password}@" if user else ""
    return transfer("send", f"amqp://{login}127.0.0.1:{port}/q")


def transfer(operation, *words):
    return subprocess.run(
        [sys.executable, "-m", "quiver_fast.cli.arrow.command", operation, "--count", "10", *words],
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip


def test_a_killed_servers_end_is_told(fake, tmp_path):
    ready = tmp_path / "ready"
    process = fake.start("server", "q", "--ready-file", str(ready), FAKE_SERVER="stay")
    wait_until(ready.exists, "the server is ready")
    [child] = psutil.Process(process.pid).children()
    os.kill(child.pid, signal.SIGKILL)
    _, errors = process.communicate(timeout=10)
    assert process.returncode == 1
    assert errors == "quiver-server: error: the server ended: killed by SIGKILL\n"
    assert not ready.exists()


def test_a_killed_wrapper_leaves_no_server(fake, tmp_path):
    ready = tmp_path / "ready"
    process = fake.start("server", "q", "--ready-file", str(ready), FAKE_SERVER="stay")
    wait_until(ready.exists, "the server is ready")
    children = psutil.Process(process.pid).children()
    process.kill()
    process.communicate(timeout=10)
    _, left = psutil.wait_procs(children, 10)
    assert left == []


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_server_in_order(fake, tmp_path, signum):
    """A service manager's or a container's stop is no failure."""
    ready = tmp_path / "ready"
    process = fake.start("server", "q", "--ready-file", str(ready), FAKE_SERVER="stay")
    deadline = time.monotonic() + 20
    while not (ready.exists() and ready.read_text() == "ready\n"):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signum)
    process.communicate(timeout=10)
    assert process.returncode == 0
