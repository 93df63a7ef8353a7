"""Makes a table whose bookmark has seen so many objects, without loading them: `… .state TABLE ROWS SEEN`.

Of the listed objects all but those of the newest date were seen, the last of them by batches since the checkpoint; all
others that were seen are not listed any more. Parts and manifests are those that loads write, and the bookmark is
published as loads do.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import duckdb
import pyarrow as pa

from benchmarks.discovery.sizes import FIRST_LISTED, MANIFESTS, PREFIX, Sizes
from benchmarks.workload import BUCKET
from lakehouse.bookmark import LOAD, advance, next_chain
from lakehouse.checkpoint import CheckpointIndex, Part, describe_part, encode_index, encode_part, part_table
from lakehouse.declaration import Declaration, find_declaration
from lakehouse.landing import discover
from lakehouse.model import (
    Bookmark,
    Decision,
    LandingObject,
    Manifest,
    Mode,
    ObjectOutcome,
    Reference,
    RowCounts,
    SeenObject,
    Window,
)
from lakehouse.operate.operator_change import with_table
from lakehouse.placement import landing_date
from lakehouse.position import find_position
from lakehouse.publish import Change, publish
from lakehouse.seen_parts import PART_OBJECTS
from lakehouse.services import Services, open_services
from lakehouse.state import attempts_after, write_manifest, write_object
from lakehouse.storage import open_storage

READ_AT = datetime(2026, 8, 30, tzinfo=UTC)
_FOLDER = "discovery"


def write_parts(tables: Iterator[pa.Table], folder: str, services: Services) -> tuple[Part, ...]:
    parts = []
    for number, table in enumerate(tables):
        reference = write_object(services.state, f"{folder}seen-{number:05}.parquet", encode_part(table))
        parts.append(describe_part(table, reference))
    return tuple(parts)


def old_parts(sizes: Sizes, count: int, declaration: Declaration) -> Iterator[pa.Table]:
    """The rows of objects that are not listed any more: those of the numbers before 0, in the order of their keys."""
    schema = part_table([]).schema
    with duckdb.connect() as con:
        for start in range(-count, 0, PART_OBJECTS):
            end = min(0, start + PART_OBJECTS)
            rows = con.sql(
                """select day as landing_date,
                    printf('s3://%s/%slanding_date=%s/orders_%06d.csv', $bucket, $prefix, day::varchar, number) as uri,
                    '"' || md5(uri) || '"' as etag, null::varchar as version_id, 1000 + number as size,
                    $at::timestamptz + to_microseconds(n) as last_modified, 'consumed' as decision, '' as reason,
                    $at::timestamptz as first_seen, md5((n // 200)::varchar) as batch_id, 1 as bookmark_version,
                    $declaration as declaration
                from (select n, ($first::date + (floor(n / $per)::bigint)::integer) as day,
                    (n - floor(n / $per)::bigint * $per) as number from range($start, $end) t(n)) order by uri""",
                params={
                    "bucket": BUCKET, "prefix": PREFIX, "at": READ_AT, "declaration": declaration.hash,
                    "first": FIRST_LISTED, "per": sizes.per_date, "start": start, "end": end,
                },
            )  # fmt: skip
            yield rows.to_arrow_table().cast(schema)


def seen_parts(items: Sequence[LandingObject], declaration: Declaration) -> Iterator[pa.Table]:
    for start in range(0, len(items), PART_OBJECTS):
        yield part_table(
            [
                SeenObject(
                    item, landing_date(item.uri, source=declaration.source), Decision.CONSUMED, "", "batch", 1,
                    declaration.hash, READ_AT,
                )
                for item in items[start : start + PART_OBJECTS]
            ]
        )  # fmt: skip


def manifest_of(
    declaration: Declaration, bookmark: Bookmark, table_uuid: str, items: Sequence[LandingObject]
) -> Manifest:
    """A batch that read these objects, one row each."""
    version = bookmark.version + 1
    one = RowCounts(read=1, staged=1, inserted=1)
    outcomes = tuple(
        ObjectOutcome(
            item, landing_date(item.uri, source=declaration.source), Decision.CONSUMED, "new object", READ_AT, one
        )
        for item in items
    )
    return Manifest(
        table=declaration.table,
        table_uuid=table_uuid,
        context=declaration.context,
        bookmark_version=version,
        batch_id=f"{version:032x}",
        attempt_id=f"{version:032x}",
        run_id="benchmark",
        kind=LOAD,
        mode=Mode.INCREMENTAL,
        advance=True,
        declaration=declaration.hash,
        lookback_days=3,
        started_at=READ_AT,
        merge_started_at=None,
        merge_ended_at=None,
        written_at=READ_AT,
        objects=outcomes,
        rows=sum((item.rows for item in outcomes), RowCounts()),
        dates={},
        equations=(),
        gates=(),
        rejects=None,
        checkpoint=None,
        chain=next_chain(bookmark),
        source_uri=declaration.source.uri,
    )


def make_state(declaration: Declaration, sizes: Sizes, seen: int, services: Services) -> Reference:
    """Write parts, index and manifests, and publish the newest of these; returns it."""
    listed = discover(open_storage(f"s3://{BUCKET}/", services.env), declaration.source, Window())
    known = listed[: len(listed) - sizes.per_date]
    recent = known[-max(MANIFESTS, len(known) // 5) :]
    position, live = with_table(declaration, find_position(declaration, services), services)
    root = f"{_FOLDER}/{declaration.name}/"
    parts = write_parts(old_parts(sizes, seen - len(known), declaration), root + "old/", services)
    parts += write_parts(seen_parts(known[: -len(recent)], declaration), root, services)
    index = write_object(services.state, root + "checkpoint.parquet", encode_index(CheckpointIndex(seen=parts)))
    bookmark, manifest = Bookmark(), manifest_of(declaration, Bookmark(), position.target.uuid, ())
    manifest = replace(manifest, checkpoint=index)
    head = write_manifest(services.state, manifest, folder=root + "1/")
    bookmark = advance(bookmark, manifest, head)
    step = -(-len(recent) // MANIFESTS)
    for start in range(0, len(recent), step):
        manifest = manifest_of(declaration, bookmark, position.target.uuid, recent[start : start + step])
        head = write_manifest(services.state, manifest, folder=f"{root}{manifest.bookmark_version}/")
        bookmark = advance(bookmark, manifest, head)
    change = Change(
        attempt_id=manifest.attempt_id,
        batch_id=manifest.batch_id,
        bookmark_version=manifest.bookmark_version,
        manifest=head,
        rows=RowCounts(),
    )
    publish(
        services.catalog,
        position.target,
        change,
        live=live,
        attempts_after=partial(attempts_after, services.state),
        pause=services.pause,
    )
    return head


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.discovery.state", description=__doc__)
    parser.add_argument("table")
    parser.add_argument("rows", type=int, help="size of the benchmark")
    parser.add_argument("seen", type=int, help="objects that the bookmark has seen")
    options = parser.parse_args()
    declaration = find_declaration(Path(os.environ["LAKEHOUSE_ASSETS"]), options.table, os.environ)
    make_state(declaration, Sizes(options.rows), options.seen, open_services(os.environ))


if __name__ == "__main__":
    main()
