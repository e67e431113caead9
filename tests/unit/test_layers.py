"""The house of docs/internals/architecture.md: who may import whom, and what no file may name."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"
# A folder of its own beside src; installed with the package all the same.
SPARK = ROOT / "spark_analysis"
PROJECT = "quiver_fast"

# From the ground to the roof: a part imports only from its own floor or below. What is in a
# folder that is named here belongs to it; else to the folder above.
HOUSE: tuple[tuple[str, ...], ...] = (
    # "": quiver_fast/__init__.py, the version and the features, of which TLS is one.
    ("", "errors", "proton", "amqp.tls", "standard_streams"),
    (
        "arguments",
        "arrivals",
        "body_sizes",
        "extras",
        "own_process",
        "process",
        "program",
        "property_filters",
        "property_mix",
        "quantities",
        "rate_steps",
        "ready_file",
        "receiving",
        "reconnecting",
        "records",
        "queuefile",
        "selectors",
        "urls",
        "wall_clock",
    ),
    ("loop", "metrics", "options", "resolving", "schemas"),
    ("arrow.run", "sockets"),
    ("amqp",),
    ("security",),
    ("conform.wire",),
    ("conform",),
    ("conform.cases",),
    ("arrow.amqp",),
    ("analysis", "analysis.model", "remote.wire"),
    ("analysis.tables",),
    ("analysis.figures",),
    ("analysis.compare", "analysis.read"),
    ("analysis.export",),
    ("analysis.sections",),
    ("analysis.show",),
    ("remote", "remote.serve", "arrow.csp"),
    ("server.messages",),
    ("server.selectors",),
    ("server.model",),
    ("server.connections",),
    ("server.nodes",),
    ("server.streams",),
    ("server.durable",),
    ("server.addresses",),
    ("server.transfer",),
    ("server.transactions",),
    ("server.protocol",),
    ("server",),
    ("arrow", "brokers", "management", "spark_analysis"),
    ("cli", "cli.shared"),
    ("cli.arrow",),
    ("cli.analyze", "cli.conform", "cli.queue", "cli.server"),
    ("cli.pair",),
    ("cli.bench", "cli.fleet", "api", "__main__"),
)
FLOORS = {part: floor for floor, parts in enumerate(HOUSE) for part in parts}
# The floors of spark_analysis: a file imports only from lower ones.
SPARK_HOUSE = (
    "__init__ bad_lines columns executors fact_names file_systems host_clock java replacement "
    "schema settlement_join task_line",
    "delivery digests files fleet_hosts job_folder rate_steps reconcile run_filter selection "
    "session transforms",
    "compaction fleet_clocks fold ledger options range_facts record_rows results",
    "facts",
    "batch_job ends incremental run_statistics source",
    "backend fleet jobs",
)
# Below it, and still not allowed: results are analysed where no engine is.
ENGINELESS = ("analysis", "spark_analysis")
# All that judges conformance may import of this project: none of the code that it judges.
JUDGES = (
    "arguments", "conform", "errors", "extras", "security.mechanism", "security.scram", "urls",
    "words",
)  # fmt: skip

LINE_LIMIT = 550
GENERATED = {
    ".git", ".venv", "build", "dist", "wheelhouse", "node_modules", "__pycache__", ".hypothesis",
    ".benchmarks",
}  # fmt: skip
CODE = {".py", ".pyx", ".pxi", ".pxd", ".pyi", ".c", ".h", ".js", ".sh"}

SUFFIXES = (".py", ".pyx", ".pxd", ".pxi")

CYTHON_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+(?P<module>[\w.]+)[ \t]+c?import[ \t]+(?P<names>\([^)]*\)|[^\n#]+)"
    r"|c?import[ \t]+(?P<modules>[\w., \t]+))",
    re.MULTILINE,
)


def sources() -> list[Path]:
    files = [*SOURCE.rglob("*"), *SPARK.rglob("*")]
    return sorted(path for path in files if path.suffix in SUFFIXES)


def project_files() -> Iterator[Path]:
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [name for name in folders if not generated(name)]
        # In a worktree .git is a file.
        yield from (Path(folder, name) for name in files if name not in GENERATED)


def generated(name: str) -> bool:
    return name in GENERATED or name.endswith((".egg-info", "_cache"))


def relative(path: Path) -> Path:
    """Return where a file is below the folder that its package is in."""
    return path.relative_to(SPARK.parent if path.is_relative_to(SPARK) else SOURCE)


def module_of(path: Path) -> str:
    parts = relative(path).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def part_of(module: str) -> str:
    """Return the part of the house that a dotted name belongs to."""
    package, _, rest = module.partition(".")
    words = rest.split(".") if package == PROJECT else [package]
    for count in range(len(words), 0, -1):
        if ".".join(words[:count]) in FLOORS:
            return ".".join(words[:count])
    return ""


def absolute(path: Path, level: int, module: str) -> str:
    """Return the dotted name that a relative import in ``path`` means."""
    if level == 0:
        return module
    package = relative(path).parent.parts
    base = package[: len(package) - (level - 1)]
    return ".".join([*base, *([module] if module else [])])


def named(module: str, names: list[str]) -> list[str]:
    """Return what `from module import names` takes: modules where there are such."""
    return [f"{module}.{name}" if is_module(f"{module}.{name}") else module for name in names]


def is_module(name: str) -> bool:
    """Say whether a dotted name is a file or a folder of this project."""
    place = Path(SPARK.parent if name.startswith(SPARK.name) else SOURCE, *name.split("."))
    return place.is_dir() or any(place.with_suffix(suffix).is_file() for suffix in SUFFIXES)


def python_imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = absolute(path, node.level, node.module or "")
            yield from named(module, [alias.name for alias in node.names])


def cython_imports(path: Path) -> Iterator[str]:
    for match in CYTHON_IMPORT.finditer(path.read_text()):
        if match["modules"]:
            yield from (word.split()[0] for word in match["modules"].split(",") if word.strip())
            continue
        relative = match["module"].lstrip(".")
        module = absolute(path, len(match["module"]) - len(relative), relative)
        words = re.sub(r"#[^\n]*|[()]", "", match["names"])
        yield from named(module, [word.split()[0] for word in words.split(",") if word.strip()])


def imports(path: Path) -> set[str]:
    """Return the modules of this project that the file at ``path`` imports."""
    found = python_imports(path) if path.suffix == ".py" else cython_imports(path)
    return {name for name in found if name.partition(".")[0] in {PROJECT, SPARK.name}}


@pytest.mark.parametrize("path", sources(), ids=module_of)
def test_imports_only_downwards(path: Path) -> None:
    part = part_of(module_of(path))
    for other in sorted({part_of(module) for module in imports(path)}):
        # The root package tells features lazily; nothing else may look up.
        assert FLOORS[other] <= FLOORS[part], f"{part} imports {other}, which is above it"
        engineless = part.partition(".")[0] in ENGINELESS and other.startswith("arrow")
        assert not engineless, f"{part} must not import {other}"


DEFINED = re.compile(r"^ *(?:cdef|def)\b[^\n=:]*?(\w+)\(", re.MULTILINE)


def test_a_part_of_the_server_calls_only_folders_that_are_below() -> None:
    """Its module is one, so no cimport shows which part uses which."""
    server = SOURCE / PROJECT / "server"
    texts = {path: path.read_text() for path in server.rglob("*.pxi")}
    home = {
        match[1]: path
        for path, text in texts.items()
        for match in DEFINED.finditer(text)
        if not match[0].startswith(" ")
    }
    assert len(home) > 800
    called = re.compile(r"(?<![\w.])(\w+)\(")
    for path, text in texts.items():
        for name in home.keys() & set(called.findall(DEFINED.sub("", text))):
            floors = [FLOORS[part_of(module_of(each))] for each in (home[name], path)]
            assert floors[0] <= floors[1], f"{path.name} calls {name} of {home[name].name}"


def test_what_judges_conformance_shares_no_code_with_what_it_judges() -> None:
    paths = [path for path in sources() if part_of(module_of(path)).startswith("conform")]
    assert len(paths) > 4
    for path in paths:
        names = {name.removeprefix(f"{PROJECT}.") for name in imports(path)}
        others = {name for name in names if not name.startswith(JUDGES)}
        assert others == set(), path.name


def test_spark_analysis_has_six_floors() -> None:
    floors = {name: floor for floor, names in enumerate(SPARK_HOUSE) for name in names.split()}
    for path in SPARK.glob("*.py"):
        below = {name.rpartition(".")[2] for name in imports(path) if name.startswith(SPARK.name)}
        floor = floors[path.stem]
        assert {name for name in below if floors[name] >= floor} == set(), path.name


def test_every_folder_is_on_a_floor() -> None:
    folders = {module_of(path).rpartition(".")[0] for path in sources()} - {"", PROJECT}
    places = {folder.removeprefix(f"{PROJECT}.") for folder in folders}
    assert places - FLOORS.keys() == set()


@pytest.mark.parametrize("name_of", [module_of, lambda path: part_of(module_of(path))])
def test_no_circles(name_of: Callable[[Path], str]) -> None:
    """Neither files nor parts need each other, what Cython declares included."""
    graph: dict[str, set[str]] = {}
    for path in sources():
        wanted = imports(path)
        names = wanted if name_of is module_of else {part_of(module) for module in wanted}
        graph.setdefault(name_of(path), set()).update(names - {name_of(path)})
    TopologicalSorter(graph).prepare()


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.py", "def f():\n    from quiver_fast.loop import sender", {"loop.sender"}),
        ("a.py", "from quiver_fast import __version__, analysis", {"", "analysis"}),
        ("a.py", "from ..cli import pair\nimport numpy", {"cli"}),
        ("a.pyx", "from quiver_fast.loop.sender cimport (\n    send,  # x\n)", {"loop.sender"}),
        ("a.pyx", "cimport quiver_fast.records.writer as w, cython", {"records.writer"}),
        ("a.pxd", "from . cimport sender\nfrom .sender cimport Sender", {"loop.sender"}),
        ("a.pxd", "cdef extern from 'x.h':\n    pass", set()),
    ],
)
def test_every_form_of_import_is_seen(
    name: str, text: str, expected: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / PROJECT / "loop"
    folder.mkdir(parents=True)
    (tmp_path / PROJECT / "analysis").mkdir()
    (folder / "sender.pxd").touch()
    (folder / name).write_text(text)
    monkeypatch.setattr(sys.modules[__name__], "SOURCE", tmp_path)
    assert imports(folder / name) == {f"{PROJECT}.{each}".rstrip(".") for each in expected}


def test_an_arrow_starts_light() -> None:
    heavy = {"numpy", "zstandard", "psutil", "ssl", "argparse", "dataclasses", "asyncio", "jinja2"}
    source = "import sys, quiver_fast.arrow.main; print(*sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    loaded = set(result.stdout.split())
    assert heavy & loaded == set()
    # Each module of ours takes some tenths of a millisecond.
    assert len([name for name in loaded if name.startswith(PROJECT)]) <= 43


@pytest.mark.parametrize("path", sorted((ROOT / "impls").iterdir()), ids=lambda path: path.name)
def test_impls_are_thin(path: Path) -> None:
    assert os.access(path, os.X_OK)
    text = path.read_text()
    assert text.startswith("#!/usr/bin/env python3\n")
    body = ast.parse(text).body
    assert len(body) <= 4, "a shim has a docstring, two imports and one call"
    assert [node for node in body if isinstance(node, ast.ImportFrom)] != []


def test_files_are_short() -> None:
    files = [path for path in project_files() if path.suffix in CODE or path.name == "Makefile"]
    assert len(files) > 20
    lines = {path: len(path.read_text().splitlines()) for path in files}
    assert {str(path): count for path, count in lines.items() if count > LINE_LIMIT} == {}


def test_of_the_engine_only_public_headers_are_included() -> None:
    """Those of its folder `include/proton`: a system's engine has no others either."""
    include = re.compile(r'(?:#\s*include|cdef extern from)\s*["<]([^">]+)[">]')
    ours = {path.name for path in SOURCE.rglob("*.h")}
    places = [*SOURCE.rglob("*"), *(ROOT / "tests").rglob("*"), *(ROOT / "bench").rglob("*")]
    compiled = {".c", ".h", ".pxd", ".pxi", ".pyx"}
    texts = [path.read_text() for path in places if path.suffix in compiled]
    seen = {name for text in texts for name in include.findall(text)} - ours
    assert {"proton/link.h", "stdint.h"} <= seen
    private = re.compile(r"(?:core|sasl|ssl|platform|compiler)/|.*(?:-private|_private|internal)")
    assert [name for name in sorted(seen) if private.match(name)] == []


def test_private_fields_are_used_by_their_folder_alone() -> None:
    """Cython has no private fields: those of the server's structures have an underscore."""
    server = SOURCE / PROJECT / "server"
    seen = set()
    for structures in server.glob("*/structures.pxi"):
        fields = set(re.findall(r"[ *](_\w+)(?:\[\d+\])?(?: *#.*)?$", structures.read_text(), re.M))
        seen |= fields
        for path in server.rglob("*.p[yx][xi]"):
            if path.parent != structures.parent:
                used = fields.intersection(re.findall(r"\.(_\w+)", path.read_text()))
                assert used == set(), f"{path.relative_to(server)}: fields of {structures.parent}"
    assert {"_indexed", "_digits", "_awaited"} <= seen


def test_no_file_names_a_machine_or_a_registry() -> None:
    # Put together here, so that this file does not name them either.
    places = [r"(?<![\w.])/" + "work/", "/tmp/" + "wt", "/tmp/" + "venv", r"/\." + "pyenv/"]
    hosts = ["pypi" + r"\.org", "pythonhosted" + r"\.org", "npm" + r"js\.(org|com)"]
    forbidden = re.compile("|".join([*places, *hosts, "far" + "m-"]))
    for path in project_files():
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        found = forbidden.search(text)
        assert found is None, f"{path.relative_to(ROOT)} names {found and found[0]!r}"


def test_unit_tests_start_no_servers() -> None:
    """They are what `make check` runs after each edit: quick, and free of ports."""
    starts = re.compile(
        r"create_server\(|\.listen\(|^from support\.(?:server|clients|scripted_peer|frame_peer|"
        r"arrows|engine_client|processes|sasl_server|network)\b"
        r"|^from quiver_fast\.conform\.(?:counterpart|server|client)\b",
        re.MULTILINE,
    )
    found = {
        str(path.relative_to(ROOT)): match[0]
        for path in (ROOT / "tests" / "unit").rglob("*.py")
        if (match := starts.search(path.read_text())) and path != Path(__file__)
    }
    assert found == {}
