"""The rows that a query asks for, chosen early: by files, by kinds of rows, then one by one.

Only the rows have times. Clocks may step back and records may stand in any order,
so that the first and last time of a split do not say which are between them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import datasource as ds

from spark_analysis import schema

_COMPARISONS: Mapping[type[ds.Filter], Callable[..., pa.BooleanArray]] = {
    ds.EqualTo: pc.equal,
    ds.GreaterThan: pc.greater,
    ds.GreaterThanOrEqual: pc.greater_equal,
    ds.LessThan: pc.less,
    ds.LessThanOrEqual: pc.less_equal,
}
_PLAIN = (str, int, bool)
_BIGINTS = range(-(1 << 63), 1 << 63)


@dataclass(frozen=True)
class Selection:
    """The rows and columns that a query asks for.

    Attributes:
        columns: of ``RECORDS``, in the order asked for.
        kinds: of rows.
        of_file: filters of columns that all rows of a file have in common.
        of_row: filters of other columns; all must hold.
        fail_fast: whether a bad line is an error, and no row.
    """

    columns: tuple[str, ...] = tuple(schema.RECORDS.names)
    kinds: tuple[str, ...] = schema.KINDS
    of_file: tuple[ds.Filter, ...] = ()
    of_row: tuple[ds.Filter, ...] = ()
    fail_fast: bool = False

    @property
    def needed(self) -> frozenset[str]:
        """The columns that are asked for or filtered by, and one that counts the rows."""
        return frozenset((*self.columns, "n", *map(_column, self.of_row)))

    def has(self, file_columns: Mapping[str, Any]) -> bool:
        """Say whether rows with these columns of a file can be among those asked for."""
        row = {name: [value] for name, value in file_columns.items()}
        return len(_kept(pa.table(row), self.of_file)) > 0

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows and columns of a batch that are asked for."""
        return _kept(batch, self.of_row).select(list(self.columns))


EVERYTHING = Selection()


def select(
    columns: Sequence[str], filters: Sequence[ds.Filter]
) -> tuple[Selection, list[ds.Filter]]:
    """Return the selection by filters, and the filters that Spark must apply itself.

    Args:
        columns: of ``RECORDS``, in the order asked for.
        filters: Spark's; a row is asked for where all hold.
    """
    known = [one for one in filters if _is_known(one)]
    kinds = pa.table({"kind": list(schema.KINDS)})
    found = Selection(
        columns=tuple(columns),
        kinds=tuple(_kept(kinds, [f for f in known if _column(f) == "kind"])["kind"].to_pylist()),
        of_file=tuple(f for f in known if _column(f) in schema.OF_FILE),
        of_row=tuple(f for f in known if _column(f) not in ("kind", *schema.OF_FILE)),
    )
    return found, [one for one in filters if not any(one is taken for taken in known)]


def _inner(one: ds.Filter) -> Any:
    return one.child if isinstance(one, ds.Not) else one


def _column(one: ds.Filter) -> str:
    return str(_inner(one).attribute[0])


def _is_known(one: ds.Filter) -> bool:
    inner = _inner(one)
    if isinstance(inner, (ds.IsNull, ds.IsNotNull)):
        return True
    if isinstance(inner, ds.In):
        return all(_is_plain(value) for value in inner.value)
    ordered = not isinstance(inner, ds.EqualTo)
    if type(inner) not in _COMPARISONS or (ordered and isinstance(inner.value, bool)):
        return False
    return _is_plain(inner.value)


def _is_plain(value: Any) -> bool:
    return type(value) in _PLAIN and (not isinstance(value, int) or value in _BIGINTS)


def _kept(rows: Any, filters: Sequence[ds.Filter]) -> Any:
    """Return the rows of a table or batch for which all filters are true, and not null."""
    for one in filters:
        rows = rows.filter(_holds(one, rows.column(_column(one))))
    return rows


def _holds(one: Any, values: Any) -> Any:
    if isinstance(one, ds.Not):
        return pc.invert(_holds(one.child, values))
    if isinstance(one, ds.IsNull):
        return pc.is_null(values)
    if isinstance(one, ds.IsNotNull):
        return pc.is_valid(values)
    if isinstance(one, ds.In):
        among = pc.is_in(values, value_set=pa.array(one.value, values.type))
        # As in SQL: NULL IN (...) is NULL.
        return pc.if_else(pc.is_valid(values), among, pa.scalar(None, pa.bool_()))
    return _COMPARISONS[type(one)](values, pa.scalar(one.value, values.type))
