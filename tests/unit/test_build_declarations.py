"""Declarations that the build makes of C headers: complete, and only of used names."""

from __future__ import annotations

from pathlib import Path

import pytest

from buildtools.declarations import Headers
from buildtools.toolchain import BuildError

INNER = """
#pragma once
#include <stdbool.h>
#include <stdint.h>
#define LIMIT 4
#define UNUSED 5
#define NOBODY ((thing_t *) 1)
enum colour { RED, GREEN = 7 };
typedef struct thing thing_t;
struct thing {
  uint32_t from;
  thing_t *next;
  enum colour colours[2];
  struct secret *hidden;
  bool unused;
};
"""
OUTER = """
#include "inner.h"
typedef struct box { thing_t only; } box_t;
typedef bool (*judge_t)(const thing_t *thing, void *from);
typedef struct other { int x; } other_t;
static inline bool has(const box_t *box, judge_t judge) { return judge(&box->only, 0); }
void unused_function(other_t *other);
"""


def text_of(folder: Path, wanted: str) -> str:
    (folder / "inner.h").write_text(INNER)
    (folder / "outer.h").write_text(OUTER)
    return Headers(["outer.h", "inner.h"], [f"-I{folder}"], set(wanted.split())).text()


def test_a_function_brings_the_types_that_it_needs(tmp_path: Path) -> None:
    assert text_of(tmp_path, "has start next colours GREEN hidden LIMIT NOBODY only") == (
        '\ncdef extern from "inner.h" nogil:\n'
        "    thing_t *NOBODY\n"
        "    enum:\n"
        "        LIMIT\n"
        "    enum colour:\n"
        "        GREEN\n"
        "    ctypedef struct thing_t:\n"
        '        uint32_t start "from"\n'
        "        thing_t *next\n"
        "        colour colours[2]\n"
        '\ncdef extern from "outer.h" nogil:\n'
        "    ctypedef struct box_t:\n"
        "        thing_t only\n"
        "    ctypedef c_bool (*judge_t)(const thing_t *, void *) noexcept nogil\n"
        "    bint has(const box_t *, judge_t)\n"
    )


def test_nothing_is_declared_that_nobody_names(tmp_path: Path) -> None:
    assert text_of(tmp_path, "nothing") == ""


def test_a_missing_header_is_one_clear_error() -> None:
    with pytest.raises(BuildError, match="the C headers cannot be read"):
        Headers(["no_such_header.h"], [], set())
