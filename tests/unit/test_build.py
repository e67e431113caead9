"""The build's choices and its refusals, each one line that says what to do."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from buildtools import proton_engine, shared_library, toolchain
from buildtools.shared_library import Library

ROOT = Path(__file__).resolve().parents[2]
PREREQUISITES = ROOT / "buildtools" / "prerequisites.sh"


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["QUIVER_FAST_PROTON", "QUIVER_FAST_PROTON_SDIST", "QUIVER_FAST_TLS", "CFLAGS", "CC"]
    for name in [*names, "CPPFLAGS", "LDFLAGS", "PKG_CONFIG", "PKG_CONFIG_PATH"]:
        monkeypatch.delenv(name, raising=False)


def write_script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def compiler_without_openssl(folder: Path) -> Path:
    """A compiler for which OpenSSL is not installed."""
    return write_script(
        folder / "cc-without-openssl", 'case "$*" in *-lssl*) exit 1 ;; esac\nexec cc "$@"'
    )


def refusal(tmp_path: Path) -> str:
    with pytest.raises(proton_engine.BuildError) as caught:
        proton_engine.prepare(tmp_path / "build", tmp_path / "package")
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_wrong_hash_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sdist = tmp_path / "other.tar.gz"
    sdist.write_bytes(b"not the engine")
    monkeypatch.setenv("QUIVER_FAST_PROTON_SDIST", str(sdist))
    message = refusal(tmp_path)
    assert str(sdist) in message
    assert proton_engine.SDIST_SHA256 in message


def test_wrong_hash_is_refused_where_an_engine_is_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "build" / f"qpid-proton-{proton_engine.VERSION}").mkdir(parents=True)
    sdist = tmp_path / "other.tar.gz"
    sdist.write_bytes(b"not the engine")
    monkeypatch.setenv("QUIVER_FAST_PROTON_SDIST", str(sdist))
    assert "SHA-256" in refusal(tmp_path)


@pytest.mark.parametrize(
    ("name", "written"),
    [("pyproject.toml", "python-qpid-proton=={}"), ("NOTICE", "Apache Qpid Proton {} (")],
)
def test_the_engines_version_is_the_one_that_is_built(name: str, written: str) -> None:
    assert written.format(proton_engine.VERSION) in (ROOT / name).read_text()


def test_missing_sdist_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUIVER_FAST_PROTON_SDIST", str(tmp_path / "absent.tar.gz"))
    assert refusal(tmp_path).endswith("absent.tar.gz: no such file")


def test_unreachable_index_names_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    message = refusal(tmp_path)
    wanted = f"python-qpid-proton {proton_engine.VERSION}"
    assert message.startswith(f"cannot download {wanted} (ERROR: No matching")
    assert "QUIVER_FAST_PROTON_SDIST=" in message


@pytest.mark.parametrize(
    ("name", "value"), [("QUIVER_FAST_PROTON", "bundeled"), ("QUIVER_FAST_TLS", "yes")]
)
def test_unknown_choice_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    if name == "QUIVER_FAST_TLS":
        with pytest.raises(proton_engine.BuildError, match="QUIVER_FAST_TLS=yes: expected 0 or 1"):
            toolchain.demand_tls()
    else:
        assert "expected 'bundled' or 'system'" in refusal(tmp_path)


def system_engine(folder: Path, version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make pkg-config find a system engine of ``version``, and no other."""
    (folder / "libqpid-proton-core.pc").write_text(
        f"Name: Proton\nDescription: test\nVersion: {version}\n"
        "Libs: -L/opt/proton/lib -lqpid-proton-core\nCflags: -I/opt/proton/include\n"
    )
    monkeypatch.setenv("QUIVER_FAST_PROTON", "system")
    monkeypatch.setenv("PKG_CONFIG_LIBDIR", str(folder))


def test_system_engine_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    system_engine(tmp_path, proton_engine.VERSION, monkeypatch)
    engine = proton_engine.prepare(tmp_path / "build", tmp_path / "package")
    assert engine.compile_args == ["-I/opt/proton/include"]
    assert engine.link_args == ["-L/opt/proton/lib", "-lqpid-proton-core"]
    assert engine.library is None
    assert not (tmp_path / "package").exists()


def test_old_system_engine_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    system_engine(tmp_path, "0.36.0", monkeypatch)
    assert refusal(tmp_path) == (
        "QUIVER_FAST_PROTON=system: libqpid-proton-core is version 0.36.0, at least 0.37 is needed"
    )


def test_missing_system_engine_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUIVER_FAST_PROTON", "system")
    monkeypatch.setenv("PKG_CONFIG", "false")
    assert "pkg-config finds neither" in refusal(tmp_path)


def test_openssl_is_found_without_pkg_config(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PKG_CONFIG", "false")
    found = toolchain.openssl()
    assert found is not None
    assert found.link_flags == ["-lssl", "-lcrypto"]


def test_missing_openssl_is_loud(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CC", str(compiler_without_openssl(tmp_path)))
    assert toolchain.openssl() is None
    toolchain.report_no_tls()
    assert "* OpenSSL headers not found (Debian: libssl-dev): building WITHOUT TLS *" in (
        capsys.readouterr().err
    )


def test_missing_openssl_is_an_error_on_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUIVER_FAST_TLS", "1")
    with pytest.raises(proton_engine.BuildError, match="which QUIVER_FAST_TLS=1 forbids"):
        toolchain.report_no_tls()


@pytest.mark.skipif(shutil.which("ccache") is None, reason="ccache is not installed")
def test_a_second_checkout_finds_what_the_first_one_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CCACHE_DIR", str(tmp_path / "cache"))
    for checkout in (tmp_path / "first", tmp_path / "second"):
        checkout.mkdir()
        monkeypatch.chdir(checkout)
        Path("one.c").write_text('#include "one.h"\nint one(void) { return ONE; }\n')
        Path("one.h").write_text("#define ONE 1\n")
        words = ["-g", f"-I{checkout}", "-c", "one.c", "-o", "one.o"]
        toolchain.run([*toolchain.cached(toolchain.compiler()), *words])
    told = toolchain.run(["ccache", "--print-stats"]).split()
    # The probe of each checkout, and its file.
    assert [told[told.index(name) + 1] for name in ("cache_miss", "direct_cache_hit")] == ["2", "2"]


@pytest.mark.skipif(shutil.which("ccache") is None, reason="ccache is not installed")
def test_a_ccache_that_does_not_work_is_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CCACHE_DIR", "/proc/cache")
    assert toolchain.cached(toolchain.compiler()) == toolchain.compiler()
    assert "building without ccache" in capsys.readouterr().err


def test_missing_compiler_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(proton_engine.BuildError, match="no-such-compiler: not found"):
        toolchain.compiler_version()


@pytest.fixture
def small_library(tmp_path: Path) -> Library:
    """A library of one function, in a source and a header."""
    (tmp_path / "small.h").write_text("int small(void);\n")
    (tmp_path / "small.c").write_text('#include "small.h"\nint small(void) { return 1; }\n')
    return Library("small", [tmp_path / "small.c", tmp_path / "small.h"], ["-O0"], [])


def test_all_that_decides_a_library_is_in_its_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small_library: Library
) -> None:
    monkeypatch.setenv("CC", "cc")
    seen = [shared_library.digest(small_library)]
    for variable in ("CFLAGS", "CPPFLAGS", "LDFLAGS"):
        monkeypatch.setenv(variable, "-fsanitize=address")
        seen.append(shared_library.digest(small_library))
    monkeypatch.setenv("CC", str(write_script(tmp_path / "cc", 'exec cc "$@"')))
    seen.append(shared_library.digest(small_library))
    seen.append(shared_library.digest(small_library._replace(facts="another OpenSSL")))
    (tmp_path / "small.h").write_text("extern int small(void);\n")
    seen.append(shared_library.digest(small_library))
    assert len(set(seen)) == len(seen)


def test_a_library_is_compiled_when_it_changed(tmp_path: Path, small_library: Library) -> None:
    def built() -> Path:
        return shared_library.compile_once(small_library, tmp_path / "build")

    library = built()
    assert ctypes.CDLL(str(library)).small() == 1
    first = library.stat().st_ino
    assert built().stat().st_ino == first
    (tmp_path / "small.c").write_text("int small(void) { return 2; }\n")
    assert built().stat().st_ino != first
    shared_library.install(library, tmp_path / "package")
    assert ctypes.CDLL(str(tmp_path / "package" / library.name)).small() == 2


def test_a_name_that_nobody_defines_is_an_error(tmp_path: Path, small_library: Library) -> None:
    (tmp_path / "small.c").write_text("int absent(void); int small(void) { return absent(); }\n")
    with pytest.raises(proton_engine.BuildError, match="absent"):
        shared_library.compile_once(small_library, tmp_path / "build")


def test_builds_in_one_tree_take_turns(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    source = (
        "import sys; from pathlib import Path; from buildtools.proton_engine import locked\n"
        "with locked(Path(sys.argv[1])): pass"
    )
    with proton_engine.locked(lock):
        other = subprocess.Popen([sys.executable, "-c", source, str(lock)], cwd=ROOT)
        time.sleep(0.5)
        assert other.poll() is None
    assert other.wait(timeout=60) == 0


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ("void f(void) { undeclared(); }", "implicit"),
        ("f(void) { return 0; }", "int"),
        ("int *f(long *p) { return p; }", "pointer"),
        ("int *f(int i) { return i; }", "int"),
        ("int f(void) {}", "return"),
    ],
)
def test_what_newer_compilers_refuse_is_an_error_everywhere(
    tmp_path: Path, source: str, fault: str
) -> None:
    (tmp_path / "faulty.c").write_text(f"{source}\n")
    command = [*toolchain.compiler(), *toolchain.FAULTS, "-c", str(tmp_path / "faulty.c")]
    with pytest.raises(proton_engine.BuildError, match=f"error: .*{fault}"):
        toolchain.run([*command, "-o", str(tmp_path / "faulty.o")])
    assert set(toolchain.FAULTS) <= set(shared_library.COMPILE_FLAGS)


# ---- prerequisites.sh: a fresh machine, played by a compiler and an apt-get of our own.


def check_machine(
    tmp_path: Path, user: str, apt_get: str | None, python: str = sys.executable
) -> subprocess.CompletedProcess[str]:
    """Run the check on a machine whose compiler does not work until apt-get makes it."""
    tools = tmp_path / "tools"
    tools.mkdir()
    write_script(tools / "id", f"echo {user}")
    compiler = write_script(tools / "cc", "exit 1")
    if apt_get is not None:
        write_script(tools / "apt-get", apt_get)
    search = [str(tools)]
    if apt_get is None:
        for name in ("sh", "pkg-config"):
            (tools / name).symlink_to(f"/usr/bin/{name}")
    else:
        search.append(os.environ["PATH"])
    environment = {"PATH": os.pathsep.join(search), "CC": str(compiler), "LOG": str(tmp_path)}
    return subprocess.run(
        ["/bin/sh", str(PREREQUISITES), python],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_complete_machine_passes_silently() -> None:
    result = subprocess.run(
        ["sh", str(PREREQUISITES), sys.executable], capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_plain_user_gets_the_line_to_type(tmp_path: Path) -> None:
    result = check_machine(tmp_path, user="1000", apt_get="exit 9")
    assert result.returncode == 1
    assert result.stderr == (
        "quiver-fast: missing: a C compiler, OpenSSL's headers; "
        "type: sudo apt-get install -y gcc libc6-dev libssl-dev pkg-config\n"
    )


def test_root_on_debian_gets_it_installed(tmp_path: Path) -> None:
    repair = 'echo "$*" >>"$LOG/apt"\n[ "$1" = update ] || printf "#!/bin/sh\\nexit 0\\n" >"$CC"'
    result = check_machine(tmp_path, user="0", apt_get=repair)
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "apt").read_text().splitlines() == [
        "update -q",
        "install -q -y gcc libc6-dev libssl-dev pkg-config",
    ]


def test_failed_installation_is_reported(tmp_path: Path) -> None:
    result = check_machine(tmp_path, user="0", apt_get="exit 100")
    assert result.returncode == 1
    assert "apt-get could not install: gcc" in result.stderr


def test_other_systems_learn_what_is_missing(tmp_path: Path) -> None:
    result = check_machine(tmp_path, user="0", apt_get=None)
    assert result.returncode == 1
    assert result.stderr.startswith("quiver-fast: missing: a C compiler, OpenSSL's headers (Debian")


def test_old_python_is_refused(tmp_path: Path) -> None:
    old = write_script(
        tmp_path / "python3.9", 'case "$2" in *"%d.%d"*) echo 3.9 ;; *) exit 1 ;; esac'
    )
    result = check_machine(tmp_path, user="0", apt_get="exit 9", python=str(old))
    assert result.returncode == 1
    assert "is Python 3.9, at least 3.10 is needed; choose another with PYTHON=" in result.stderr


def test_absent_python_is_refused(tmp_path: Path) -> None:
    result = check_machine(tmp_path, user="0", apt_get="exit 9", python="python3.999")
    assert result.returncode == 1
    assert result.stderr == "quiver-fast: python3.999: not found; choose another with PYTHON=…\n"
