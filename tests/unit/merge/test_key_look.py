"""Sought keys are found in a chunk of a file whatever order it is in, and bounds settle only what they must."""

from __future__ import annotations

import itertools
from datetime import date, timedelta

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.merge.key_look import FEW_PIECES, KeyLook, Orders, Sought, rows_among
from lakehouse.merge.order import newer
from lakehouse.merge.statistics import Bounds

runs = st.lists(st.lists(st.integers(-40, 40), max_size=12, unique=True).map(sorted), max_size=5)
loose = st.lists(st.one_of(st.none(), st.integers(-40, 40)), max_size=30)
cuts = st.lists(st.integers(0, 60), max_size=4)


def chunked(values: list[int | None], at: list[int], kind: pa.DataType) -> pa.ChunkedArray:
    ends = sorted({0, *(min(cut, len(values)) for cut in at), len(values)})
    return pa.chunked_array([pa.array(values[a:b], kind) for a, b in itertools.pairwise(ends)], kind)


def check(values: list[int | None], at: list[int], sought: set[int], kind: pa.DataType) -> None:
    found = rows_among(chunked(values, at, kind), pa.array(sorted(sought), kind))
    assert found.to_pylist() == [row for row, value in enumerate(values) if value in sought]


@given(runs, cuts, st.sets(st.integers(-45, 45)))
def test_in_sorted_pieces(pieces: list[list[int]], at: list[int], sought: set[int]) -> None:
    check(list(itertools.chain.from_iterable(pieces)), at, sought, pa.int64())


@given(loose, cuts, st.sets(st.integers(-45, 45)))
def test_in_any_order_with_repeats_and_nulls(values: list[int | None], at: list[int], sought: set[int]) -> None:
    check(values, at, sought, pa.int32())


@pytest.mark.parametrize("breaks", [FEW_PIECES, FEW_PIECES + 1])
def test_few_and_many_pieces(breaks: int) -> None:
    values = [*range(breaks * 2, 0, -2), *range(100, 200)]
    check(list(values), [], {2, 3, breaks * 2, 100, 199, 200}, pa.int64())


@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("us", "UTC"), pa.time64("us")])
def test_dates_and_times(kind: pa.DataType) -> None:
    values = pa.chunked_array([pa.array([1, 5, 9], pa.int32() if kind == pa.date32() else pa.int64()).cast(kind)])
    sought = values.combine_chunks().take(pa.array([0, 2]))
    assert rows_among(values, sought).to_pylist() == [0, 2]


def test_days_before_the_epoch() -> None:
    days = [date(1970, 1, 1) + timedelta(days) for days in range(-5, 5)]
    assert rows_among(pa.chunked_array([pa.array(days)]), pa.array(days[:2])).to_pylist() == [0, 1]


def test_strings_and_decimals() -> None:
    assert rows_among(pa.chunked_array([["b", "a", None, "a"]]), pa.array(["a"])).to_pylist() == [1, 3]
    numbers = pa.array([1, 2, 3]).cast(pa.decimal128(20, 0))
    assert rows_among(pa.chunked_array([numbers]), numbers.slice(1, 1)).to_pylist() == [1]


small = st.one_of(st.none(), st.integers(0, 6))


@given(
    staged=st.dictionaries(st.integers(0, 4), st.lists(small, min_size=1, max_size=2), min_size=1),
    target=st.lists(st.tuples(st.integers(0, 4), small), min_size=1, max_size=4),
)
def test_settled_rows_compare_with_every_value_between_the_bounds_as_with_their_own(
    staged: dict[int, list[int | None]], target: list[tuple[int, int | None]]
) -> None:
    known = [value for _, value in target if value is not None]
    met = [(new, old) for key, old in target if key in staged for new in staged[key]]
    if not known or not met:
        return
    bounds = Bounds(pa.scalar(min(known)), pa.scalar(max(known)), len(known) < len(target))
    orders = [(None, None) if None in values else (min(values), max(values)) for _, values in sorted(staged.items())]
    low, high = (pa.array([pair[end] for pair in orders], pa.int64()) for end in (0, 1))
    look = KeyLook(["k"], Sought("k", pa.array(sorted(staged)), Orders("t", low, high)), spared=["t"])
    sought = pa.table({"k": pa.array([key for key, _ in target if key in staged], pa.int64())})

    def decided(new: list[int | None]) -> bool:
        values = [value for value in new if value is not None]
        if len(values) < len(new):
            return False
        return min(values) > max(known) or (not bounds.nulls and max(values) < min(known))

    assert look.settled(sought, bounds) == all(decided(staged[key]) for key, _ in target if key in staged)
    if look.settled(sought, bounds):
        assert all(_newer(new, old) == _newer(new, max(known)) and new != old for new, old in met)


def _newer(new: int | None, old: int | None) -> bool:
    (row,) = duckdb.execute(
        f"select {newer(['t'], 's', 'o')} from (select ? as t) s, (select ? as t) o", [new, old]
    ).fetchall()
    return bool(row[0])


def test_nothing_is_spared_without_order_values() -> None:
    sought = Sought("k", pa.array([1]), None)
    assert not KeyLook(["k"], sought, spared=["t"]).spared
    assert not KeyLook(["k"], None, spared=["t"]).spared
    assert not KeyLook(["k"], Sought("k", pa.array([1]), Orders("u", None, None)), spared=["t"]).spared
