import pytest

from quiver_fast.cli import progress
from quiver_fast.cli.progress import Progress


@pytest.fixture
def terminal(capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setattr(progress, "_INTERVAL", 0)


def test_long_work_shows_and_erases_its_progress(terminal, monkeypatch, capsys):
    monkeypatch.setattr(progress, "_PATIENCE", 0)
    with Progress("Reading") as shown:
        shown.update(1, 4)
        shown.update(4, 4)
    assert capsys.readouterr().err == "\rReading:  25 %\rReading: 100 %\r\033[K"


def test_short_work_shows_nothing(terminal, capsys):
    with Progress("Reading") as shown:
        shown.update(1, 4)
    assert capsys.readouterr().err == ""


def test_pipes_and_quiet_show_nothing(terminal, monkeypatch, capsys):
    monkeypatch.setattr(progress, "_PATIENCE", 0)
    with Progress("Reading", enabled=False) as quiet:
        quiet.update(1, 4)
    monkeypatch.setattr("sys.stderr.isatty", lambda: False, raising=False)
    with Progress("Reading") as piped:
        piped.update(1, 4)
    assert capsys.readouterr().err == ""
