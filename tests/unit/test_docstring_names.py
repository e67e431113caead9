"""Each role in a docstring and each name in backquotes names something that exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
_ROLE = re.compile(r":(?:func|class|meth|mod|data|attr|exc):`~?([\w.\s]+)`")
_CODE = {".py", ".pyx", ".pxd", ".pxi", ".pyi"}
_SOURCES = {*_CODE, ".c", ".h", ".js", ".css", ".json", ".toml", ".sh"}
_PLACES = ("src/quiver_fast", "spark_analysis", "bench", "buildtools", "tests")
_QUOTED = re.compile(r"`+([A-Za-z_][\w.]*)`+")
# Of the standard library, of NumPy, of HdrHistogram, of OpenSSL, of Spark; a form and an example.
_OF_OTHERS = {
    "json.dumps", "numpy.percentile", "pathlib.Path", "_lerp",
    "copyCorrectedForCoordinatedOmission", "_set1_ip", "spark.hadoop.", "MAJOR.MINOR.POINT",
    "pN_us", "C0000000",
}  # fmt: skip
_FOREIGN = {"build", "node_modules"}
# These speak of the fields of foreign files.
_PAGES_OF_FORMATS = {"queue-files.md"}

FILES = [
    path
    for place in _PLACES
    for path in sorted((REPOSITORY / place).rglob("*.p*"))
    if path.suffix in _CODE and "build" not in path.parts
]
TEXTS = {path: path.read_text(encoding="utf-8") for path in FILES}
ROLES = [
    (path, "".join(name.split())) for path, text in TEXTS.items() for name in _ROLE.findall(text)
]


def has(text: str, name: str) -> bool:
    """Say whether a text has a name outside of roles."""
    return re.search(rf"\b{name}\b", _ROLE.sub("", text)) is not None


def modules(parts: list[str]) -> list[Path]:
    """Return the files of a module by the last parts of its name; those of its folder, too."""
    return [
        path
        for path in FILES
        if list(path.with_suffix("").parts[-len(parts) :]) == parts
        or list(path.parent.parts[-len(parts) :]) == parts
    ]


def exists(path: Path, name: str) -> bool:
    """Say whether a name that a docstring of ``path`` gives exists."""
    parts = name.strip(".").split(".")
    # Modules first; then a class and its member, or one name.
    for end in range(len(parts), 0, -1):
        found = modules(parts[:end])
        if found:
            return any(all(has(TEXTS[one], part) for part in parts[end:]) for one in found)
    return all(has(TEXTS[path], part) for part in parts) or (
        (name.startswith(".") or parts[0][0].isupper())
        and any(all(has(text, part) for part in parts) for text in TEXTS.values())
    )


@pytest.mark.parametrize("name", ["nobody", ".frames.split_points", ".ids.nobody"])
def test_it_finds_names_of_nothing(name: str) -> None:
    assert not exists(REPOSITORY / "src/quiver_fast/records/frames.py", name)


def test_roles_name_something() -> None:
    assert len(ROLES) > 100
    wrong = [
        f"{path.relative_to(REPOSITORY)}: {name}"
        for path, name in ROLES
        if name not in _OF_OTHERS and not exists(path, name)
    ]
    assert not wrong


def words(text: str) -> set[str]:
    """Return the words of a text outside of backquotes."""
    return set(re.findall(r"\w+", re.sub(r"`+[^`\n]*`+", "", text)))


def test_names_in_backquotes_name_something() -> None:
    sources = [
        path
        for place in _PLACES
        for path in (REPOSITORY / place).rglob("*")
        if path.suffix in _SOURCES and path.is_file() and _FOREIGN.isdisjoint(path.parts)
    ]
    pages = [
        path
        for path in (*(REPOSITORY / "docs/internals").glob("*.md"), REPOSITORY / "CONTRIBUTING.md")
        if path.name not in _PAGES_OF_FORMATS
    ]
    read = {path: path.read_text(encoding="utf-8") for path in (*sources, *pages)}
    known = {part for path in sources for part in (*path.parts, path.stem)} | {"impls"}
    known.update(*(words(read[path]) for path in sources))
    quoted = [(path, name) for path, text in read.items() for name in _QUOTED.findall(text)]
    assert len(quoted) > 2000
    wrong = [
        f"{path.relative_to(REPOSITORY)}: {name}"
        for path, name in quoted
        if name not in _OF_OTHERS and name not in known and not known.issuperset(name.split("."))
    ]
    assert not wrong
