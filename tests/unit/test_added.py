"""Which names that files bring become columns, whatever the order of the files."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.types import LongType, NestedField, StringType

from lakehouse.added import added_columns, effective_declaration, refused_objects
from lakehouse.errors import DeclarationError
from lakehouse.evolve import fit_table
from lakehouse.naming import ADDED
from lakehouse.schema import target_schema, target_spec
from tests.staging_values import declared

COLUMNS = {"id": "string", "v": {"type": "string", "from": "w"}, "day": {"type": "date", "from_path": "date"}}
DECLARATION = declared(COLUMNS, unknown_columns="add", partition_by=["bucket(4, id)"])


@pytest.fixture
def table() -> Table:
    """A table of the declaration with some columns more, one of them of ours."""
    more = [("old", StringType(), ADDED), ("theirs", StringType(), None), ("n", LongType(), None)]
    extra = (NestedField(100 + i, name, kind, doc=doc) for i, (name, kind, doc) in enumerate(more))
    schema = Schema(*target_schema(DECLARATION).fields, *extra)
    metadata = new_table_metadata(
        schema, target_spec(DECLARATION, schema), UNSORTED_SORT_ORDER, "s3://warehouse/orders", {}
    )
    return Table(("analytics", "orders"), metadata, "", PyArrowFileIO(), NoopCatalog("none"))


def refused(table: Table | None, *objects: Sequence[str]) -> dict[str, str]:
    """The reasons by the number of the object, the same in every order of the objects."""
    brought = {str(i): names for i, names in enumerate(objects)}
    (found,) = {
        tuple(sorted(refused_objects(DECLARATION, table, dict(order)).items()))
        for order in itertools.permutations(brought.items())
    }
    return dict(found)


@pytest.mark.parametrize("name", ["x", " x", 'a"b', "drop table x; --", "naïve", "é", "old", "theirs"])
def test_names_that_a_declaration_could_hold_are_taken(table: Table, name: str) -> None:
    assert refused(table, [name]) == {}


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "the name is empty"),
        (" ", "the name is empty"),
        ("a\tb", "control characters"),
        ("x" * 256, "256 characters"),
        ("_batch_id", "lineage column"),
        (" _Source_File", "lineage column"),
        ("_deleted_at", "marks of deletes"),
        ("_rescued", "rescued columns"),
        ("rowid", "the engine"),
        ("__x", "the engine"),
        ("../x", "no dot"),
        ("v", "read from elsewhere"),
        ("day", "read from elsewhere"),
        ("V", "differs from the column 'v'"),
        ("Old", "differs from the column 'old'"),
        ("theirs ", "differs from the column 'theirs'"),
        ("n", "the type long; declare it"),
        ("id_bucket", "partition spec"),
    ],
)
def test_other_names_refuse_their_object(table: Table, name: str, reason: str) -> None:
    found = refused(table, ["x", name], ["x"])
    assert found.keys() == {"0"} and reason in found["0"] and f"uri=0 column={name[:255]!r}" in found["0"]


def test_the_spelling_of_most_objects_stands_whatever_their_order() -> None:
    assert refused(None, ["x"], ["X"]).keys() == {"0"}
    assert refused(None, ["x"], ["X"], ["x"]).keys() == {"1"}
    assert refused(None, ["x"], ["X", "y"], ["x"], ["Y"], ["Y"]).keys() == {"1"}
    # an object that is refused for another name, or has both, has no say
    assert refused(None, ["x"], ["x", "_batch_id"], ["X"]).keys() == {"0", "1"}
    assert refused(None, ["x", "X"], ["x"]).keys() == {"0"}


def test_added_columns_are_known_by_their_mark(table: Table) -> None:
    assert added_columns(DECLARATION, table) == ("old",)
    assert effective_declaration(DECLARATION, table, {"z", "a", "old"}).added == ("old", "a", "z")
    for other in (declared(COLUMNS, unknown_columns="ignore"), declared({**COLUMNS, "old": "string"})):
        assert effective_declaration(other, table, {"z"}) is other


def test_new_columns_come_last_and_marked_and_those_of_others_are_marked(table: Table) -> None:
    change = fit_table(effective_declaration(DECLARATION, table, {"z", "a", "theirs"}), table).change
    assert change is not None
    assert [(f.name, f.doc) for f in change.schema.fields[-5:]] == [
        ("old", ADDED), ("theirs", ADDED), ("n", None), ("a", ADDED), ("z", ADDED),
    ]  # fmt: skip
    assert fit_table(effective_declaration(DECLARATION, table), table).change is None


def test_an_added_column_is_declared_as_text_and_as_nothing_else(table: Table) -> None:
    assert fit_table(declared({**COLUMNS, "old": "string"}), table).change is None
    with pytest.raises(DeclarationError) as caught:
        fit_table(declared({**COLUMNS, "old": "long"}), table)
    assert "as files brought it undeclared" in str(caught.value)
    assert "RENAME COLUMN old TO old_text, then lakehouse load analytics.orders --mode full" in str(caught.value)


def test_an_added_column_is_no_old_name_of_a_declared_one_and_carried_without_add(table: Table) -> None:
    with pytest.raises(DeclarationError, match="could be its old name: theirs;"):
        fit_table(declared({**COLUMNS, "new": "string"}), table)
    found = fit_table(declared({**COLUMNS, "theirs": "string", "new": "string"}), table)
    assert found.carried == ("old", "n") and found.change is not None


def test_names_are_not_told_of_a_table_with_hidden_values() -> None:
    hidden = declared({"id": "string", "v": {"type": "string", "pii": True}}, unknown_columns="add")
    found = refused_objects(hidden, None, {"a": ["alice@x.y"], "b": ["fine"]})
    assert [*found] == ["a"]
    assert "alice" not in found["a"]
