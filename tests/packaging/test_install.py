"""`make help`, and `make install` and `make uninstall` into folders of their own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from buildtools import manual
from buildtools.proton_engine import VERSION

ROOT = Path(__file__).resolve().parents[2]
INSTALL = ROOT / "buildtools" / "install.sh"


def make(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(
        ["make", *arguments],
        cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        check=False,
    )  # fmt: skip


def test_help_lists_every_target() -> None:
    makefile = (ROOT / "Makefile").read_text()
    phony = re.search(r"^\.PHONY: (.*?[^\\])$", makefile, re.MULTILINE | re.DOTALL)
    assert phony is not None
    targets = set(phony[1].replace("\\\n", " ").split()) - {"FORCE"}
    listed = set(re.findall(r"^  ([a-z-]+) ", make("help").stdout, re.MULTILINE))
    assert listed == targets


def test_staging_is_refused() -> None:
    result = make("install", "DESTDIR=/stage")
    assert result.returncode == 2
    assert "DESTDIR is not supported" in result.stderr


def run_install(
    prefix: Path, *arguments: str, home: str = "", cwd: Path = ROOT
) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ, "PREFIX": str(prefix), "QUIVER_HOME": home, "PYTHON": sys.executable
    }  # fmt: skip
    environment.pop("PYTHONPATH", None)
    return subprocess.run(
        ["sh", INSTALL, *arguments],
        cwd=cwd, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_a_foreign_quiver_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    foreign = tmp_path / "bin" / "quiver"
    foreign.write_text("upstream")
    result = run_install(tmp_path)
    assert result.returncode == 1
    assert result.stderr == (
        f"quiver-fast: {foreign} is not ours (upstream's quiver?); choose another PREFIX\n"
    )
    assert run_install(tmp_path, "--remove").returncode == 0
    assert foreign.read_text() == "upstream"


def test_wrong_folders_are_refused(tmp_path: Path) -> None:
    assert "must be an absolute path" in run_install(Path("relative")).stderr
    assert "has no folder impls" in run_install(tmp_path, home=str(tmp_path)).stderr


# Fetches what the wheel needs; the gate has `make install` and `make uninstall` of its own.
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_installs_and_uninstalls(wheel: Path, tmp_path: Path) -> None:
    # The arguments of the script from `make install`: a built wheel, and a pip for downloads.
    tree, prefix, upstream = (tmp_path / name for name in ("tree", "prefix", "upstream"))
    (tree / "dist").mkdir(parents=True)
    shutil.copy(wheel, tree / "dist")
    (tree / ".venv").symlink_to(sys.prefix)
    (upstream / "impls").mkdir(parents=True)
    (upstream / "impls" / "quiver-arrow-rhea").touch()

    installed = run_install(prefix, home=str(upstream), cwd=tree)
    assert installed.returncode == 0, installed.stderr
    shutil.rmtree(tree)  # nothing of it may be needed any more
    plain = {"PATH": "/usr/bin:/bin"}
    for command in (prefix / "bin" / "quiver", prefix / "bin" / "quiver-arrow"):
        assert run([command, "--version"], tmp_path, plain).returncode == 0
    for place, text in manual.files().items():
        assert (prefix / "share" / place).read_text() == text
    told = run([upstream / "impls" / "quiver-arrow-pyfast"], tmp_path, plain)
    assert VERSION in told.stdout, told.stderr
    told = run([upstream / "impls" / "quiver-server-pyfast-server"], tmp_path, plain)
    assert "queues" in told.stdout, told.stderr

    removed = run_install(prefix, "--remove", home=str(upstream))
    assert removed.returncode == 0, removed.stderr
    assert [path for path in prefix.rglob("*") if not path.is_dir()] == []
    assert [path.name for path in (upstream / "impls").iterdir()] == ["quiver-arrow-rhea"]


def run(
    command: list[str | Path], cwd: Path, environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
