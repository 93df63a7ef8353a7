"""Fields whose JSON kind differs from record to record (R24), in any order of records and files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.staging_values import Result, Staging, declared, planned

Stage = Callable[..., Result]
VALUES = {
    "text": '"a"',
    "number text": '"12"',
    "small": "7",
    "large": "30000000000",
    "fraction": "1.10",
    "long fraction": "1.123456",
    "power": "1e300",
    "huge": "1e400",
    "digits": "12345678901234567890.1234567",
    "true": "true",
    "object": '{"y": 1.50,\t"x": [1, {"é": "\\ud800\\u0041"}]}',
    "array": '[1.10, "b", null]',
    "null": "null",
    "absent": "",
}
PARTS: dict[str, str] = {
    "int": "int",
    "long": "bigint",
    "decimal": "decimal(12,2)",
    "double": "double",
    "string": "string",
    "boolean": "boolean",
    "struct": "struct<y: decimal(9,2), x: list<string>>",
    "array": "list<string>",
}
TAKEN: dict[str, tuple[str, Any]] = {
    "text": ("string", "a"),
    "number text": ("string", "12"),
    "small": ("int", 7),
    "large": ("long", 30000000000),
    "fraction": ("decimal", Decimal("1.10")),
    "long fraction": ("double", 1.123456),
    "power": ("double", 1e300),
    "true": ("boolean", True),
    "array": ("array", ["1.10", "b", None]),
}
REJECTED = {"huge", "digits", "object"}


def lines(*names: str) -> bytes:
    """A record for each of VALUES by name, whose id is its number."""
    number = {name: i for i, name in enumerate(VALUES)}
    records = (f'{{"id": {number[n]}' + (f', "v": {VALUES[n]}' if VALUES[n] else "") + "}" for n in names)
    return "\n".join(records).encode()


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with duckdb.connect() as con:

        def run(data: bytes, columns: dict[str, Any], *, kind: str = "jsonl", **options: Any) -> Result:
            if kind == "json":
                data = b"[" + b",\n".join(data.split(b"\n")) + b"]"
            staging = Staging(con, tmp_path, declared({"id": "int", **columns}, format={"type": kind, **options}))
            return staging.stage(data)

        yield run


def by_id(result: Result) -> dict[int, tuple[Any, ...]]:
    return {row[0]: row[1:] for row in result.rows}


@pytest.mark.parametrize("kind", ["jsonl", "json"])
def test_any_value_as_text(stage: Stage, kind: str) -> None:
    result = stage(lines(*VALUES), {"v": {"type": "string", "mixed": "string"}}, kind=kind)
    assert result.rejects == []
    texts = dict(zip(VALUES, [v for _, v in result.rows], strict=True))
    assert texts == {
        **VALUES,
        "text": "a",
        "number text": "12",
        "object": '{"y":1.50,"x":[1,{"é":"\\ud800A"}]}',
        "array": '[1.10,"b",null]',
        "null": None,
        "absent": None,
    }
    assert json.loads(texts["object"])["x"][1] == {"é": "\ud800A"}


def test_texts_that_mean_null_are_texts_of_the_file(stage: Stage) -> None:
    data = b'{"id": 1, "v": "-"}\n{"id": 2, "v": ["-"]}\n{"id": 3, "v": "\\u0000"}\n'
    result = stage(data, {"v": {"type": "string", "mixed": "string", "null_values": ["-"]}})
    assert result.rows == [(1, None), (2, '["-"]')]
    assert [reason for *_, reason, _ in result.rejects] == ["v: a NUL in the text"]


def test_a_value_too_deep_is_a_reject_whatever_the_rule(stage: Stage) -> None:
    data = b'{"id": 1, "v": ' + b"[" * 900 + b"]" * 900 + b'}\n{"id": 2, "v": 1}\n'
    result = stage(data, {"v": {"type": "string", "mixed": "string"}})
    assert [row[0] for row in result.rows] in ([2], [1, 2])
    assert all("deep" in reason for _, _, reason, _ in result.rejects)


@pytest.mark.parametrize("rule", [None, "cast"])
def test_the_declared_type_decides(stage: Stage, rule: str | None) -> None:
    mixed = {"mixed": rule} if rule else {}
    result = stage(lines(*VALUES), {"v": {"type": "string", **mixed}})
    assert result.rejected_lines == [11, 12]
    result = stage(lines(*VALUES), {"v": {"type": "bigint", **mixed}})
    assert by_id(result) == {1: (12,), 2: (7,), 3: (30000000000,), 12: (None,), 13: (None,)}


@pytest.mark.parametrize("kind", ["jsonl", "json"])
def test_each_kind_in_its_field(stage: Stage, kind: str) -> None:
    struct = f"struct<{', '.join(f'{name}: {part}' for name, part in PARTS.items())}>"
    result = stage(lines(*VALUES), {"v": {"type": struct, "mixed": "struct"}}, kind=kind)
    found = by_id(result)
    for i, name in enumerate(VALUES):
        if name in REJECTED:
            assert i not in found
        elif name in TAKEN:
            field, value = TAKEN[name]
            assert found[i] == ({**dict.fromkeys(PARTS), field: value},)
        else:
            assert found[i] == (None,)
    assert {column for _, column, *_ in result.rejects} == {"v"}
    assert len(result.rejects) == len(REJECTED)


def test_a_kind_without_a_field_is_a_reject(stage: Stage) -> None:
    result = stage(lines(*VALUES), {"v": {"type": "struct<string: string, long: bigint>", "mixed": "struct"}})
    assert sorted(by_id(result)) == [0, 1, 2, 3, 12, 13]
    assert {(column, reason) for _, column, reason, _ in result.rejects} == {
        ("v", "v: a value in it does not fit a struct<string: string, long: long> exactly"),
        ("v", "v: a JSON boolean, and no field of the struct is for it"),
        ("v", "v: a JSON object, and no field of the struct is for it"),
        ("v", "v: a JSON array, and no field of the struct is for it"),
    }


def split_columns(*kinds: str) -> dict[str, Any]:
    return {f"v_{kind}": {"type": PARTS[kind], "from": "v", "mixed": "columns"} for kind in kinds}


@pytest.mark.parametrize("kind", ["jsonl", "json"])
@pytest.mark.parametrize("turned", [False, True])
def test_each_kind_in_its_column(stage: Stage, kind: str, turned: bool) -> None:
    kinds = [*reversed(PARTS)] if turned else [*PARTS]
    result = stage(lines(*VALUES), split_columns(*kinds), kind=kind)
    found = by_id(result)
    for i, name in enumerate(VALUES):
        if name in REJECTED:
            assert i not in found
        else:
            field, value = TAKEN.get(name, ("", None))
            assert dict(zip(kinds, found[i], strict=True)) == {
                **dict.fromkeys(PARTS),
                **({field: value} if field else {}),
            }
    widest = "no column of 'v' holds the number exactly"
    assert sorted((column, reason) for _, column, reason, _ in result.rejects) == [
        ("v_double", f"v_double: {widest}"),
        ("v_double", f"v_double: {widest}"),
        ("v_struct", "v_struct: a JSON object where a single value is declared at v.x.element"),
    ]


def test_a_value_that_no_column_takes_is_a_reject(stage: Stage) -> None:
    result = stage(lines(*VALUES), split_columns("long", "string"))
    assert sorted(by_id(result)) == [0, 1, 2, 3, 12, 13]
    assert ("v_long", "v_long: a JSON boolean, and no column of 'v' is for it") in {
        (column, reason) for _, column, reason, _ in result.rejects
    }
    (row,) = stage(lines("small"), split_columns("long")).rows
    assert row == (2, 7)


def test_one_column_says_which_texts_mean_null(stage: Stage) -> None:
    columns = split_columns("long", "string")
    columns["v_string"]["null_values"] = ["a"]
    assert stage(lines("text", "number text"), columns).rows == [(0, None, None), (1, None, "12")]


def test_values_inside_others(stage: Stage) -> None:
    columns = {name: {**spec, "from": "o.v"} for name, spec in split_columns("long", "string").items()}
    data = b'{"id": 1, "o": {"v": 1}}\n{"id": 2, "o": {"v": "x"}}\n{"id": 3, "o": null}\n'
    assert stage(data, columns).rows == [(1, 1, None), (2, None, "x"), (3, None, None)]
    data = b'{"id": 1, "o": {"v": {"b": 1, "a": 2}}}\n'
    assert stage(data, {"v": {"type": "string", "from": "o.v", "mixed": "string"}}).rows == [(1, '{"b":1,"a":2}')]


RULES: dict[str, dict[str, Any]] = {
    "cast": {"v": {"type": "string", "mixed": "cast"}},
    "string": {"v": {"type": "string", "mixed": "string"}},
    "struct": {"v": {"type": "struct<long: bigint, string: string, boolean: boolean>", "mixed": "struct"}},
    "columns": split_columns("boolean", "string", "long"),
}


@pytest.mark.parametrize("rule", RULES)
def test_the_order_of_records_and_files_means_nothing(tmp_path: Path, rule: str) -> None:
    names = ["text", "small", "true", "object", "null"]
    declaration = declared({"id": "int", **RULES[rule]}, format={"type": "jsonl"})
    # every kind first, in the middle and last, one way and the other
    orders = [turned[i:] + turned[:i] for turned in (names, names[::-1]) for i in range(len(names))]
    cut = [[[name] for name in order] for order in (names, names[::-1])]
    outcomes = set()
    with duckdb.connect(config={"threads": 1}) as con:
        for files in [*([order] for order in orders), *cut]:
            staging = Staging(con, tmp_path, declaration)
            found = [staging.stage(lines(*file), item=planned(f"s3://landing/in/{i}")) for i, file in enumerate(files)]
            rows = sorted((row for result in found for row in result.rows), key=lambda row: int(row[0]))
            reasons = sorted(reason for result in found for *_, reason, _ in result.rejects)
            outcomes.add((repr(rows), repr(reasons)))
    assert len(outcomes) == 1
