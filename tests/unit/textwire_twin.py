"""The text wire subset, slow and obvious: Part C's grammar as a recursive descent.

Twin of ``quiver_fast.remote.wire.textwire``: same verdicts, same stored forms.
"""

from __future__ import annotations

import re

BLANKS = " \t"
SPACE = " \t\r\n"
INDICATORS = ",[]{}"
ESCAPE = re.compile(
    r"\\(?:x(?P<x>[0-9a-fA-F]{2})|u(?P<u>[0-9a-fA-F]{4})|U(?P<U>[0-9a-fA-F]{8})"
    r'|[0abtnvfre"/\\N_LP \t\r\n])'
)
TAG = re.compile(r"!<[A-Za-z0-9_.$/;?:@&=+,~*'()\[\]!-]+>|!!?[A-Za-z0-9_.$/-]+")
FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ufffe\uffff]")


class RefusedError(Exception):
    """The text is no value of the subset."""


class Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.gaps: list[int] = []
        self.depth = 0

    def peek(self, ahead: int = 0) -> str:
        return self.text[self.at + ahead : self.at + ahead + 1]

    def skip(self, characters: str) -> None:
        while self.peek() and self.peek() in characters:
            self.at += 1

    def need(self, condition: object) -> None:
        if not condition:
            raise RefusedError(self.at)

    def value(self) -> str:
        """Read a value; return its kind."""
        tag = TAG.match(self.text, self.at) if self.peek() == "!" else None
        if self.peek() == "!":
            self.need(tag)
            self.at = tag.end()
            if self.peek() and self.peek() not in SPACE:
                self.need(self.peek() in "{[\"',]}")
                self.gaps.append(self.at)
            self.skip(SPACE if self.depth else BLANKS)
            if tag[0] == "!!null" and self.at_end_of_value():
                return "null"
        return self.bare_value()

    def at_end_of_value(self) -> bool:
        if not self.peek():
            return True
        if self.depth:
            return self.peek() in ",]}"
        return self.peek() in "\r\n#" or self.text.startswith("//", self.at)

    def bare_value(self) -> str:
        first = self.peek()
        self.need(first)
        if first == "{":
            self.collection("}", self.pair)
        elif first == "[":
            self.collection("]", self.value)
        elif first == '"':
            self.double_quoted()
        elif first == "'":
            self.single_quoted()
        else:
            self.plain()
            return "plain"
        return "other"

    def collection(self, bracket: str, item: object) -> None:
        self.at += 1
        self.depth += 1
        self.need(self.depth <= 64)
        self.skip(SPACE)
        while self.peek() != bracket:
            item()
            self.skip(SPACE)
            if self.peek() != bracket:
                self.need(self.peek() == ",")
                self.at += 1
                self.skip(SPACE)
        self.at += 1
        self.depth -= 1

    def pair(self) -> None:
        start = self.at
        if self.peek() == '"':
            self.double_quoted()
        elif self.peek() == "'":
            self.single_quoted()
        else:
            self.plain()
        self.skip(SPACE)
        if self.peek() == ":":
            key = self.text[start : self.at]
            self.need(
                len(key.encode("utf-8", "surrogateescape")) <= 1024
                and "\n" not in key
                and "\r" not in key
            )
            self.at += 1
            self.skip(SPACE)
            self.value()

    def double_quoted(self) -> None:
        self.at += 1
        while self.peek() != '"':
            self.need(self.peek())
            if self.peek() != "\\":
                self.at += 1
                continue
            escape = ESCAPE.match(self.text, self.at)
            self.need(escape)
            digits = escape["x"] or escape["u"] or escape["U"]
            code = int(digits, 16) if digits else 0
            self.need(code <= 0x10FFFF and not 0xD800 <= code < 0xE000)
            self.at = escape.end()
        self.at += 1

    def single_quoted(self) -> None:
        self.at += 1
        while self.peek() != "'" or self.peek(1) == "'":
            self.need(self.peek())
            self.at += 2 if self.peek() == "'" else 1
        self.at += 1

    def plain(self) -> None:
        self.need(self.peek() and self.peek() not in "&*|>%@`]},#!\"'\r\n")
        if self.peek() in "-?:":
            self.need(self.peek(1) and self.peek(1) not in SPACE)
        if self.depth:
            self.need(self.peek() not in "?:")
        end = start = self.at
        while self.peek() and self.peek() not in "\r\n":
            here = self.peek()
            if self.depth and here in INDICATORS:
                break
            if here == ":":
                if not self.peek(1) or self.peek(1) in SPACE:
                    break
                self.need(not (self.depth and self.peek(1) in INDICATORS))
            after_blank = self.at > start and self.text[self.at - 1] in BLANKS
            if after_blank and here == "#":
                break
            if after_blank and not self.depth and self.text.startswith("//", self.at):
                break
            self.at += 1
            if here not in BLANKS:
                end = self.at
        self.at = end


def rest_is_comments(rest: str) -> bool:
    # A comment ends with its line: only one way to read it, or this takes for ever.
    comment = r"(?<=[ \t\r\n])(?:#|//)[^\n]*(?![^\n])"
    return re.fullmatch(rf"(?:[ \t\r\n]|{comment})*", rest) is not None


def stored_form(text: bytes) -> bytes | None:
    """Return the stored form of a value, or None where it is refused."""
    # Comments may hold anything: characters are looked at where the value is.
    whole = text.decode("utf-8", "surrogateescape")
    reader = Reader(whole)
    reader.skip(SPACE)
    start = reader.at
    if not reader.peek() or reader.peek() == "#":
        return None
    try:
        kind = reader.value()
    except RefusedError:
        return None
    value = whole[start : reader.at]
    if FORBIDDEN.search(value) or not rest_is_comments(whole[reader.at :]):
        return None
    try:
        value.encode()
    except UnicodeEncodeError:
        return None
    for gap in reversed(reader.gaps):
        value = value[: gap - start] + " " + value[gap - start :]
    scalar = re.match(rf"(?:(?:{TAG.pattern})[ \t]*)?", value).end() if kind == "plain" else 0
    if kind == "plain" and re.search(r"[,\[\]{}#]", value[scalar:]):
        escaped = value[scalar:].replace("\\", "\\\\").replace('"', '\\"')
        value = f'{value[:scalar]}"{escaped}"'
    return value.encode()
