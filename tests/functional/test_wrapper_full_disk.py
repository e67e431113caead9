"""A run that fills the disk of its output directory leaves its summaries, and nothing hidden."""

import subprocess

import pytest
from support.documents import parsed
from wrapper_fake import fake_implementation, load  # noqa: F401 (a fixture)

SIZE = 4 << 20
OURS = ("--sender", "pyfast", "--receiver", "pyfast")


@pytest.fixture(name="disk")
def small_disk(tmp_path):
    """Return a directory on a file system of its own, of a few megabytes."""
    directory = tmp_path / "disk"
    directory.mkdir()
    options = f"size={SIZE},mode=0700"
    mount = ["mount", "-t", "tmpfs", "-o", options, "quiver-test", str(directory)]
    try:
        done = subprocess.run(mount, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("no mount command")
    if done.returncode != 0:
        pytest.skip(f"cannot mount a small file system: {done.stderr.strip()}")
    yield directory
    subprocess.run(["umount", "--lazy", str(directory)], check=True)


def test_a_foreign_sender(fake, disk):
    out = disk / "out"
    done = fake.run("arrow", "send", "q", "-c", "1m", "-d", "0", "--output", str(out), timeout=60)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("quiver-arrow: error: sender (fake) failed: ")
    assert "No space left on device" in done.stderr.splitlines()[-1]
    summary = load(out, "sender-summary.json")
    assert summary["complete"] is False
    assert "No space left on device" in summary["reason"]
    assert summary["results"]["message_count"] > 50_000
    assert not [file.name for file in out.iterdir() if file.name.startswith(".")]


@pytest.mark.parametrize("words", [[], ["--record-format", "v2"]])
def test_a_pair_of_ours(fake, disk, words):
    out = disk / "out"
    done = fake.run("pair", *OURS, "-d", "30", "--json", *words, "--output", str(out))
    assert done.returncode == 1
    assert "No space left on device" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    document = parsed(done.stdout)
    assert document["complete"] is False
    assert "No space left on device" in document["reason"]
    for role in ("sender", "receiver"):
        summary = load(out, f"{role}-summary.json")
        assert summary["complete"] is False
        assert summary["results"]["message_count"] > 0
    assert not [file.name for file in out.iterdir() if file.name.startswith(".")]


def test_a_disk_that_is_full_before_is_refused(fake, disk):
    with (disk / "filler").open("wb") as filler:
        filler.write(bytes(SIZE - (512 << 10)))
    out = disk / "out"
    done = fake.run("arrow", "send", "q", "-c", "10", "--output", str(out))
    assert done.returncode == 1
    assert done.stderr == (f"quiver-arrow: error: {out}/.sender-reserve: No space left on device\n")
    assert list(out.iterdir()) == []


def test_a_set_of_ours(fake, disk):
    out = disk / "out"
    done = fake.run("pair", *OURS, "--runs", "3", "-d", "30", "--json", "--output", str(out))
    assert done.returncode == 1
    assert "No space left on device" in done.stderr.splitlines()[-1]
    assert done.stderr.splitlines()[-1].endswith("; 0 of 3 runs are complete")
    assert "Traceback" not in done.stderr
    document = parsed(done.stdout)
    assert (document["complete"], len(document["order"])) == (False, 1)
    assert load(out / "run-01", "receiver-summary.json")["complete"] is False
