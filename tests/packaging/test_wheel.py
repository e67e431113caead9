"""The wheel is self-contained, names no machine, and works where only it is installed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from buildtools.proton_engine import VERSION

ROOT = Path(__file__).resolve().parents[2]
ENGINE = "quiver_fast/proton/libquiver-proton.so"
AMQP = "quiver_fast/amqp/libquiver-amqp.so"
LIBRARIES = {Path(name).name: name for name in (ENGINE, AMQP)}
# Proton's PN_EXTERN marks these few names that do not look public.
EXPORTED_INTERNALS = {
    "pni_log_enabled", "pni_logf_impl", "pni_message_get_extra", "pni_message_with_extra",
    "pni_vlogf_impl",
}  # fmt: skip


@pytest.fixture(scope="module")
def names(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


@pytest.fixture(scope="module")
def unpacked(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unpacked")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def compiled(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.so"))


def output_of(*command: str | Path) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def exported_by(library: Path) -> set[str]:
    table = output_of("nm", "-D", "--defined-only", library)
    return {line.split()[-1] for line in table.splitlines()}


def test_has_the_libraries_and_every_module(names: list[str]) -> None:
    assert {ENGINE, AMQP} <= set(names)
    sources = ROOT / "src"
    for path in sources.rglob("*.py"):
        assert path.relative_to(sources).as_posix() in names
    for path in sources.rglob("*.pyx"):
        stem = path.relative_to(sources).with_suffix("").as_posix()
        assert any(re.fullmatch(rf"{stem}\.[^/]+\.so", name) for name in names), stem
    templates = {path for path in sources.rglob("*/templates/**/*") if path.is_file()}
    assert {path.relative_to(sources).as_posix() for path in templates} < set(names)


def test_has_no_sources_of_compiled_modules(names: list[str]) -> None:
    assert [name for name in names if name.endswith((".c", ".h", ".pyx", ".pxi", ".o"))] == []
    assert [name for name in names if name.startswith(("tests", "bench", "buildtools"))] == []


def test_carries_its_licences(unpacked: Path) -> None:
    [licenses] = unpacked.glob("*.dist-info/licenses")
    assert "Apache License" in (licenses / "LICENSE").read_text()
    notice = (licenses / "NOTICE").read_text()
    assert f"Apache Qpid Proton {VERSION} (" in notice
    assert "The Apache Software Foundation" in notice
    assert "OpenSSL" in notice


def test_installs_the_commands(unpacked: Path) -> None:
    [entry_points] = unpacked.glob("*.dist-info/entry_points.txt")
    lines = entry_points.read_text().splitlines()
    names = ("", "-analyze", "-arrow", "-bench", "-fleet", "-queue", "-server")
    for command in (f"quiver{name}" for name in names):
        assert f"{command} = quiver_fast.own_process:{command.replace('-', '_')}" in lines
    for path in (ROOT / "impls").iterdir():
        [(module, name)] = re.findall("^from (.+) import (.+)", path.read_text(), re.MULTILINE)
        assert f"{path.name} = {module}:{name}" in lines


def test_finds_its_libraries_beside_itself(unpacked: Path) -> None:
    for path in compiled(unpacked):
        dynamic = output_of("readelf", "-d", path)
        searched = re.findall(r"(?:RPATH|RUNPATH).*\[(.*)\]", dynamic)
        found = {part for folders in searched for part in folders.split(":")}
        assert all(part.startswith("$ORIGIN") for part in found), path
        for needed in re.findall(r"NEEDED.*\[(libquiver.*)\]", dynamic):
            place = os.path.relpath((unpacked / LIBRARIES[needed]).parent, path.parent)
            assert f"$ORIGIN/{place}" in found, path


def test_engine_exports_its_public_functions_only(unpacked: Path) -> None:
    exported = exported_by(unpacked / ENGINE)
    assert "pn_connection_driver_init" in exported
    assert "pnx_sasl_set_implementation" in exported
    private = {name for name in exported if not re.match(r"(pnx?|PN)_", name)}
    assert private <= EXPORTED_INTERNALS
    # Named like public ones, but internal to the engine's source files.
    assert not {"pn_buffer", "pn_framing_send_amqp", "pn_dispatcher_input"} & exported


def test_the_library_of_amqp_has_what_modules_call(unpacked: Path) -> None:
    exported = exported_by(unpacked / AMQP)
    assert {name for name in exported if not name.startswith(("amqp_", "tls_"))} == set()
    called: set[str] = set()
    for path in compiled(unpacked):
        names = output_of("nm", "-D", "--undefined-only", path).split()
        called |= {name for name in names if name.startswith(("amqp_", "tls_"))}
    assert "amqp_plane_next" in called
    assert called <= exported


def test_modules_export_their_init_function_only(unpacked: Path) -> None:
    for path in compiled(unpacked):
        if path.name in LIBRARIES:
            continue
        assert exported_by(path) == {f"PyInit_{path.name.partition('.')[0]}"}, path


def test_names_no_folder_of_the_building_machine(unpacked: Path) -> None:
    folders = {str(ROOT), str(Path.home()), str(Path(sys.base_prefix).resolve())} - {"/", "/usr"}
    for path in unpacked.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            found = [folder for folder in folders if folder.encode() in content]
            assert found == [], f"{path.name} names {found}"


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_works_in_a_clean_environment(
    wheel: Path,
    tmp_path: Path,
    make_venv: Callable[..., Path],
    check_elsewhere: Callable[[Path, Path], None],
) -> None:
    check_elsewhere(make_venv(tmp_path / "a venv", wheel), tmp_path)
