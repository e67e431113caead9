"""The texts of filters by properties."""

from __future__ import annotations

import pytest

from quiver_fast.errors import UsageError
from quiver_fast.property_filters import (
    BINARY,
    EQUAL,
    PREFIX,
    STRING,
    SUFFIX,
    SYMBOL,
    UINT,
    PropertyFilter,
    parse_property_filters,
)


def test_conditions_as_people_write_them() -> None:
    text = r"subject=a*,to=3,file=*.txt,size=3,hot=true,star=\*,end=a\*,all=*,both=\**,a=b=c"
    assert parse_property_filters(text) == (
        PropertyFilter("subject", STRING, PREFIX, "a"),
        PropertyFilter("to", STRING, EQUAL, "3"),
        PropertyFilter("file", "", SUFFIX, ".txt"),
        PropertyFilter("size", "", EQUAL, 3),
        PropertyFilter("hot", "", EQUAL, True),
        PropertyFilter("star", "", EQUAL, "*"),
        PropertyFilter("end", "", EQUAL, "a*"),
        PropertyFilter("all", "", PREFIX, ""),
        PropertyFilter("both", "", PREFIX, "*"),
        PropertyFilter("a", "", EQUAL, "b=c"),
    )
    assert parse_property_filters("") == ()
    assert parse_property_filters("group-sequence=7,user-id=é,content-type=text/plain") == (
        PropertyFilter("group-sequence", UINT, EQUAL, 7),
        PropertyFilter("user-id", BINARY, EQUAL, "é"),
        PropertyFilter("content-type", SYMBOL, EQUAL, "text/plain"),
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("color", "filter-properties: 'color' is not NAME=VALUE"),
        ("a=1,", "'' is not NAME=VALUE"),
        ("a=1,a=2", "a is given twice"),
        ("a=*x*", r"'a=\*x\*': an asterisk is at one end of a value"),
        ("a=x*y", "an asterisk is at one end"),
        ("content-type=text*", "only strings have a beginning and an end"),
        ("group-sequence=-1", "group-sequence is a number up to 4294967295"),
        (
            "creation-time=9223372036854775808",
            "creation-time is a number up to 9223372036854775807",
        ),
        ("content-type=é", "content-type is ASCII"),
        (",".join(f"a{number}=1" for number in range(17)), "17 conditions are more than 16"),
        ("a=\udc80", "filter-properties is UTF-8"),
    ],
)
def test_conditions_that_are_none(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        parse_property_filters(text)
