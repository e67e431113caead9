"""Stubs of the Cython modules for type checkers: each build writes one beside each `.pyx`.

Cython's own parser reads a module's `.pyx`, its parts and its `.pxd`. A stub has all names that
Python code may use. Their types come from annotations, then from C types; the comment
`# type: …` gives an attribute a type that C cannot say. A name in these that a module does not
import is the package's only class of this name.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from pathlib import Path

from Cython.Compiler.AutoDocTransforms import AnnotationWriter
from Cython.Compiler.Errors import CompileError
from Cython.Compiler.ExprNodes import (
    BoolNode,
    BytesNode,
    ExprNode,
    FloatNode,
    ImportNode,
    IntNode,
    NameNode,
    UnicodeNode,
)
from Cython.Compiler.Nodes import (
    CArgDeclNode,
    CBaseTypeNode,
    CClassDefNode,
    CEnumDefNode,
    CQualifierTypeNode,
    CVarDefNode,
    DefNode,
    ExprStatNode,
    FromCImportStatNode,
    FromImportStatNode,
    MemoryViewSliceTypeNode,
    Node,
    PyClassDefNode,
    SingleAssignmentNode,
    StatListNode,
    TemplatedTypeNode,
)
from Cython.Compiler.TreeFragment import parse_from_strings

_INCLUDE = re.compile(r'^include "(.*)"$', re.MULTILINE)
_CLASS = re.compile(r"^(?:cdef )?class (\w+)|^(\w+): TypeAlias", re.MULTILINE)
# The first names of dotted names.
_NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
_IMPORT = re.compile(r"^from (\S+) import (\w+)$", re.MULTILINE)
_ATTRIBUTE = re.compile(r"cdef (?:public|readonly) (.*\])")
_KNOWN = {
    "typing": ("Any", "TypeAlias", "final"),
    "collections.abc": ("Callable", "Iterable", "Iterator", "Sequence"),
    "_typeshed": ("ReadableBuffer",), "enum": ("IntEnum",), "fractions": ("Fraction",),
    "numpy.typing": ("NDArray",), "pathlib": ("Path",), "typing_extensions": ("Unpack",),
}  # fmt: skip
_LITERALS = {IntNode: "int", FloatNode: "float", UnicodeNode: "str", BytesNode: "bytes"}
_C_TYPES = {"bint": "bool", "float": "float", "double": "float", "object": "Any"}
_GENERIC = {
    "list": "list[Any]", "dict": "dict[Any, Any]", "set": "set[Any]", "tuple": "tuple[Any, ...]",
}  # fmt: skip
# How a stub begins.
GENERATED = "# Written by buildtools/stubs.py from the module."
# Methods of extension classes that Python does not call, or has another name for.
_HIDDEN = {"__cinit__", "__dealloc__", "__getbuffer__", "__releasebuffer__"}
_BUFFER = "def __buffer__(self, flags: int, /) -> memoryview: ..."


def write(source: Path) -> None:
    """Write the stubs below ``source`` that are older than their modules; remove those of none."""
    places = classes(source)
    for module in source.rglob("*.pyx"):
        stub = module.with_suffix(".pyi")
        files = [Path(__file__), module.with_suffix(".pxd"), *parts(module)]
        newest = max(path.stat().st_mtime_ns for path in files if path.exists())
        if stub.exists() and stub.stat().st_mtime_ns >= newest and not has_moved(stub, places):
            continue
        try:
            text = Stub(module, places).text()
        except CompileError:
            # The build says more about it when it translates the module.
            continue
        stub.write_text(text, encoding="utf-8")
        # The date of its sources: of the same sources come the same files.
        os.utime(stub, ns=(newest, newest))
    for stub in source.rglob("*.pyi"):
        if not stub.with_suffix(".pyx").exists():
            stub.unlink()


def classes(source: Path) -> dict[str, str]:
    """Return the module of each class that has its name for itself."""
    places: dict[str, set[str]] = {}
    for path in [*source.rglob("*.py"), *source.rglob("*.pyx")]:
        module = ".".join(path.relative_to(source).with_suffix("").parts)
        for match in _CLASS.finditer(path.read_text(encoding="utf-8")):
            places.setdefault(match[1] or match[2], set()).add(module)
    return {name: found.pop() for name, found in places.items() if len(found) == 1}


def has_moved(stub: Path, places: dict[str, str]) -> bool:
    """Say whether a class that a stub imports is in another module now."""
    imports = _IMPORT.findall(stub.read_text(encoding="utf-8"))
    return any(places.get(name, module) != module for module, name in imports)


def parts(module: Path) -> Iterator[Path]:
    """Yield a file and all files that it includes."""
    yield module
    for name in _INCLUDE.findall(module.read_text(encoding="utf-8")):
        yield from parts(module.parent / name)


def whole(module: Path) -> str:
    """Return the text of a file with the files that it includes."""
    text = module.read_text(encoding="utf-8")
    return _INCLUDE.sub(lambda match: whole(module.parent / match[1]), text)


class Stub:
    """The stub of one module."""

    def __init__(self, module: Path, places: dict[str, str]) -> None:
        known = {name: package for package, names in _KNOWN.items() for name in names}
        self.imports = {
            name: f"from {package} import {name}" for name, package in {**places, **known}.items()
        }
        self.imports |= {"np": "import numpy as np", "socket": "import socket"}
        self.used: set[str] = set()
        # The attributes of classes, first those that the `.pxd` declares.
        self.fields: dict[str, list[str]] = {}
        self.own: set[str] = set()
        # Variables that only C code sees.
        self.c_names: set[str] = set()
        self.body: list[str] = []
        for path, level in ((module.with_suffix(".pxd"), "module_pxd"), (module, "module")):
            if path.exists():
                text = whole(path)
                self.lines = text.split("\n")
                tree = parse_from_strings(path.stem, text, level=level)
                for node in _statements(tree.body):
                    self.body += self._top(node)

    def text(self) -> str:
        """Return the text of the stub."""
        needed = self.used - self.own
        imports = sorted({self.imports[name] for name in needed if name in self.imports})
        return "\n".join([GENERATED, *imports, "", *self.body, ""])

    def _top(self, node: Node) -> Iterator[str]:
        if isinstance(node, (FromImportStatNode, FromCImportStatNode, SingleAssignmentNode)):
            self._learn(node)
        if isinstance(node, CClassDefNode):
            yield from self._class(node, node.class_name)
        elif isinstance(node, PyClassDefNode):
            yield from self._class(node, node.name)
        elif isinstance(node, DefNode):
            yield from self._function(node)
        elif isinstance(node, CVarDefNode):
            self.c_names.update(map(_declared, node.declarators))
        elif isinstance(node, CEnumDefNode) and node.create_wrapper:
            yield f"class {node.name}({self._use('IntEnum')}):"
            yield from (
                f"    {item.name} = {item.value.value if item.value else '...'}"
                for item in node.items
            )
        elif isinstance(node, SingleAssignmentNode) and isinstance(node.lhs, NameNode):
            yield from self._constant(node)

    def _learn(self, node: Node) -> None:
        """Note the names that an import gives."""
        if isinstance(node, FromCImportStatNode):
            names = [(name, as_name or name) for _, name, as_name in node.imported_names]
            package = node.module_name
        elif isinstance(node, FromImportStatNode):
            names = [(name, target.name) for name, target in node.items]
            package = node.module.module_name.value
        elif isinstance(node.rhs, ImportNode):
            package = node.rhs.module_name.value
            text = f"{package} as {node.lhs.name}" if node.rhs.is_import_as_name else package
            self.imports[node.lhs.name] = f"import {text}"
            return
        else:
            return
        for name, own in names:
            text = name if own == name else f"{name} as {own}"
            self.imports[own] = f"from {package} import {text}"

    def _constant(self, node: SingleAssignmentNode) -> Iterator[str]:
        name, kind = node.lhs.name, _LITERALS.get(type(node.rhs))
        if node.lhs.annotation:
            kind = self._annotation(node.lhs.annotation)
        if kind and name not in self.c_names and not name.startswith("_"):
            self.own.add(name)
            value = f" = {self._text(node.rhs.value)}" if kind == "TypeAlias" else ""
            yield f"{name}: {kind}{value}"

    def _class(self, node: CClassDefNode | PyClassDefNode, name: str) -> Iterator[str]:
        self.own.add(name)
        fields = self.fields.setdefault(name, [])
        if node.body is None:
            return
        statements = list(_statements(node.body))
        fields += [line for each in statements for line in self._field(each)]
        if getattr(node, "in_pxd", False):
            return
        names = {each.name: each for each in statements if isinstance(each, DefNode)}
        lines = list(fields)
        if (made := names.get("__cinit__")) and "__init__" not in names and (len(made.args) > 1):
            lines += self._function(made, "__init__")
        if "__getbuffer__" in names:
            lines.append(_BUFFER)
        for each in statements:
            if isinstance(each, DefNode) and each.name not in _HIDDEN:
                lines += self._function(each)
        bases = self._expressions(node.bases.args if node.bases else [])
        yield from self._decorators(node)
        yield f"class {name}({bases}):" if bases else f"class {name}:"
        yield from (f"    {line}" for line in lines or ["..."])

    def _field(self, node: Node) -> Iterator[str]:
        if isinstance(node, CVarDefNode) and node.visibility in ("public", "readonly"):
            for declarator in node.declarators:
                yield f"{declarator.name}: {self._attribute(node)}"
        elif isinstance(node, ExprStatNode) and getattr(node.expr, "annotation", None):
            yield f"{node.expr.name}: {self._annotation(node.expr.annotation)}"

    def _attribute(self, node: CVarDefNode) -> str:
        line, _, said = self.lines[node.pos[1] - 1].partition("# type: ")
        if said:
            return self._text(said)
        if isinstance(node.base_type, TemplatedTypeNode):
            return self._text(_ATTRIBUTE.search(line)[1])
        return self._c_type(node.base_type)

    def _decorators(self, node: Node) -> Iterator[str]:
        for each in node.decorators or []:
            text = self._expression(each.decorator).replace("cython.final", "final")
            yield f"@{self._text(text)}"

    def _function(self, node: DefNode, name: str = "") -> Iterator[str]:
        name = name or node.name
        if name.startswith("_") and not name.endswith("__"):
            return
        result = "None" if name == "__init__" else "Any"
        if node.return_type_annotation:
            result = self._annotation(node.return_type_annotation)
        elif result == "Any":
            self._use("Any")
        yield from self._decorators(node)
        yield f"def {name}({', '.join(self._arguments(node))}) -> {result}: ..."

    def _arguments(self, node: DefNode) -> Iterator[str]:
        named = [argument for argument in node.args if argument.kw_only]
        positional = [self._argument(argument) for argument in node.args if not argument.kw_only]
        if node.num_posonly_args:
            positional.insert(node.num_posonly_args, "/")
        yield from positional
        if node.star_arg:
            yield f"*{self._loose(node.star_arg)}"
        elif named:
            yield "*"
        yield from map(self._argument, named)
        if node.starstar_arg:
            yield f"**{self._loose(node.starstar_arg)}"

    def _argument(self, node: CArgDeclNode) -> str:
        name = node.declarator.name
        if name == "self":
            return name
        kind = (
            self._annotation(node.annotation) if node.annotation else self._c_type(node.base_type)
        )
        if node.default is None:
            return f"{name}: {kind}" + (" | None" if node.or_none else "")
        if node.default.is_none:
            optional = kind in ("Any", "object") or "None" in kind
            return f"{name}: {kind} = None" if optional else f"{name}: {kind} | None = None"
        plain = isinstance(node.default, (BoolNode, *_LITERALS))
        return f"{name}: {kind} = {self._expression(node.default) if plain else '...'}"

    def _loose(self, node: Node) -> str:
        kind = self._annotation(node.annotation) if node.annotation else self._use("Any")
        return f"{node.name}: {kind}"

    def _c_type(self, node: CBaseTypeNode) -> str:
        if isinstance(node, MemoryViewSliceTypeNode):
            of = node.base_type_node
            name = (of.base_type if isinstance(of, CQualifierTypeNode) else of).name
            if name in ("char", "uint8_t"):
                return self._use("ReadableBuffer")
            return f"{self._use('NDArray')}[{self._use('np')}.{name.removesuffix('_t')}]"
        name = node.name or "object"
        if name in _C_TYPES or name in _GENERIC:
            return self._text(_C_TYPES.get(name) or _GENERIC[name])
        number = node.is_basic_c_type or name.endswith("_t")
        return "int" if number else self._use(name)

    def _annotation(self, node: Node) -> str:
        text = node.string.value
        return self._text(ast.literal_eval(text) if text[0] in "'\"" else text)

    def _expressions(self, nodes: list[ExprNode]) -> str:
        return ", ".join(map(self._expression, nodes))

    def _expression(self, node: ExprNode) -> str:
        return self._text(AnnotationWriter().write(node))

    def _text(self, text: str) -> str:
        """Note the names that a text uses."""
        self.used.update(_NAME.findall(text))
        return text

    def _use(self, name: str) -> str:
        self.used.add(name)
        return name


def _statements(node: Node) -> Iterator[Node]:
    if isinstance(node, StatListNode):
        for each in node.stats:
            yield from _statements(each)
    else:
        yield node


def _declared(node: Node) -> str:
    """Return the name in a declarator, which may be a pointer or a function."""
    return node.name if hasattr(node, "name") else _declared(node.base)
