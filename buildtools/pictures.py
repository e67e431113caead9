"""Take the picture of docs/pictures out of a real browser: `make pictures`.

Measures a pair peer to peer, has `quiver-analyze` write its page, and photographs the top of it.
What is needed is what the tests of pages need: `make peers`.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "pictures"
BIN = Path(sys.executable).parent
WIDTH, HEIGHT = 1000, 900
# Whose machine it was is of no use to readers.
_WITHOUT_HOST = """
for (const name of document.querySelectorAll('.facts dt'))
    if (['Host', 'Kernel'].includes(name.textContent)) name.parentElement.remove();
"""


def take(folder: Path) -> None:
    """Measure, write the page, and save its picture."""
    sys.path.insert(0, str(ROOT / "tests"))
    from support.browser import browser

    measure = [str(BIN / "quiver"), "--duration", "20s", "--rate", "20000"]
    subprocess.run([*measure, "--output", "run", "--quiet"], check=True, cwd=folder)
    analyse = [str(BIN / "quiver-analyze"), "run", "--quiet", "--html", "report.html"]
    subprocess.run(analyse, check=True, cwd=folder, stdout=subprocess.DEVNULL)
    PICTURES.mkdir(exist_ok=True)
    with browser() as shown:
        shown.show(folder / "report.html", WIDTH, "light")
        shown.ask(_WITHOUT_HOST)
        shown.picture(PICTURES / "run-light.png", HEIGHT)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        take(Path(scratch))
