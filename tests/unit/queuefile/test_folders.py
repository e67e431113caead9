"""One folder for each address: any address there and back, and none is a queue's own file."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.addresses import ADDRESSES
from support.examples import examples

from quiver_fast.errors import OutputError, UsageError
from quiver_fast.queuefile.appender import Appender
from quiver_fast.queuefile.directory import QueueDirectory
from quiver_fast.queuefile.folders import address_of, folder_of, is_plain
from quiver_fast.queuefile.tailer import Tailer

FILES = ("metadata.cq4t", ".quiver.lock", "20261123F.cq4", "20261123F.cq4.damaged",
         "metadata.cq4t.partial")  # fmt: skip


@settings(max_examples=examples(500))
@given(ADDRESSES)
def test_there_and_back(address: str) -> None:
    folder = folder_of(address)
    assert address_of(folder) == address
    for name in folder.split("/"):
        assert 0 < len(name) <= 255
        assert name not in (".", "..", ".quiver.lock")
        assert not name.lower().endswith((".cq4", ".cq4t", ".damaged", ".partial"))


@settings(max_examples=examples(500))
@given(
    ADDRESSES | st.lists(st.sampled_from(["%", "%2E", "a%", "%2e", "%41", "a", "%/"])).map("".join)
)
def test_a_folder_is_of_one_address_at_most(folder: str) -> None:
    address = address_of(folder)
    assert address is None or folder_of(address) == folder


@pytest.mark.parametrize(
    ("address", "folder"),
    [
        ("orders/eu", "orders/eu"),
        ("a.b-c_D/1", "a.b-c_D/1"),
        ("x" * 128, "x" * 128),
        ("metadata.cq4t", "metadata%2Ecq4t"),
        ("q1/20261123F.cq4", "q1/20261123F%2Ecq4"),
        ("METADATA.CQ4T", "METADATA%2ECQ4T"),
        (".quiver.lock", "%2Equiver%2Elock"),
        ("..", "%2E%2E"),
        ("a/../b", "a/%2E%2E/b"),
        ("/a//b/", "%/a/%/b/%"),
        ("100 %", "100%20%25"),
        ("grün", "gr%C3%BCn"),
        ("1/2/3/4/5/6/7/8/9/10", "1/2/3/4/5/6/7/8%2F9%2F10"),
        ("y" * 129, "y" * 64 + "%/" + "y" * 64 + "%/y"),
    ],
)
def test_examples(address: str, folder: str) -> None:
    assert folder_of(address) == folder


@pytest.mark.parametrize("address", ["", "a\0b", "x" * 1025, "\udcff"])
def test_what_no_queue_can_be_called(address: str) -> None:
    with pytest.raises(UsageError, match="an address"):
        folder_of(address)


@pytest.mark.parametrize("name", ["a/../b", "", "a b", "ä", "x" * 129, "a//b"])
def test_names_of_remote_queues(name: str) -> None:
    assert not is_plain(name)
    assert is_plain("a/b.c")


@pytest.mark.parametrize("name", FILES)
def test_queues_that_are_called_as_files_are(tmp_path: Path, name: str) -> None:
    """Beside the queue that has such files, and at the top."""
    files = QueueDirectory(tmp_path)
    addresses = sorted([name, "q1", f"q1/{name}", f"q1/{name}/{name}"])
    for address in addresses:
        files.appender(address).append_text(f'"{address}"')
    files.close()
    again = QueueDirectory(tmp_path)
    assert again.names() == addresses
    for address in addresses:
        again.appender(address)
        found = Tailer(again.folder(address)).read()
        assert found is not None
        assert found[1] == f'"{address}"'.encode()
    again.close()


def test_a_folder_of_an_earlier_version_is_used_on(tmp_path: Path) -> None:
    Appender(tmp_path / "a.cq4").close()
    files = QueueDirectory(tmp_path)
    assert files.names() == ["a.cq4"]
    assert files.folder("a.cq4") == tmp_path / "a.cq4"
    files.appender("a.cq4")
    assert not (tmp_path / "a%2Ecq4").exists()
    files.close()


def test_folders_that_are_not_ours_are_no_queues(tmp_path: Path) -> None:
    for name in ("%zz", "b%2e", "a b"):
        Appender(tmp_path / name).close()
    (tmp_path / "q" / "20200101F.cq4").mkdir(parents=True)
    (tmp_path / "r" / "metadata.cq4t").mkdir(parents=True)
    files = QueueDirectory(tmp_path)
    assert files.names() == []
    assert not files.holds("q")
    assert not files.holds("r")


def test_a_folder_called_as_a_file_is_in_nobodys_way(tmp_path: Path) -> None:
    """Files of a past cycle, of today's, and of a future one."""
    appender = Appender(tmp_path)
    today = appender.path_of(appender.bounds[0] >> 32)
    appender.close()
    today.unlink()
    for name in (today.name, "20200101F.cq4", "29990101F.cq4"):
        (tmp_path / name).mkdir()
    with Appender(tmp_path) as appender:
        index = appender.append_text("a")
    tailer = Tailer(tmp_path)
    assert tailer.read() == (index, b"a")
    with Appender(tmp_path) as appender:
        appender.append_text("b")
        assert appender.bounds[1] == index + 1


def test_a_table_that_is_a_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "metadata.cq4t").mkdir()
    with pytest.raises(OutputError, match="directory"):
        Appender(tmp_path)
