"""Stubs that the build makes of Cython modules: all public names, with the best known types."""

from __future__ import annotations

import ast
import importlib
import inspect
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import quiver_fast
from buildtools import stubs

PACKAGE = Path(quiver_fast.__file__).parent

DECLARATIONS = """
from libc.stdint cimport int64_t

cpdef enum Colour:
    RED = 1
    GREEN

cdef class Pump:
    cdef readonly int64_t strokes
    cdef public list[bytes] jars
    cdef readonly object place      # type: Path | None
    cdef int hidden
"""
MODULE = '''
import os
from toys.base import Base

SIZE = 4
LIMIT: int = 2 ** 4
_PRIVATE = 5
include "part.pxi"

cdef class Pump:
    def __cinit__(self, int64_t size, bint slow=False, bytes name=None):
        """Make it."""
    def __dealloc__(self):
        pass
    def __getbuffer__(self, Py_buffer *buffer, int flags):
        pass
    @property
    def full(self) -> bool:
        return True
    @full.setter
    def full(self, value: bool) -> None:
        pass
    def take(self, first: str, /, *, water: "Water", times: int = 3, tool=None) -> int:
        return []
    def _internal(self):
        pass
'''
PART = """
@cython.final
cdef class Well(Base):
    def dig(self, *places: str | os.PathLike[str], depth: float = SIZE, **words):
        pass
    cdef int deep(self):
        return 1

def sums(const int64_t[::1] values, const int64_t[:] more or None, const char[::1] by) -> int:
    return 1
"""
STUB = """# Written by buildtools/stubs.py from the module.
from enum import IntEnum
from numpy.typing import NDArray
from _typeshed import ReadableBuffer
from pathlib import Path
from toys.base import Base
from toys.water import Water
from typing import Any
from typing import final
import numpy as np
import os

class Colour(IntEnum):
    RED = 1
    GREEN = ...
SIZE: int
LIMIT: int
@final
class Well(Base):
    def dig(self, *places: str | os.PathLike[str], depth: float = ..., **words: Any) -> Any: ...
def sums(values: NDArray[np.int64], more: NDArray[np.int64] | None, by: ReadableBuffer) -> int: ...
class Pump:
    strokes: int
    jars: list[bytes]
    place: Path | None
    def __init__(self, size: int, slow: bool = False, name: bytes | None = None) -> None: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    @property
    def full(self) -> bool: ...
    @full.setter
    def full(self, value: bool) -> None: ...
    def take(self, first: str, /, *, water: Water, times: int = 3, tool: Any = None) -> int: ...
"""


@pytest.fixture
def toys(tmp_path: Path) -> Path:
    folder = tmp_path / "toys"
    folder.mkdir()
    (folder / "pump.pyx").write_text(MODULE)
    (folder / "pump.pxd").write_text(DECLARATIONS)
    (folder / "part.pxi").write_text(PART)
    (folder / "water.py").write_text("class Water:\n    pass\n")
    stubs.write(tmp_path)
    return folder


def test_a_stub_has_all_public_names(toys: Path) -> None:
    lines, expected = ((toys / "pump.pyi").read_text().split("\n"), STUB.split("\n"))
    assert sorted(lines[:12]) == sorted(expected[:12])
    assert lines[12:] == expected[12:]


def test_only_an_older_stub_is_written_again(toys: Path) -> None:
    stub = toys / "pump.pyi"
    stub.write_text("its own")
    stubs.write(toys.parent)
    assert stub.read_text() == "its own"
    later = stub.stat().st_mtime_ns + 10**9
    os.utime(toys / "part.pxi", ns=(later, later))
    stubs.write(toys.parent)
    assert stub.read_text() == STUB or stub.stat().st_mtime_ns == later


def test_a_stub_follows_a_class_that_moves(toys: Path) -> None:
    (toys / "water.py").rename(toys / "rain.py")
    stubs.write(toys.parent)
    assert "from toys.rain import Water\n" in (toys / "pump.pyi").read_text()


def test_a_stub_goes_with_its_module(toys: Path) -> None:
    (toys / "pump.pyx").unlink()
    stubs.write(toys.parent)
    assert not (toys / "pump.pyi").exists()


def test_a_module_with_a_fault_keeps_its_stub(toys: Path) -> None:
    (toys / "pump.pyx").write_text("def broken(:\n")
    later = (toys / "pump.pyi").stat().st_mtime_ns + 10**9
    os.utime(toys / "pump.pyx", ns=(later, later))
    stubs.write(toys.parent)
    assert "class Pump" in (toys / "pump.pyi").read_text()


def functions(body: list[ast.stmt], owner: object) -> Iterator[tuple[ast.FunctionDef, object]]:
    """Yield the functions of a stub that have a signature at run time, and these."""
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from functions(node.body, getattr(owner, node.name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            # The fields of a data class have no value in the class.
            assert hasattr(owner, node.target.id) or node.target.id in owner.__annotations__
        elif isinstance(node, ast.FunctionDef) and node.name != "__buffer__":
            found = getattr(owner, node.name)
            if callable(found) and not node.name.startswith("__"):
                yield node, found


def test_the_stubs_of_this_package_agree_with_its_modules() -> None:
    compared = 0
    for stub in PACKAGE.rglob("*.pyi"):
        name = ".".join(["quiver_fast", *stub.relative_to(PACKAGE).with_suffix("").parts])
        module = importlib.import_module(name)
        for node, found in functions(ast.parse(stub.read_text()).body, module):
            spelled = node.args
            groups = [spelled.posonlyargs, spelled.args, spelled.kwonlyargs]
            names = {each.arg for group in groups for each in group}
            names |= {each.arg for each in (spelled.vararg, spelled.kwarg) if each}
            assert set(inspect.signature(found).parameters) == names, f"{name}: {node.name}"
            compared += 1
    assert compared > 300
