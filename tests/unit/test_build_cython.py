"""The linter names what Cython code declares and never uses."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("Cython", reason="only the linters need Cython")

from buildtools.cython_unused import unused

DECLARATIONS = """
cdef extern from "engine.h" nogil:
    const int GOOD
    const int DEAD
    ctypedef struct link_t:
        int credit
        int dead_field
    ctypedef void (*dead_sink)(int level)
    bint called(link_t *link, int (*argument)(link_t *other))
    bint dead_function(link_t *link)

cdef enum:
    NAMED
    DEAD_NAME

cdef class Shown:
    cdef int dead_attribute

cdef int defined(link_t *link) noexcept nogil
cdef int dead_definition() noexcept nogil
"""
CODE = """
from engine cimport DEAD, GOOD, NAMED, called, dead_definition, defined, link_t

cdef int DEAD_CONSTANT = 5

cdef class Shown:
    pass

cdef int defined(link_t *link) noexcept nogil:
    # A comment on DEAD is no use, nor is a text: "DEAD".
    return called(link, NULL) and link.credit == GOOD + NAMED

cdef int dead_definition() noexcept nogil:
    return 0

def run():
    return defined(NULL)
"""


def test_unused_declarations_are_named(tmp_path: Path) -> None:
    (tmp_path / "engine.pxd").write_text(DECLARATIONS)
    (tmp_path / "engine.pyx").write_text(CODE)
    (tmp_path / "user.py").write_text("from engine import Shown\n")
    assert {line.split()[1] for line in unused(tmp_path)} == {
        "DEAD",
        "DEAD_CONSTANT",
        "DEAD_NAME",
        "dead_attribute",
        "dead_definition",
        "dead_field",
        "dead_function",
        "dead_sink",
    }
    assert "engine.pxd:4: DEAD is not used" in unused(tmp_path)
