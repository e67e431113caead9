"""The scanners of records and CRC-32C of other machines: the same results, byte for byte."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from support.examples import examples

from buildtools import toolchain

PROGRAM = Path(__file__).resolve().parents[1] / "support" / "vectors_digest.c"
# A wrong access, such as one that is not aligned, ends the program.
FLAGS = ["-O2", "-fsanitize=undefined", "-fsanitize-undefined-trap-on-error"]
CROSS, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64-static"


def digest(compiler: list[str], emulator: list[str], program: Path) -> list[str]:
    """Compile the program and run it; return the name of the scanner and the digest."""
    subprocess.run([*compiler, *FLAGS, str(PROGRAM), "-o", str(program)], check=True)
    command = [*emulator, str(program), str(examples(10_000))]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    return ended.stdout.split()


@pytest.mark.skipif(
    not (shutil.which(CROSS) and shutil.which(EMULATOR)), reason=f"needs {CROSS} and {EMULATOR}"
)
def test_arm64_has_the_same_results(tmp_path: Path) -> None:
    here = digest(toolchain.compiler(), [], tmp_path / "here")
    if here[0] == "scalar":
        pytest.skip("this machine has no vectors")
    assert digest([CROSS, "-static"], [EMULATOR], tmp_path / "there") == ["neon", here[1]]
