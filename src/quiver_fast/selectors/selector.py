"""Selectors: SQL-92 conditional expressions as JMS 2.0 defines them (section 3.8.1).

A selector is compiled once, when its consumer attaches, into steps for a stack machine: operands
come before their operator. `filter.pxi` runs the steps for each message. The parser is our own:
no peer would be served while the server loads a parser library and prepares its tables.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from quiver_fast.errors import UsageError

Literal: TypeAlias = bool | int | float | str

LENGTH_MAX = 4096
DEPTH_MAX = 32
# The weight of all patterns.
WEIGHT_MAX = 64
LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1

KEYWORDS = {
    "AND", "OR", "NOT", "BETWEEN", "IN", "LIKE", "ESCAPE", "IS", "NULL", "TRUE", "FALSE",
}  # fmt: skip
ORDERS = {"<", "<=", ">", ">="}
# In the order of the properties section, AMQP 1.0 part 3.2.4.
PROPERTIES = (
    "message_id", "user_id", "to", "subject", "reply_to", "correlation_id", "content_type",
    "content_encoding", "absolute_expiry_time", "creation_time", "group_id", "group_sequence",
    "reply_to_group_id",
)  # fmt: skip
HEADERS = ("durable", "priority", "ttl", "delivery_count", "JMSDeliveryMode")
# The header fields that JMS allows in selectors, and the JMSX fields of the group.
JMS = {
    "JMSMessageID": "message_id",
    "JMSCorrelationID": "correlation_id",
    "JMSType": "subject",
    "JMSTimestamp": "creation_time",
    "JMSPriority": "priority",
    "JMSDeliveryMode": "JMSDeliveryMode",
    "JMSXUserID": "user_id",
    "JMSXGroupID": "group_id",
    "JMSXGroupSeq": "group_sequence",
}
# Names that JMS does not allow in selectors, or whose values change between deliveries.
NOT_IN_SELECTORS = {
    "JMSDestination", "JMSReplyTo", "JMSExpiration", "JMSRedelivered", "JMSDeliveryTime",
    "JMSXDeliveryCount",
}  # fmt: skip

TOKEN = re.compile(
    r"""\s*(?:
    (?P<real>(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?[dDfF]?|\d+[eE][+-]?\d+[dDfF]?|\d+[dDfF])
    |(?P<whole>0[xX][0-9a-fA-F]+|\d+)[lL]?
    |(?P<text>'(?:[^']|'')*')
    |(?P<word>[^\W\d][\w$.]*|\$[\w$.]*)
    |(?P<sign><>|<=|>=|[=<>()+\-*/,])
    |(?P<end>\Z)
    )""",
    re.VERBOSE,
)


class SelectorError(UsageError):
    """The text is not a selector."""


class Token(NamedTuple):
    """One word of a selector. Its kind is a group of TOKEN, or `keyword`."""

    kind: str
    text: str
    at: int


class Step(NamedTuple):
    """One step of the stack machine.

    Attributes:
        code: `literal`, `property`, `field`, an operator, `in`, `like`, `between` or `is null`.
        value: the literal; the name of the property or field; the strings of `in`; the
            pattern of `like`, as :func:`like_pattern` returns it.
    """

    code: str
    value: object = None


def tokens(text: str) -> Iterator[Token]:
    """Split a selector into words, the last of which is the `end`."""
    at = 0
    while True:
        match = TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            rest = text[at:].lstrip()
            raise SelectorError(f"the selector cannot be read at '{rest[:20]}'")
        kind, word, start = match.lastgroup, match[match.lastgroup], match.start(match.lastgroup)
        if kind == "word" and word.upper() in KEYWORDS:
            kind, word = "keyword", word.upper()
        yield Token(kind, word, start)
        if kind == "end":
            return
        at = match.end()


def like_pattern(text: str, escape: str | None) -> tuple[list[int], list[int]]:
    """Read a pattern of LIKE.

    Returns:
        The bytes to match in order, with 256 for any one character, and the positions before
        which, or at the end, any text may come.
    """
    accepted: list[int] = []
    gaps: list[int] = []
    characters = iter(text)
    for character in characters:
        if character == escape:
            character = next(characters, "")
            if character not in {"%", "_", escape}:
                raise SelectorError(f"{escape!r} has to escape %, _ or itself")
            accepted += character.encode()
        elif character == "%":
            gaps.append(len(accepted))
        elif character == "_":
            accepted.append(256)
        else:
            accepted += character.encode()
    return accepted, gaps


def pieces_of(accepted: list[int], gaps: list[int]) -> list[list[int]]:
    """Return the parts of a pattern that :func:`like_pattern` has read, between its gaps."""
    cuts = [0, *sorted(set(gaps)), len(accepted)]
    return [accepted[begin:end] for begin, end in pairwise(cuts)] if gaps else [accepted]


def weight_of(pieces: list[list[int]]) -> int:
    """Return how often a pattern's search looks at each byte of a text, at most.

    The first and the last part have one place. The others are searched for, and with an
    underscore each of their characters is compared at each place.
    """
    return max((len(each) if 256 in each else 1 for each in pieces[1:-1]), default=0)


def field_of(name: str) -> Step:
    """Return the step for an identifier."""
    if name in NOT_IN_SELECTORS:
        raise SelectorError(f"a selector cannot ask for {name}")
    if name in JMS:
        return Step("field", JMS[name])
    if name.startswith("amqp."):
        field = name.removeprefix("amqp.")
        if field not in PROPERTIES and field not in HEADERS[:-1]:
            raise SelectorError(f"AMQP has no field '{field}'")
        return Step("field", field)
    return Step("property", name)


class _Parser:
    """Reads one selector, by precedence: OR, AND, NOT, comparisons, sums, products, signs.

    Each method reads one level and returns the kind of its value: `truth`, `number`, `text`, or
    `any` for an identifier.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.words = list(tokens(text))
        self.at = 0
        self.depth = 0
        self.weight = 0
        self.steps: list[Step] = []

    def parse(self) -> list[Step]:
        """Return the steps of the whole selector."""
        kind = self.either()
        if self.word.kind != "end":
            self.fail("an operator")
        self.need(kind, "truth", "the selector")
        return self.steps

    @property
    def word(self) -> Token:
        """The next word."""
        return self.words[self.at]

    def take(self, *texts: str) -> str | None:
        """Take the next word if it is one of these signs or keywords."""
        word = self.word
        if word.kind not in {"sign", "keyword"} or word.text not in texts:
            return None
        self.at += 1
        return word.text

    def expect(self, text: str) -> None:
        if not self.take(text):
            self.fail(f"'{text}'")

    def fail(self, wanted: str) -> None:
        found = self.text[self.word.at :][:20] or "its end"
        raise SelectorError(f"the selector needs {wanted} at '{found}'")

    @staticmethod
    def need(kind: str, wanted: str, what: str) -> None:
        if kind not in {wanted, "any"}:
            names = {"truth": "a condition", "number": "a number", "text": "a string"}
            raise SelectorError(f"{what} has to be {names[wanted]}, not {names[kind]}")

    def deeper(self) -> None:
        self.depth += 1
        if self.depth > DEPTH_MAX:
            raise SelectorError(f"the selector is nested more than {DEPTH_MAX} deep")

    def add(self, code: str, value: object = None) -> None:
        self.steps.append(Step(code, value))

    def either(self) -> str:
        kind = self.both()
        while self.take("OR"):
            self.need(kind, "truth", "what OR joins")
            self.need(self.both(), "truth", "what OR joins")
            self.add("or")
            kind = "truth"
        return kind

    def both(self) -> str:
        kind = self.negation()
        while self.take("AND"):
            self.need(kind, "truth", "what AND joins")
            self.need(self.negation(), "truth", "what AND joins")
            self.add("and")
            kind = "truth"
        return kind

    def negation(self) -> str:
        if not self.take("NOT"):
            return self.comparison()
        self.deeper()
        self.need(self.negation(), "truth", "what NOT turns round")
        self.depth -= 1
        self.add("not")
        return "truth"

    def comparison(self) -> str:
        begin = len(self.steps)
        kind = self.sum()
        while True:
            sign = self.take("=", "<>", "<", "<=", ">", ">=")
            if sign:
                self.compare(sign, kind)
            elif not self.test(kind, begin):
                return kind
            kind = "truth"

    def compare(self, sign: str, left: str) -> None:
        right = self.sum()
        if sign in ORDERS:
            # Section 3.8.1.1: strings and booleans are compared by = and <> only.
            self.need(left, "number", f"what {sign} compares")
            self.need(right, "number", f"what {sign} compares")
        self.add(sign)

    def test(self, kind: str, begin: int) -> bool:
        """Read BETWEEN, IN, LIKE or IS NULL, if one is next."""
        negated = False
        if self.take("IS"):
            negated = bool(self.take("NOT"))
            self.expect("NULL")
            self.need_identifier(begin, "IS NULL")
            self.add("is null")
        else:
            negated = bool(self.take("NOT"))
            word = self.take("BETWEEN", "IN", "LIKE")
            if word is None:
                if negated:
                    self.fail("BETWEEN, IN or LIKE")
                return False
            if word == "BETWEEN":
                self.between(kind)
            else:
                self.need_identifier(begin, word)
                (self.among if word == "IN" else self.like)()
        if negated:
            self.add("not")
        return True

    def need_identifier(self, begin: int, what: str) -> None:
        """Raise an error unless the words since ``begin`` are one identifier."""
        if len(self.steps) != begin + 1 or self.steps[begin].code == "literal":
            raise SelectorError(f"{what} has to follow an identifier")

    def between(self, kind: str) -> None:
        self.need(kind, "number", "what BETWEEN compares")
        self.need(self.sum(), "number", "what BETWEEN compares")
        self.expect("AND")
        self.need(self.sum(), "number", "what BETWEEN compares")
        self.add("between")

    def among(self) -> None:
        self.expect("(")
        found = [self.string()]
        while self.take(","):
            found.append(self.string())
        self.expect(")")
        self.add("in", tuple(found))

    def like(self) -> None:
        pattern = self.string()
        escape = None
        if self.take("ESCAPE"):
            escape = self.string()
            if len(escape) != 1:
                raise SelectorError("ESCAPE needs one character")
        read = like_pattern(pattern, escape)
        self.weight += weight_of(pieces_of(*read))
        if self.weight > WEIGHT_MAX:
            raise SelectorError(f"the selector's patterns search more than {WEIGHT_MAX} times")
        self.add("like", read)

    def string(self) -> str:
        word = self.word
        if word.kind != "text":
            self.fail("a string")
        self.at += 1
        return _unquoted(word.text)

    def sum(self) -> str:
        return self.joined(self.product, "+", "-")

    def product(self) -> str:
        return self.joined(self.signed, "*", "/")

    def joined(self, part: Callable[[], str], *signs: str) -> str:
        kind = part()
        while sign := self.take(*signs):
            self.need(kind, "number", f"what {sign} joins")
            self.need(part(), "number", f"what {sign} joins")
            self.add(sign)
            kind = "number"
        return kind

    def signed(self) -> str:
        sign = self.take("+", "-")
        if sign is None:
            return self.operand()
        if sign == "-" and self.word.kind in {"whole", "real"}:
            return self.number(-1)
        self.deeper()
        kind = self.signed()
        self.depth -= 1
        self.need(kind, "number", f"what {sign} stands before")
        if sign == "-":
            self.add("negate")
        return "number"

    def operand(self) -> str:
        word = self.word
        if word.kind in {"whole", "real"}:
            return self.number(1)
        if word.kind == "text":
            self.add("literal", self.string())
            return "text"
        if self.take("TRUE"):
            self.add("literal", True)
            return "truth"
        if self.take("FALSE"):
            self.add("literal", False)
            return "truth"
        if self.take("("):
            return self.enclosed()
        if word.kind != "word":
            self.fail("a value")
        self.at += 1
        self.steps.append(field_of(word.text))
        return "any"

    def enclosed(self) -> str:
        self.deeper()
        kind = self.either()
        self.depth -= 1
        self.expect(")")
        return kind

    def number(self, sign: int) -> str:
        word = self.word
        self.at += 1
        self.add("literal", sign * (_whole(word) if word.kind == "whole" else _real(word)))
        value = self.steps[-1].value
        if isinstance(value, int) and not LONG_MIN <= value <= LONG_MAX:
            raise SelectorError(f"{word.text} is more than a long holds")
        return "number"


def _unquoted(text: str) -> str:
    return text[1:-1].replace("''", "'")


def _whole(word: Token) -> int:
    """Read an integer as Java writes it: decimal, 0x, or octal after a 0."""
    text = word.text
    try:
        if text[:2] in {"0x", "0X"}:
            return int(text, 16)
        return int(text, 8 if text[0] == "0" else 10)
    except ValueError:
        raise SelectorError(f"{text} is no number") from None


def _real(word: Token) -> float:
    value = float(word.text.rstrip("dDfF"))
    if value == float("inf"):
        raise SelectorError(f"{word.text} is more than a double holds")
    return value


def parse(text: str) -> list[Step]:
    """Read a selector.

    Raises:
        SelectorError: the text is not a selector, or it is too long or too deep.
    """
    if len(text) > LENGTH_MAX:
        raise SelectorError(f"the selector has more than {LENGTH_MAX} characters")
    return _Parser(text).parse()
