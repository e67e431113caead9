"""Compile C into a private shared library of the package: the engine, and the C of `amqp/`."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from buildtools import toolchain

COMPILE_FLAGS = [
    "-std=gnu11", "-fPIC", "-fno-plt", "-fno-semantic-interposition", *toolchain.FAULTS,
]  # fmt: skip
# An undefined name is an error now, and not when a process starts. The sanitizers' own names
# are in the program that preloads them.
NO_UNDEFINED = "-Wl,-z,defs"


class Library(NamedTuple):
    """The sources and the flags of a library."""

    name: str
    # Sources with different names, and the headers beside them that may change.
    files: list[Path]
    compile_flags: list[str]
    link_flags: list[str]
    # Other facts that decide the result, such as the version of a linked library.
    facts: str = ""

    @property
    def file_name(self) -> str:
        """The library's file name."""
        return f"lib{self.name}.so"


def _compile_flags(library: Library) -> list[str]:
    given = [*toolchain.environment_flags("CFLAGS"), *toolchain.environment_flags("CPPFLAGS")]
    return [*given, *COMPILE_FLAGS, *library.compile_flags]


def _link_flags(library: Library) -> list[str]:
    given = toolchain.environment_flags("LDFLAGS")
    # Calls inside are direct, because another library may have the same functions.
    ours = ["-shared", f"-Wl,-soname,{library.file_name}", "-Wl,-Bsymbolic-functions"]
    sanitized = any(flag.startswith("-fsanitize") for flag in given)
    ours += [] if sanitized else [NO_UNDEFINED]
    return [*ours, *given, *library.link_flags, "-lpthread"]


def digest(library: Library) -> str:
    """Return a short digest of all facts that decide the compiled library.

    Raises:
        BuildError: there is no compiler.
    """
    compiler = [*toolchain.compiler(), toolchain.compiler_version(), library.facts]
    words = [*compiler, *_compile_flags(library), *_link_flags(library)]
    whole = hashlib.sha256(shlex.join(words).encode())
    for path in library.files:
        whole.update(path.name.encode() + path.read_bytes())
    return whole.hexdigest()[:16]


def compile_library(library: Library, target: Path) -> None:
    """Compile the shared library ``target``, with its objects in a folder beside it.

    Raises:
        BuildError: a compiler run failed.
    """
    # Objects stay: coverage counts are written beside them.
    objects = target.parent / "objects"
    objects.mkdir(parents=True, exist_ok=True)
    flags = _compile_flags(library)
    sources = [path for path in library.files if path.suffix == ".c"]
    command = toolchain.cached(toolchain.compiler())

    def compile_one(source: Path) -> str:
        output = str(objects / f"{source.stem}.o")
        toolchain.run([*command, *flags, "-c", str(source), "-o", output])
        return output

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        words = [*flags, *pool.map(compile_one, sources), *_link_flags(library)]
    staged = objects / target.name
    toolchain.run([*toolchain.compiler(), "-o", str(staged), *words])
    staged.replace(target)


def compile_once(library: Library, folder: Path) -> Path:
    """Return the library in ``folder``; compile it if one of these facts has changed.

    Raises:
        BuildError: a compiler run failed.
    """
    target = folder / library.file_name
    made_of = folder / "digest"
    wanted = digest(library)
    if not (target.is_file() and made_of.is_file() and made_of.read_text() == wanted):
        made_of.unlink(missing_ok=True)
        compile_library(library, target)
        made_of.write_text(wanted)
    return target


def install(library: Path, package_dir: Path) -> None:
    """Copy a library into the package; a running process keeps the old one mapped."""
    package_dir.mkdir(parents=True, exist_ok=True)
    staged = package_dir / f".{library.name}"
    shutil.copy2(library, staged)
    staged.replace(package_dir / library.name)
