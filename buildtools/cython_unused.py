"""Names that Cython code declares and never uses: functions, constants, structs, fields."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from Cython.Compiler.ExprNodes import AttributeNode, NameNode
from Cython.Compiler.Nodes import (
    CArgDeclNode,
    CClassDefNode,
    CEnumDefItemNode,
    CEnumDefNode,
    CNameDeclaratorNode,
    CSimpleBaseTypeNode,
    CStructOrUnionDefNode,
    Node,
)
from Cython.Compiler.TreeFragment import parse_from_strings

from buildtools.declarations import GENERATED

DECLARATIONS = (CEnumDefItemNode, CEnumDefNode, CNameDeclaratorNode, CStructOrUnionDefNode)


def unused(source: Path) -> list[str]:
    """Return a line for each name that Cython code below ``source`` declares and never uses.

    Neither a definition nor a cimport is a use. Generated declarations have only used names. Scopes
    are ignored: a name that is used anywhere counts as used everywhere.
    """
    declared: dict[str, str] = {}
    used: set[str] = set()
    for path in sorted(
        each for kind in ("pxd", "pxi", "pyx") for each in source.rglob(f"*.{kind}")
    ):
        if path.read_text().startswith(GENERATED):
            continue
        for node in nodes(path):
            place = f"{path.relative_to(source)}:{node.pos[1]}"
            if isinstance(node, CClassDefNode):
                declared.setdefault(node.class_name, place)
            elif isinstance(node, DECLARATIONS) and node.name:
                declared.setdefault(node.name, place)
            elif isinstance(node, (CSimpleBaseTypeNode, NameNode)):
                used.add(node.name)
            elif isinstance(node, AttributeNode):
                used.add(node.attribute)
    for path in source.rglob("*.py"):
        used.update(re.findall(r"\w+", path.read_text()))
    return [f"{place}: {name} is not used" for name, place in declared.items() if name not in used]


def nodes(path: Path) -> Iterator[Node]:
    """Yield the nodes of a file's syntax tree, without the names of arguments."""
    level = "module_pxd" if path.suffix == ".pxd" else "module"
    # Included files are read on their own, so that each name has its own place.
    text = re.sub(r"^include .*$", "", path.read_text(), flags=re.MULTILINE)
    left = [parse_from_strings(path.stem, text, level=level)]
    seen = set()
    while left:
        node = left.pop()
        if node in seen:
            continue
        seen.add(node)
        if isinstance(node, CArgDeclNode):
            seen.add(argument_name(node))
        yield node
        for value in vars(node).values():
            values = value if isinstance(value, (list, tuple)) else [value]
            left += [child for child in values if isinstance(child, Node)]


def argument_name(argument: CArgDeclNode) -> CNameDeclaratorNode:
    """Return the name in an argument's declarator, which may be a pointer or a function."""
    declarator = argument.declarator
    while not isinstance(declarator, CNameDeclaratorNode):
        declarator = declarator.base
    return declarator
