"""The image of docs/spark.md: what its file runs makes a Python that executors can use."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from support.peers import why_missing

from quiver_fast import __version__

IMAGE = Path(__file__).resolve().parents[2] / "spark_analysis" / "Dockerfile"
ASK = """
import sys
from spark_analysis import executors
print(executors.__file__)
print(executors.lacking(sys.argv[1], executors._PACKAGES))
"""


def venv_without_us(folder: Path) -> Path:
    """Make an environment that has what this one has, but for quiver-fast."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    # Out of the environment: pip takes nothing away from there.
    others = folder.with_name("others")
    others.mkdir()
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if not path.name.startswith(("quiver_fast", "spark_analysis", "__editable__")):
            (others / path.name).symlink_to(path)
    [site] = folder.glob("lib/python3*/site-packages")
    (site / "others.pth").write_text(f"{others}\n")
    return folder / "bin"


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_steps_of_the_image(wheel: Path, tmp_path: Path) -> None:
    """Its COPY and RUN, in an environment in the place of the image."""
    why = why_missing("spark")
    if why is not None:
        pytest.skip(why)
    text = IMAGE.read_text()
    [pattern] = re.findall(r"^COPY (\S+) \./$", text, re.MULTILINE)
    steps = re.findall(r"^RUN (.*)$", text, re.MULTILINE)
    assert wheel.match(pattern)
    programs, work = venv_without_us(tmp_path / "image"), tmp_path / "work"
    work.mkdir()
    shutil.copy(wheel, work)
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    environment["PATH"] = f"{programs}:{environment['PATH']}"
    for step in steps:
        done = subprocess.run(
            ["sh", "-c", step], cwd=work, env=environment, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    assert list(work.iterdir()) == []
    asked = subprocess.run(
        ["python3", "-c", ASK, __version__], cwd=work, env=environment, capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    where, lacks = asked.stdout.splitlines()
    assert where.startswith(str(tmp_path))
    assert lacks == "[]"
