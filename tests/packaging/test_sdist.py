"""The source distribution has everything that a build needs."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Files that only the repository needs.
LEFT_OUT = {".gitignore"}


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory, copy_tree: Callable[[Path], Path]) -> Path:
    scratch = tmp_path_factory.mktemp("sdist")
    tree = copy_tree(scratch / "tree")
    # The requirements of the build are here: nothing is fetched, unlike in `make sdist`.
    options = ["--sdist", "--no-isolation", "--outdir", scratch / "dist"]
    subprocess.run(
        [sys.executable, "-m", "build", *options, tree],
        check=True, capture_output=True, cwd=scratch,
    )  # fmt: skip
    [path] = (scratch / "dist").glob("*.tar.gz")
    return path


@pytest.mark.timeout(300)
def test_has_every_file_of_the_repository(sdist: Path) -> None:
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("this tree is no repository, or git is not installed")
    # The checkout may belong to another user than the one who tests.
    listed = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    with tarfile.open(sdist) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    assert {name for name in listed.stdout.splitlines() if name not in LEFT_OUT} - packed == set()
    assert [name for name in packed if name.endswith((".so", ".o", ".pyc"))] == []


def untagged(wheel: Path) -> list[str]:
    """Return the names in a wheel without what tells its Python."""
    with zipfile.ZipFile(wheel) as archive:
        return sorted(re.sub(r"\.cpython-\d+-", ".cpython-", name) for name in archive.namelist())


@dataclass
class Builder:
    """Builds the sdist's wheel, and uses it where nothing else is."""

    build_wheel: Callable[..., Path]
    make_venv: Callable[..., Path]
    check_elsewhere: Callable[[Path, Path], None]

    def build_and_check(self, sdist: Path, wheel: Path, python: str, folder: Path) -> None:
        built = self.build_wheel(sdist, folder / "dist", python)
        assert untagged(built) == untagged(wheel)
        self.check_elsewhere(self.make_venv(folder / "venv", built, python), folder)


@pytest.fixture
def builder(
    build_wheel: Callable[..., Path],
    make_venv: Callable[..., Path],
    check_elsewhere: Callable[[Path, Path], None],
) -> Builder:
    return Builder(build_wheel, make_venv, check_elsewhere)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_builds_a_wheel_that_works_on_the_oldest_python(
    sdist: Path, wheel: Path, builder: Builder, oldest_python: str, tmp_path: Path
) -> None:
    builder.build_and_check(sdist, wheel, oldest_python, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_builds_a_wheel_that_works_on_the_newest_python(
    sdist: Path, wheel: Path, builder: Builder, newest_python: str, tmp_path: Path
) -> None:
    builder.build_and_check(sdist, wheel, newest_python, tmp_path)
