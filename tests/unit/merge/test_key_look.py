"""Sought keys are found in a chunk of a file whatever order it is in."""

from __future__ import annotations

import itertools
from datetime import date, timedelta

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.merge.key_look import FEW_PIECES, rows_among

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
