"""Files of brokers out of templates. The format of a file decides how its values are escaped."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from xml.sax.saxutils import escape

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

_FOLDER = Path(__file__).with_name("templates")

# XML readers turn these into blanks in an attribute.
_XML_ENTITIES = {'"': "&quot;", "\t": "&#9;", "\n": "&#10;", "\r": "&#13;"}


def write(name: str, directory: Path, values: Mapping[str, object]) -> None:
    """Write the files of a folder of templates to the same places below ``directory``."""
    for file in (_FOLDER / name).rglob("*"):
        if file.is_file():
            place = directory / file.relative_to(_FOLDER / name)
            place.write_text(text(str(file.relative_to(_FOLDER)), values), encoding="utf-8")


def text(name: str, values: Mapping[str, object]) -> str:
    """Return the text that a template makes of some values."""
    file = _FOLDER / name
    environment = Environment(  # noqa: S701 - `finalize` escapes, for formats that are not HTML
        finalize=_ESCAPES[file.suffix],
        keep_trailing_newline=True,
        lstrip_blocks=True,
        trim_blocks=True,
        undefined=StrictUndefined,
    )
    return environment.from_string(file.read_text(encoding="utf-8")).render(values)


def _erlang(value: object) -> str:
    """Return a number, or an Erlang string: any characters, as the list of their code points."""
    return str(value) if isinstance(value, int) else str([ord(one) for one in str(value)])


def _properties(value: object) -> str:
    """Return a key or a value of a Java properties file."""
    data = str(value).encode("utf-16-be")
    return "".join(f"\\u{data[i : i + 2].hex()}" for i in range(0, len(data), 2))


def _xml(value: object) -> str:
    return value if isinstance(value, Markup) else escape(str(value), _XML_ENTITIES)


_ESCAPES: dict[str, Callable[[object], str]] = {
    "": _erlang,
    ".conf": str,
    ".config": _erlang,
    ".json": partial(json.dumps, default=str),
    ".properties": _properties,
    ".xml": _xml,
}
