"""Files that a command writes: whole or not at all. Links and pipes are written through."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from operator import methodcaller
from pathlib import Path

import pytest

from quiver_fast.output_file import write_file

TEXT = methodcaller("write", b"new\n")


def test_a_file_keeps_its_mode(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_text("old")
    file.chmod(0o600)
    write_file(file, TEXT)
    assert (file.read_bytes(), file.stat().st_mode & 0o777) == (b"new\n", 0o600)
    assert os.listdir(tmp_path) == ["f"]


@pytest.mark.parametrize("exists", [True, False])
def test_a_link_stays_a_link(tmp_path: Path, exists: bool) -> None:
    folder = tmp_path / "real"
    folder.mkdir()
    if exists:
        (folder / "f").write_text("old")
    link = tmp_path / "link"
    link.symlink_to(folder / "f")
    write_file(link, TEXT)
    assert link.is_symlink()
    assert (folder / "f").read_bytes() == b"new\n"


def test_a_pipe_gets_the_bytes(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(pipe.read_bytes()))
    reader.start()
    write_file(pipe, TEXT)
    reader.join()
    assert found == [b"new\n"]


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_a_descriptor_keeps_its_place(tmp_path: Path, name: str) -> None:
    """What the program prints before and after is there, also where the shell has a file."""
    program = f"""
import sys
from operator import methodcaller
from pathlib import Path
from quiver_fast.output_file import write_file
print("before")
write_file(Path({name!r}), methodcaller("write", b"new\\n"))
print("after")
"""
    with (tmp_path / "out").open("wb") as out:
        subprocess.run([sys.executable, "-c", program], stdout=out, check=True)
    assert (tmp_path / "out").read_text() == "before\nnew\nafter\n"


def test_more_is_appended(tmp_path: Path) -> None:
    file = tmp_path / "f"
    for _ in range(2):
        write_file(file, TEXT, append=True)
    assert file.read_bytes() == b"new\nnew\n"


@pytest.mark.parametrize("append", [True, False])
def test_the_error_names_the_file(tmp_path: Path, append: bool) -> None:
    for file in (Path("/dev/full"), tmp_path / "none" / "f", tmp_path):
        with pytest.raises(OSError) as caught:  # noqa: PT011  # the name is what counts
            write_file(file, TEXT, append=append)
        assert caught.value.filename == str(file)


def test_nothing_is_left_of_a_failure(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_text("old")

    def fail(out: object) -> None:
        TEXT(out)
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        write_file(file, fail)
    assert (os.listdir(tmp_path), file.read_text()) == (["f"], "old")
