"""Every key, path and stored name of lakehouse is made here and nowhere else. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from urllib.parse import quote, unquote

SUMMARY = "lakehouse."
BATCH_ID = "lakehouse.batch-id"
ATTEMPT_ID = "lakehouse.attempt-id"
CONTEXT = "lakehouse.context"
BOOKMARK_VERSION = "lakehouse.bookmark-version"
MANIFEST = "lakehouse.manifest"
MANIFEST_SHA256 = "lakehouse.manifest-sha256"
MAINTAIN = "lakehouse.maintain"
RENAMED_FROM = "lakehouse.renamed-from"
"""In the snapshot of a renaming: the context whose bookmark goes on as this one."""

LINEAGE = {
    "_batch_id": "string",
    "_source_file": "string",
    "_source_line": "long",
    "_source_mtime": "timestamptz",
    "_source_date": "date",
    "_ingested_at": "timestamptz",
}
"""Lineage columns of the target, in order, with their types."""

TARGET_FILE_BYTES = "write.target-file-size-bytes"
MERGE_MODE = "write.merge.mode"
MERGE_MODES = ("copy-on-write", "merge-on-read")
"""Iceberg's own table property and its values; without it each file is decided by its dead rows."""
REWRITE_RATIO = "lakehouse.merge.rewrite-ratio"
SMALL_FILE_BYTES = "lakehouse.merge.small-file-bytes"
"""Table properties that tune the choice between rewriting a file and deleting positions in it."""

DELETED_AT = "_deleted_at"
"""When a row was deleted at the source, timestamptz, NULL while it lives: the last column of a target with soft
deletes."""

RESCUED = "_rescued"
"""Holds the columns of a file that are not declared, by name, where they are to be kept: a map of texts."""

ADDED = "added from files by unknown_columns: add, as text"
"""Iceberg's doc of a column that files brought and nobody had declared: it tells the column from those of other
writers."""

IS_DELETE = "_is_delete"
"""Marks the staged rows that delete their key; never in the target."""

STAGED_LINEAGE = ("_source_file", "_source_line", "_source_mtime", "_source_date")
"""The lineage that differs by row and is therefore staged."""


def tag(context: str) -> str:
    """The tag that stands on the snapshot of the context's bookmark."""
    return f"lakehouse.bookmark.{context}"


def tagged_context(ref: str) -> str | None:
    """The context whose bookmark a ref is; None for other refs."""
    prefix = tag("")
    return ref.removeprefix(prefix) if ref.startswith(prefix) else None


def rows_key(count: str) -> str:
    """Summary key of one row count."""
    return f"lakehouse.rows-{count}"


def quote_name(name: str) -> str:
    """An SQL identifier for DuckDB, safe for any text."""
    return '"' + name.replace('"', '""') + '"'


def quote_text(text: str) -> str:
    """An SQL string literal for DuckDB, safe for any text without NUL."""
    return "'" + text.replace("'", "''") + "'"


def batch_id(
    *,
    table_uuid: str,
    context: str,
    bookmark_version: int,
    declaration: str,
    mode: str,
    identities: Iterable[tuple[str, str, str | None]],
) -> str:
    """32 hex digits: a retry of the same work is the same batch, whoever runs it (DESIGN §2)."""
    parts = [table_uuid, context, bookmark_version, declaration, mode, [list(i) for i in identities]]
    return hashlib.sha256(json.dumps(parts, ensure_ascii=True).encode()).hexdigest()[:32]


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# State objects, relative to LAKEHOUSE_STATE. Catalog and table come from a declaration: quoted, so that no name can
# climb out of its folder or collide with another.


def table_root(catalog: str, table: str) -> str:
    return f"{quote(catalog, safe='')}/{quote(table, safe='.')}/"


def lease(catalog: str, table: str) -> str:
    return table_root(catalog, table) + "lease.json"


def incarnation_root(catalog: str, table: str, table_uuid: str) -> str:
    """Folder of one life of a table; dropped and recreated tables have another uuid and another folder."""
    return table_root(catalog, table) + f"{table_uuid}/"


def batches_folder(context: str) -> str:
    return f"batches/{quote(context, safe='')}/"


def batch_folder(context: str, batch: str, attempt: str) -> str:
    return f"{batches_folder(context)}{batch}/{attempt}/"


def manifest_name() -> str:
    """The manifest in an attempt's folder."""
    return "manifest.parquet"


def published_marker(context: str) -> str:
    """Says, within one life of a table, that the context was published at least once."""
    return f"published/{quote(context, safe='')}.json"


def published_context(key: str) -> str | None:
    """The context of a published marker, from its place in one life of a table; None for other objects."""
    folder, _, name = key.partition("/")
    return unquote(name.removesuffix(".json")) if folder == "published" and name.endswith(".json") else None


def accepted_marker(context: str, uri: str) -> str:
    """Says, within one life of a table, that the context may read that source folder from its beginning; any folder, as
    long as it has read none, where `uri` is empty."""
    return f"accepted/{quote(context, safe='')}/{sha256(uri.encode())[:16]}.json"


def doctor_probe(number: str) -> str:
    """An object that `lakehouse doctor` writes below LAKEHOUSE_STATE and removes again. No table has this folder:
    a table's name has a dot."""
    return f"doctor/{number}"


def doctor_table(number: str) -> str:
    """The table that `lakehouse doctor` makes in the namespace of the ledger and drops again."""
    return f"lakehouse_doctor_{number}"


def doctor_file(number: str) -> str:
    """The file that `lakehouse doctor` writes to where a table's data lies, and removes again. Table buckets take files
    of tables alone, with this ending."""
    return f"lakehouse-doctor-{number}.parquet"


def graves_name() -> str:
    """The file of deleted keys in an attempt's folder."""
    return "deleted_keys.parquet"


def attempts_folder() -> str:
    return "attempts/"


def attempt_record(attempt: str) -> str:
    return f"attempts/{attempt}.json"


def staging_root(context: str) -> str:
    return f"staging/{quote(context, safe='')}/"


def staging_marker(context: str) -> str:
    """There while any exported staging of the context may be."""
    return staging_root(context) + "exported"


def staging_folder(context: str, batch: str, attempt: str) -> str:
    return f"{staging_root(context)}{batch}/{attempt}/"


# Dagster names; a nested namespace keeps its parts apart.


def dagster_name(namespace: str, table: str) -> str:
    return f"{namespace.replace('.', '__')}__{table}"


def pool(namespace: str, table: str) -> str:
    return dagster_name(namespace, table)


def sensor(namespace: str, table: str) -> str:
    return f"{dagster_name(namespace, table)}_landing"


def schedule(namespace: str, table: str) -> str:
    return f"{dagster_name(namespace, table)}_daily"


def upkeep_job(namespace: str, table: str) -> str:
    return f"{dagster_name(namespace, table)}_maintain"


def upkeep_schedule(namespace: str, table: str) -> str:
    return f"{dagster_name(namespace, table)}_maintenance"
