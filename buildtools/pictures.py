"""Take the pictures of docs/pictures out of a real browser: `make pictures`.

Measures through our own server: one run at a rate, and two sets of runs with different credit.
`quiver --html` writes their pages, and the top of each is photographed. `make peers` installs
the browser.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from quiver_fast.api import Server

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "pictures"
BIN = Path(sys.executable).parent
WIDTH = 1000
# Larger ones make the documents slow to read.
MOST_BYTES = 150_000
# The measurement for each picture, and the visible part of its page.
MEASURED = {
    "run": (["--rate", "10k", "--duration", "20s"], 1010),
    "comparison": (["--runs", "6", "--duration", "3s", "--baseline=--credit 10"], 960),
}
# Readers do not need the name of the machine.
_WITHOUT_HOST = """
for (const name of document.querySelectorAll('.facts dt'))
    if (['Host', 'Kernel'].includes(name.textContent)) name.parentElement.remove();
"""


def take(folder: Path) -> None:
    """Measure, write the pages, and save their pictures."""
    sys.path.insert(0, str(ROOT / "tests"))
    from support.browser import browser

    with Server("orders") as server:
        for name, (options, _) in MEASURED.items():
            page = ["--html", f"{name}.html", "--quiet"]
            subprocess.run(
                [str(BIN / "quiver"), server.url, *options, *page], check=True, cwd=folder
            )
    PICTURES.mkdir(exist_ok=True)
    with browser() as shown:
        for name, (_, height) in MEASURED.items():
            shown.show(folder / f"{name}.html", WIDTH, "light")
            shown.ask(_WITHOUT_HOST)
            file = PICTURES / f"{name}-light.png"
            shown.picture(file, height)
            if file.stat().st_size > MOST_BYTES:
                raise SystemExit(f"{file} has more than {MOST_BYTES:,} bytes: show less of it")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        take(Path(scratch))
