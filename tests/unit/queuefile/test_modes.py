"""The modes of folders and files: no other user reads them, whatever the umask."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from quiver_fast.queuefile.directory import QueueDirectory
from quiver_fast.queuefile.live import remove_entries
from quiver_fast.server.addresses import subscription_files


@pytest.fixture(params=[0o000, 0o022, 0o077])
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def modes(root: Path) -> dict[str, set[int]]:
    found: dict[str, set[int]] = {"folders": {root.stat().st_mode & 0o777}, "files": set()}
    for folder, folders, files in os.walk(root):
        for kind, names in (("folders", folders), ("files", files)):
            found[kind] |= {(Path(folder) / name).stat().st_mode & 0o777 for name in names}
    return found


@pytest.mark.usefixtures("umask")
def test_new_stores_are_private(tmp_path: Path) -> None:
    store = QueueDirectory(tmp_path / "stores" / "mine", roll="TEST4_DAILY")
    # One that a crash left has another mode.
    partial = store.path / "orders" / "metadata.cq4t.partial"
    partial.parent.mkdir()
    partial.parent.chmod(0o700)
    partial.touch(0o666)
    for name in ("orders", "orders/eu/west"):
        appender = store.appender(name)
        for number in range(40):
            remove_entries(appender, [appender.append_text(str(number))])
    what = subscription_files.Description(b"t", None, b"s", True, 1, b"")
    subscription_files.keep(store.path / "%subscriptions" / "1", what)
    store.close()
    assert modes(tmp_path / "stores") == {"folders": {0o700}, "files": {0o600}}


def test_an_existing_store_keeps_its_mode(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    root = tmp_path / "store"
    for _ in range(2):
        store = QueueDirectory(root)
        for name in ("one", "two"):
            store.appender(name)
        store.close()
    assert caplog.messages == []
    for folder in (root, root / "one", root / "two"):
        folder.chmod(0o755)
    store = QueueDirectory(root)
    for name in ("one", "two"):
        store.appender(name)
    store.close()
    assert caplog.messages == [f"{root}: other users can read it; chmod o= ends that"]
    assert (root / "one").stat().st_mode & 0o777 == 0o755
