"""The files that put the server into a container, a service and other people's CI.

No tool that builds containers is needed: what the files name is looked up in the project.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pytest
import yaml
from support.processes import REPOSITORY, free_port, wait_until

from quiver_fast.api import Server, measure
from quiver_fast.cli.server.command import make_parser
from quiver_fast.queuefile import durability

CONTAINER = (REPOSITORY / "Containerfile").read_text()
SERVE = REPOSITORY / "examples" / "quiver-serve"
SERVICE = REPOSITORY / "examples" / "quiver-server.service"
WORKFLOWS = sorted((REPOSITORY / ".github" / "workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z-]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))


def instructions() -> list[tuple[str, str]]:
    """Return the instructions of the Containerfile, each with its words."""
    text = re.sub(r"\\\n", "", re.sub(r"^#.*\n", "", CONTAINER, flags=re.MULTILINE))
    lines = [line for line in text.splitlines() if line]
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in lines)]


def words_of(name: str) -> list[str]:
    return [rest for each, rest in instructions() if each == name]


def test_the_container_runs_as_nobody_special() -> None:
    assert {name for name, _ in instructions()} == {
        "CMD", "COPY", "ENV", "EXPOSE", "FROM", "HEALTHCHECK", "RUN", "USER", "VOLUME", "WORKDIR",
    }  # fmt: skip
    (user,) = words_of("USER")
    assert f"useradd --system --uid {user} " in "; ".join(words_of("RUN"))
    last = [name for name, _ in instructions()]
    assert last.index("USER") > max(at for at, name in enumerate(last) if name == "RUN")


def test_the_container_is_built_as_the_project_is() -> None:
    made = set(re.findall(r"(?:^|; |&& )make ([a-z]+)", "; ".join(words_of("RUN"))))
    assert made == {"wheel"}
    assert made <= TARGETS
    stages = words_of("FROM")
    assert len({stage.split(" ")[0] for stage in stages}) == 1, "Python must be the same in both"


def started(path: Path, *words: str, **variables: str) -> tuple[list[str], str]:
    """Run the image's default command; return the command that it starts, and what it says."""
    program = path / "quiver-server"
    program.write_text('#!/bin/sh\nprintf "%s\\n" quiver-server "$@"\n')
    program.chmod(0o755)
    env = {"PATH": f"{path}:{os.environ['PATH']}", **variables}
    end = subprocess.run(
        [SERVE, *words], env=env, capture_output=True, text=True, check=True, timeout=30
    )
    return end.stdout.splitlines(), end.stderr


def test_the_container_starts_our_server(tmp_path: Path) -> None:
    """It serves other machines only if there is a user."""
    (command,) = words_of("CMD")
    assert json.loads(command) == [SERVE.name]
    assert f"examples/{SERVE.name} /usr/local/bin/{SERVE.name}" in words_of("COPY")
    words, said = started(tmp_path)
    check_server(words, "127.0.0.1")
    assert said == "quiver-serve: there is no QUIVER_USER, so only this machine is served\n"
    # An unset variable in a compose file is an empty one.
    assert started(tmp_path, QUIVER_USER="") == (words, said)
    words, said = started(tmp_path, "--cert", "a b", QUIVER_USER="alice")
    assert said == ""
    args = check_server(words, "0.0.0.0")
    assert (args.user, args.cert) == ("alice", "a b")
    assert args.password_file == "/run/secrets/quiver-password"
    words, _ = started(tmp_path, QUIVER_USER="alice", QUIVER_PASSWORD_FILE="/p")
    assert words[words.index("--password-file") + 1] == "/p"


def test_the_health_check_tells_a_server_from_a_dead_port() -> None:
    (check,) = words_of("HEALTHCHECK")
    words = json.loads(check[check.index("[") :])
    assert words[0] == "python"

    def health(port: int) -> int:
        script = words[2].replace("5672", str(port))
        return subprocess.run([sys.executable, "-c", script], capture_output=True).returncode

    with Server() as server:
        assert health(server.port) == 0
    assert health(server.port) == 1


def test_the_service_starts_our_server() -> None:
    (line,) = re.findall(r"^ExecStart=(.*)$", SERVICE.read_text(), re.MULTILINE)
    check_server(shlex.split(line), "127.0.0.1")
    # And the lines for a user, in its comment.
    lines = re.search(r"^#   (ExecStart=/.*\\\n#.*)$", SERVICE.read_text(), re.MULTILINE)
    assert lines is not None
    words = shlex.split(lines[1].replace("\\\n#", "").removeprefix("ExecStart="))
    args = check_server(words, "0.0.0.0")
    assert (args.user, args.password_file) == ("alice", "%d/password")


def check_server(words: list[str], host: str) -> Namespace:
    """The started command is `quiver-server`, whose queues are kept; return its arguments."""
    assert Path(words[0]).name == "quiver-server"
    args = make_parser().parse_args(words[1:])
    assert args.store.startswith("/var/lib/quiver/")
    assert args.durability == "group"
    assert words[1] == f"//{host}/q0"
    return args


def test_the_service_is_bounded() -> None:
    lines = SERVICE.read_text().splitlines()
    for line in ("MemoryMax=75%", "LimitCORE=0", "ProcSubset=pid", "UMask=0077"):
        assert line in lines
    # The kernel's file is hidden by ProcSubset, and recovery compares boot ids.
    assert "Environment=QUIVER_BOOT_ID=%b" in lines


def test_the_boot_id_may_come_from_the_unit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = "01234567-89ab-cdef-0123-456789abcdef"
    kernel = tmp_path / "boot_id"
    kernel.write_text(words + "\n")
    monkeypatch.setattr(durability, "BOOT_ID", kernel)
    number = durability.boot_id()
    assert number != 0
    kernel.unlink()
    for text, expected in ((words.replace("-", ""), number), ("", 0), ("%b", 0)):
        monkeypatch.setenv("QUIVER_BOOT_ID", text)
        assert durability.boot_id() == expected


def test_the_service_is_one_that_systemd_takes(tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not installed")
    unit = tmp_path / SERVICE.name
    command = "ExecStart=/bin/true "
    unit.write_text(re.sub(r"^ExecStart=\S+ ", command, SERVICE.read_text(), flags=re.MULTILINE))
    end = subprocess.run(
        [program, "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False
    )
    ours = [line for line in end.stderr.splitlines() if SERVICE.name in line]
    assert (end.returncode, ours) == (0, []), end.stderr
    # Its score of exposure is 1.5 of 10.
    words = [program, "security", "--offline=true", "--threshold=20", str(unit)]
    assert subprocess.run(words, capture_output=True).returncode == 0


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze")
def test_the_service_allows_what_the_server_calls(tmp_path: Path) -> None:
    def calls(group: str) -> set[str]:
        words = ["systemd-analyze", "syscall-filter", group]
        text = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        names = re.findall(r"^\s+(@?[\w-]+)$", text, re.MULTILINE)
        return set().union(*(calls(each) if each[0] == "@" else {each} for each in names))

    allowed: set[str] = set()
    for word in re.findall(r"^SystemCallFilter=(\S+)$", SERVICE.read_text(), re.MULTILINE):
        allowed = allowed - calls(word[1:]) if word[0] == "~" else allowed | calls(word)
    trace, port = tmp_path / "trace", free_port()
    words = [
        "strace", "-D", "-f", "-qq", "-o", str(trace),
        sys.executable, "-m", "quiver_fast.server.main",
        "host=127.0.0.1", f"port={port}", "path=q0", f"store={tmp_path / 'store'}",
        "durability=group", f"ready-file={tmp_path / 'ready'}",
    ]  # fmt: skip
    with subprocess.Popen(words, stderr=subprocess.DEVNULL) as server:
        try:
            wait_until((tmp_path / "ready").exists, "the server is ready")
            measure(f"//127.0.0.1:{port}/q0", count=100, durable=True)
        finally:
            server.terminate()
    made = set(re.findall(r"^\d+ +(\w+)\(", trace.read_text(), re.MULTILINE))
    assert "fdatasync" in made
    assert made - allowed == set()
    assert "PROT_WRITE|PROT_EXEC" not in trace.read_text(), "MemoryDenyWriteExecute"


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_run_what_is_there(path: Path) -> None:
    jobs = yaml.safe_load(path.read_text())["jobs"]
    steps = [step for job in jobs.values() for step in job["steps"]]
    for step in steps:
        assert set(step) & {"run", "uses"}
        command = step.get("run", "")
        for target in re.findall(r"\bmake ([a-z-]+)", command):
            assert target in TARGETS
        for script in re.findall(r"\.ci/[\w.]+", command):
            assert (REPOSITORY / script).is_file()
        assert re.fullmatch(r"[\w/-]+@v[\d.]+", step.get("uses", "a/b@v1"))


def test_there_are_workflows() -> None:
    assert [path.name for path in WORKFLOWS] == ["ci.yml", "nightly.yml", "site.yml", "wheels.yml"]
