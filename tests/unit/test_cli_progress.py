from quiver_fast.cli.shared import progress
from quiver_fast.cli.shared.progress import Progress


def pretend_terminal(monkeypatch, patience=0.0):
    # In the test itself: capsys exchanges sys.stderr between a fixture's time and the test's.
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setattr(progress, "_INTERVAL", 0)
    monkeypatch.setattr(progress, "_PATIENCE", patience)


def test_long_work_shows_and_erases_its_progress(monkeypatch, capsys):
    pretend_terminal(monkeypatch)
    with Progress("Reading") as shown:
        shown.update(1, 4)
        shown.update(4, 4)
    assert capsys.readouterr().err == "\rReading:  25 %\rReading: 100 %\r\033[K"


def test_short_work_shows_nothing(monkeypatch, capsys):
    pretend_terminal(monkeypatch, patience=10)
    with Progress("Reading") as shown:
        shown.update(1, 4)
    assert capsys.readouterr().err == ""


def test_quiet_shows_nothing(monkeypatch, capsys):
    pretend_terminal(monkeypatch)
    with Progress("Reading", enabled=False) as quiet:
        quiet.update(1, 4)
    assert capsys.readouterr().err == ""


def test_pipes_show_nothing(monkeypatch, capsys):
    pretend_terminal(monkeypatch)
    monkeypatch.setattr("sys.stderr.isatty", lambda: False, raising=False)
    with Progress("Reading") as piped:
        piped.update(1, 4)
    assert capsys.readouterr().err == ""
