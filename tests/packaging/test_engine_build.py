"""The ways to build the engine, each compiled for real."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from buildtools import proton_engine

ROOT = Path(__file__).resolve().parents[2]

LIBRARY_NAME = "libquiver-proton.so"
COMPILE = """
from pathlib import Path
from buildtools import proton_engine, shared_library
target = Path({!r})
shared_library.compile_library(proton_engine.library(target.parent), target)
"""


def run_python(source: str, path: Path, **environment: str) -> str:
    """Run Python code with modules from ``path``; return its output."""
    result = subprocess.run(
        [sys.executable, "-c", source],
        env={**os.environ, "PYTHONPATH": str(path), **environment},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


@pytest.fixture
def compile_engine(engine_sdist: Path, quick_compiler: Path) -> Callable[..., None]:
    """Return a function that compiles the engine."""
    quick = {
        "QUIVER_FAST_PROTON_SDIST": str(engine_sdist), "CC": str(quick_compiler),
    }  # fmt: skip

    def compile_it(target: Path, **environment: str) -> None:
        run_python(COMPILE.format(str(target)), ROOT, **{**quick, **environment})

    return compile_it


@pytest.mark.slow
def test_compiles_without_a_network(compile_engine: Callable[..., None], tmp_path: Path) -> None:
    target = tmp_path / LIBRARY_NAME
    compile_engine(target, PIP_NO_INDEX="1", PIP_FIND_LINKS=str(tmp_path))
    assert target.stat().st_size > 100_000


def without_openssl(folder: Path, compiler: Path) -> Path:
    """Return a compiler for which OpenSSL is not installed."""
    path = folder / "cc-without-openssl"
    path.write_text(f'#!/bin/sh\ncase "$*" in *-lssl*) exit 1 ;; esac\nexec {compiler} "$@"\n')
    path.chmod(0o755)
    return path


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_links_a_system_engine_and_does_without_openssl(
    compile_engine: Callable[..., None],
    quick_compiler: Path,
    tmp_path: Path,
    copy_tree: Callable[[Path], Path],
    build_wheel: Callable[..., Path],
) -> None:
    library = tmp_path / "lib" / LIBRARY_NAME
    compile_engine(library)
    include = library.parent / f"qpid-proton-{proton_engine.VERSION}" / "include"
    (tmp_path / "libqpid-proton-core.pc").write_text(
        "Name: Proton\nDescription: a system engine for this test\n"
        f"Version: {proton_engine.VERSION}\n"
        f"Libs: -L{library.parent} -lquiver-proton -Wl,-rpath,{library.parent}\n"
        f"Cflags: -I{include}\n"
    )
    tree = copy_tree(tmp_path / "tree")
    # Cython's output is the same for every engine.
    for translated in (ROOT / "build").glob("cython-*"):
        shutil.copytree(translated, tree / "build" / translated.name)
    built = build_wheel(
        tree,
        tmp_path / "dist",
        sys.executable,
        "--no-build-isolation",
        QUIVER_FAST_PROTON="system",
        QUIVER_FAST_TLS="0",
        CC=str(without_openssl(tmp_path, quick_compiler)),
        PKG_CONFIG_PATH=str(tmp_path),
    )
    with zipfile.ZipFile(built) as archive:
        assert not [name for name in archive.namelist() if name.endswith(library.name)]
        assert "quiver_fast/amqp/libquiver-amqp.so" in archive.namelist()
        archive.extractall(tmp_path / "site")
    told = run_python(
        "import quiver_fast as q; from quiver_fast.proton import info; "
        "print(info.bundled(), info.engine_version(), q.has('tls'), q.has('sasl-plain'))",
        tmp_path / "site",
    )
    assert told == f"False {proton_engine.VERSION} False True"


def failing_wheel(tree: Path, *options: str, **environment: str) -> list[str]:
    """Have pip build the wheel of a tree, in vain; return the lines that a user sees."""
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", *options, "--wheel-dir", tree]
    result = subprocess.run(
        [*command, tree],
        capture_output=True, text=True, check=False, env={**os.environ, **environment},
    )  # fmt: skip
    assert result.returncode != 0
    assert "Traceback" not in result.stderr
    return [line.strip() for line in (result.stdout + result.stderr).splitlines()]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "options", [["--no-build-isolation"], pytest.param([], marks=pytest.mark.slow)]
)
def test_a_refused_build_is_one_line(
    tmp_path: Path, copy_tree: Callable[[Path], Path], options: list[str]
) -> None:
    """The output of pip for a build that cannot go on."""
    sdist = tmp_path / "other.tar.gz"
    sdist.write_bytes(b"not the engine")
    tree = copy_tree(tmp_path / "tree")
    said = failing_wheel(tree, *options, QUIVER_FAST_PROTON_SDIST=str(sdist))
    [line] = [line for line in said if "SHA-256" in line]
    assert line.startswith(f"quiver-fast: {sdist}: SHA-256 is ")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_failed_build_shows_the_compilers_error(
    engine_sdist: Path, tmp_path: Path, copy_tree: Callable[[Path], Path]
) -> None:
    """As `make` builds: the error is near the end, and little stands before it."""
    error = "engine.c:64:3: error: implicit declaration of function 'pn_incref'"
    compiler = tmp_path / "cc"
    compiler.write_text(
        f'#!/bin/sh\ncase "$*" in *engine.c*) echo "{error}" >&2; exit 1 ;; esac\nexec gcc "$@"\n'
    )
    compiler.chmod(0o755)
    said = failing_wheel(
        copy_tree(tmp_path / "tree"), "--quiet", "--no-build-isolation",
        CC=str(compiler), QUIVER_FAST_PROTON_SDIST=str(engine_sdist),
    )  # fmt: skip
    assert error in said
    assert len(said) < 25
    assert not [line for line in said if line.startswith(("copying", "creating"))]
