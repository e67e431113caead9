"""Fixtures of the packaging tests: the wheel, and a copy of the tree for builds."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from buildtools import proton_engine

ROOT = Path(__file__).resolve().parents[2]
CHECK = Path(__file__).with_name("check_wheel.py")
GENERATED = (
    ".git", ".venv", "build", "dist", "wheelhouse", "node_modules", "__pycache__", "*.egg-info",
    "*.so", ".*_cache", ".hypothesis", ".benchmarks",
)  # fmt: skip


@pytest.fixture(scope="session")
def engine_sdist() -> Path:
    """The engine's sdist, from the build's cache or fetched into it once."""
    return proton_engine.obtain_sdist(ROOT / "build" / "engine").resolve()


@pytest.fixture(scope="session")
def copy_tree() -> Callable[[Path], Path]:
    """Return a function that copies the project's sources, and nothing built, to a folder."""

    def copy(target: Path) -> Path:
        shutil.copytree(ROOT, target, ignore=shutil.ignore_patterns(*GENERATED))
        return target

    return copy


@pytest.fixture(scope="session")
def build_wheel(engine_sdist: Path, quick_compiler: Path) -> Callable[..., Path]:
    """Return a function that builds the wheel of a source tree or sdist.

    pip does so in isolation, unless an option for it says otherwise.
    """

    def build(
        source: Path, output: Path, python: str = sys.executable, *options: str, **changes: str
    ) -> Path:
        # The wheel that make builds is fast; these need not take its time.
        quick = {"CC": str(quick_compiler)}
        given = {"QUIVER_FAST_PROTON_SDIST": str(engine_sdist)}
        environment = {**os.environ, **given, **quick, **changes}
        environment.pop("PYTHONPATH", None)
        command = [python, "-m", "pip", "wheel", "--quiet", "--no-deps", *options]
        result = subprocess.run(
            [*command, "--wheel-dir", output, source],
            env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert result.returncode == 0, result.stdout + result.stderr
        [wheel] = output.glob("*.whl")
        return wheel

    return build


@pytest.fixture(scope="session")
def wheel(
    tmp_path_factory: pytest.TempPathFactory,
    copy_tree: Callable[[Path], Path],
    build_wheel: Callable[..., Path],
) -> Path:
    """The wheel under test: `QUIVER_FAST_WHEEL` as make sets it, else one built now."""
    given = os.environ.get("QUIVER_FAST_WHEEL")
    if given:
        return Path(given)
    scratch = tmp_path_factory.mktemp("wheel")
    return build_wheel(copy_tree(scratch / "tree"), scratch / "dist")


@pytest.fixture(scope="session")
def make_venv() -> Callable[..., Path]:
    """Return a function that makes a virtual environment and installs a wheel into it."""

    def make(folder: Path, wheel: Path, python: str = sys.executable) -> Path:
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        subprocess.run([python, "-m", "venv", folder], check=True, env=environment)
        own = folder / "bin" / "python"
        command = [own, "-m", "pip", "install", "--quiet", wheel]
        result = subprocess.run(
            command, capture_output=True, text=True, check=False, env=environment
        )
        assert result.returncode == 0, result.stderr
        return own

    return make


@pytest.fixture(scope="session")
def check_elsewhere() -> Callable[[Path, Path], None]:
    """Return a function that runs check_wheel.py with the source tree out of reach."""

    def check(python: Path, folder: Path) -> None:
        script = shutil.copy(CHECK, folder)
        result = subprocess.run(
            [python, "-I", script], cwd=folder, capture_output=True, text=True, check=False
        )
        assert result.returncode == 0, result.stdout + result.stderr

    return check


def find_python(minor: int) -> str | None:
    """Return a Python 3.``minor`` from PATH, or from where this one's siblings are."""
    name = f"python3.{minor}"
    beside = sorted(Path(sys.base_prefix).parent.glob(f"*/bin/{name}"))
    for candidate in [shutil.which(name), *map(str, beside)]:
        # A version manager's shim on PATH may stand for a Python that is not there.
        if candidate and succeeds([candidate, "-c", "import ensurepip, venv"]):
            return candidate
    return None


def succeeds(command: list[str]) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.fixture(scope="session")
def oldest_python() -> str:
    """The oldest supported Python here besides this one; else this one."""
    return next(other_pythons(range(10, 14)), sys.executable)


@pytest.fixture(scope="session")
def newest_python() -> str:
    """The newest supported Python here besides this one; else this one."""
    return next(other_pythons(range(13, 9, -1)), sys.executable)


def other_pythons(minors: Iterable[int]) -> Iterator[str]:
    """Yield the Pythons here besides this one, in an order of their versions."""
    found = (find_python(minor) for minor in minors if minor != sys.version_info.minor)
    return (python for python in found if python)


@pytest.fixture(scope="session")
def quick_compiler(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A compiler that does not optimise, for builds that need not be fast."""
    script = tmp_path_factory.mktemp("compiler") / "cc"
    script.write_text('#!/bin/bash\nexec cc "${@/#-O[23]/-O0}"\n')
    script.chmod(0o755)
    return script
