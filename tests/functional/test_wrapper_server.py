"""`quiver-server` with a foreign implementation."""

import signal
import time

import pytest
from wrapper_fake import fake_implementation  # noqa: F401 (a fixture)


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
        "fake: no", "quiver-server: error: the server ended with exit code 1",
    ]  # fmt: skip


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals(fake, tmp_path, signum, code):
    ready = tmp_path / "ready"
    process = fake.start("server", "q", "--ready-file", str(ready), FAKE_SERVER="stay")
    deadline = time.monotonic() + 20
    while not (ready.exists() and ready.read_text() == "ready\n"):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signum)
    process.communicate(timeout=10)
    assert process.returncode == code
