"""Cython's declarations of C headers: of the functions, types and constants that Cython code names.

Each build writes `amqp/data_plane.pxd` and `proton/libproton.pxd` before Cython runs. The
compiler's preprocessor and pycparser read the headers, so no declaration differs from its header.
"""

from __future__ import annotations

import re
import subprocess
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

from pycparser import c_ast, c_parser

from buildtools import toolchain

# Extensions of the compiler, which the system's headers use and pycparser does not know.
PLAIN_C = [
    "-D__attribute__(x)=", "-D__extension__=", "-D__inline=inline", "-D__restrict=",
    "-D__asm__(x)=", "-D_Float128=double", "-D__builtin_va_list=int", "-D_Static_assert(a,b)=",
]  # fmt: skip
# Fields whose names Cython does not take: their names there.
RESERVED = {"from": "start", "in": "inside"}
ENGINE_HEADERS = [
    f"proton/{name}.h"
    for name in (
        "version", "types", "object", "logger", "condition", "codec", "connection", "session",
        "terminus", "link", "disposition", "event", "transport", "connection_driver", "sasl",
        "sasl_plugin",
    )
]  # fmt: skip
# How a generated file begins.
GENERATED = "# Written by buildtools/declarations.py from the headers."
HEAD = f"""{GENERATED}

from libc.stdint cimport (
    int8_t, int16_t, int32_t, int64_t, intptr_t, uint8_t, uint16_t, uint32_t, uint64_t,
)
"""
# Callbacks must return C's own type; bint is enough everywhere else.
BOOL = """
cdef extern from "<stdbool.h>" nogil:
    ctypedef bint c_bool "bool"
"""
# How the functions behind our pointers are declared.
CALLBACK = " noexcept nogil"
IOVEC = "\nfrom quiver_fast.amqp.tls cimport iovec\n"
_WORD = re.compile(r"\b[A-Za-z_]\w*")
_MACRO = re.compile(r"^#define (\w+) +(\S.*)", re.MULTILINE)
# The preprocessor's note of a file that it reads.
_PLACE = re.compile(r'^# \d+ "([^"]+)"', re.MULTILINE)
_POINTER = re.compile(r"\(\((\w+) \*\) ?\d+\)")

Block = list[str]


def write(source: Path, amqp: Path, engine_flags: Sequence[str]) -> None:
    """Write the two files of declarations below ``source``, if they would change.

    Raises:
        BuildError: the headers cannot be read.

    Args:
        source: the folder that the package is in.
        amqp: the folder of the data plane's headers.
        engine_flags: the compiler's, to find the headers of the engine.
    """
    plane = source / amqp / "data_plane.pxd"
    engine = source / "quiver_fast" / "proton" / "libproton.pxd"
    files = {path for kind in ("pyx", "pxi", "pxd") for path in source.rglob(f"*.{kind}")}
    texts = [path.read_text(encoding="utf-8") for path in files - {plane, engine}]
    wanted = set().union(*map(_WORD.findall, texts))
    headers = sorted(
        path.name
        for path in (source / amqp).glob("*.h")
        if not path.name.startswith("tls_") and not path.stem.endswith("_parts")
    )
    ours = Headers(headers, [f"-I{source / amqp}"], wanted)
    _write(plane, HEAD + IOVEC + ours.text())
    _write(engine, HEAD + BOOL + Headers(ENGINE_HEADERS, engine_flags, wanted).text())


def _write(path: Path, text: str) -> None:
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def _preprocessed(text: str, flags: Sequence[str]) -> str:
    command = [*toolchain.compiler(), "-E", "-x", "c", *flags, "-"]
    result = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if result.returncode:
        raise toolchain.BuildError(f"the C headers cannot be read:\n{result.stderr.strip()}")
    return result.stdout


def _indented(line: str) -> str:
    """Indent a declaration; a long one has its arguments on lines of their own."""
    if len(line) <= 96:
        return f"    {line}\n"
    head, _, rest = line.replace(CALLBACK, CALLBACK.replace(" ", "\0")).rpartition("(")
    indent = " " * 8
    arguments = textwrap.fill(rest, 100, initial_indent=indent, subsequent_indent=indent)
    return f"    {head}(\n{arguments}\n".replace("\0", " ")


class Headers:
    """The declarations of some headers that ``wanted`` names, and the types that these need.

    Args:
        names: the headers, as C includes them.
        flags: the preprocessor's, to find the headers.
        wanted: names of functions, types, fields and constants.
    """

    def __init__(self, names: Sequence[str], flags: Sequence[str], wanted: set[str]) -> None:
        self.wanted = wanted
        included = "".join(f"#include <{name}>\n" for name in names)
        text = _preprocessed(included, [*PLAIN_C, *flags])
        places = dict.fromkeys(_PLACE.findall(text))
        self.places = {
            name: Path(next(place for place in places if place.endswith(f"/{name}")))
            for name in names
        }
        homes = {str(place): name for name, place in self.places.items()}
        # A header comes after those that it includes; one without declarations comes first.
        tree = [one for one in c_parser.CParser().parse(text).ext if one.coord.file in homes]
        order = dict.fromkeys(homes[one.coord.file] for one in tree)
        self.nodes: dict[str, list[c_ast.Node]] = {
            name: [] for name in [*(name for name in names if name not in order), *order]
        }
        for node in tree:
            self.nodes[homes[node.coord.file]].append(getattr(node, "decl", node))
        # The typedef of a struct or an enum by its tag, and the nodes of members by its name.
        self.named: dict[str, str] = {}
        self.structs: dict[str, list[c_ast.Decl]] = {}
        for nodes in self.nodes.values():
            for node in nodes:
                self._learn(node)
        self.needed: set[str] = set()

    def _learn(self, node: c_ast.Node) -> None:
        kind = getattr(node.type, "type", node.type)
        if isinstance(node, c_ast.Typedef) and isinstance(kind, (c_ast.Struct, c_ast.Enum)):
            self.named.setdefault(kind.name or node.name, node.name)
        if isinstance(kind, c_ast.Struct) and kind.decls:
            self.structs[self.named.get(kind.name or node.name, kind.name)] = kind.decls

    def text(self) -> str:
        """Return the blocks of all headers."""
        known = -1
        while known < len(self.needed):
            # A declaration may need a type that was left out before it.
            known = len(self.needed)
            found = "".join(map(self._block, self.nodes))
        return found

    def _block(self, name: str) -> str:
        lines = [*self._constants(name), *self._types(name), *self._functions(name)]
        text = "".join(map(_indented, lines))
        return f'\ncdef extern from "{name}" nogil:\n{text}' if lines else ""

    def _functions(self, name: str) -> Iterator[str]:
        for node in self.nodes[name]:
            if isinstance(node.type, c_ast.FuncDecl) and node.name in self.wanted:
                yield self._declared(node.type, node.name)

    def _fields(self, struct: str) -> Iterator[str]:
        for field in self.structs[struct]:
            name = RESERVED.get(field.name, field.name)
            if name in self.wanted and not self._is_hidden(field.type):
                text = self._declared(field.type, name)
                yield text + (f' "{field.name}"' if name != field.name else "")

    def _is_hidden(self, kind: c_ast.Node) -> bool:
        """Say whether a type is a struct that only its own C file knows."""
        while hasattr(kind, "type"):
            kind = kind.type
        return isinstance(kind, c_ast.Struct) and kind.name not in self.named

    def _types(self, name: str) -> Iterator[str]:
        for node in self.nodes[name]:
            kind = getattr(node.type, "type", node.type)
            if isinstance(kind, c_ast.Enum) and kind.values:
                yield from self._enum(node, kind)
            elif isinstance(kind, c_ast.Struct):
                yield from self._struct(node, kind)
            elif isinstance(node, c_ast.Typedef) and node.name in self.needed | self.wanted:
                yield f"ctypedef {self._declared(node.type, node.name)}"

    def _enum(self, node: c_ast.Node, kind: c_ast.Enum) -> Iterator[str]:
        own = node.name if isinstance(node, c_ast.Typedef) else kind.name
        members = [one.name for one in kind.values.enumerators if one.name in self.wanted]
        if members or own in self.needed:
            word = "ctypedef enum" if isinstance(node, c_ast.Typedef) else "enum"
            yield f"{word} {own}:" if own else "enum:"
            yield from (f"    {member}" for member in members or ["pass"])

    def _struct(self, node: c_ast.Node, kind: c_ast.Struct) -> Iterator[str]:
        own = self.named.get(kind.name or node.name, kind.name)
        if own not in self.needed | self.wanted:
            return
        if own not in self.structs:
            yield f"ctypedef struct {own}"
        elif kind.decls:
            yield f"ctypedef struct {own}:"
            yield from (f"    {field}" for field in [*self._fields(own)] or ["pass"])

    def _constants(self, name: str) -> Iterator[str]:
        macros = dict(_MACRO.findall(self.places[name].read_text(encoding="utf-8")))
        macros = {macro: value for macro, value in macros.items() if macro in self.wanted}
        pointers = {
            macro: match[1] for macro, value in macros.items() if (match := _POINTER.match(value))
        }
        self.needed |= set(pointers.values())
        yield from (f"{kind} *{macro}" for macro, kind in pointers.items())
        if numbers := macros.keys() - pointers.keys():
            yield "enum:"
            yield from (f"    {macro}" for macro in macros if macro in numbers)

    def _declared(self, kind: c_ast.Node, name: str, result: str = "bint") -> str:
        """Return the declaration of ``name``, as Cython writes it."""
        if isinstance(kind, c_ast.PtrDecl):
            if isinstance(kind.type, c_ast.FuncDecl):
                inner = self._declared(kind.type, f"(*{name})", "c_bool")
                return inner + CALLBACK
            return self._declared(kind.type, f"*{name}", result)
        if isinstance(kind, c_ast.FuncDecl):
            return self._declared(kind.type, f"{name}({self._arguments(kind)})", result)
        if isinstance(kind, c_ast.ArrayDecl):
            # Only C needs a length that has a name.
            length = kind.dim.value if isinstance(kind.dim, c_ast.Constant) else 1
            return self._declared(kind.type, f"{name}[{length}]", result)
        quality = "const " if "const" in kind.quals and "*" in name else ""
        return f"{quality}{self._name(kind.type, result)} {name}".rstrip()

    def _arguments(self, kind: c_ast.FuncDecl) -> str:
        """Return the types of a function's arguments; a name may be one that Cython refuses."""
        texts = [self._declared(one.type, "") for one in (kind.args.params if kind.args else [])]
        return "" if texts == ["void"] else ", ".join(texts)

    def _name(self, kind: c_ast.Node, result: str) -> str:
        """Return the name of a type, and note that it is needed."""
        if isinstance(kind, (c_ast.Struct, c_ast.Enum)):
            name = self.named.get(kind.name, kind.name)
        else:
            name = " ".join(kind.names).replace("_Bool", result)
        self.needed.add(name)
        return name
