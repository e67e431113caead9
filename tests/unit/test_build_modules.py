"""The needs of a module follow from its cimports, wherever it is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from buildtools.cython_options import COLD, SHARED
from buildtools.modules import (
    AMQP_FOLDER,
    ENGINE_FOLDER,
    cimported,
    include_dirs,
    needs_amqp,
    needs_engine,
    run_path,
)

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A package with rooms at several depths."""
    files = {
        "proton/lib.pxd": 'cdef extern from "proton/link.h" nogil:\n    pass\n',
        "proton/sys.pxd": 'cdef extern from "<poll.h>" nogil:\n    pass\n',
        "wire/peer.pxd": "from quiver_fast.proton.lib cimport (\n    pn_link_t,  # a link\n)\n",
        "wire/peer.pyx": "x = 1\n",
        "wire/deep/far.pyx": "from ..peer cimport Peer\n",
        "wire/deep/near.pyx": "from quiver_fast.proton cimport sys, lib\n",
        "lists/plain.pyx": "from quiver_fast.proton.sys cimport poll\nimport quiver_fast.wire\n",
        "lists/named.pyx": "cimport cython, quiver_fast.wire.peer as peer\n",
        "lists/rows.h": "",
        "lists/rows.pxd": 'cdef extern from "rows.h":\n    pass\n',
        "wire/uses.pyx": "from quiver_fast.lists.rows cimport rows\n",
        "amqp/plane.pxd": 'cdef extern from "plane.h":\n    pass\n',
        "wire/frame.pxd": "from quiver_fast.amqp.plane cimport plane_t\n",
        "wire/frame.pyx": "x = 1\n",
    }
    for name, text in files.items():
        path = tmp_path / "quiver_fast" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "needed"),
    [
        ("wire/peer.pyx", True),
        ("wire/deep/far.pyx", True),
        ("wire/deep/near.pyx", True),
        ("lists/named.pyx", True),
        ("lists/plain.pyx", False),
        ("wire/uses.pyx", False),
    ],
)
def test_who_cimports_the_engine_needs_it(tree: Path, name: str, needed: bool) -> None:
    assert needs_engine(tree / "quiver_fast" / name, tree) is needed


def test_who_cimports_the_c_of_amqp_needs_its_library(tree: Path) -> None:
    package = tree / "quiver_fast"
    needing = {path.stem for path in package.rglob("*.pyx") if needs_amqp(path, tree)}
    assert needing == {"frame"}


def test_headers_come_with_declarations(tree: Path) -> None:
    module = tree / "quiver_fast" / "wire" / "uses.pyx"
    assert include_dirs(module, tree) == [tree / "quiver_fast" / "lists"]


def test_parts_belong_to_a_module_with_their_own_declarations(tree: Path) -> None:
    package = tree / "quiver_fast"
    (package / "wire" / "whole.pyx").write_text('include "deep/part.pxi"\n')
    part = package / "wire" / "deep" / "part.pxi"
    part.write_text("cimport quiver_fast.wire.peer\n")
    assert {part, package / "wire" / "peer.pxd"} <= cimported(package / "wire" / "whole.pyx", tree)


def test_a_module_without_a_source_needs_nothing(tree: Path) -> None:
    assert cimported(tree / "quiver_fast" / "made_of_nothing.c", tree) == set()


def test_each_part_of_this_package_is_found() -> None:
    found = {each for path in SOURCE.rglob("*.pyx") for each in cimported(path, SOURCE)}
    assert set(SOURCE.rglob("*.pxi")) <= found


def test_each_cold_module_exists() -> None:
    paths = {path.relative_to(SOURCE).with_suffix("") for path in SOURCE.rglob("*.pyx")}
    assert COLD - {".".join(path.parts) for path in paths} == {SHARED}


def test_the_modules_of_this_package_are_told_apart() -> None:
    package = SOURCE / "quiver_fast"
    needing = {path.stem for path in package.rglob("*.pyx") if needs_engine(path, SOURCE)}
    assert {"sender", "receiver", "info", "server"} <= needing
    assert not needing & {"tally", "pacer", "parser", "writer", "appender", "textwire"}
    needing_amqp = {path.stem for path in package.rglob("*.pyx") if needs_amqp(path, SOURCE)}
    assert {"sender", "tls", "server"} <= needing_amqp
    assert not needing_amqp & {"tally", "parser", "info"}
    declared = cimported(package / "arrow" / "amqp" / "sender.pyx", SOURCE)
    assert package / "proton" / "libproton.pxd" in declared


@pytest.mark.parametrize("folder", [AMQP_FOLDER, ENGINE_FOLDER])
@pytest.mark.parametrize(
    "name",
    ["quiver_fast.proton.info", "quiver_fast.arrow.amqp.sender", "quiver_fast.server.protocol.peer",
     "quiver_fast.server.protocol.deep.er.peer"],
)  # fmt: skip
def test_a_library_is_found_from_any_depth(name: str, folder: Path) -> None:
    path = run_path(name, folder, "/site/" + "/".join(name.split(".")[:-1]))
    assert os.path.normpath(path) == f"/site/{folder}"
    assert run_path(name, folder, "$ORIGIN").startswith("$ORIGIN/")


def test_every_folder_of_modules_is_a_package() -> None:
    """A folder without `__init__.py` is left out of the wheel, with its declarations."""
    suffixes = {".py", ".pyx", ".pxd", ".pyi"}
    folders = {path.parent for path in SOURCE.rglob("*") if path.suffix in suffixes}
    assert len(folders) > 5
    assert {folder for folder in folders if not (folder / "__init__.py").is_file()} == {
        folder for folder in folders if folder.suffix == ".egg-info"
    }
