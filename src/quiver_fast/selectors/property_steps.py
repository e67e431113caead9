"""Property filters (AMQP Filter Expressions 1.0, working draft 09, part 4) as selectors' steps."""

from __future__ import annotations

from collections.abc import Iterable

from quiver_fast.selectors.selector import LENGTH_MAX, PROPERTIES, Literal, SelectorError, Step

# The draft asks for a limit of a filter's complexity (section 7.1).
FIELDS_MAX = 16
# The section that a filter asks, by the filter's name.
PROPERTIES_FILTER = "amqp:properties-filter"
APPLICATION_PROPERTIES_FILTER = "amqp:application-properties-filter"


def kind_of(value: Literal | None) -> tuple[str, Literal | None]:
    """Return how a reference value is compared (section 4.1.1): a text may begin with a modifier.

    Returns:
        `equal`, `prefix` or `suffix`, and the value without its modifier.
    """
    if not isinstance(value, str) or not value.startswith("&"):
        return "equal", value
    if value.startswith("&&"):
        return "equal", value[1:]
    kind = {"&p:": "prefix", "&s:": "suffix"}.get(value[:3])
    if kind is None:
        raise SelectorError(f"a property filter has no modifier '{value[:3]}'")
    return kind, value[3:]


def steps_of(name: str, fields: Iterable[tuple[str, str, Literal | None]]) -> list[Step]:
    """Return the steps of one filter.

    Args:
        name: the filter's.
        fields: the name, the kind of comparison and the value of each.
    """
    found: list[Step] = []
    for count, (field, kind, value) in enumerate(fields):
        if count == FIELDS_MAX:
            raise SelectorError(f"a property filter has more than {FIELDS_MAX} fields")
        found += _condition(_operand(name, field), kind, value)
        found += [Step("and")] * (count > 0)
    return found


def _operand(name: str, field: str) -> Step:
    if name == APPLICATION_PROPERTIES_FILTER:
        return Step("property", field)
    if field.replace("-", "_") not in PROPERTIES or "_" in field:
        raise SelectorError(f"AMQP's properties have no field '{field}'")
    return Step("field", field.replace("-", "_"))


def _condition(operand: Step, kind: str, value: Literal | None) -> list[Step]:
    if value is None:
        # Null matches each value; but an application property has to be there.
        there = [operand, Step("is null"), Step("not")]
        return there if operand.code == "property" else [Step("literal", True)]
    if isinstance(value, str) and len(value) > LENGTH_MAX:
        raise SelectorError(f"a property filter's text has more than {LENGTH_MAX} characters")
    if kind == "equal":
        return [operand, Step("literal", value), Step("=")]
    text = list(str(value).encode())
    return [operand, Step("like", (text, [len(text) if kind == "prefix" else 0]))]
