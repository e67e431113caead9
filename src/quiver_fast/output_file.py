"""Files that a command writes: whole or not at all. Links and pipes are written through."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

# Descriptors of this process, also those of a shell's >(…).
_DESCRIPTOR = re.compile("/(?:dev|proc/self)/fd/([0-9]+)|/dev/(stdout|stderr)")


def write_file(file: Path, write: Callable[[BinaryIO], Any], *, append: bool = False) -> None:
    """Have ``write`` fill a file, which appears complete or not at all.

    A link stays a link, and a file keeps its mode. Pipes, devices and descriptors of this process
    get the bytes as they are written.

    Args:
        file: the name that the user gave.
        write: writes the bytes.
        append: keep what the file has.

    Raises:
        OSError: it cannot be written; its ``filename`` is ``file``.
    """
    try:
        if append or is_stream(file):
            with _opened(file, append) as out:
                write(out)
        else:
            _replace(file.resolve(), write)
    except OSError as error:
        # The temporary file has a name that nobody gave, and a failed write has none.
        if error.strerror:
            error.filename = str(file)
        raise


def part_of(file: Path) -> Path:
    """Return the path of a file while it is written."""
    return file.with_name(f".{file.name}.part")


def is_stream(file: Path) -> bool:
    """Say whether a file is no plain file: a pipe, a device, a descriptor of this process."""
    return _DESCRIPTOR.fullmatch(str(file)) is not None or (file.exists() and not file.is_file())


def _opened(file: Path, append: bool) -> BinaryIO:
    """Open a file as it is; a descriptor shares its place in the output with its owner."""
    found = _DESCRIPTOR.fullmatch(str(file))
    if found is None:
        return file.open("ab" if append else "wb")
    sys.stdout.flush()
    number = int(found[1]) if found[1] else {"stdout": 1, "stderr": 2}[found[2]]
    return os.fdopen(os.dup(number), "wb")


def _replace(file: Path, write: Callable[[BinaryIO], Any]) -> None:
    temporary = part_of(file)
    try:
        with temporary.open("wb") as out:
            if file.exists():
                os.fchmod(out.fileno(), stat.S_IMODE(file.stat().st_mode))
            write(out)
        temporary.replace(file)
    finally:
        temporary.unlink(missing_ok=True)
