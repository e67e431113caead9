"""One option: the key of a contract, the flag of a command, and the help of both.

A declaration gives the parser of a contract, its usage text, the options of the commands, the
arguments that they pass on, the tables of the documents, and completion in a shell.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from quiver_fast import arguments
from quiver_fast.body_sizes import parse_body_size
from quiver_fast.rate_steps import parse_rate

NUMBER, SWITCH, CHOICE, TEXT = "number", "switch", "choice", "text"
# Messages per second, whole or not; a size of message bodies, or a mix of sizes.
RATE, SIZES = "rate", "sizes"

_MEBIBYTE = 1 << 20
_WIDTH = 100
_COLUMN = 34


class Option(NamedTuple):
    """One option.

    Attributes:
        key: its name in a contract; empty if no implementation gets it.
        kind: ``NUMBER``, ``RATE``, ``SIZES``, ``SWITCH``, ``CHOICE`` or ``TEXT``.
        unit: the unit of a value: ``BYTES``, ``MESSAGES``, ``SECONDS``, ``FILE``.
        about: its line in the contract's usage text.
        default: the contract's default; False or True for a switch, None for no value.
        shown: the default in words, if the value itself is not clear.
        zero: the meaning of the number 0, if it is special.
        least: the smallest number.
        most: the largest number.
        choices: the values of a ``CHOICE``.
        section: the heading in the contract's usage text.
        csp: whether remote queues have it too.
        title: its name in the printed summary, if the summary prints the value unchanged.
        extension: whether only our own implementation takes the key.
        flag: the option of the commands; empty for a key that no option sets.
        alias: another name of the flag.
        letter: its short form, such as ``-d``.
        metavar: the name of its value in the help.
        initial: the value that a command passes on when the flag is not given; None for none.
        inverted: whether the flag turns the switch off.
        side: the operation of the only arrow that gets it, ``send`` or ``receive``.
        acts: the only operation on which it has an effect; both arrows get it.
        group: the heading in the help of the commands.
        help: its text in the help of the commands, without default and limits.
        guards: whether it keeps strangers out: an empty value is an error, not an absent key.
    """

    key: str
    kind: str
    unit: str = ""
    about: str = ""
    default: int | bool | str | None = None
    shown: str = ""
    zero: str = ""
    least: int = 0
    most: int = 2**62
    choices: tuple[str, ...] = ()
    section: str = ""
    csp: bool = False
    title: str = ""
    extension: bool = False
    flag: str = ""
    alias: str = ""
    letter: str = ""
    metavar: str = ""
    initial: int | str | None = None
    inverted: bool = False
    side: str = ""
    acts: str = ""
    group: str = ""
    help: str = ""
    guards: bool = False

    @property
    def name(self) -> str:
        """The key as an attribute; the flag, if there is no key."""
        return (self.key or self.flag.lstrip("-")).replace("-", "_")

    @property
    def dest(self) -> str:
        """The attribute of the parsed command line."""
        return self.flag.lstrip("-").replace("-", "_")

    def acts_on(self, operation: str) -> bool:
        """Say whether it has an effect on an arrow that does ``operation``."""
        return (self.side or self.acts) in ("", operation)


class Values:
    """The values of options, as attributes by the options' names."""

    def __init__(self, values: Mapping[str, object]) -> None:
        self.__dict__.update((key.replace("-", "_"), value) for key, value in values.items())

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


def keys(options: Iterable[Option]) -> frozenset[str]:
    """Return the contract's keys among ``options``."""
    return frozenset(option.key for option in options if option.key)


def values(options: Iterable[Option], given: Mapping[str, str]) -> dict[str, object]:
    """Return the value of each key, checked and of its type, or its default.

    Raises:
        UsageError: the key does not take the value; the message names the key.
    """
    return {
        option.key: _value(option, given[option.key]) if option.key in given else option.default
        for option in options
        if option.key
    }


def _value(option: Option, text: str) -> object:
    if option.kind == NUMBER:
        return arguments.number(option.key, text, option.least, option.most)
    if option.kind in (RATE, SIZES):
        return (parse_rate if option.kind == RATE else parse_body_size)(text)
    if option.kind == SWITCH:
        return arguments.switch(option.key, text)
    if option.kind == CHOICE:
        return arguments.choice(option.key, text, option.choices)
    return text


def usage(head: str, options: Iterable[Option]) -> str:
    """Return the usage text of a contract: ``head``, then the keys under their headings."""
    sections: dict[str, list[str]] = {}
    for option in options:
        if option.key:
            sections.setdefault(option.section, []).extend(_usage_lines(option))
    blocks = ["\n".join([f"{section}:", *lines]) for section, lines in sections.items()]
    return "\n\n".join([head.rstrip("\n"), *blocks]) + "\n"


def _usage_lines(option: Option) -> list[str]:
    # Only --help needs it, and an arrow must start fast.
    import textwrap

    default = default_text(option)
    note = f"({default}{f': {option.zero}' if option.zero and default == '0' else ''})"
    label = f"  {key_text(option)}{f' {note}' if default else ''}"
    about = option.about
    if option.zero and default != "0":
        about += f"; 0: {option.zero}"
    indent = " " * _COLUMN
    if len(label) < _COLUMN:
        whole = textwrap.wrap(about, _WIDTH - _COLUMN) or [""]
        return [f"{label:<{_COLUMN}}{whole[0]}".rstrip(), *(indent + line for line in whole[1:])]
    return [label, *(indent + line for line in textwrap.wrap(about, _WIDTH - _COLUMN))]


def key_text(option: Option) -> str:
    """Return ``KEY=VALUE``, as usage texts and documents write a key."""
    value = {SWITCH: "0|1", CHOICE: "|".join(option.choices)}.get(option.kind, option.unit)
    return f"{option.key}={value}"


def default_text(option: Option) -> str:
    """Return the contract's default for people to read; empty if there is none."""
    if option.shown:
        return option.shown
    if option.default is None:
        return ""
    if option.kind == SWITCH:
        return str(int(option.default))
    return number_text(option, option.default)


def number_text(option: Option, number: int | str) -> str:
    """Return a default with its unit, if that differs from the key's unit."""
    if option.unit == "BYTES" and isinstance(number, int) and number and number % _MEBIBYTE == 0:
        return f"{number // _MEBIBYTE} MiB"
    return str(number)
