"""`sources`: several sources of one table."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lakehouse.declaration import Declaration, declarations_reading, parse_declarations
from lakehouse.errors import DeclarationError
from tests.declaration_text import document

EU = "uri: s3://landing/eu, partition: input_date=%Y-%m-%d, format: {type: csv}"
US = "uri: s3://landing/us, partition: day=%Y-%m-%d, format: {type: jsonl}, lookback_days: 9"
TWO = f"[{{{EU}, bookmark: eu}}, {{{US}, bookmark: us}}]"


def parse(text: str) -> Declaration:
    (declaration,) = parse_declarations(text, path=Path("defs.yaml"), env=os.environ)
    return declaration


def mistakes(sources: str | None, **fields: str | None) -> list[str]:
    with pytest.raises(DeclarationError) as caught:
        parse(document(**{"source": None, "sources": sources, **fields}))
    return caught.value.message.splitlines()


def test_g08_each_source_gives_a_declaration_with_it_alone() -> None:
    table = parse(document(source=None, sources=TWO))
    eu, us = table.by_source
    assert [(one.context, one.source.uri, one.table) for one in (eu, us)] == [
        ("eu", "s3://landing/eu/", "analytics.orders"),
        ("us", "s3://landing/us/", "analytics.orders"),
    ]
    assert table.contexts == eu.contexts == us.contexts == ("eu", "us")
    assert eu.by_source == (eu,) and eu.path == table.path and eu.line == table.line
    assert max(source.lookback_days for source in eu.every_source) == 9
    with pytest.raises(ValueError):
        _ = table.context
    assert (table.under("us").source.uri, table.under("old").source.uri) == ("s3://landing/us/", "s3://landing/eu/")
    assert table.under("old").context == "old"


def test_g08_a_change_of_one_source_leaves_the_hash_of_the_others() -> None:
    before = parse(document(source=None, sources=TWO))
    after = parse(document(source=None, sources=TWO.replace("jsonl", "parquet")))
    assert (before.hash, before.by_source[1].hash) != (after.hash, after.by_source[1].hash)
    assert before.by_source[0].hash == after.by_source[0].hash
    assert len({before.hash, *(one.hash for one in before.by_source)}) == 3
    alone = parse(document(source=f"{{{EU}, bookmark: eu}}"))
    assert alone.hash == before.by_source[0].hash
    assert parse(document(source=None, sources=f"[{{{EU}}}]")).hash == alone.hash


def test_g08_the_only_one_of_a_list_is_called_as_the_table() -> None:
    assert parse(document(source=None, sources=f"[{{{EU}}}]")).context == "orders"
    assert parse(document(sources="null")).context == "orders"


@pytest.mark.parametrize(
    ("sources", "fields", "message"),
    [
        (None, {}, "defs.yaml:3:3: source: missing; expected source: {uri: s3://bucket/folder/"),
        ("[]", {}, "sources: got a list; expected at least one"),
        (TWO, {"source": f"{{{EU}}}"}, ": sources: the file has source and sources; keep one of them"),
        (f"[{{{EU}, bookmark: eu}}, {{{US}}}]", {}, "sources[1].bookmark: missing; expected bookmark: orders_eu"),
        (TWO.replace("bookmark: us", "bookmark: eu"), {}, "sources[1].bookmark: 'eu' is the bookmark of sources[0]"),
        (TWO.replace("partition: day=%Y-%m-%d, ", ""), {}, "sources[1]: sources of one table all have landing dates"),
        (TWO, {"write": "snapshot"}, "write: snapshot takes one source, for the newest landing date of a source would"),
        (TWO, {"write": "replace_partition"}, "write: replace_partition takes one source"),
        (TWO.replace("/us", "/eu/us"), {"write": "append"}, "sources[1].uri: append removes the rows of an object"),
        (TWO.replace("bookmark: us", "bookmark: us, files: 3"), {}, "sources[1].files: got 3; expected text"),
        (
            TWO.replace("bookmark: us", "bookmark: us, fils: 3"),
            {},
            "sources[1].fils: unknown field; did you mean files?",
        ),
        (
            TWO.replace("type: csv", 'type: csv, quote: ","'),
            {},
            "sources[0].format.quote: delimiter and quote are both",
        ),
        (TWO, {"location": "s3://landing/us/t"}, "location: table and landing zone lie in one folder"),
    ],
)
def test_g08_mistakes_in_sources(sources: str | None, fields: dict[str, str], message: str) -> None:
    found = mistakes(sources, **fields)
    assert any(message in line for line in found), found


def test_g08_a_column_may_say_what_the_format_of_any_source_can_say() -> None:
    columns = "{id: bigint, n: {type: double, decimal: ','}, t: timestamptz, day: {type: date, from_path: date}}"
    assert len(parse(document(source=None, sources=TWO, columns=columns)).sources) == 2
    only_json = TWO.replace("type: csv", "type: jsonl")
    assert any("columns of a jsonl file have no decimal" in line for line in mistakes(only_json, columns=columns))


def test_g08_an_object_finds_the_source_that_holds_it(tmp_path: Path) -> None:
    (tmp_path / "defs.yaml").write_text(document(source=None, sources=TWO))
    (found,) = declarations_reading(tmp_path, "s3://landing/us/day=2026-08-30/a", os.environ)
    assert found.context == "us"
