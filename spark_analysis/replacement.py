"""Replacing a folder by a complete one: whole at any time, even if the job is killed."""

from __future__ import annotations

import ctypes
import errno
import os
import re
import shutil
import uuid
from pathlib import Path

_PART, _OLD = "part", "old"
_REMAINDER = re.compile(rf"[0-9a-f]{{32}}\.({_PART}|{_OLD})")

# renameat2(2)
_HERE = -100  # AT_FDCWD
_EXCHANGE = 1 << 1  # RENAME_EXCHANGE
_CANNOT_EXCHANGE = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP)


def new_part(target: Path) -> Path:
    """Make the folder, beside ``target``, that is to take its place; only its owner may enter."""
    part = _beside(target, _PART)
    part.mkdir(mode=0o700, parents=True)
    return part


def recover(target: Path) -> None:
    """Remove the remains of killed jobs beside ``target``, or put it back if it is missing.

    Only one job at a time may write ``target``.
    """
    start = f".{target.name}."
    if not target.parent.is_dir():
        return
    for entry in list(target.parent.iterdir()):
        kind = _REMAINDER.fullmatch(entry.name.removeprefix(start))
        if not entry.name.startswith(start) or kind is None:
            continue
        if kind[1] == _OLD and not target.exists():
            entry.rename(target)
        else:
            _remove(entry)


def replace(new: Path, target: Path) -> None:
    """Let ``new`` take the place of ``target``, which is there and whole at any time.

    File systems that cannot exchange two names (some on networks) lack it for a moment,
    between two renames; :func:`recover` puts it back if the job is killed there.
    """
    if not target.exists():
        new.rename(target)
    elif _exchanged(new, target):
        _remove(new)
    else:
        old = _beside(target, _OLD)
        target.rename(old)
        new.rename(target)
        _remove(old)


def _beside(target: Path, kind: str) -> Path:
    return target.with_name(f".{target.name}.{uuid.uuid4().hex}.{kind}")


def _exchanged(one: Path, other: Path) -> bool:
    """Exchange two names in one step; say whether the file system can."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    if rename(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in _CANNOT_EXCHANGE:
        return False
    raise OSError(code, os.strerror(code), str(one), None, str(other))


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
