"""`make help`, and `make install` and `make uninstall` into folders of their own."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
INSTALL = "buildtools/install.sh"


def make(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(
        ["make", *arguments],
        cwd=cwd, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        check=False,
    )  # fmt: skip


def test_help_lists_every_target() -> None:
    makefile = (ROOT / "Makefile").read_text()
    phony = re.search(r"^\.PHONY: (.*?[^\\])$", makefile, re.MULTILINE | re.DOTALL)
    assert phony is not None
    targets = set(phony[1].replace("\\\n", " ").split()) - {"FORCE"}
    listed = set(re.findall(r"^  ([a-z]+) ", make("help").stdout, re.MULTILINE))
    assert listed == targets


def test_staging_is_refused() -> None:
    result = make("install", "DESTDIR=/stage")
    assert result.returncode == 2
    assert "DESTDIR is not supported" in result.stderr


def run_install(prefix: Path, *arguments: str, home: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PREFIX": str(prefix), "QUIVER_HOME": home, "PYTHON": "python3"}
    return subprocess.run(
        ["sh", INSTALL, *arguments],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
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


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_installs_and_uninstalls(
    tmp_path: Path, copy_tree: Callable[[Path], Path], engine_sdist: Path
) -> None:
    tree = copy_tree(tmp_path / "tree")
    prefix, upstream = tmp_path / "prefix", tmp_path / "upstream"
    (upstream / "impls").mkdir(parents=True)
    (upstream / "impls" / "quiver-arrow-rhea").touch()
    options = [
        f"PREFIX={prefix}", f"QUIVER_HOME={upstream}", f"QUIVER_FAST_PROTON_SDIST={engine_sdist}"
    ]  # fmt: skip
    installed = make("install", *options, cwd=tree)
    assert installed.returncode == 0, installed.stderr
    # Neither the tree nor its virtual environment may be needed any more.
    tree.rename(tmp_path / "moved")
    for command in (prefix / "bin" / "quiver", prefix / "bin" / "quiver-arrow"):
        subprocess.run([command, "--version"], check=True, cwd=tmp_path, capture_output=True)
    told = subprocess.run(
        [upstream / "impls" / "quiver-arrow-pyfast"],
        check=True, cwd=tmp_path, capture_output=True, text=True, env={"PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert "0.40.0" in told.stdout
    removed = make("uninstall", *options, cwd=tmp_path / "moved")
    assert removed.returncode == 0, removed.stderr
    assert [path for path in prefix.rglob("*") if not path.is_dir()] == []
    assert [path.name for path in (upstream / "impls").iterdir()] == ["quiver-arrow-rhea"]
