from __future__ import annotations

from typing import Any

import pytest

from lakehouse.declaration import Declaration
from lakehouse.masking import (
    Part,
    hidden_columns,
    hides,
    may_show,
    record_parts,
    shown_key,
    shown_names,
    shown_text,
    whole,
)
from tests.staging_values import declared

PII = {"type": "string", "pii": True}
PLAIN = declared()


def table(columns: dict[str, Any], kind: str = "jsonl", **changes: Any) -> Declaration:
    return declared({"id": "int", **columns}, format={"type": kind}, **changes)


def test_a_table_without_hidden_columns_shows_everything() -> None:
    assert not hides(PLAIN)
    assert record_parts(PLAIN).whole
    assert shown_key(PLAIN, ["k"]) == "id=k"
    assert shown_names(["a", "it's"], PLAIN) == "'a',\"it's\""
    assert shown_text("any text", PLAIN) == "any text"


def test_keys_show_what_is_not_hidden() -> None:
    declaration = table({"email": PII, "n": "int"}, key=("id", "email"))
    assert hidden_columns(declaration) == ("email",)
    assert shown_key(declaration, [7, "ann@example.com"]) == "id=7 email=***"


def test_texts_are_counted() -> None:
    assert whole(b"") == b""
    assert whole(b"four") == b"*** masked, 4 bytes"
    assert shown_text("né\udcff", table({"email": PII})) == "*** masked, 4 bytes"


@pytest.mark.parametrize(("kind", "hidden"), [("csv", True), ("jsonl", True), ("parquet", False), ("avro", False)])
def test_names_in_texts_may_be_values(kind: str, hidden: bool) -> None:
    declaration = table({"email": PII}, kind)
    shown = shown_names(["id", "ann", "email", "bob"], declaration)
    assert shown == ("'id','email',*** masked, 2 names" if hidden else "'id','ann','email','bob'")
    assert shown_names(["id"], declaration) == "'id'"


def test_parts_of_a_record() -> None:
    columns = {
        "email": {**PII, "from": "who.email"},
        "city": {"type": "string", "from": "who.city"},
        "tags": {"type": "list<string>"},
        "whole": {"type": "struct<a: int, b: struct<c: int>>"},
        "inside": {"type": "int", "from": "whole.b.c", "pii": True},
    }
    record = record_parts(table(columns))
    shown, hidden = Part(shown=True), Part(shown=False)
    assert record == Part(
        False,
        {
            "id": shown,
            "who": Part(False, {"email": hidden, "city": shown}),
            "tags": shown,
            "whole": Part(True, {"b": Part(False, {"c": hidden})}),
        },
    )
    assert record.at("unknown") == hidden
    assert record.at("whole").at("a") == shown


def test_a_hidden_value_hides_what_is_inside() -> None:
    columns = {"who": {"type": "struct<a: int>", "pii": True}, "a": {"type": "int", "from": "who.a"}}
    declaration = table(columns, "parquet")
    assert record_parts(declaration).at("who") == Part(shown=False)
    assert [may_show(path, declaration) for path in (("who",), ("who", "a"), ("id",), ("w",))] == [
        False,
        False,
        True,
        True,
    ]


def test_what_is_shown_changes_nothing_that_was_read() -> None:
    assert table({"email": PII}).hash == table({"email": "string"}).hash
    assert table({"email": PII}) != table({"email": "string"})
