"""The files that put the server into a container, a service and other people's CI.

No tool that builds containers is needed: what the files name is looked up in the project.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from support.processes import REPOSITORY

from quiver_fast.cli.server.command import make_parser

CONTAINER = (REPOSITORY / "Containerfile").read_text()
SERVICE = REPOSITORY / "examples" / "quiver-server.service"
WORKFLOWS = sorted((REPOSITORY / ".github" / "workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z-]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))


def instructions() -> list[tuple[str, str]]:
    """Return the instructions of the Containerfile, each with its words."""
    text = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", CONTAINER, flags=re.MULTILINE))
    lines = [line for line in text.splitlines() if line]
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in lines)]


def words_of(name: str) -> list[str]:
    return [rest for each, rest in instructions() if each == name]


def test_the_container_runs_as_nobody_special() -> None:
    assert {name for name, _ in instructions()} == {
        "CMD", "COPY", "ENV", "EXPOSE", "FROM", "RUN", "USER", "VOLUME", "WORKDIR",
    }  # fmt: skip
    assert words_of("USER") == ["quiver"]
    last = [name for name, _ in instructions()]
    assert last.index("USER") > max(at for at, name in enumerate(last) if name == "RUN")


def test_the_container_is_built_as_the_project_is() -> None:
    made = set(re.findall(r"(?:^|; |&& )make ([a-z]+)", "; ".join(words_of("RUN"))))
    assert made == {"wheel"}
    assert made <= TARGETS
    stages = words_of("FROM")
    assert len({stage.split(" ")[0] for stage in stages}) == 1, "Python must be the same in both"


def test_the_container_starts_our_server() -> None:
    (command,) = words_of("CMD")
    check_server(re.findall(r'"([^"]*)"', command))


def test_the_service_starts_our_server() -> None:
    (line,) = re.findall(r"^ExecStart=(.*)$", SERVICE.read_text(), re.MULTILINE)
    check_server(shlex.split(line))


def check_server(words: list[str]) -> None:
    """The started command is `quiver-server`, whose queues are kept."""
    assert Path(words[0]).name == "quiver-server"
    args = make_parser().parse_args(words[1:])
    assert args.store.startswith("/var/lib/quiver/")
    assert args.durability == "group"


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


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_run_what_is_there(path: Path) -> None:
    jobs = yaml.safe_load(path.read_text())["jobs"]
    steps = [step for job in jobs.values() for step in job["steps"]]
    for step in steps:
        assert set(step) & {"run", "uses"}
        command = step.get("run", "")
        for target in re.findall(r"\bmake ([a-z-]+)", command):
            assert target in TARGETS
        for script in re.findall(r"\.ci/\w+", command):
            assert (REPOSITORY / script).is_file()
        assert re.fullmatch(r"[\w/-]+@v[\d.]+", step.get("uses", "a/b@v1"))


def test_there_are_workflows() -> None:
    assert [path.name for path in WORKFLOWS] == ["ci.yml", "site.yml", "wheels.yml"]
