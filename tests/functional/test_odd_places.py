"""Our programs beside files that have names of Python's library, and in odd processes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from support.processes import Running, wait_until

import quiver_fast
from quiver_fast.api import QuiverError, Server, measure
from quiver_fast.own_process import search_path

USE = """
from quiver_fast.api import Server, measure
with Server() as server:
    print(measure(server.url, count=10).received)
"""
FIXTURES = """
def test_both(amqp_server, measure):
    assert measure(amqp_server.url, count=10).received == 10
"""
# Plugins of others read the namesakes in the very process of pytest.
PYTEST = ["pytest", "-q", "-p", "no:cacheprovider", "-p", "quiver_fast.api.pytest_plugin"]
NO_PLUGINS = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
# How Python is started decides whether the current folder or the script's comes first.
STARTS = {
    "a script": [sys.executable, "use.py"],
    "a module": [sys.executable, "-m", "use"],
    "a text": [sys.executable, "-c", USE],
    "pytest": [Path(sys.executable).with_name(PYTEST[0]), *PYTEST[1:]],
    "python -m pytest": [sys.executable, "-m", *PYTEST],
}


def run(
    words: list[str | Path], folder: Path, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a program in a folder, without the safe path that a user does not have either."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    return subprocess.run(
        words, cwd=folder, env=kept | variables, capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip


@pytest.mark.parametrize("variables", [{}, {"PYTHONPATH": "."}], ids=["", "PYTHONPATH"])
@pytest.mark.parametrize("words", STARTS.values(), ids=STARTS)
def test_a_folder_with_namesakes(
    tmp_path: Path, words: list[str | Path], variables: dict[str, str]
) -> None:
    for name in ("secrets", "queue"):
        (tmp_path / f"{name}.py").write_text("MINE = True\n")
    (tmp_path / "use.py").write_text(USE)
    (tmp_path / "test_both.py").write_text(FIXTURES)
    ended = run(words, tmp_path, **NO_PLUGINS, **variables)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stderr == ""


@pytest.mark.parametrize(
    "words",
    [
        [Path(sys.executable).with_name("quiver"), "-c", "10"],
        [sys.executable, "-c", USE],
    ],
    ids=["quiver", "a text"],
)
def test_a_folder_that_was_removed(tmp_path: Path, words: list[str | Path]) -> None:
    """Python has a relative entry on its path: of `-c`, or of an editable install."""
    gone = tmp_path / "gone"
    gone.mkdir()
    removing = ["sh", "-c", 'rmdir "$0" && exec "$@"', gone]
    ended = run([*removing, *words], gone)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_package_that_only_the_parent_finds(tmp_path: Path) -> None:
    """The package and a library of it are in folders that only the caller added."""
    for name, found in {"ours": quiver_fast, "theirs": psutil}.items():
        package = Path(str(found.__file__)).parent
        (tmp_path / name).mkdir()
        shutil.copytree(package, tmp_path / name / package.name, symlinks=True)
    (tmp_path / "rest").mkdir()
    for library in (
        "numpy",
        "zstandard",
        "jinja2",
        "rich",
        "shtab",
        "markupsafe",
        "pygments",
        "markdown_it",
        "mdurl",
    ):
        place = Path(str(__import__(library).__file__))
        entry = place.parent if place.stem == "__init__" else place
        (tmp_path / "rest" / entry.name).symlink_to(entry)
        if (libs := entry.with_name(f"{library}.libs")).is_dir():
            (tmp_path / "rest" / libs.name).symlink_to(libs)
    (tmp_path / "rest" / "secrets.py").write_text("MINE = True\n")
    paths = [str(tmp_path / name) for name in ("rest", "theirs", "ours")]
    # Without site there is nothing but the library.
    source = f"import sys; import secrets; sys.path[:0] = {paths}\n{USE}"
    ended = run([sys._base_executable, "-I", "-S", "-c", source], tmp_path)
    assert (ended.returncode, ended.stdout) == (0, "10\n"), ended.stderr


def test_the_order_of_folders() -> None:
    """Python's library first, then our package, then all others."""
    package = Path(quiver_fast.__file__).parent
    library = os.path.dirname(os.__file__)
    found = [str(package), "/mine", library, f"{library}/lib-dynload", "/site-packages"]
    others = ["/mine", "/site-packages", "/theirs"]
    expected = [library, f"{library}/lib-dynload", str(package.parent), *others]
    assert search_path(found, ["/mine", "/theirs"]) == expected


def test_the_command_of_a_result_is_the_one_that_is_typed(tmp_path: Path) -> None:
    measure(count=1, output=tmp_path)
    typed = f"quiver --count=1 --output={tmp_path} --json"
    summary = json.loads((tmp_path / "receiver-summary.json").read_text())
    assert summary["environment"]["command"] == typed


def test_the_last_words_of_a_process_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = "import os; os.write(2, b'broken here\\n'); os._exit(3)"
    (tmp_path / "sitecustomize.py").write_text(source)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(QuiverError, match=r"broken here \(exit code 3\)"):
        measure(count=1)
    with pytest.raises(QuiverError, match=r"broken here \(exit code 3\)"), Server():
        pass


def test_a_killed_run_says_so() -> None:
    source = "from quiver_fast.api import measure; measure(duration=0, rate=10)"
    with Running([sys.executable, "-c", source]) as python:
        parent = psutil.Process(python.process.pid)
        wait_until(lambda: len(parent.children(recursive=True)) == 3, "both arrows run")
        parent.children()[0].kill()
        assert python.wait().stderr.endswith("quiver failed: killed by SIGKILL\n")


THREAD = """
import signal, sys, threading
from quiver_fast.api import Server, measure
server = Server()
thread = threading.Thread(target=server.__enter__)
thread.start()
thread.join()
print(measure(server.url, count=10).received, flush=True)
print(measure(server.url, count=10).received, flush=True)
{end}
"""


def test_a_server_outlives_the_thread_that_entered_it() -> None:
    end = "server.__exit__(None, None, None); print('ended')"
    ended = run([sys.executable, "-c", THREAD.format(end=end)], Path.cwd())
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "10\n10\nended\n", "")


@pytest.mark.parametrize("forks", ["", "import os, time; os.fork() or time.sleep(600)"])
def test_the_end_of_the_process_ends_a_thread_s_server(forks: str) -> None:
    """A forked process that goes on has no part in it."""
    with Running([sys.executable, "-c", THREAD.format(end=f"{forks}\nsignal.pause()")]) as python:
        parent = psutil.Process(python.process.pid)
        wait_until(lambda: python.stdout_so_far().count("\n") == 2, "it serves")
        wait_until(lambda: len(parent.children()) == 1 + bool(forks), "all run")
        children = parent.children()
        server = next(each for each in children if "quiver_fast.server.main" in each.cmdline())
        parent.send_signal(signal.SIGKILL)
        try:
            wait_until(lambda: not server.is_running(), "the server ends")
        finally:
            for each in children:
                if each != server:
                    each.kill()
