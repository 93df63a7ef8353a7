from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

from lakehouse import naming
from lakehouse.ledger import Standing, standing_of
from lakehouse.model import Reference
from lakehouse.target import look


def test_snapshots_are_found_from_the_tag_back(tmp_path: Path) -> None:
    """Another context's, a foreign writer's, and one that is in the metadata but not behind the tag are not ours."""
    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path / 'c.db'}", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("analytics")
    rows = pa.table({"id": [1]})
    table = catalog.create_table("analytics.orders", schema=rows.schema)
    written = [("orders", "1"), ("returns", "1"), ("", ""), ("orders", "2"), ("orders", "3")]
    for context, version in written:
        summary = {
            naming.CONTEXT: context,
            naming.BOOKMARK_VERSION: version,
            naming.MANIFEST: f"s3://state/{version}",
            naming.MANIFEST_SHA256: "ab",
        }
        table.append(rows, snapshot_properties=summary if context else {})
    ids = [snapshot.snapshot_id for snapshot in table.metadata.snapshots]
    table.manage_snapshots().create_tag(ids[3], naming.tag("orders")).commit()

    standing = standing_of(look("analytics.orders", "orders", catalog.load_table("analytics.orders")))

    uuid = str(table.metadata.table_uuid)
    head = Reference("s3://state/2", "ab")
    assert standing == Standing("analytics.orders", uuid, "orders", 2, head, {1: ids[0], 2: ids[3]})


def test_g09_before_a_renaming_the_snapshots_have_the_old_name(tmp_path: Path) -> None:
    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path / 'c.db'}", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("analytics")
    rows = pa.table({"id": [1]})
    table = catalog.create_table("analytics.orders", schema=rows.schema)
    for context, version, renamed in (("old", "1", ""), ("new", "1", ""), ("new", "2", "old")):
        summary = {naming.CONTEXT: context, naming.BOOKMARK_VERSION: version}
        table.append(rows, snapshot_properties=summary | ({naming.RENAMED_FROM: renamed} if renamed else {}))
    ids = [snapshot.snapshot_id for snapshot in table.metadata.snapshots]
    table.manage_snapshots().create_tag(ids[2], naming.tag("new")).commit()
    target = look("analytics.orders", "new", catalog.load_table("analytics.orders"))
    assert standing_of(target).snapshot_ids == {1: ids[0], 2: ids[2]}
    assert list(target.bookmarks) == ["new"]


def test_without_a_table_the_bookmark_stands_at_nothing() -> None:
    assert standing_of(look("analytics.orders", "orders", None)) == Standing(
        "analytics.orders", "new", "orders", 0, None, {}
    )
