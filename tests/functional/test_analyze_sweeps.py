"""`quiver-analyze` draws what `quiver --sweep` measured."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

import pytest
from support.documents import parsed

from quiver_fast.cli.analyze.command import main

START = 1_700_000_000_000


def write_sweep(folder: Path, points: list[dict[str, Any]], options: list[str]) -> Path:
    """Write the directory of a sweep, with the records of its points."""
    for number, _ in enumerate(points, 1):
        run = folder / f"run-{number:02}"
        run.mkdir(parents=True)
        lines = [f"{START + n},{START + n + 3}\n" for n in range(0, 4000, 10)]
        (run / "receiver-transfers.csv").write_text("".join(lines))
    document = {"target": "pyfast", "options": options, "points": points}
    (folder / "sweep.json").write_text(json.dumps(document))
    return folder


def point(reached: float, p99: float, *, sustained: bool = True, **values: str) -> dict[str, Any]:
    figures = {"message_rate": reached, "latency_p50": p99 / 10, "latency_p99": p99}
    return {"values": values, "sustained": sustained, "figures": figures}


def drawn(tmp_path: Path, *sweeps: Path) -> str:
    words = [*map(str, sweeps), "--svg", str(tmp_path / "pictures"), "--quiet"]
    assert main(words) == 0
    return (tmp_path / "pictures" / "sweep.svg").read_text()


def labels(picture: str) -> set[str]:
    return set(re.findall(r"<text [^>]*>([^<]*(?:99 %|median))</text>", picture))


def test_one_option(tmp_path: Path) -> None:
    points = [point(1000, 0.5, rate="1k"), point(9000, 40, sustained=False, rate="10k")]
    picture = drawn(tmp_path, write_sweep(tmp_path / "one", points, ["rate"]))
    assert labels(picture) == {"99 %", "median"}
    assert ">Latency over throughput<" in picture
    # The mark of what was not sustained is hollow, once on each line.
    assert picture.count('class="hole"') == 2


def test_the_option_with_fewer_values_parts_the_curves(tmp_path: Path) -> None:
    points = [
        point(float(rate), size / 100, rate=str(rate), **{"body-size": str(size)})
        for rate in (1000, 2000, 3000)
        for size in (10, 100)
    ]
    sweep = write_sweep(tmp_path / "two", points, ["rate", "body-size"])
    expected = {f"body-size={size}, {part}" for size in (10, 100) for part in ("99 %", "median")}
    assert labels(drawn(tmp_path, sweep)) == expected


def test_sweeps_side_by_side(tmp_path: Path) -> None:
    sweeps = [write_sweep(tmp_path / name, [point(1000, 1, rate="1k")], ["rate"])
              for name in ("a", "b")]  # fmt: skip
    expected = {f"{sweep}, {part}" for sweep in sweeps for part in ("99 %", "median")}
    assert labels(drawn(tmp_path, *sweeps)) == expected


def test_names_are_drawn_as_they_are(tmp_path: Path) -> None:
    names = ("_hidden", "$x^2$", "$open", "back\\slash", "bell\x07")
    sweeps = [write_sweep(tmp_path / name, [point(1000, 1, rate="1k")], ["rate"]) for name in names]
    picture = drawn(tmp_path, *sweeps)
    shown = {html.unescape(text) for text in labels(picture)}
    paths = [str(sweep).replace("\x07", "\\x07") for sweep in sweeps]
    assert shown == {f"{path}, {part}" for path in paths for part in ("99 %", "median")}


def test_points_are_no_series(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    points = [point(1000 * n, n, rate=f"{n}k") for n in range(1, 14)]
    sweep = write_sweep(tmp_path / "long", points, ["rate"])
    assert main([str(sweep), "--json"]) == 0
    assert parsed(capsys.readouterr().out)["change_points"] is None
    (sweep / "sweep.json").unlink()
    assert main([str(sweep), "--json"]) == 0
    assert parsed(capsys.readouterr().out)["change_points"] is not None


def test_points_without_figures_are_left_out(tmp_path: Path) -> None:
    points = [{"values": {"rate": "1k"}, "sustained": False, "figures": None}]
    sweep = write_sweep(tmp_path / "none", points, ["rate"])
    assert main([str(sweep), "--svg", str(tmp_path / "pictures"), "--quiet"]) == 0
    assert not (tmp_path / "pictures" / "sweep.svg").exists()


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[]", "is no sweep: it is no object"),
        ("{", "is damaged: "),
        ("[" * 100_000, "is no sweep: it is nested too deep"),
        ('{"options": [], "points": []}', "is no sweep: it has no target"),
        ('{"target": "x", "options": [1], "points": []}', "options is no list of names"),
        ('{"target": "x", "options": [], "points": 1}', "points is no list"),
        ('{"target": "x", "options": ["rate"], "points": [{}]}', "points[0] is no point"),
        (
            '{"target": "x", "options": ["rate"], "points": '
            '[{"values": {"rate": "1"}, "sustained": true, "figures": {"message_rate": "1"}}]}',
            "points[0] is no point of a sweep",
        ),
    ],
)
def test_a_damaged_document_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, fault: str
) -> None:
    sweep = write_sweep(tmp_path / "bad", [point(1000, 1, rate="1k")], ["rate"])
    (sweep / "sweep.json").write_text(text)
    assert main([str(sweep)]) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"quiver-analyze: error: {sweep / 'sweep.json'} ")
    assert fault in line
